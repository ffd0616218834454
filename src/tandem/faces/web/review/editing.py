"""Files of a round as a browser's text fields can hold them without changing them, and back."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tandem.errors import NotFound
from tandem.faces.web.asking import Ask

MOST_FILES = 20
"""That are open at once."""
_MOST_LINES = 20_000
_MOST_CHARACTERS = 1_000_000
_DIGEST_DIGITS = 16


@dataclass(frozen=True, slots=True)
class Editable:
    """A file that is being edited.

    Attributes:
        path: The file.
        content: What stands in the field.
        original: A digest of what stood there at first, so that what was not touched is not sent.
        ends: `lf` or `crlf`: what ends its lines; a text field would lose carriage returns.
        exists: Whether the round leaves such a file.
        delete: Whether it is to be deleted.
        refused: Why it cannot be edited here; empty if it can.
    """

    path: str
    content: str = ""
    original: str = ""
    ends: str = "lf"
    exists: bool = True
    delete: bool = False
    refused: str = ""

    @property
    def changed(self) -> bool:
        """Whether anything is to become of it."""
        return (self.delete and self.exists) or (not self.delete and digest(self.content) != self.original)

    def edit(self) -> dict[str, str | None]:
        """The edit as the operation takes it."""
        text = self.content.replace("\n", "\r\n") if self.ends == "crlf" else self.content
        return {"path": self.path, "content": None if self.delete else text}


def digest(text: str) -> str:
    """What tells one content of a field from another."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGEST_DIGITS]


async def read(ask: Ask, review_id: str, number: int, path: str) -> Editable:
    """A file as a round leaves it.

    Raises:
        NotFound: There is nowhere to read the round's files from.
    """
    lines: list[str] = []
    while True:
        found = await ask.call(
            "get_round_file", review_id=review_id, round=number, path=path, first_line=len(lines) + 1
        )
        lines += found["lines"]
        if found["binary"]:
            return Editable(path, refused="It is not a text.")
        if len(lines) > _MOST_LINES or sum(map(len, found["lines"])) > _MOST_CHARACTERS:
            return Editable(
                path, refused=f"It is longer than {_MOST_LINES:,} lines. Use an editor, and the command line."
            )
        if not found["lines"] or len(lines) >= found["total_lines"]:
            break
    return _as_field(path, lines, found)


def _as_field(path: str, lines: list[str], found: Mapping[str, Any]) -> Editable:
    content = "\n".join(lines) + ("\n" if found["ends_with_newline"] else "")
    crlf = bool(lines) and all(line.endswith("\r") for line in lines) and bool(found["ends_with_newline"])
    if crlf:
        content = content.replace("\r\n", "\n")
    if "\r" in content:
        return Editable(path, refused="Its lines end in different ways, which a text field would change.")
    return Editable(path, content, digest(content), "crlf" if crlf else "lf", exists=found["exists"])


async def read_all(ask: Ask, review_id: str, number: int, paths: list[str]) -> list[Editable]:
    """Some files as a round leaves them; one that there is no such thing as says so.

    Raises:
        NotFound: There is nowhere to read any of them from.
    """
    made: list[Editable] = []
    missing: NotFound | None = None
    for path in dict.fromkeys(paths[:MOST_FILES]):
        try:
            made.append(await read(ask, review_id, number, path))
        except NotFound as error:
            missing = error
    if missing is not None and not made:
        raise missing
    return made


def from_form(form: Mapping[str, str]) -> list[Editable]:
    """The files that a form was sent with."""
    made: list[Editable] = []
    for place in range(MOST_FILES):
        path = form.get(f"path:{place}")
        if path is None:
            break
        made.append(
            Editable(
                path=path,
                content=form.get(f"content:{place}", ""),
                original=form.get(f"original:{place}", ""),
                ends=form.get(f"ends:{place}", "lf"),
                exists=form.get(f"exists:{place}") == "yes",
                delete=form.get(f"delete:{place}") == "yes",
            )
        )
    return made

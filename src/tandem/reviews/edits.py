"""A round's files as a person edits them for a counter-patch, and suggestions put in the place of their lines."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, replace

from tandem.core.stand_ins import hex_digest
from tandem.errors import NotFound
from tandem.reviews.finding_contract import FindingView
from tandem.reviews.finding_rules import OPEN
from tandem.reviews.page_contract import RoundFile

_MOST_LINES = 20_000
_MOST_CHARACTERS = 1_000_000
_DIGEST_DIGITS = 16

Lines = Callable[..., Awaitable[RoundFile]]
"""Asks for lines of a file of the round, by `path` and `first_line`."""


@dataclass(frozen=True, slots=True)
class Editable:
    """A file that is being edited.

    Attributes:
        path: The file.
        content: The text in the field.
        original: A digest of the first text, so that an untouched file is not sent.
        ends: `lf` or `crlf`: what ends its lines; a text field would lose carriage returns.
        exists: Whether the round leaves such a file.
        delete: Whether the person deletes it.
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
        """Whether the draft changes it."""
        if self.delete or self.refused:
            return self.delete and self.exists
        return digest(self.content) != self.original

    def edit(self) -> dict[str, str | None]:
        """The edit as the operation takes it."""
        text = self.content.replace("\n", "\r\n") if self.ends == "crlf" else self.content
        return {"path": self.path, "content": None if self.delete else text}


def digest(text: str) -> str:
    """What tells one content of a field from another."""
    return hex_digest(text.encode("utf-8", "surrogatepass"))[:_DIGEST_DIGITS]


async def opened(ask: Lines, paths: Iterable[str], suggested: Iterable[FindingView] = ()) -> list[Editable]:
    """Some files as a round leaves them, with suggestions put in; one that is not there is left out.

    Raises:
        NotFound: There is nowhere to read any of them from.
    """
    made: list[Editable] = []
    missing: NotFound | None = None
    for path in dict.fromkeys(paths):
        try:
            file = await _read(ask, path)
        except NotFound as error:
            missing = error
            continue
        own = [one for one in suggested if one.place and one.place.file == path]
        made.append(replace(file, content=with_suggestions(file.content, own)))
    if missing is not None and not made:
        raise missing
    return made


async def _read(ask: Lines, path: str) -> Editable:
    lines: list[str] = []
    while True:
        found = await ask(path=path, first_line=len(lines) + 1)
        lines += found.lines
        if found.binary:
            return Editable(path, refused="It is not a text.")
        if len(lines) > _MOST_LINES or sum(map(len, found.lines)) > _MOST_CHARACTERS:
            return Editable(
                path, refused=f"It is longer than {_MOST_LINES:,} lines. Use an editor, and the command line."
            )
        if not found.lines or len(lines) >= found.total_lines:
            break
    return _as_field(path, lines, found)


def _as_field(path: str, lines: list[str], found: RoundFile) -> Editable:
    content = "\n".join(lines) + ("\n" if found.ends_with_newline else "")
    crlf = bool(lines) and all(line.endswith("\r") for line in lines) and bool(found.ends_with_newline)
    if crlf:
        content = content.replace("\r\n", "\n")
    if "\r" in content:
        return Editable(path, refused="Its lines end in different ways, which a text field would change.")
    return Editable(path, content, digest(content), "crlf" if crlf else "lf", exists=found.exists)


def is_applicable(finding: FindingView) -> bool:
    """Whether its suggestion can be put in: it is open, and its lines are in the round as it was written on them."""
    place = finding.place
    is_there = place is not None and place.line is not None and place.changed is False and finding.side == "new"
    return is_there and finding.suggestion is not None and finding.state in OPEN


def with_suggestions(text: str, found: Iterable[FindingView]) -> str:
    """A text in which suggestions stand for the lines that they are on, of several on one line the first."""
    lines = text.split("\n")
    taken = len(lines) + 1
    order = sorted(found, key=lambda one: one.place.line or 0 if one.place else 0, reverse=True)
    for one in order:
        first, last = (one.place.line or 1, one.place.end_line or one.place.line or 1) if one.place else (1, 0)
        if first <= last < taken:
            new = (one.suggestion or "").replace("\r\n", "\n").removesuffix("\n")
            lines[first - 1 : last] = new.split("\n") if new else []
            taken = first
    return "\n".join(lines)

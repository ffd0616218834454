"""What a file would hold after an agent's edit or patch, told without making it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, NamedTuple, cast

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class Unclear(Exception):
    """What a file would hold cannot be told before it is written; the text says why."""


class Writing(NamedTuple):
    """A file that would be written.

    Attributes:
        path: Absolute.
        content: Gives what it would hold; null if it would be gone. May raise `Unclear` or OSError.
    """

    path: str
    content: Callable[[], bytes | None]


def whole(path: str, content: str) -> Writing:
    """A file that is written whole."""
    return Writing(path, content.encode)


def edited(path: str, edits: list[dict[str, Any]]) -> Writing:
    """A file in which texts are replaced, each edit with `old_string` and `new_string`."""
    return Writing(path, lambda: _after_edits(path, edits))


def patched(text: str, folder: str) -> Iterator[Writing]:
    """The files of Codex's patches in a text.

    Raises:
        Unclear: There is no whole patch in it.
    """
    # Codex alone has patches.
    from tandem.hooks import codex_patch

    def content(section: codex_patch.Section) -> Callable[[], bytes | None]:
        def told() -> bytes | None:
            try:
                after = codex_patch.after(section, lambda path: _lines_of(os.path.join(folder, path))[0])
            except codex_patch.Unclear as error:
                raise Unclear(str(error)) from error
            return None if after is None else after.encode()

        return told

    try:
        for section in codex_patch.sections(text):
            yield Writing(os.path.join(folder, section.moved_to or section.path), content(section))
    except codex_patch.Unclear as error:
        raise Unclear(str(error)) from error


def _after_edits(path: str, edits: list[dict[str, Any]]) -> bytes:
    text, line_end = _lines_of(path)
    for edit in edits:
        old, new = cast("str", edit["old_string"]), cast("str", edit["new_string"])
        if not old:
            if text:
                raise Unclear("an edit without an old text is for a file that is not there yet")
            text = new
            continue
        if old not in text:
            # The clients then look for something like it.
            raise Unclear("the old text is not in the file exactly")
        everywhere = bool(edit.get("replace_all") or edit.get("allow_multiple"))
        # Of several places the clients refuse one edit themselves.
        text = text.replace(old, new) if everywhere else text.replace(old, new, 1)
    return text.replace("\n", line_end).encode()


def _lines_of(path: str) -> tuple[str, str]:
    """A file's text with the line ends that the clients see, and the one that they write."""
    try:
        with open(path, "rb") as file:
            text = file.read().decode()
    except FileNotFoundError:
        return "", "\n"
    except UnicodeDecodeError as error:
        raise Unclear("the file is not UTF-8") from error
    line_end = "\r\n" if "\r\n" in text else "\n"
    return text.replace("\r\n", "\n"), line_end

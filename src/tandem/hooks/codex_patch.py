"""Codex's patches: what the files would hold after one, as far as that is certain."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_BEGIN, _END = "*** Begin Patch", "*** End Patch"
_ADD, _DELETE, _UPDATE = "*** Add File: ", "*** Delete File: ", "*** Update File: "
_MOVE, _END_OF_FILE = "*** Move to: ", "*** End of File"
_HUNK = "@@"


class Unclear(Exception):
    """What a file would hold cannot be told; the text says why."""


class Section(NamedTuple):
    """What a patch says of one file.

    Attributes:
        kind: `add`, `delete` or `update`.
        path: As it is written.
        moved_to: Its new path; null if it keeps it.
        lines: The lines of its hunks.
    """

    kind: str
    path: str
    moved_to: str | None
    lines: tuple[str, ...]


def sections(text: str) -> list[Section]:
    """The files of the first patch in a text; empty if there is none.

    Raises:
        Unclear: It is no whole patch.
    """
    lines = [line.removesuffix("\r") for line in text.split("\n")]
    start = next((number for number, line in enumerate(lines) if line.strip() == _BEGIN), None)
    if start is None:
        return []
    found: list[Section] = []
    for line in lines[start + 1 :]:
        if line.strip() == _END:
            return found
        for kind, mark in (("add", _ADD), ("delete", _DELETE), ("update", _UPDATE)):
            if line.startswith(mark):
                found.append(Section(kind, line.removeprefix(mark).strip(), None, ()))
                break
        else:
            if not found:
                if line.strip():
                    raise Unclear("the patch does not begin with a file")
            elif line.startswith(_MOVE):
                found[-1] = found[-1]._replace(moved_to=line.removeprefix(_MOVE).strip())
            else:
                found[-1] = found[-1]._replace(lines=(*found[-1].lines, line))
    raise Unclear("the patch has no end")


def after(section: Section, read: Callable[[str], str]) -> str | None:
    """What a file would hold; null if it would be gone.

    Args:
        section: What the patch says of it.
        read: Gives what a file holds now, by the path in the patch.

    Raises:
        Unclear: The patch does not fit exactly: Codex then looks for the nearest place.
    """
    if section.kind == "delete":
        return None
    if section.kind == "add":
        if any(not line.startswith("+") for line in section.lines):
            raise Unclear(f"a line of the new file {section.path} does not begin with +")
        return "".join(f"{line[1:]}\n" for line in section.lines)
    lines = read(section.path).split("\n")
    if lines and not lines[-1]:
        lines.pop()
    at = 0
    for anchor, hunk, at_end in _hunks(section):
        if anchor is not None:
            at = _find(lines, [anchor], at, section.path) + 1
        old = [line[1:] for line in hunk if line[:1] != "+"]
        new = [line[1:] for line in hunk if line[:1] != "-"]
        if not old:
            at = len(lines)
        elif at_end:
            at = _find(lines, old, max(at, len(lines) - len(old)), section.path)
        else:
            at = _find(lines, old, at, section.path)
        lines[at : at + len(old)] = new
        at += len(new)
    return "".join(f"{line}\n" for line in lines)


def _hunks(section: Section) -> list[tuple[str | None, list[str], bool]]:
    """Each hunk: the line that it comes after, its lines, whether it ends the file."""
    found: list[tuple[str | None, list[str], bool]] = []
    for line in section.lines:
        if line.startswith(_HUNK):
            found.append((line.removeprefix(_HUNK).removeprefix(" ") or None, [], False))
        elif line == _END_OF_FILE:
            if found:
                found[-1] = (*found[-1][:2], True)
        elif line[:1] in {" ", "+", "-"} or not line:
            if not found:
                found.append((None, [], False))
            found[-1][1].append(line or " ")
        else:
            raise Unclear(f"a line of the change to {section.path} begins with neither a space nor + nor -")
    return found


def _find(lines: Sequence[str], wanted: Sequence[str], start: int, path: str) -> int:
    for at in range(start, len(lines) - len(wanted) + 1):
        if list(lines[at : at + len(wanted)]) == list(wanted):
            return at
    raise Unclear(f"the patch does not fit {path} exactly")

"""A unified diff as git writes it, read into files, hunks and lines.

Only for showing: what a change does is decided by applying it with git. Nothing raises here, and everything is linear
in the diff's length, because any text may come as a diff: what cannot be placed is kept as `stray`, never dropped
from a file that it stands in.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple

from tandem.core import diff_names

FileKind = Literal["added", "deleted", "modified", "renamed", "copied", "mode"]
LineKind = Literal["context", "added", "deleted"]

# Longer numbers are no line numbers, and Python refuses to read very long ones.
_HUNK = re.compile(r"@@ -(\d{1,15})(?:,(\d{1,15}))? \+(\d{1,15})(?:,(\d{1,15}))? @@ ?(.*)")
_GIT = "diff --git "
_COMBINED = ("diff --cc ", "diff --combined ")
_SIGNATURE = "-- "


class Line(NamedTuple):
    """One line of a hunk, without its sign and its newline (a carriage return stays)."""

    kind: LineKind
    old_number: int | None
    new_number: int | None
    text: str
    no_newline: bool


@dataclass(frozen=True, slots=True)
class Hunk:
    """A run of changed lines with what stands around them.

    Attributes:
        old_start: First line before, from 1; with `old_count` 0 the line before it.
        old_count: Lines before, as they are there, whatever the header said.
        new_start: As `old_start`, after the change.
        new_count: As `old_count`, after the change.
        heading: What git took for the heading of this part of the file.
        body: The lines with their signs, and the marks for a missing final newline.
        added: Lines added.
        deleted: Lines deleted.
    """

    old_start: int
    old_count: int
    new_start: int
    new_count: int
    heading: str
    body: tuple[str, ...]
    added: int
    deleted: int

    @property
    def lines(self) -> tuple[Line, ...]:
        """The lines, made anew at each call."""
        return tuple(self.walk())

    def walk(self) -> Iterator[Line]:
        """The lines one after the other, for hunks of which only a part is wanted."""
        old, new = self.old_first, self.new_first
        body = self.body
        for at, line in enumerate(body):
            sign = line[:1]
            if sign == "\\":
                continue
            bare = at + 1 < len(body) and body[at + 1].startswith("\\")
            if sign == "+":
                yield Line("added", None, new, line[1:], bare)
                new += 1
            elif sign == "-":
                yield Line("deleted", old, None, line[1:], bare)
                old += 1
            else:
                yield Line("context", old, new, line[1:] if sign == " " else line, bare)
                old += 1
                new += 1

    @property
    def old_first(self) -> int:
        """The number that the first line before has, or would have."""
        return self.old_start if self.old_count else self.old_start + 1

    @property
    def new_first(self) -> int:
        """As `old_first`, after the change."""
        return self.new_start if self.new_count else self.new_start + 1


@dataclass(frozen=True, slots=True)
class FileDiff:
    """What a diff does to one file.

    Attributes:
        old_path: Path before; None for a new file.
        new_path: Path after; None for a deleted file.
        kind: `mode` only when nothing but the file mode changes.
        old_mode: File mode before, six octal digits, where the diff says it.
        new_mode: File mode after, where the diff says it.
        binary: Whether the content is not lines.
        hunks: The changed parts, in the file's order.
        stray: Lines of the file's part that are neither header nor hunk; git writes none.
    """

    old_path: str | None
    new_path: str | None
    kind: FileKind
    old_mode: str | None
    new_mode: str | None
    binary: bool
    hunks: tuple[Hunk, ...]
    stray: tuple[str, ...] = ()

    @property
    def path(self) -> str:
        """The path that the file is known by."""
        return self.new_path if self.new_path is not None else self.old_path or ""

    @property
    def added(self) -> int:
        """Lines added."""
        return sum(hunk.added for hunk in self.hunks)

    @property
    def deleted(self) -> int:
        """Lines deleted."""
        return sum(hunk.deleted for hunk in self.hunks)


def parse(diff: str) -> tuple[FileDiff, ...]:
    """The files of a diff in its order; empty for a text that is no diff. Never raises."""
    lines = diff.split("\n")
    if lines[-1] == "":
        lines.pop()
    return tuple(_Reader(lines).files())


class _Header:
    """What the lines before a file's first hunk say."""

    def __init__(self, old: str | None, new: str | None) -> None:
        self.old, self.new = old, new
        self.kind: FileKind = "modified"
        self.old_mode: str | None = None
        self.new_mode: str | None = None
        self.binary = False

    def take(self, line: str) -> bool:
        """Takes one line in; False when it is none of a header."""
        for start, name in _HEADERS:
            if line.startswith(start):
                self._set(name, line[len(start) :])
                return True
        return False

    def _set(self, name: str, value: str) -> None:
        match name:
            case "old":
                self.old = _name(diff_names.side_name, value)
                if self.old is None:
                    self.kind = "added"
            case "new":
                self.new = _name(diff_names.side_name, value)
                if self.new is None:
                    self.kind = "deleted"
            case "renamed" | "copied":
                self.old, self.kind = _name(diff_names.moved_name, value), name
            case "to":
                self.new = _name(diff_names.moved_name, value)
            case _:
                self._set_mode(name, value)

    def _set_mode(self, name: str, value: str) -> None:
        match name:
            case "old_mode":
                self.old_mode = _mode(value)
            case "new_mode":
                self.new_mode = _mode(value)
            case "added":
                self.old, self.kind, self.new_mode = None, "added", _mode(value)
            case "deleted":
                self.new, self.kind, self.old_mode = None, "deleted", _mode(value)
            case "index" if " " in value:
                self.old_mode = self.new_mode = _mode(value.rpartition(" ")[2])
            case _:
                pass

    def file(self, hunks: list[Hunk], stray: list[str]) -> FileDiff:
        kind = self.kind
        if kind == "modified" and self.old_mode != self.new_mode and not hunks and not self.binary:
            kind = "mode"
        return FileDiff(self.old, self.new, kind, self.old_mode, self.new_mode, self.binary, tuple(hunks), tuple(stray))


_HEADERS = (
    ("index ", "index"),
    ("--- ", "old"),
    ("+++ ", "new"),
    ("new file mode ", "added"),
    ("deleted file mode ", "deleted"),
    ("old mode ", "old_mode"),
    ("new mode ", "new_mode"),
    ("rename from ", "renamed"),
    ("rename old ", "renamed"),
    ("rename to ", "to"),
    ("rename new ", "to"),
    ("copy from ", "copied"),
    ("copy to ", "to"),
    ("similarity index ", "nothing"),
    ("dissimilarity index ", "nothing"),
)


def _name(read: Callable[[bytes], bytes | None], value: str) -> str | None:
    name = read(value.encode("utf-8", "surrogatepass"))
    return None if name is None else name.decode("utf-8", "replace")


def _mode(value: str) -> str | None:
    value = value.strip()
    return value if len(value) <= 6 and value.isdecimal() else None  # noqa: PLR2004 - six octal digits


class _Reader:
    """Goes through a diff once, line by line, never taking a hunk's content for a header."""

    def __init__(self, lines: list[str]) -> None:
        self._lines = lines
        self._at = 0

    def files(self) -> Iterator[FileDiff]:
        header: _Header | None = None
        hunks: list[Hunk] = []
        stray: list[str] = []
        while self._at < len(self._lines):
            line = self._lines[self._at]
            if self._starts_file(line):
                if header is not None:
                    yield header.file(hunks, stray)
                header, hunks, stray = self._header(line), [], []
            elif header is not None and (match := _HUNK.match(line)):
                hunks.append(self._hunk(match))
            else:
                if header is not None and not header.binary:
                    stray.append(line)
                self._at += 1
        if header is not None:
            yield header.file(hunks, stray)

    def _starts_file(self, line: str) -> bool:
        return line.startswith((_GIT, *_COMBINED)) or self._starts_plain_patch(self._at)

    def _starts_plain_patch(self, at: int) -> bool:
        """Whether a file begins here without a line of git's own: old name, new name, hunk."""
        lines = self._lines
        return (
            lines[at].startswith("--- ")
            and at + 2 < len(lines)
            and lines[at + 1].startswith("+++ ")
            and lines[at + 2].startswith("@@ -")
        )

    def _header(self, line: str) -> _Header:
        if line.startswith(_GIT):
            name = _name(diff_names.common_name, line[len(_GIT) :].rstrip("\r"))
            header = _Header(name, name)
            self._at += 1
        elif line.startswith(_COMBINED):
            name = _name(diff_names.moved_name, line[line.index(" ", 5) + 1 :])
            header = _Header(name, name)
            self._at += 1
        else:
            header = _Header(None, None)
        while self._at < len(self._lines):
            line = self._lines[self._at].rstrip("\r")
            if line.startswith(("Binary files ", "GIT binary patch")):
                header.binary = True
            elif not header.take(line):
                break
            self._at += 1
        return header

    def _hunk(self, match: re.Match[str]) -> Hunk:
        old_start, old_count, new_start, new_count, heading = match.groups()
        old, new = int(old_count or "1"), int(new_count or "1")
        self._at += 1
        lines, at, first = self._lines, self._at, self._at
        added = deleted = context = 0
        for at in range(first, len(lines) + 1):
            if at == len(lines):
                break
            line = lines[at]
            sign = line[:1]
            # Counts that are too small hide nothing: the lines that follow at once belong to the hunk all the same.
            if old <= deleted + context and new <= added + context and self._ends_hunk(line, sign, at):
                break
            if sign == "+":
                added += 1
            elif sign == "-":
                deleted += 1
            elif sign == " " or not sign or sign == "\r":
                context += 1
            elif sign != "\\":
                break
        self._at = at
        body = tuple(lines[first : self._at])
        return Hunk(
            int(old_start),
            context + deleted,
            int(new_start),
            context + added,
            heading.rstrip("\r"),
            body,
            added,
            deleted,
        )

    def _ends_hunk(self, line: str, sign: str, at: int) -> bool:
        return not sign or sign == "\r" or line == _SIGNATURE or (sign == "-" and self._starts_plain_patch(at))

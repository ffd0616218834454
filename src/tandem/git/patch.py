"""Reading a diff's own headers: which files it names, and how git would take them.

This is not what decides: git applies the diff, and only git's result counts. It says where to look, tells renames
apart from a deletion and a new file, and is all there is where no repository stands behind a review.
"""

from __future__ import annotations

import base64
import re
import zlib
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

from tandem.git.paths import common_name, moved_name, side_name

_HUNK = re.compile(rb"@@ -\d+(?:,(\d+))? \+\d+(?:,(\d+))? @@")
_GIT_HEADER = b"diff --git "
_BINARY = (b"GIT binary patch", b"Binary files ")
_HEADER = re.compile(
    rb"--- |\+\+\+ |index |(?:new file|deleted file|old|new) mode |rename (?:from|old|to|new) |copy (?:from|to) "
    rb"|(?:dis)?similarity index "
)


@dataclass(slots=True)
class FilePatch:
    """One file's part of a diff.

    Attributes:
        old: Path before; None when the file is new.
        new: Path after; None when the file goes.
        renamed: Whether the diff says that the file moved.
        copied: Whether the diff says that the file is a copy.
        modes: The file modes that its headers name.
        mode_before: The mode that its headers give the file before, where they do.
        mode_after: The mode that its headers give the result, where they do.
        added: Lines added.
        removed: Lines removed.
        hunks: How many hunks it has.
        binary: Whether its content is not lines.
    """

    old: bytes | None = None
    new: bytes | None = None
    renamed: bool = False
    copied: bool = False
    modes: set[bytes] = field(default_factory=set[bytes])
    mode_before: bytes | None = None
    mode_after: bytes | None = None
    added: int = 0
    removed: int = 0
    hunks: int = 0
    binary: bool = False

    @property
    def path(self) -> bytes:
        """The path that the file is known by."""
        return self.new if self.new is not None else self.old or b""


def read_patches(diff: bytes) -> list[FilePatch]:
    """The files of a diff in its order; what is no diff is passed over, as git does."""
    return list(_Reader(diff).patches())


class _Reader:
    """Goes through a diff once, line by line, never taking a hunk's content for a header."""

    def __init__(self, diff: bytes) -> None:
        self._lines = diff.split(b"\n")
        self._at = 0

    def patches(self) -> Iterator[FilePatch]:
        current: FilePatch | None = None
        while self._at < len(self._lines):
            line = self._lines[self._at]
            if line.startswith(_GIT_HEADER):
                if current is not None:
                    yield current
                current = self._git_header(line)
            elif self._starts_plain_patch():
                if current is not None:
                    yield current
                current = self._plain_header()
            elif current is not None and line.startswith(b"@@ -"):
                self._hunk(current)
            else:
                self._at += 1
        if current is not None:
            yield current

    def _next(self) -> bytes:
        self._at += 1
        return self._lines[self._at] if self._at < len(self._lines) else b""

    def _git_header(self, line: bytes) -> FilePatch:
        name = common_name(line[len(_GIT_HEADER) :])
        patch = FilePatch(old=name, new=name)
        line = self._next()
        while self._at < len(self._lines) and not line.startswith((_GIT_HEADER, b"@@ -")):
            if line.startswith(_BINARY):
                patch.binary = True
                break
            if not take_header(patch, line):
                break
            line = self._next()
        return patch

    def _starts_plain_patch(self) -> bool:
        lines = self._lines[self._at : self._at + 3]
        return (
            len(lines) == 3  # noqa: PLR2004 old name, new name, hunk
            and lines[0].startswith(b"--- ")
            and lines[1].startswith(b"+++ ")
            and lines[2].startswith(b"@@ -")
        )

    def _plain_header(self) -> FilePatch:
        patch = FilePatch(old=side_name(self._lines[self._at][4:]), new=side_name(self._lines[self._at + 1][4:]))
        self._at += 2
        return patch

    def _hunk(self, patch: FilePatch) -> None:
        match = _HUNK.match(self._lines[self._at])
        self._at += 1
        if match is None:
            return
        patch.hunks += 1
        old, new = (1 if count is None else int(count) for count in match.groups())
        while (old > 0 or new > 0) and self._at < len(self._lines):
            kind = self._lines[self._at][:1]
            if kind == b"-":
                old -= 1
                patch.removed += 1
            elif kind == b"+":
                new -= 1
                patch.added += 1
            elif kind in {b" ", b"", b"\r"}:
                old -= 1
                new -= 1
            elif kind != b"\\":
                return  # The counts are wrong; git says so.
            self._at += 1


def take_header(patch: FilePatch, line: bytes) -> bool:
    """Takes one line below `diff --git` in; False when it is none of a header."""
    found = _HEADER.match(line)
    if found is None:
        return False
    name, value = found.group(), line[found.end() :]
    if name == b"--- ":
        patch.old = side_name(value)
    elif name == b"+++ ":
        patch.new = side_name(value)
    elif name.startswith((b"rename ", b"copy ")):
        _moved(patch, name, value)
    elif name == b"index ":
        _mode(patch, name, value.partition(b" ")[2])
    elif name.endswith(b"mode "):
        _mode(patch, name, value)
    return True


def _moved(patch: FilePatch, name: bytes, value: bytes) -> None:
    if name.endswith((b"to ", b"new ")):
        patch.new = moved_name(value)
        return
    patch.old = moved_name(value)
    if name.startswith(b"rename "):
        patch.renamed = True
    else:
        patch.copied = True


def _mode(patch: FilePatch, name: bytes, value: bytes) -> None:
    if name == b"deleted file mode ":
        patch.new = None
    elif name == b"new file mode ":
        patch.old = None
    mode = value.strip()
    if name == b"index " and not mode:
        return
    patch.modes.add(mode)
    if name.startswith((b"old ", b"deleted ", b"index ")):
        patch.mode_before = mode
    if name.startswith((b"new ", b"index ")):
        patch.mode_after = mode


# Git takes up to two parts after the marker: what the file becomes, and the way back. Each says how many bytes it has
# without compression, and git holds it to that.
_PARTS = re.compile(rb"^GIT binary patch\n|^(literal|delta) [ \t\v\f\r]*([+-]?)(\d+)", re.MULTILINE)
_LENGTHS = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_TWO_NUMBERS_BYTES = 20
_BEYOND = 2**53
"""More than any file has; JSON has larger numbers only in part."""


def inflated_bytes(diff: bytes) -> int:
    """Bytes of content that a diff's binary parts make, and that reading them takes."""
    total = parts_left = 0
    for match in _PARTS.finditer(diff):
        if match[1] is None:
            parts_left = 2
        elif parts_left:
            total += _BEYOND if match[2] == b"-" else int(match[3][:_TWO_NUMBERS_BYTES])
            if parts_left == 2 and match[1] == b"delta":  # noqa: PLR2004 the way forward
                total += _result_of_delta(diff, diff.find(b"\n", match.end()) + 1)
            parts_left -= 1
    return min(total, _BEYOND)


def _result_of_delta(diff: bytes, start: int) -> int:
    """Size of what a delta makes: its second number. Nothing for what git cannot read either."""
    unpacker = zlib.decompressobj()
    head = b""
    try:
        for packed in _packed_lines(diff, start):
            head += unpacker.decompress(unpacker.unconsumed_tail + packed, _TWO_NUMBERS_BYTES - len(head))
            if len(head) == _TWO_NUMBERS_BYTES or unpacker.eof:
                break
    except (ValueError, zlib.error):
        pass
    _, at = _number(head, 0)
    return _number(head, at)[0]


def _packed_lines(diff: bytes, start: int) -> Iterator[bytes]:
    """The bytes of each line of base 85, of which the first letter says how many there are."""
    while (end := diff.find(b"\n", start)) > start:
        length = _LENGTHS.index(diff[start : start + 1]) + 1
        yield base64.b85decode(diff[start + 1 : end])[:length]
        start = end + 1


def _number(data: bytes, at: int) -> tuple[int, int]:
    """A number of a delta's head, seven bits a byte and the lowest first, and where the next one begins."""
    value = shift = 0
    while at < len(data):
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:  # noqa: PLR2004 the highest bit says that there is more
            break
    return value, at


# A hunk's lines begin with a blank or a sign, and a binary patch's have no blanks: this is always a header.
_FILE_START = re.compile(r"^(?=diff --git )", re.MULTILINE)


def only_files(diff: str, paths: Collection[str]) -> str:
    """The parts of a diff that touch any of the paths, before or after; empty if none does."""
    wanted = {path.encode() for path in paths}
    return "".join(part for part in _FILE_START.split(diff) if _touches(part, wanted))


def _touches(part: str, wanted: set[bytes]) -> bool:
    return any({patch.old, patch.new} & wanted for patch in read_patches(part.encode()))

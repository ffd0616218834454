"""A diff's own headers: which files it names, and how git would take them.

This is not what decides: git applies the diff, and only git's result counts. It says where to look, and what a sender
cannot have meant; and it is all there is where no repository stands behind a review.
"""

from __future__ import annotations

import base64
import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field

from tandem.git.paths import common_name, header_name, without_prefix

_HEADER = re.compile(
    rb"--- |\+\+\+ |index |(?:new file|deleted file|old|new) mode |rename (?:from|old|to|new) |copy (?:from|to) "
    rb"|(?:dis)?similarity index "
)
_BEFORE, _AFTER = b"--- ", b"+++ "
_USUAL_PREFIXES = {_BEFORE: (b"a/", b"i/", b"c/", b"o/", b"1/"), _AFTER: (b"b/", b"w/", b"i/", b"c/", b"2/")}
"""Git's own, with `diff.mnemonicPrefix` too."""


@dataclass(slots=True)
class FilePatch:
    """One file's part of a diff.

    Attributes:
        git: What stands behind `diff --git`; None where there is no such line.
        names: The names in its other headers as they stand there, by the header.
        old: Path before; None when the file is new.
        new: Path after; None when the file goes.
        renamed: Whether the diff says that the file moved.
        copied: Whether the diff says that the file is a copy.
        modes: The file modes that its headers name.
        mode_before: The mode that its headers give the file before, where they do.
        mode_after: The mode that its headers give the result, where they do.
        comes: Whether a header says that the file is new.
        goes: Whether a header says that the file is deleted.
        added: Lines added.
        removed: Lines removed.
        hunks: How many hunks it has.
        binary: Whether its content is not lines.
        cut: Whether it only says that binary files differ.
        without_context: The hunks that have no unchanged line, from 1.
        unplaced: The first hunk that only adds lines somewhere in a file, without any around them; 0 if there is none.
        converted: Whether its first header ends with CR, which git does not write.
        fault: What is wrong with its hunks, in words; None if nothing is.
        passed_over: What git would pass over in its part, or before the first one, in words; None if nothing.
    """

    git: bytes | None = None
    names: dict[bytes, bytes] = field(default_factory=dict[bytes, bytes])
    old: bytes | None = None
    new: bytes | None = None
    renamed: bool = False
    copied: bool = False
    modes: set[bytes] = field(default_factory=set[bytes])
    mode_before: bytes | None = None
    mode_after: bytes | None = None
    comes: bool = False
    goes: bool = False
    added: int = 0
    removed: int = 0
    hunks: int = 0
    binary: bool = False
    cut: bool = False
    without_context: set[int] = field(default_factory=set[int])
    unplaced: int = 0
    converted: bool = False
    fault: str | None = None
    passed_over: str | None = None

    @property
    def path(self) -> bytes:
        """The path that the file is known by."""
        return self.new if self.new is not None else self.old or b""

    @property
    def has_prefix(self) -> bool | None:
        """Whether its names begin with a prefix, such as `a/`, as far as they tell; None if they do not.

        Without prefixes a name is the same on both sides.
        """
        moved = [name for header, name in self.names.items() if header not in _USUAL_PREFIXES]
        if self.git is not None and len(moved) > 1:
            return self.git != b" ".join(moved)
        sides = {side: header_name(self.names[side]) for side in (_BEFORE, _AFTER) if side in self.names}
        named = {side: name for side, name in sides.items() if name is not None}
        if len(named) > 1:
            return named[_BEFORE] != named[_AFTER]
        if self.git is not None:
            middle = len(self.git) // 2
            return self.git[:middle] != self.git[middle + 1 :]
        return next((name.startswith(_USUAL_PREFIXES[side]) for side, name in named.items()), None)

    def resolve(self, *, strip: bool) -> None:
        """Sets the paths, from names with a prefix (`strip`) or without."""
        name = None if self.git is None else common_name(self.git, strip=strip)
        self.old, self.new = None if self.comes else name, None if self.goes else name
        for header, value in self.names.items():
            found = header_name(value)
            if strip and found is not None and header in _USUAL_PREFIXES:
                found = without_prefix(found)
            if header == _BEFORE or header.endswith((b"from ", b"old ")):
                self.old = found
            else:
                self.new = found


def take_header(patch: FilePatch, line: bytes) -> bool:
    """Takes one line below `diff --git` in; False when it is none of a header."""
    found = _HEADER.match(line)
    if found is None:
        return False
    name, value = found.group(), line[found.end() :]
    if name in _USUAL_PREFIXES or name.startswith((b"rename ", b"copy ")):
        patch.names[name] = value
        patch.renamed |= name.startswith(b"rename ")
        patch.copied |= name.startswith(b"copy ")
    elif name == b"index ":
        _mode(patch, name, value.partition(b" ")[2])
    elif name.endswith(b"mode "):
        _mode(patch, name, value)
    return True


def _mode(patch: FilePatch, name: bytes, value: bytes) -> None:
    patch.comes |= name == b"new file mode "
    patch.goes |= name == b"deleted file mode "
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

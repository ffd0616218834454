"""Applies a diff as it stands: exact places, exact lines, exact counts. It shares no code with the product.

`patch` and `git apply` search for a place where the lines fit. A reviewer does not, so the check of P9 does not either.
"""

from __future__ import annotations

import base64
import re
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import takewhile
from typing import NamedTuple

REGULAR = "100644"
GITLINK = "160000"
LINE = re.compile(rb"[^\n]*\n|[^\n]+")
"""A line as git has them: only a line feed ends one."""

_HUNK = re.compile(rb"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")
_MODE = re.compile(rb"(old|new|deleted file|new file) mode (\d{6})$")
_PART = re.compile(rb"(literal|delta) \d+$")
_ESCAPES = {b"a": 7, b"b": 8, b"t": 9, b"n": 10, b"v": 11, b"f": 12, b"r": 13, b'"': 34, b"\\": 92}
_ESCAPED = re.compile(rb'\\([0-7]{3}|[abtnvfr"\\])')
_NULL = b"/dev/null"
_EPOCH = (b"1970-01-01 ", b"1969-12-31 ")
"""When `diff -N` says that a file was changed last which is not there, in UTC and to the west of it."""

_LENGTHS = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


class Misshown(Exception):
    """A diff does not show the approved content.

    Attributes:
        kind: The fault, in the same words for each of its kind.
        detail: Where.
    """

    def __init__(self, kind: str, path: bytes, detail: object = "") -> None:
        self.kind = kind
        self.detail = f"{path.decode('utf-8', 'backslashreplace')} {detail}".rstrip()
        super().__init__(f"{kind}: {self.detail}")


class State(NamedTuple):
    """A file: its mode, and its bytes; of a submodule the line that a diff shows for it."""

    mode: str
    content: bytes


@dataclass
class Hunk:
    """A hunk: where it says that it stands, and its lines with their signs, each as the file has it."""

    old_start: int
    old_count: int
    new_start: int
    new_count: int
    lines: list[tuple[bytes, bytes]] = field(default_factory=list[tuple[bytes, bytes]])


@dataclass
class Section:
    """What a diff says of one file.

    Attributes:
        named: The two names of its `diff --git` line, not taken apart; empty where it has none.
        sides: The names of `---` and `+++`, without their prefix; None for a file that is not there.
        modes: By what the header calls them: `old`, `new`, `new file`, `deleted file`.
        moved: Its header line about a rename or copy, if it has one.
        patch: The way forward in a `GIT binary patch`: whether it is a delta, and its bytes.
        omitted: Whether it only says that binary files differ.
    """

    named: bytes = b""
    sides: list[bytes | None] = field(default_factory=list[bytes | None])
    modes: dict[bytes, str] = field(default_factory=dict[bytes, str])
    moved: bytes = b""
    hunks: list[Hunk] = field(default_factory=list[Hunk])
    patch: tuple[bool, bytes] | None = None
    omitted: bool = False

    @property
    def old(self) -> bytes | None:
        """The path before; None where there was none."""
        return None if b"new file" in self.modes else self.sides[0] if self.sides else _same_name(self.named)

    @property
    def new(self) -> bytes | None:
        """The path after; None where there is none."""
        return None if b"deleted file" in self.modes else self.sides[1] if self.sides else _same_name(self.named)

    @property
    def path(self) -> bytes:
        """The path that the file is known by."""
        return self.new or self.old or b""


def _unquoted(name: bytes) -> bytes:
    if not name.startswith(b'"'):
        return name

    def byte(match: re.Match[bytes]) -> bytes:
        return bytes([_ESCAPES[match[1]] if match[1] in _ESCAPES else int(match[1], 8)])

    return _ESCAPED.sub(byte, name[1:-1])


def _stripped(name: bytes) -> bytes | None:
    """A name of `---` or `+++` as `patch -p1` reads it."""
    name, _, time = name.partition(b"\t")
    name = _unquoted(name)
    return None if name == _NULL or time.startswith(_EPOCH) else name.partition(b"/")[2]


def _same_name(named: bytes) -> bytes:
    """The name that stands twice behind `diff --git`, each time below a prefix of its own."""
    if named.startswith(b'"'):
        return _unquoted(named[: named.index(b'" ') + 1]).partition(b"/")[2]
    return named[: len(named) // 2].partition(b"/")[2]


def sections(diff: bytes) -> list[Section]:
    """The files of a diff. Lines outside headers and hunks are skipped, as every program that applies diffs does.

    Raises:
        Misshown: A hunk's body disagrees with its counts.
    """
    found: list[Section] = []
    lines = iter(diff.split(b"\n"))
    for line in lines:
        if line.startswith(b"diff --git "):
            found.append(Section(line.removeprefix(b"diff --git ")))
        elif line.startswith(b"--- "):
            _take_sides(found, line, lines)
        elif found and (match := _HUNK.match(line)):
            found[-1].hunks.append(_hunk(found[-1], match, lines))
        elif found and not found[-1].hunks:
            _take_header(found[-1], line, lines)
        elif found and line.startswith(b"\\"):
            _cut_newline(found[-1].hunks[-1])
        elif found and line[:1] in b"+- " and line not in {b"", b"-- "}:
            raise Misshown("lines behind what a hunk counts", found[-1].path, line[:60])
    return found


def _take_sides(found: list[Section], line: bytes, lines: Iterator[bytes]) -> None:
    after = next(lines, b"")
    if not after.startswith(b"+++ "):
        if found and not found[-1].hunks:
            raise Misshown("one name where two belong", found[-1].path, line[:60])
        return
    if not found or found[-1].sides:
        found.append(Section())
    found[-1].sides = [_stripped(line[4:]), _stripped(after[4:])]


def _take_header(section: Section, line: bytes, lines: Iterator[bytes]) -> None:
    if match := _MODE.match(line):
        section.modes[match[1]] = match[2].decode()
    elif line.startswith((b"rename ", b"copy ")):
        section.moved = line
    elif line.startswith(b"Binary files "):
        section.omitted = True
    elif section.patch is None and (match := _PART.match(line)):
        packed = b"".join(_decoded(line) for line in takewhile(bool, lines))
        section.patch = match[1] == b"delta", zlib.decompress(packed)


def _decoded(line: bytes) -> bytes:
    return base64.b85decode(line[1:])[: _LENGTHS.index(line[:1]) + 1]


def _hunk(section: Section, head: re.Match[bytes], lines: Iterator[bytes]) -> Hunk:
    numbers = [int(number) if number is not None else 1 for number in head.groups()]
    hunk = Hunk(numbers[0], numbers[1], numbers[2], numbers[3])
    old, new = hunk.old_count, hunk.new_count
    while old > 0 or new > 0:
        line = next(lines, b"")
        sign = line[:1]
        if sign == b"\\":
            _cut_newline(hunk)
            continue
        if sign not in {b" ", b"+", b"-"}:
            raise Misshown("fewer lines than a hunk counts", section.path, head[0].decode())
        old -= sign != b"+"
        new -= sign != b"-"
        hunk.lines.append((sign, line[1:] + b"\n"))
    if min(old, new) < 0:
        raise Misshown("more lines than a hunk counts", section.path, head[0].decode())
    return hunk


def _cut_newline(hunk: Hunk) -> None:
    sign, line = hunk.lines[-1]
    hunk.lines[-1] = sign, line.removesuffix(b"\n")


def applied(diff: bytes, read: Callable[[bytes], State | None]) -> tuple[dict[bytes, State | None], set[bytes]]:
    """The result of a diff for each file that it names, None where it deletes it; and the files shown as binary.

    Raises:
        Misshown: It cannot be applied as it stands, or hides lines behind a rename or copy.
    """
    made: dict[bytes, State | None] = {}
    binary: set[bytes] = set()
    for section in sections(diff if diff.endswith(b"\n") else diff + b"\n"):
        if section.moved:
            raise Misshown(f"a {section.moved.split()[0].decode()} that hides lines", section.path)
        if section.omitted:
            raise Misshown("a binary file without its bytes", section.path)
        if section.patch:
            binary.add(section.path)
        before = made[section.path] if section.path in made else read(section.path)
        made[section.path] = _after(section, before)
    return made, binary


def _after(section: Section, before: State | None) -> State | None:
    if section.old != section.new and None not in {section.old, section.new}:
        raise Misshown("two names for one file", section.path)
    if (section.old is None) != (before is None):
        raise Misshown("another file than the base has", section.path)
    if not (section.hunks or section.patch or section.modes):
        raise Misshown("a header that says nothing", section.path)
    start = before or State("", b"")
    if section.patch:
        is_delta, data = section.patch
        content = _from_delta(start.content, data) if is_delta else data
    else:
        content = patched(section, start.content)
    if section.new is None:
        if content:
            raise Misshown("a deletion that leaves lines", section.path)
        return None
    stated = section.modes.get(b"old", start.mode)
    if stated != start.mode:
        raise Misshown("another mode than the base has", section.path, f"{stated}, not {start.mode}")
    mode = section.modes.get(b"new") or section.modes.get(b"new file") or start.mode or REGULAR
    return State(mode, content)


def patched(section: Section, content: bytes) -> bytes:
    """A file's lines after its hunks, each applied exactly where it says that it stands.

    Raises:
        Misshown: Other lines are there.
    """
    old = LINE.findall(content)
    made: list[bytes] = []
    at = 0
    for hunk in section.hunks:
        start = hunk.old_start - (hunk.old_count > 0)
        made += old[at:start]
        at = max(at, start)
        where = f"at line {hunk.old_start}"
        if start != at or start > len(old) or len(made) != hunk.new_start - (hunk.new_count > 0):
            raise Misshown("a hunk at a line where it cannot stand", section.path, where)
        for sign, line in hunk.lines:
            if sign != b"+":
                if at >= len(old) or old[at] != line:
                    raise Misshown("a hunk at a line that has other text", section.path, where)
                at += 1
            if sign != b"-":
                made.append(line)
    return b"".join(made + old[at:])


def _from_delta(source: bytes, delta: bytes) -> bytes:
    """What git's delta makes of `source`."""
    _, at = _size(delta, 0)
    _, at = _size(delta, at)
    made: list[bytes] = []
    while at < len(delta):
        code = delta[at]
        at += 1
        if not code & 0x80:
            made.append(delta[at : at + code])
            at += code
            continue
        numbers = [0, 0]
        for bit in range(7):
            if code >> bit & 1:
                numbers[bit >= 4] |= delta[at] << 8 * (bit - 4 * (bit >= 4))
                at += 1
        offset, size = numbers[0], numbers[1] or 0x10000
        made.append(source[offset : offset + size])
    return b"".join(made)


def _size(delta: bytes, at: int) -> tuple[int, int]:
    size = shift = 0
    while True:
        byte = delta[at]
        at += 1
        size |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return size, at

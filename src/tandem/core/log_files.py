"""Reading a log while it is written and rotated (`.1`, `.2`, …): its end, and what comes after it."""

from __future__ import annotations

import os
import re
import stat
import zlib
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final

_LINES_AT_ONCE: Final = 1_000
_POSITION: Final = re.compile(r"(?P<file>[0-9]{1,39})-(?P<offset>[0-9]{1,18})-(?P<mark>[0-9]{1,10})")
_READ_BYTES: Final = 4_000_000
"""The most of a log that is read at once; what programs write knows no lines of a decent length."""

_MOST_ROTATED: Final = 100
_MARK_BYTES: Final = 256
_BEGINNING: Final = "0-0-0"


@dataclass(frozen=True, slots=True)
class Part:
    """Some lines of a log.

    Attributes:
        lines: Whole lines, oldest first.
        position: Where the next one begins, through rotations.
    """

    lines: tuple[str, ...]
    position: str


def last_part(path: Path, lines: int) -> Part:
    """The last whole lines; none if there is no log.

    Raises:
        OSError: It cannot be read.
    """
    with suppress(FileNotFoundError), _opened(path) as file:
        end = file.seek(0, os.SEEK_END)
        start = file.seek(max(0, end - _READ_BYTES))
        *whole, rest = file.read(end - start).split(b"\n")
        if start:
            # The first of them began before.
            whole = whole[1:]
        return Part(_texts(whole[max(0, len(whole) - lines) :]), _position(file, end - len(rest)))
    return Part((), _BEGINNING)


def next_part(path: Path, position: str, lines: int) -> Part | None:
    """The lines that follow a position, at most so many, also when the log was rotated; None if it is no position.

    Raises:
        OSError: It cannot be read.
    """
    stated = _POSITION.fullmatch(position)
    if stated is None:
        return None
    offset = int(stated["offset"])
    kept = _files_since(path, int(stated["file"]), offset, int(stated["mark"]))
    files = kept or rotated(path)
    found: list[bytes] = []
    for one in files:
        with suppress(FileNotFoundError), _opened(one) as file:
            start = offset if kept and one is files[0] else 0
            taken, place, is_all = _taken(file, start, lines - len(found), is_complete=one is not files[-1])
            found += taken
            position = _position(file, place)
            if not is_all:
                break
    return Part(_texts(found), position)


def follow(path: Path, lines: int) -> Iterator[tuple[str, ...]]:
    """The last lines, then for ever those that were written meanwhile; empty whenever there are none for the moment.

    Raises:
        OSError: It cannot be read.
    """
    part = last_part(path, lines)
    while True:
        yield part.lines
        part = next_part(path, part.position, _LINES_AT_ONCE) or part


def _taken(file: BinaryIO, start: int, lines: int, *, is_complete: bool) -> tuple[list[bytes], int, bool]:
    """Lines of one file from an offset on, the offset after them, and whether there are no more.

    Args:
        file: The file.
        start: Where to begin; at the beginning if the file is shorter, because then it was emptied.
        lines: How many at most.
        is_complete: Whether it is no longer written to, so that its last line is ended.
    """
    size = file.seek(0, os.SEEK_END)
    at = file.seek(start if start <= size else 0)
    data = file.read(_READ_BYTES)
    *whole, rest = data.split(b"\n")
    is_end = at + len(data) >= size
    if rest and ((is_end and is_complete) or (not whole and len(data) == _READ_BYTES)):
        whole.append(rest)
    taken = whole[:lines]
    place = at + min(len(data), sum(len(line) + 1 for line in taken))
    return taken, place, is_end and len(taken) == len(whole)


def _opened(path: Path) -> BinaryIO:
    """A regular file of the folder itself, never what a link leads to."""
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
    file = os.fdopen(descriptor, "rb")
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        file.close()
        raise FileNotFoundError(f"{path} is no file")
    return file


def _texts(lines: list[bytes]) -> tuple[str, ...]:
    return tuple(line.decode(errors="replace") for line in lines)


def _position(file: BinaryIO, offset: int) -> str:
    return f"{os.fstat(file.fileno()).st_ino}-{offset}-{_mark(file, offset)}"


def _mark(file: BinaryIO, offset: int) -> int:
    """What tells a file from a later one that the system gave the same number: its beginning, which stays."""
    file.seek(0)
    return zlib.crc32(file.read(min(offset, _MARK_BYTES)))


def rotated(path: Path) -> list[Path]:
    """A log's files, oldest first: those put aside and the one that is written to."""
    aside = (path.with_name(f"{path.name}.{number}") for number in range(1, _MOST_ROTATED + 1))
    return [*reversed([one for one in aside if one.exists()]), path]


def _files_since(path: Path, number: int, offset: int, mark: int) -> list[Path]:
    """A log's files from the one that a position is in, oldest first; none if that is no longer there."""
    files = rotated(path)
    for at, one in enumerate(files):
        with suppress(OSError):
            if one.stat().st_ino == number:
                with _opened(one) as file:
                    if _mark(file, offset) == mark:
                        return files[at:]
    return []

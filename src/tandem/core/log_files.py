"""Logs that are rotated by size (`.1`, `.2`, …): writing them, and reading them meanwhile."""

from __future__ import annotations

import io
import itertools
import os
import re
import stat
import threading
import time
import zlib
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Final

from tandem.core import platforms
from tandem.core.visible import visible_line

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


_FOR_APPENDING = os.O_WRONLY | os.O_CREAT | os.O_APPEND | getattr(os, "O_BINARY", 0) | getattr(os, "O_NOFOLLOW", 0)
_LONGEST_NOTE = 2000


class RotatingLog(io.RawIOBase):
    """A file that only its user can read, and that is put aside (`.1`, `.2`, …) when it is full.

    Safe to share between threads. A chunk is never torn, so that a file may be longer than its limit by one.
    """

    def __init__(self, path: str, *, max_bytes: int, backups: int) -> None:
        """Open the log, at its end.

        Args:
            path: The file; its folder is made, private, if it is missing.
            max_bytes: The size from which a file is put aside; 0 for never.
            backups: How many of those are kept.

        Raises:
            OSError: It cannot be opened.
        """
        self.path = path
        self._max_bytes = max_bytes
        self._backups = backups
        self._lock = threading.Lock()
        platforms.make_private(os.path.dirname(path))
        self._file = _open_at_end(path)
        self._size = self._file.tell()
        self._at_line_start = True

    def writable(self) -> bool:
        """It is."""
        return True

    def write(self, data: Any, /) -> int:
        """Append a chunk.

        Raises:
            OSError: The disk does not take it.
            ValueError: The log is closed.
        """
        with self._lock:
            return self._append(bytes(data))

    def note(self, words: str) -> None:
        """Add a line of the worker's own. A log that cannot be written is no reason to lose a review."""
        moment = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        with self._lock, suppress(OSError, ValueError):
            start = "" if self._at_line_start else "\n"
            self._append(f"{start}{moment} tandem: {visible_line(words[:_LONGEST_NOTE])}\n".encode())

    def close(self) -> None:
        """Close it; again is safe."""
        with self._lock:
            self._file.close()
        super().close()

    def _append(self, chunk: bytes) -> int:
        if self._max_bytes and self._size and self._size + len(chunk) > self._max_bytes:
            self._rotate()
        rest = memoryview(chunk)
        while rest:
            written = self._file.write(rest)
            self._size += written
            rest = rest[written:]
        if chunk:
            self._at_line_start = chunk.endswith(b"\n")
        return len(chunk)

    def _rotate(self) -> None:
        """Put the full file aside. Where the system does not let us (somebody reads it), it just grows on."""
        names = [self.path, *(f"{self.path}.{number}" for number in range(1, self._backups + 1))]
        with suppress(OSError):
            for newer, older in reversed([*itertools.pairwise(names)]):
                if os.path.lexists(newer):
                    os.replace(newer, older)
            fresh = _open_at_end(self.path)
            self._file.close()
            self._file = fresh
            if not self._backups:
                fresh.truncate(0)
            self._size = fresh.seek(0, os.SEEK_END)


def _open_at_end(path: str) -> io.FileIO:
    return io.FileIO(path, "ab", opener=lambda name, _: os.open(name, _FOR_APPENDING, 0o600))

"""A reviewer's log: written by its worker, rotated by size, and read by whoever looks after this machine's reviewers.

It holds what programs write, and between that the worker's own lines, which are made of ids, numbers and words of ours:
no prompt, no environment, no secret.
"""

from __future__ import annotations

import io
import itertools
import os
import re
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final, cast

from tandem.core import platforms
from tandem.core.visible import visible_line

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer


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
        platforms.make_private(os.path.dirname(path))  # noqa: PTH120 - a text, as platforms wants it
        self._file = _open_at_end(path)
        self._size = self._file.tell()
        self._at_line_start = True

    def as_file(self) -> BinaryIO:
        """The same, for what asks for a file that takes bytes."""
        return cast("BinaryIO", self)

    def writable(self) -> bool:
        """It is."""
        return True

    def write(self, data: ReadableBuffer, /) -> int:
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
                    os.replace(newer, older)  # noqa: PTH105 - texts, as the rest here
            fresh = _open_at_end(self.path)
            self._file.close()
            self._file = fresh
            if not self._backups:
                fresh.truncate(0)
            self._size = fresh.seek(0, os.SEEK_END)


def _open_at_end(path: str) -> io.FileIO:
    return io.FileIO(path, "ab", opener=lambda name, _: os.open(name, _FOR_APPENDING, 0o600))


_LOG: Final = re.compile(r"(?P<id>(?P<name>[a-z]+-r[0-9]+)-[0-9A-Za-z]+)\.log")


@dataclass(frozen=True, slots=True)
class Log:
    """One reviewer's log.

    Attributes:
        path: The file that it is written to now.
        reviewer_id: Whose it is.
        name: What that reviewer is called for short.
    """

    path: Path
    reviewer_id: str
    name: str

    def written_at(self) -> float:
        """When something was added last, seconds since the epoch; 0 if it is gone."""
        try:
            return self.path.stat().st_mtime
        except OSError:
            return 0.0


def logs_in(folder: Path) -> list[Log]:
    """The logs of a folder; none if there is no such folder."""
    try:
        paths = list(folder.iterdir())
    except OSError:
        return []
    named = ((path, found) for path in paths if (found := _LOG.fullmatch(path.name)))
    return [Log(path, found["id"], found["name"]) for path, found in named if path.is_file() and not path.is_symlink()]


def newest(folder: Path, reviewer: str | None) -> Log | None:
    """The newest log of a reviewer by its id or name, or of all: what was asked for is never made a path."""
    fitting = [log for log in logs_in(folder) if reviewer is None or reviewer in {log.reviewer_id, log.name}]
    return max(fitting, key=Log.written_at, default=None)

"""A reviewer's log: what its programs write, and between that the worker's own lines; rotated by size.

The worker's lines are made of ids, numbers and words of ours: no prompt, no environment, no secret.
"""

from __future__ import annotations

import io
import itertools
import os
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, BinaryIO, cast

from tandem import platforms
from tandem.hooks.visible import visible_line

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
        self._descriptor = -1
        platforms.make_private(os.path.dirname(path))  # noqa: PTH120 - a text, as platforms wants it
        self._descriptor = _opened(path)
        self._size = os.fstat(self._descriptor).st_size
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
            if self._descriptor >= 0:
                os.close(self._descriptor)
                self._descriptor = -1
        super().close()

    def _append(self, chunk: bytes) -> int:
        if self._descriptor < 0:
            raise ValueError("the log is closed")
        if self._max_bytes and self._size and self._size + len(chunk) > self._max_bytes:
            self._rotate()
        rest = memoryview(chunk)
        while rest:
            written = os.write(self._descriptor, rest)
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
            fresh = _opened(self.path)
            os.close(self._descriptor)
            self._descriptor = fresh
            if not self._backups:
                os.ftruncate(fresh, 0)
            self._size = os.fstat(fresh).st_size


def _opened(path: str) -> int:
    return os.open(path, _FOR_APPENDING, 0o600)

"""Reading what a program writes, so that it never waits for a reader, and no reader waits for it for ever."""

from __future__ import annotations

import os
import select
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field
from typing import IO, BinaryIO

_CHUNK_BYTES = 64 * 1024
_CAN_WAIT = hasattr(select, "poll")
"""Windows cannot wait for pipes: a reader that is stuck there ends with our own process."""


class Tail:
    """The end of a stream of bytes.

    Attributes:
        total: How many bytes came.
        last: When the last ones came, on the monotonic clock; 0 before the first.
    """

    def __init__(self, limit_bytes: int) -> None:
        self.total = 0
        self.last = 0.0
        self._limit = limit_bytes
        self._kept = bytearray()

    @property
    def was_cut(self) -> bool:
        """Whether the beginning is gone."""
        return self.total > self._limit

    def add(self, chunk: bytes) -> None:
        """Takes the next bytes."""
        self.total += len(chunk)
        self.last = time.monotonic()
        self._kept += chunk
        # Not each time: moving the bytes costs more than keeping them twice.
        if len(self._kept) > 2 * self._limit + _CHUNK_BYTES:
            del self._kept[: -self._limit]

    def content(self) -> bytes:
        """At most the last `limit_bytes`."""
        return bytes(self._kept[max(0, len(self._kept) - self._limit) :])


@dataclass(slots=True)
class Log:
    """Where a copy of the output goes: both streams, one chunk after the other.

    Attributes:
        file: The log; null for none.
        hidden: What is written as stars; empty for nothing.
    """

    file: BinaryIO | None
    hidden: bytes = b""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def write(self, chunk: bytes, *, is_last: bool = False) -> bytes:
        """Writes a chunk of one stream; a log that cannot be written is no reason to lose a review.

        Returns:
            Its end, if what is to be hidden may go on in the next chunk: that has to begin with it.
        """
        shown = chunk.replace(self.hidden, b"*" * len(self.hidden)) if self.hidden else chunk
        longest = 0 if is_last else min(len(shown), len(self.hidden) - 1)
        kept = next((size for size in range(longest, 0, -1) if shown.endswith(self.hidden[:size])), 0)
        shown, rest = shown[: len(shown) - kept], shown[len(shown) - kept :]
        with self._lock, suppress(OSError, ValueError):
            if self.file is not None and shown:
                self.file.write(shown)
                self.file.flush()
        return rest


class Pump:
    """A thread that reads a program's output to its end, or until it is told that nothing more matters."""

    def __init__(self, pipe: IO[bytes], tail: Tail, log: Log, at_end: threading.Event) -> None:
        self._pipe = pipe
        self._tail = tail
        self._log = log
        self._at_end = at_end
        self._enough: tuple[int, int] | None = None
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begins to read.

        Raises:
            OSError: There are no more descriptors.
            RuntimeError: There are no more threads.
        """
        if _CAN_WAIT:
            self._enough = os.pipe()
        thread = threading.Thread(target=self._run, name="reviewer-output", daemon=True)
        thread.start()
        self._thread = thread

    def finish(self, seconds: float) -> None:
        """Reads what is still there, for so long at most, and closes the pipe.

        Somebody who left the program's session, its ancestors and its environment may hold the other end open.
        """
        thread = self._thread
        if thread is not None:
            thread.join(seconds)
            if thread.is_alive() and self._enough is not None:
                os.write(self._enough[1], b"!")
                thread.join()
        if thread is None or not thread.is_alive():
            self._pipe.close()
        for descriptor in self._enough or ():
            os.close(descriptor)
        self._enough = None

    def _run(self) -> None:
        descriptor = self._pipe.fileno()
        unsure = b""
        # An error is an end too: there is nothing more to be had.
        with suppress(OSError):
            while self._waits(descriptor) and (chunk := os.read(descriptor, _CHUNK_BYTES)):
                self._tail.add(chunk)
                unsure = self._log.write(unsure + chunk)
        self._log.write(unsure, is_last=True)
        self._at_end.set()

    def _waits(self, descriptor: int) -> bool:
        """Waits until there is something to read; false once it is enough."""
        if self._enough is None:
            return True
        # Not `select`: its descriptors end at 1023.
        waiting = select.poll()
        waiting.register(descriptor, select.POLLIN)
        waiting.register(self._enough[0], select.POLLIN)
        ready = {number for number, _ in waiting.poll()}
        return self._enough[0] not in ready

"""Reading the answers of HTTP/1.1 from a connection.

Bounded in time and size. A limit on silence alone would let a program that sends a byte now and then keep its client
forever. So the head of an answer has to arrive whole in the time of one silence, and a body has to come on: at a least
pace, or in whole pieces where it is a stream.
"""

from __future__ import annotations

import io
import time

TYPE_CHECKING = False  # as in `credentials`
if TYPE_CHECKING:
    import _socket
    from collections.abc import Callable, Iterator, Mapping
    from typing import Any

QUIET_SECONDS = 5.0
"""After so long without a byte a client may look whether the broker still answers at all."""

_LONGEST_QUIET_SECONDS = 15.0
_LAST_LOOK_SECONDS = 0.1

LARGEST_ANSWER_BYTES = 256 * 1024 * 1024
"""More than any broker answers: a program that sends it must not fill the memory."""

_SLOWEST_BYTES_PER_SECOND = 4096
_LONGEST_LINE_BYTES = 65_536
_MOST_HEADERS = 200
_FIRST_FINAL_STATUS = 200
_NO_BODY = frozenset({204, 304})


class _Received(io.RawIOBase):
    """What a socket receives, as a file: `_socket.socket` has none. Each step of reading has a time limit."""

    def __init__(self, connected: _socket.socket) -> None:
        self._socket = connected
        self._seconds = self._ends = 0.0
        self._deadline: float | None = None
        self._gains = False
        self._is_alive: Callable[[], bool] | None = None
        self._quiet_seconds = QUIET_SECONDS

    def begin(self, seconds: float, deadline: float | None, is_alive: Callable[[], bool] | None) -> None:
        self._seconds, self._deadline, self._gains = seconds, deadline, False
        self._ends = time.monotonic() + seconds
        self._is_alive, self._quiet_seconds = is_alive, QUIET_SECONDS

    def go_on(self) -> None:
        """Begin a step of a body: it has as long as the head had, and more for each byte that arrives."""
        self._gains = True
        self._ends = time.monotonic() + self._seconds

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        count = self._received_into(buffer)
        if self._gains:
            self._ends += count / _SLOWEST_BYTES_PER_SECOND
        return count

    def _received_into(self, buffer: Any) -> int:
        while True:
            ends = self._ends if self._deadline is None else min(self._ends, self._deadline)
            left = ends - time.monotonic()
            if left <= 0:
                raise TimeoutError("timed out")
            looks = self._is_alive if left > self._quiet_seconds else None
            self._socket.settimeout(left if looks is None else self._quiet_seconds)
            try:
                return self._socket.recv_into(buffer)
            except TimeoutError:
                if looks is None:
                    raise
            if looks():
                self._quiet_seconds = min(2 * self._quiet_seconds, _LONGEST_QUIET_SECONDS)
            else:
                # Unless its answer has come in the meantime.
                self._ends, self._is_alive = time.monotonic() + _LAST_LOOK_SECONDS, None


class Reader:
    """Reads answers from a connection."""

    def __init__(self, connected: _socket.socket) -> None:
        self._received = _Received(connected)
        self._buffered = io.BufferedReader(self._received)

    def begin(self, seconds: float, deadline: float | None, is_alive: Callable[[], bool] | None = None) -> None:
        """Give the next head this time to arrive whole, and until this moment of the monotonic clock at most.

        What `is_alive` says of the broker ends the time earlier, also that of the body.
        """
        self._received.begin(seconds, deadline, is_alive)

    def has_more(self) -> bool:
        """Wait for the first byte of an answer; false if the connection was closed instead."""
        return bool(self._buffered.peek(1))

    def head(self) -> tuple[int, dict[str, str]]:
        """Status and headers, with names in lower case; interim answers are passed over.

        Raises:
            ValueError: It is not HTTP.
            OSError: It did not arrive in time, or at all.
        """
        while True:
            version, _, rest = self._line().partition(" ")
            if not version.startswith("HTTP/1."):
                raise ValueError("the connection was closed before an answer" if not version else "not an HTTP answer")
            status = int(rest[:3])
            head: dict[str, str] = {"connection": "close"} if version == "HTTP/1.0" else {}
            while line := self._line():
                name, _, value = line.partition(":")
                head[name.strip().lower()] = value.strip()
                if len(head) > _MOST_HEADERS:
                    raise ValueError("too many headers")
            if status >= _FIRST_FINAL_STATUS:
                return status, head

    def body(self, status: int, head: Mapping[str, str], *, is_stream: bool = False) -> Iterator[bytes]:
        """The body as it arrives, up to its end, or that of the connection where nothing else says it.

        Args:
            status: That of the head.
            head: The headers.
            is_stream: Whether each piece has a time limit of its own, rather than the whole body one.

        Raises:
            ValueError: It was cut off, or is too large.
            OSError: It did not arrive in time.
        """
        received, buffered = self._received, self._buffered
        length = 0 if status in _NO_BODY else int(head.get("content-length", -1))
        total = 0
        received.go_on()
        if head.get("transfer-encoding", "").lower() == "chunked":
            while size := _chunk_size(buffered.readline(_LONGEST_LINE_BYTES)):
                total = _within_limit(total + size)
                yield _exactly(buffered.read(size), size)
                if is_stream:
                    received.go_on()
                buffered.readline(_LONGEST_LINE_BYTES)
            while buffered.readline(_LONGEST_LINE_BYTES).strip():
                pass
        elif length >= 0:
            yield _exactly(buffered.read(_within_limit(length)), length)
        else:
            while piece := buffered.read1(_LONGEST_LINE_BYTES):
                total = _within_limit(total + len(piece))
                yield piece
                if is_stream:
                    received.go_on()

    def close(self) -> None:
        """Free its buffer; the socket stays open."""
        self._buffered.close()

    def _line(self) -> str:
        return self._buffered.readline(_LONGEST_LINE_BYTES).decode("latin-1").rstrip("\r\n")


def has_end(status: int, head: Mapping[str, str]) -> bool:
    """Whether a body says itself where it ends, so that the connection can serve the next request."""
    is_chunked = head.get("transfer-encoding", "").lower() == "chunked"
    return is_chunked or status in _NO_BODY or "content-length" in head


def _chunk_size(line: bytes) -> int:
    if not line.endswith(b"\n"):
        raise ValueError("the answer was cut off")
    return int(line.partition(b";")[0], 16)


def _exactly(piece: bytes, size: int) -> bytes:
    if len(piece) != size:
        raise ValueError("the answer was cut off")
    return piece


def _within_limit(size: int) -> int:
    if size > LARGEST_ANSWER_BYTES:
        raise ValueError(f"the answer has more than {LARGEST_ANSWER_BYTES} bytes")
    return size

"""One request and its answer over plain HTTP on this machine: what nearly every hook needs, and nothing else.

`bridge.http` does all the rest. What it imports for that takes longer than the request.
"""

from __future__ import annotations

import _socket

TYPE_CHECKING = False  # as in `jsontext`
if TYPE_CHECKING:
    from collections.abc import Mapping

CONNECT_SECONDS = 5.0
_HERE = "http://127.0.0.1:"
_CHUNK_BYTES = 65_536
_LONGEST_HEAD_BYTES = 65_536
_LARGEST_PORT = 65_535


class NoAnswer(Exception):
    """Nobody answered, or not whole, or not in HTTP."""


def port_of(url: str) -> int | None:
    """The port of a broker on this machine that can be asked from here; null for every other URL."""
    port = url.rstrip("/").removeprefix(_HERE) if url.startswith(_HERE) else ""
    if not (port.isascii() and port.isdecimal()) or not 0 < int(port) <= _LARGEST_PORT:
        return None
    return int(port)


class Wire:
    """A connection that is kept for further requests.

    Args:
        port: Where somebody listens on 127.0.0.1.
        silence_seconds: How long they may be silent.
    """

    def __init__(self, port: int, silence_seconds: float) -> None:
        self._port = port
        self._silence_seconds = silence_seconds
        self._socket: _socket.socket | None = None

    def post(self, path: str, body: bytes, headers: Mapping[str, str]) -> bytes:
        """The body of the answer to a POST, whatever its status.

        Raises:
            NoAnswer: There was none; whether the other side acted is unknown.
        """
        head = [f"POST {path} HTTP/1.1", f"Host: 127.0.0.1:{self._port}", f"Content-Length: {len(body)}"]
        head += [f"{name}: {value}" for name, value in headers.items()]
        if any("\r" in line or "\n" in line for line in head):
            raise NoAnswer("a header must be a single line")
        try:
            connected = self._socket = self._socket or self._connected()
            connected.sendall("\r\n".join(head).encode() + b"\r\n\r\n" + body)
            return self._answer(connected)
        except (OSError, ValueError) as error:
            self.close()
            raise NoAnswer(str(error) or type(error).__name__) from error

    def close(self) -> None:
        """Hang up; twice is safe."""
        connected, self._socket = self._socket, None
        if connected is not None:
            connected.close()

    def _connected(self) -> _socket.socket:
        made = _socket.socket(_socket.AF_INET, _socket.SOCK_STREAM)
        made.settimeout(CONNECT_SECONDS)
        try:
            made.connect(("127.0.0.1", self._port))
        except OSError:
            made.close()
            raise
        made.settimeout(self._silence_seconds)
        return made

    def _answer(self, connected: _socket.socket) -> bytes:
        received = b""
        while b"\r\n\r\n" not in received:
            if len(received) > _LONGEST_HEAD_BYTES:
                raise ValueError("its head is too long")
            received += _received(connected)
        head, _, body = received.partition(b"\r\n\r\n")
        lines = head.decode("latin-1").split("\r\n")
        if not lines[0].startswith("HTTP/1.1 "):
            raise ValueError("what answers there does not speak HTTP/1.1")
        fields = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:])}
        length = int(fields.get("content-length", "-1"))
        if length < 0:
            raise ValueError("what answers there does not say how much")
        pieces = [body]
        size = len(body)
        while size < length:
            pieces.append(_received(connected))
            size += len(pieces[-1])
        if fields.get("connection", "").lower() == "close":
            self.close()
        return b"".join(pieces)[:length]


def _received(connected: _socket.socket) -> bytes:
    piece = connected.recv(_CHUNK_BYTES)
    if not piece:
        raise ValueError("the connection was closed before an answer")
    return piece

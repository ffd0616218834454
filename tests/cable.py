"""A cable between a broker and its PostgreSQL, for tests to pull out, to pinch and to cut: a TCP relay.

A process of its own, as a relay in the tests' would be as slow as they are. Run as a module it is that process: it
prints its port, obeys one word a line, and ends with its input.
"""

from __future__ import annotations

import asyncio
import socket
import struct
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Literal, Self
from urllib.parse import urlsplit

Way = Literal["up", "down"]
"""To the server, or from it."""

_ROOT = Path(__file__).resolve().parents[1]
_AT_ONCE = struct.pack("ii", 1, 0)


class Cable:
    """The cable; everything flows through it until something else is said."""

    def __init__(self, server_port: int) -> None:
        """Lay it to a server of this machine, which need not run yet."""
        command = [sys.executable, "-m", "tests.cable", str(server_port)]
        self._process = subprocess.Popen(command, cwd=_ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.port = int(self._answer())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate(timeout=60)

    def through(self, url: str) -> str:
        """A database's URL, by way of this cable."""
        parts = urlsplit(url)
        address = f"{parts.username}@{parts.hostname}:{self.port}"
        return parts._replace(netloc=address).geturl()

    def plug(self) -> None:
        """Let everything through from now on, and the held data, too."""
        self._tell("plug")

    def unplug(self) -> None:
        """Cut every connection, and refuse new ones until `plug`."""
        self._tell("unplug")

    def cut(self) -> None:
        """Reset every connection and drop the data in transit; new connections work as before."""
        self._tell("cut")

    def pinch(self, way: Way) -> None:
        """Silently hold all data in one direction, until `plug`."""
        self._tell(f"pinch-{way}")

    def _tell(self, word: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{word}\n".encode())
        self._process.stdin.flush()
        assert self._answer() == word

    def _answer(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().decode().strip()


class _End(asyncio.Protocol):
    """One end of a connection: what arrives at it leaves from the other."""

    def __init__(self, relay: _Relay, way: Way) -> None:
        self.way: Way = way
        self._relay = relay
        self._other: _End | None = None
        self._transport: asyncio.Transport | None = None
        # Before Python 3.12 a transport begins to read after `connection_made`, even if that pauses reading.
        self._early = bytearray()

    @property
    def is_gone(self) -> bool:
        return self._transport is None or self._transport.is_closing()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._relay.ends.add(self)

    def join(self, other: _End) -> None:
        self._other = other
        self.hold(held=self.way in self._relay.held)

    def hold(self, *, held: bool) -> None:
        if self._other is None or self._transport is None or self._transport.is_closing():
            return
        if held:
            self._transport.pause_reading()
        else:
            self._other.write(bytes(self._early))
            self._early.clear()
            self._transport.resume_reading()

    def data_received(self, data: bytes) -> None:
        if self._other is None:
            self._early += data
        else:
            self._other.write(data)

    def write(self, data: bytes) -> None:
        if self._transport is not None:
            self._transport.write(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self._relay.ends.discard(self)
        if self._other is not None:
            self._other.close()

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()

    def reset(self) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _AT_ONCE)
            self._transport.abort()


class _Relay:
    """The process: a listener, and the ends of all connections."""

    def __init__(self, server_port: int) -> None:
        self._server_port = server_port
        self._plugged = True
        self._making: set[asyncio.Task[None]] = set()
        self.ends: set[_End] = set()
        self.held = set[Way]()

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        listening = await loop.create_server(self._accept, "127.0.0.1", 0)
        sys.stdout.write(f"{listening.sockets[0].getsockname()[1]}\n")
        sys.stdout.flush()
        words = asyncio.StreamReader()
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(words), sys.stdin)
        obeyed: Mapping[str, Callable[[], None]] = {
            "plug": self._plug,
            "unplug": self._unplug,
            "cut": self._cut,
            "pinch-up": lambda: self._hold("up"),
            "pinch-down": lambda: self._hold("down"),
        }
        while word := (await words.readline()).decode().strip():
            obeyed[word]()
            sys.stdout.write(f"{word}\n")
            sys.stdout.flush()

    def _accept(self) -> _End:
        near = _End(self, "up")
        task = asyncio.ensure_future(self._connect(near))
        self._making.add(task)
        task.add_done_callback(self._making.discard)
        return near

    async def _connect(self, near: _End) -> None:
        loop = asyncio.get_running_loop()
        try:
            if not self._plugged:
                raise ConnectionRefusedError
            _, far = await loop.create_connection(lambda: _End(self, "down"), "127.0.0.1", self._server_port)
        except OSError:
            near.reset()
            return
        if near.is_gone or not self._plugged:
            near.reset()
            far.reset()
        else:
            near.join(far)
            far.join(near)

    def _plug(self) -> None:
        self._plugged = True
        self.held.clear()
        for end in self.ends:
            end.hold(held=False)

    def _unplug(self) -> None:
        self._plugged = False
        self._cut()

    def _cut(self) -> None:
        for end in list(self.ends):
            end.reset()

    def _hold(self, way: Way) -> None:
        self.held.add(way)
        for end in self.ends:
            end.hold(held=end.way in self.held)


if __name__ == "__main__":
    asyncio.run(_Relay(int(sys.argv[1])).run())

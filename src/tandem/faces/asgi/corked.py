"""An answer's head and body in one write: each write to a socket costs as much as parsing the request."""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

_HEAD = b"HTTP/1.1 "
_INTERIM = b"HTTP/1.1 1"


class CorkedProtocol(HttpToolsProtocol):
    """uvicorn's protocol on a transport that holds a head back until its body comes, or the loop turns."""

    def connection_made(self, transport: asyncio.Transport) -> None:
        """Wrap the transport."""
        super().connection_made(transport)
        self.transport = _Corked(transport, self.loop)


class _Corked(asyncio.Transport):
    """As much of a transport as uvicorn's protocol uses."""

    __slots__ = ("_held", "_loop", "_transport")

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__()
        self._transport = transport
        self._loop = loop
        self._held = b""

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self._held:
            held, self._held = self._held, b""
            self._transport.write(held + data)
        elif isinstance(data, bytes) and data.startswith(_HEAD) and not data.startswith(_INTERIM):
            self._held = data
            # A stream that begins long before its first event shows that it lives by its head alone.
            self._loop.call_soon(self._flush)
        else:
            self._transport.write(data)

    def close(self) -> None:
        self._flush()
        self._transport.close()

    def write_eof(self) -> None:
        self._flush()
        self._transport.write_eof()

    def abort(self) -> None:
        self._held = b""
        self._transport.abort()

    def is_closing(self) -> bool:
        return self._transport.is_closing()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._transport.get_extra_info(name, default)

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._transport.set_protocol(protocol)

    def _flush(self) -> None:
        if self._held:
            held, self._held = self._held, b""
            self._transport.write(held)

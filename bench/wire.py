"""A cheap HTTP/1.1 client: one kept connection, requests as bytes, MCP and JSON calls on top."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Self

import orjson

SESSION_ERA = "2025-06-18"
MODERN = "2026-07-28"
HOST = "127.0.0.1"
_DATA = b"data: "
_LIMIT_BYTES = 32 * 1024 * 1024
_OK = b"200"


class CallFailed(Exception):
    """The server did not answer as a benchmark needs it to."""


@dataclass(slots=True)
class Connection:
    """One connection; one request at a time.

    Attributes:
        reader: What the server says.
        writer: Takes the requests.
    """

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    @classmethod
    async def open(cls, port: int) -> Self:
        """Connect to a server on this machine."""
        return cls(*await asyncio.open_connection(HOST, port, limit=_LIMIT_BYTES))

    async def ask(self, request: bytes) -> bytes:
        """Send a request; its answer's body.

        Raises:
            CallFailed: The status is not 200.
        """
        self.writer.write(request)
        return await self.answer()

    async def answer(self) -> bytes:
        """The next answer's body; pings of an event stream are passed over by its reader."""
        head = await self.reader.readuntil(b"\r\n\r\n")
        lower = head.lower()
        if b"transfer-encoding: chunked" in lower:
            body = await self._chunks()
        else:
            start = lower.index(b"content-length:") + len(b"content-length:")
            body = await self.reader.readexactly(int(lower[start : lower.index(b"\r\n", start)]))
        if head[9:12] != _OK:
            raise CallFailed(f"{head[:40]!r}: {body[:500]!r}")
        return body

    async def _chunks(self) -> bytes:
        parts: list[bytes] = []
        while size := int(await self.reader.readuntil(b"\r\n"), 16):
            parts.append((await self.reader.readexactly(size + 2))[:-2])
        await self.reader.readexactly(2)
        return b"".join(parts)

    def abort(self) -> None:
        """Vanish, as a killed client does."""
        self.writer.transport.abort()

    async def close(self) -> None:
        """Hang up in order."""
        self.writer.close()
        await self.writer.wait_closed()


def http_request(method: str, path: str, body: bytes = b"", headers: str = "") -> bytes:
    """A whole request as bytes; `headers` are lines that end with CRLF."""
    content = f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n" if method == "POST" else ""
    return f"{method} {path} HTTP/1.1\r\nHost: {HOST}\r\n{content}{headers}\r\n".encode() + body


HEALTH = http_request("GET", "/healthz")


def tool_call(revision: str, name: str, arguments: dict[str, Any], *, path: str = "/mcp") -> bytes:
    """A `tools/call` as a client of that revision sends it."""
    params: dict[str, Any] = {"name": name, "arguments": arguments}
    headers = f"Accept: application/json, text/event-stream\r\nMCP-Protocol-Version: {revision}\r\n"
    if revision == MODERN:
        headers += f"Mcp-Method: tools/call\r\nMcp-Name: {name}\r\n"
        params["_meta"] = {
            "io.modelcontextprotocol/protocolVersion": MODERN,
            "io.modelcontextprotocol/clientCapabilities": {},
            "io.modelcontextprotocol/clientInfo": {"name": "bench", "version": "1"},
        }
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    return http_request("POST", path, orjson.dumps(message), headers)


def tool_answer(body: bytes) -> dict[str, Any]:
    """The data of a tool call's answer, plain JSON or event stream.

    Raises:
        CallFailed: The call was refused.
    """
    if not body.startswith(b"{"):
        start = body.index(_DATA) + len(_DATA)
        body = body[start : body.index(b"\r\n", start)]
    envelope = orjson.loads(body)["result"]["structuredContent"]
    if not envelope["ok"]:
        raise CallFailed(str(envelope["error"]))
    return envelope["data"]


def initialize_message() -> dict[str, Any]:
    """The first message of a client of the session-based era."""
    params = {"protocolVersion": SESSION_ERA, "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"}}
    return {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}


@dataclass(slots=True)
class Agent:
    """Calls tools over one connection.

    Attributes:
        connection: Its connection.
        revision: The protocol revision that it speaks.
    """

    connection: Connection
    revision: str = MODERN

    @classmethod
    async def connect(cls, port: int, revision: str = MODERN) -> Self:
        """Connect, and begin as a client of that revision does."""
        agent = cls(await Connection.open(port), revision)
        if revision != MODERN:
            headers = "Accept: application/json, text/event-stream\r\n"
            await agent.connection.ask(http_request("POST", "/mcp", orjson.dumps(initialize_message()), headers))
        return agent

    async def call(self, name: str, **arguments: Any) -> dict[str, Any]:
        """Call a tool; the answer's data.

        Raises:
            CallFailed: It was refused.
        """
        return tool_answer(await self.connection.ask(tool_call(self.revision, name, arguments)))

    def begin(self, name: str, **arguments: Any) -> None:
        """Send a call whose answer `end` takes later."""
        self.connection.writer.write(tool_call(self.revision, name, arguments))

    async def end(self) -> dict[str, Any]:
        """The answer to the call that was begun."""
        return tool_answer(await self.connection.answer())


async def timed(work: Callable[[], Awaitable[object]]) -> float:
    """How long one piece of work takes, in milliseconds."""
    started = time.perf_counter()
    await work()
    return (time.perf_counter() - started) * 1000


async def health(port: int) -> dict[str, Any]:
    """The facts of `/healthz`."""
    connection = await Connection.open(port)
    try:
        return orjson.loads(await connection.ask(HEALTH))["data"]
    finally:
        await connection.close()


async def api_call(port: int, operation: str, **arguments: Any) -> dict[str, Any]:
    """Call an operation on the JSON API, over a connection of its own; the answer's data."""
    connection = await Connection.open(port)
    try:
        body = await connection.ask(http_request("POST", f"/api/v1/{operation}", orjson.dumps(arguments)))
        return orjson.loads(body)["data"]
    finally:
        await connection.close()

"""Waits as cheap as a socket each, so that a test can have hundreds of them."""

from __future__ import annotations

import asyncio
from typing import Any, Self

import orjson

from tests.broker import BrokerProcess

BACKLOG = 60
"""Seconds that any answer may take before a test gives up."""


class Waiter:
    """One call on a connection of its own: `async with Waiter(…) as waiter: … await waiter.answer()`."""

    def __init__(self, broker: BrokerProcess, operation: str, **arguments: Any) -> None:
        self._port = broker.port
        body = orjson.dumps(arguments)
        head = (
            f"POST /api/v1/{operation} HTTP/1.1\r\nHost: 127.0.0.1:{broker.port}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        self._request = head.encode() + body

    async def __aenter__(self) -> Self:
        self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self._port)
        self._writer.write(self._request)
        await self._writer.drain()
        return self

    async def __aexit__(self, *_: object) -> None:
        self._writer.close()

    async def answer(self) -> dict[str, Any]:
        """The data of the answer, which must be a success.

        Raises:
            EOFError: The broker went away without an answer.
        """
        async with asyncio.timeout(BACKLOG):
            head = await self._reader.readuntil(b"\r\n\r\n")
            fields = dict(line.split(b": ", 1) for line in head.lower().split(b"\r\n")[1:] if line)
            envelope = orjson.loads(await self._reader.readexactly(int(fields[b"content-length"])))
        assert envelope["ok"], envelope
        return envelope["data"]


async def until_waiting(broker: BrokerProcess, count: int) -> None:
    """Return once exactly so many waits are parked in the broker.

    Asked over and over, as nothing tells; each question is a full round through the broker.
    """
    async with asyncio.timeout(BACKLOG):
        while (await asyncio.to_thread(broker.health))["waiting"] != count:
            pass

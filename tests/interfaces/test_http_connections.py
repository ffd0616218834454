"""A client that leaves a request half-sent, or sends too much, does not keep others out."""

from __future__ import annotations

import asyncio
import json
import logging
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import httpx
import pytest

from tandem.core.clock import Clock
from tandem.server.app import Application
from tandem.server.asgi.connections import Connections
from tandem.server.http.health import BrokerPhase, Health
from tests.interfaces.serving import running
from tests.interfaces.toys import Toys, dispatcher

pytestmark = pytest.mark.anyio
HALF = b"POST /api/v1/echo HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
LIMIT = 8
HELD = 100_000
Address = tuple[str, int]
Peer = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@pytest.fixture
async def address() -> AsyncGenerator[Address]:
    """A server that is soon out of connections."""
    async with serving(60) as found:
        yield found


@pytest.fixture
async def hasty() -> AsyncGenerator[Address]:
    """A server that is soon out of patience, too: only for requests that are late on purpose."""
    async with serving(0.5) as found:
        yield found


@asynccontextmanager
async def serving(patience_seconds: float, held: int = HELD) -> AsyncGenerator[Address]:
    health = Health(lambda: {"version": "1"}, BrokerPhase.READY)
    app = Application(dispatcher(Toys()), version="1", clock=Clock(), health=health)
    limits = Connections(LIMIT)
    limits.head_seconds = limits.body_seconds = limits.take_seconds = patience_seconds
    limits.held_bytes = held
    async with asyncio.timeout(60), running(app, limits) as found:
        yield found


async def sent(address: Address, data: bytes) -> Peer:
    reader, writer = await asyncio.open_connection(*address)
    writer.write(data)
    return reader, writer


async def asked_for_ever(peer: socket.socket, request: bytes) -> None:
    while True:
        await asyncio.get_running_loop().sock_sendall(peer, request)


async def answered(peer: Peer) -> tuple[int, str]:
    """The status and code of the only answer; the server hangs up after it."""
    head, _, body = (await peer[0].read()).partition(b"\r\n\r\n")
    peer[1].close()
    return int(head.split()[1]), json.loads(body)["error"]["code"]


async def echoes(address: Address) -> bool:
    async with httpx.AsyncClient(trust_env=False) as client:
        answer = await client.post(f"http://{address[0]}:{address[1]}/api/v1/echo", json={"text": "x"})
    return answer.json()["data"]["text"] == "x"


HALVES = HALF, HALF[:10], HALF + b"Content-Length: 9\r\n\r\n{", HALF + b"Transfer-Encoding: chunked\r\n\r\n1\r\n"


async def test_a_request_that_is_not_sent_whole_in_time_is_refused(hasty: Address):
    peers = [await sent(hasty, half) for half in HALVES]
    assert [await answered(peer) for peer in peers] == [(408, "TIMEOUT")] * len(HALVES)


async def test_a_connection_on_which_nothing_is_sent_is_closed(hasty: Address):
    reader, writer = await sent(hasty, b"")
    with pytest.raises((asyncio.IncompleteReadError, ConnectionResetError)):
        await reader.readexactly(1)
    writer.close()


async def test_a_wait_outlasts_the_time_for_requests(hasty: Address):
    """Limits are for what a client has not sent yet; it may wait for its answer, and between two requests."""
    reader, writer = await sent(hasty, HALF + b"Content-Length: 2\r\n\r\n{}")
    assert b"400" in await reader.readline()
    length = 0
    while (line := await reader.readline()) != b"\r\n":
        length = int(line.split()[1]) if line.startswith(b"content-length") else length
    await reader.readexactly(length)
    slow = await sent(hasty, HALF)
    assert await answered(slow) == (408, "TIMEOUT")  # by now the first would have been closed, too
    writer.write(HALF + b"Content-Length: 2\r\n\r\n{}")
    assert b"400" in await reader.readline()
    writer.close()


@pytest.mark.parametrize(
    "head",
    [
        b"GET /" + b"x" * 40_000,
        b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"y" * 40_000,
        b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"y" * 40_000 + b"\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\n" + b"x: y\r\n" * 101 + b"\r\n",
    ],
)
async def test_a_head_over_a_limit_is_refused(address: Address, head: bytes):
    assert await answered(await sent(address, head)) == (431, "TOO_LARGE")


async def test_what_is_no_http_is_refused_with_an_envelope(address: Address):
    assert await answered(await sent(address, b"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n")) == (400, "INVALID_INPUT")


async def test_whoever_sends_whole_requests_gets_in_beside_any_number_of_half_sent_ones(address: Address):
    peers = [await sent(address, HALF) for _ in range(3 * LIMIT)]
    assert await echoes(address)
    for _, writer in peers:
        writer.close()


async def test_a_new_client_takes_the_place_of_an_idle_one_and_of_the_longest_wait(address: Address):
    waiting = HALF.replace(b"echo", b"wait") + b"Content-Length: 2\r\n\r\n{}"
    peers = [await sent(address, waiting) for _ in range(3 * LIMIT)]
    assert await echoes(address)
    assert await peers[0][0].read() == b""
    for _, writer in peers:
        writer.close()


async def test_half_sent_bodies_are_held_up_to_a_limit_in_all(address: Address):
    part = HALF + b"Connection: close\r\nContent-Length: 90000\r\n\r\n" + b"x" * 60_000
    first = await sent(address, part)
    second = await sent(address, part)
    assert await first[0].read() == b""
    second[1].write(b"x" * 30_000)
    assert await answered(second) == (400, "INVALID_INPUT")
    first[1].close()


@pytest.mark.parametrize(("seconds", "held"), [(0.5, 10**9), (60, HELD)])
async def test_p12_a_client_that_does_not_read_its_answers_is_let_go(seconds: float, held: int):
    body = json.dumps({"text": "x" * 60_000}).encode()
    async with serving(seconds, held) as address:
        loop, peer = asyncio.get_running_loop(), socket.socket()
        with peer:
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            peer.setblocking(False)
            await loop.sock_connect(peer, address)
            with pytest.raises(ConnectionError):
                await asked_for_ever(peer, HALF + b"Content-Length: %d\r\n\r\n" % len(body) + body)
        assert await echoes(address)


async def test_a_refused_upgrade_or_garbage_writes_nothing_to_the_log(
    address: Address, caplog: pytest.LogCaptureFixture
):
    upgrade = b"GET /events HTTP/1.1\r\nHost: localhost\r\nOrigin: https://evil.example\r\nConnection: Upgrade\r\n"
    upgrade += b"Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: x3JJHMbDL1EzLkh9GBhXDw==\r\n\r\n"
    with caplog.at_level(logging.WARNING):
        assert await answered(await sent(address, upgrade)) == (403, "FORBIDDEN")
        assert await answered(await sent(address, b"nonsense\r\n\r\n")) == (400, "INVALID_INPUT")
    assert [record.message for record in caplog.records if record.levelno >= logging.WARNING] == []

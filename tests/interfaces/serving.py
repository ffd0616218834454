"""A real server on a real socket, in the test's own event loop."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import orjson
import uvicorn

from tandem.app import Broker
from tandem.core.clock import Clock
from tandem.server.app import Application
from tandem.server.asgi.connections import BrokerProtocol, Connections
from tandem.server.http.health import BrokerPhase, Health
from tandem.settings.config import load_settings
from tests.interfaces.toys import Toys, dispatcher

HANDSHAKE = "2025-06-18"
MODERN = "2026-07-28"
VERSION = "1.2.3"


class _Server(uvicorn.Server):
    """A server that leaves the signals to the test runner."""

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None]:
        yield


@dataclass
class Reached:
    """A running application, as its clients see it."""

    http: httpx.AsyncClient
    host: str
    port: int
    fast_path: bool

    @property
    def url(self) -> str:
        return f"http://{self.host}:{self.port}"


@dataclass
class Served(Reached):
    """The toys behind a running application, and what the tests hold of them."""

    toys: Toys
    health: Health


@asynccontextmanager
async def serving(*, fast_path: bool = True, **settings: Any) -> AsyncGenerator[Served]:
    """The toys behind the broker's application."""
    toys = Toys()
    health = Health(lambda: {"version": VERSION, "pid": 4711}, BrokerPhase.READY)
    told: dict[str, Any] = {"clock": Clock(), "health": health}
    app = Application(dispatcher(toys), version=VERSION, fast_path=fast_path, **told, **settings)
    async with reaching(app) as (http, host, port):
        yield Served(http, host, port, fast_path, toys, health)
        toys.release.set()


@asynccontextmanager
async def broker_serving(data_dir: Path, *, fast_path: bool = True, **settings: Any) -> AsyncGenerator[Reached]:
    """The real broker, with a data folder of its own."""
    broker = Broker(load_settings({"data_dir": data_dir, "fast_path": fast_path, **settings}).settings)
    async with broker.running(), reaching(broker.application) as (http, host, port):
        yield Reached(http, host, port, fast_path)
        await broker.drain()


@asynccontextmanager
async def reaching(app: Any) -> AsyncGenerator[tuple[httpx.AsyncClient, str, int]]:
    """Serve an ASGI application; gives a client of it, and its address."""
    async with running(app) as (host, port), httpx.AsyncClient(base_url=f"http://{host}:{port}", timeout=60) as http:
        yield http, host, port


@asynccontextmanager
async def running(app: Any, connections: Connections | None = None) -> AsyncGenerator[tuple[str, int]]:
    """Serve an ASGI application as the broker does; gives its address."""
    listener = socket.create_server(("127.0.0.1", 0))
    protocol: Any = partial(BrokerProtocol, connections or Connections(1000))
    config = uvicorn.Config(app, http=protocol, ws="none", lifespan="on", access_log=False, log_config=None)
    server = _Server(config)
    task = asyncio.create_task(server.serve([listener]))
    while not server.started:
        if task.done():
            await task
        await asyncio.sleep(0)
    try:
        yield listener.getsockname()[:2]
    finally:
        server.should_exit = True
        await task
        listener.close()


def mcp_headers(revision: str | None, method: str, name: str | None = None, **more: str) -> dict[str, str]:
    """The headers that a client of that revision sends."""
    headers = {"accept": "application/json, text/event-stream", "content-type": "application/json"}
    if revision is not None:
        headers["mcp-protocol-version"] = revision
    if revision == MODERN:
        headers["mcp-method"] = method
        if name is not None:
            headers["mcp-name"] = name
    return headers | more


def mcp_message(revision: str | None, method: str, params: dict[str, Any], request_id: Any = 1) -> dict[str, Any]:
    """A JSON-RPC request of that revision."""
    if revision == MODERN:
        meta: dict[str, Any] = {
            "io.modelcontextprotocol/protocolVersion": MODERN,
            "io.modelcontextprotocol/clientCapabilities": {"roots": {"listChanged": True}, "elicitation": {}},
            "io.modelcontextprotocol/clientInfo": {"name": "toy-client", "version": "0.1"},
        }
        params = {"_meta": meta, **params}
    return {"jsonrpc": "2.0", "id": request_id, "method": method, "params": params}


async def call_tool(
    served: Reached, revision: str | None, name: str, arguments: dict[str, Any] | None = None, **more: Any
) -> httpx.Response:
    """Call a tool by hand-written HTTP; `more` is for `ask`."""
    return await ask(served, revision, "tools/call", {"name": name, "arguments": arguments or {}}, **more)


async def ask(
    served: Reached,
    revision: str | None,
    method: str,
    params: dict[str, Any] | None = None,
    *,
    path: str = "/mcp",
    request_id: Any = 1,
    **headers: str,
) -> httpx.Response:
    """Send one request by hand-written HTTP."""
    message = mcp_message(revision, method, params or {}, request_id)
    sent = mcp_headers(revision, method, (params or {}).get("name"), **headers)
    return await served.http.post(path, content=orjson.dumps(message), headers=sent)


async def post_alone(served: Reached, path: str, body: bytes, headers: dict[str, str]) -> asyncio.StreamWriter:
    """Send a request on a connection of its own, without waiting for the answer."""
    _, writer = await asyncio.open_connection(served.host, served.port)
    lines = [f"POST {path} HTTP/1.1", f"Host: {served.host}:{served.port}", f"Content-Length: {len(body)}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    writer.write("\r\n".join([*lines, "", ""]).encode() + body)
    await writer.drain()
    return writer


def answer_of(response: httpx.Response) -> dict[str, Any]:
    """The one JSON-RPC message of an answer, be it JSON or an event stream."""
    if response.headers["content-type"].startswith("text/event-stream"):
        lines = [line for line in response.text.split("\r\n") if line.startswith("data: ")]
        assert len(lines) == 1
        return orjson.loads(lines[0].removeprefix("data: "))
    return response.json()


def envelope_of(response: httpx.Response) -> dict[str, Any]:
    """The envelope of a tool call's answer."""
    return answer_of(response)["result"]["structuredContent"]

"""The port answers before the SDK is there, and stopping is clean at any moment."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import httpx
import pytest

from tests.interfaces.serving import HANDSHAKE, MODERN, Reached, call_tool, envelope_of

pytestmark = pytest.mark.anyio

_ROOT = Path(__file__).parents[2]
# In a process of its own: in this one, other tests may have imported the SDK already.
_SERVER = """
import asyncio, socket, sys
from tests.interfaces.serving import running
from tests.interfaces.toys import Toys, dispatcher
from tandem.core.clock import Clock
from tandem.server.app import Application
from tandem.server.http.health import Health, BrokerPhase

async def main():
    health = Health(lambda: {"sdk": "mcp" in sys.modules}, BrokerPhase.READY)
    app = Application(dispatcher(Toys()), clock=Clock(), health=health, version="1")
    print("mcp" in sys.modules, flush=True)
    async with running(app) as (host, port):
        print(port, flush=True)
        await asyncio.to_thread(sys.stdin.read)

asyncio.run(main())
"""


async def test_calls_of_either_era_are_answered_from_the_first_moment():
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        _SERVER,
        cwd=_ROOT,
        env={**os.environ, "PYTHONPATH": str(_ROOT)},
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    assert process.stdin is not None
    async with asyncio.timeout(60):
        assert (await process.stdout.readline()).strip() == b"False"
        port = int(await process.stdout.readline())
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=60) as http:
            served = Reached(http, "127.0.0.1", port, fast_path=True)
            older, newest, api = await asyncio.gather(
                call_tool(served, HANDSHAKE, "echo", {"text": "older"}),
                call_tool(served, MODERN, "echo", {"text": "newest"}),
                http.post("/api/v1/echo", json={"text": "api"}),
            )
        process.stdin.close()
        assert await process.wait() == 0
    assert envelope_of(older)["data"]["text"] == "older"
    assert envelope_of(newest)["data"]["text"] == "newest"
    assert api.json()["data"]["text"] == "api"

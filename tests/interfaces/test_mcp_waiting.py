"""Calls that take their time: kept alive, answered late, and cancelled when no one waits any more."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

import orjson
import pytest
from sse_starlette import EventSourceResponse

from tests.interfaces.serving import HANDSHAKE, MODERN, Served, call_tool, mcp_headers, mcp_message, post_alone, serving

pytestmark = pytest.mark.anyio
PING_SECONDS = 0.05
LIMIT_SECONDS = 60


@pytest.fixture(params=[True, False], ids=["fast", "sdk"])
async def served(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> AsyncGenerator[Served]:
    # The SDK has no setting for its 15 seconds; both paths are made to ping as often.
    monkeypatch.setattr("mcp.server._streamable_http_modern._SSE_PING_INTERVAL", PING_SECONDS)
    monkeypatch.setattr(EventSourceResponse, "DEFAULT_PING_INTERVAL", PING_SECONDS)
    monkeypatch.setattr("tandem.server.mcp.fastpath.PING_SECONDS", PING_SECONDS)
    async with serving(fast_path=request.param) as served:
        await call_tool(served, MODERN, "echo", {"text": "first"})
        yield served


@pytest.mark.parametrize("revision", [HANDSHAKE, MODERN])
async def test_a_vanished_clients_call_is_cancelled(served: Served, revision: str):
    body = orjson.dumps(mcp_message(revision, "tools/call", {"name": "wait"}))
    writer = await post_alone(served, "/mcp", body, mcp_headers(revision, "tools/call", "wait"))
    async with asyncio.timeout(LIMIT_SECONDS):
        await served.toys.waiting.wait()
        writer.transport.abort()
        await served.toys.cancelled.wait()
    assert served.toys.parked == 0
    still_served = await call_tool(served, revision, "echo", {"text": "x"})
    assert still_served.status_code == 200


@pytest.mark.parametrize("revision", [HANDSHAKE, MODERN])
async def test_a_silent_call_is_kept_alive_and_then_answered(served: Served, revision: str):
    body = orjson.dumps(mcp_message(revision, "tools/call", {"name": "wait"}))
    headers = mcp_headers(revision, "tools/call", "wait")
    text = ""
    async with (
        asyncio.timeout(LIMIT_SECONDS),
        served.http.stream("POST", "/mcp", content=body, headers=headers) as response,
    ):
        assert response.headers["content-type"] == "text/event-stream"
        async for part in response.aiter_text():
            text += part
            if text.count(": ping") >= 3:
                served.toys.release.set()
    pings, _, answer = text.partition("event: message\r\ndata: ")
    assert all(line.startswith(": ping") for line in pings.split("\r\n") if line)
    assert answer.endswith("\r\n\r\n")
    assert orjson.loads(answer)["result"]["structuredContent"] == {"ok": True, "data": {"released": True}}


async def test_an_older_revisions_headers_come_before_the_answer(served: Served):
    body = orjson.dumps(mcp_message(HANDSHAKE, "tools/call", {"name": "wait"}))
    headers = mcp_headers(HANDSHAKE, "tools/call", "wait")
    async with (
        asyncio.timeout(LIMIT_SECONDS),
        served.http.stream("POST", "/mcp", content=body, headers=headers) as response,
    ):
        assert response.status_code == 200
        assert served.toys.parked == 1


async def test_cancelling_an_ended_or_foreign_call_is_accepted_and_changes_nothing(served: Served):
    body = orjson.dumps(mcp_message(HANDSHAKE, "tools/call", {"name": "wait"}, request_id=5))
    writer = await post_alone(served, "/mcp", body, mcp_headers(HANDSHAKE, "tools/call", "wait"))
    cancelled = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 5}}
    async with asyncio.timeout(LIMIT_SECONDS):
        await served.toys.waiting.wait()
        response = await served.http.post(
            "/mcp", json=cancelled, headers=mcp_headers(HANDSHAKE, "notifications/cancelled")
        )
    assert response.status_code == 202
    assert served.toys.parked == 1
    writer.close()

"""What every route refuses before anything is run."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

import httpx
import pytest

from tandem.server.http.health import BrokerPhase
from tests.interfaces.serving import HANDSHAKE, Served, call_tool, mcp_headers, serving

pytestmark = pytest.mark.anyio
LIMIT = 10_000
ROUTES = [
    ("GET", "/healthz"),
    ("GET", "/api/v1/openapi.json"),
    ("POST", "/api/v1/echo"),
    ("POST", "/mcp"),
    ("POST", "/mcp/reviewer"),
    ("GET", "/nothing"),
]
JSON = {"content-type": "application/json"}


@pytest.fixture(scope="module")
async def served() -> AsyncGenerator[Served]:
    hosts = ["broker.internal", "only.this:8321", "fd00::1"]
    async with serving(body_limit_bytes=LIMIT, allowed_hosts=hosts) as served:
        yield served


async def _code(response: httpx.Response) -> str:
    return response.json()["error"]["code"]


HOSTS = (
    "evil.example.com",
    "evil.example.com:8321",
    "127.0.0.1.evil.com",
    "localhost.",
    "localhost:80x",
    "",
    "[::1",
    "@",
)
ORIGINS = "https://evil.example.com", "null", "http://127.0.0.1.evil.com", "file://", "127.0.0.1", ""


@pytest.mark.parametrize(("method", "path"), ROUTES)
async def test_a_foreign_host_or_origin_is_refused_on_every_route(served: Served, method: str, path: str):
    foreign = [{"host": one} for one in HOSTS] + [{"origin": one} for one in ORIGINS]
    for headers in foreign:
        response = await served.http.request(method, path, headers={**headers, **JSON}, content=b"{}")
        assert (response.status_code, await _code(response)) == (403, "FORBIDDEN"), headers


@pytest.mark.parametrize(
    "host",
    ["127.0.0.1", "localhost:1", "LOCALHOST", "[::1]:8321", "broker.internal", "broker.internal:9", "only.this:8321",
     "[fd00::1]:80"],
)  # fmt: skip
async def test_our_own_names_are_answered(served: Served, host: str):
    response = await served.http.get("/healthz", headers={"host": host, "origin": f"http://{host}"})
    assert response.status_code == 200


async def test_a_name_allowed_with_a_port_is_allowed_with_that_port_only(served: Served):
    response = await served.http.get("/healthz", headers={"host": "only.this:8322"})
    assert response.status_code == 403


async def test_two_hosts_are_a_contradiction(served: Served):
    reader, writer = await asyncio.open_connection(served.host, served.port)
    writer.write(b"GET /healthz HTTP/1.1\r\nHost: evil.example.com\r\nHost: localhost\r\n\r\n")
    assert (await reader.readline()).split()[1] == b"403"
    writer.close()


@pytest.mark.parametrize("path", ["/api/v1/echo", "/mcp"])
async def test_a_declared_body_over_the_limit_is_refused_unread(served: Served, path: str):
    response = await served.http.post(path, content=b"x" * (LIMIT + 1), headers=JSON)
    assert response.status_code == 413
    error = response.json()["error"]
    assert (error["code"], error["details"]["limit_bytes"]) == ("TOO_LARGE", LIMIT)


@pytest.mark.parametrize("path", ["/api/v1/echo", "/mcp"])
async def test_a_streamed_body_over_the_limit_is_refused(served: Served, path: str):
    async def parts() -> AsyncGenerator[bytes]:
        for _ in range(12):
            yield b" " * 1000

    response = await served.http.post(path, content=parts(), headers=JSON)
    assert (response.status_code, await _code(response)) == (413, "TOO_LARGE")


async def test_a_body_at_the_limit_in_many_parts_is_read_whole(served: Served):
    text = "x" * (LIMIT - 11)

    async def parts() -> AsyncGenerator[bytes]:
        body = b'{"text":"' + text.encode() + b'"}'
        assert len(body) == LIMIT
        for start in range(0, len(body), 999):
            yield body[start : start + 999]

    response = await served.http.post("/api/v1/echo", content=parts(), headers=JSON)
    assert response.json()["data"]["text"] == text


async def test_an_absurd_content_length_is_refused(served: Served):
    reader, writer = await asyncio.open_connection(served.host, served.port)
    writer.write(b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999999999999\r\n\r\n")
    assert (await reader.readline()).split()[1] == b"413"
    writer.close()


async def test_a_refusal_comes_once_the_request_is_there(served: Served):
    # A proxy that sends the body after the head would lose an answer in between.
    served.health.phase = BrokerPhase.DRAINING
    try:
        reader, writer = await asyncio.open_connection(served.host, served.port)
        writer.write(b"POST /api/v1/echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n")
        await writer.drain()
        answer = asyncio.ensure_future(reader.readline())
        assert (await served.http.post("/api/v1/echo", json={})).status_code == 503
        assert not answer.done()
        writer.write(b"{}")
        assert (await answer).split()[1] == b"503"
        writer.close()
    finally:
        served.health.phase = BrokerPhase.READY


async def test_a_client_that_leaves_while_sending_is_forgotten(served: Served):
    _, writer = await asyncio.open_connection(served.host, served.port)
    writer.write(b"POST /api/v1/echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{")
    await writer.drain()
    writer.transport.abort()
    assert (await served.http.get("/healthz")).status_code == 200


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("GET", "/api/v1/echo", "POST"),
        ("DELETE", "/api/v1/echo", "POST"),
        ("OPTIONS", "/api/v1/echo", "POST"),
        ("GET", "/mcp", "POST"),
        ("DELETE", "/mcp/proposer", "POST"),
        ("POST", "/healthz", "GET, HEAD"),
        ("PUT", "/api/v1/openapi.json", "GET, HEAD"),
    ],
)
async def test_a_wrong_method_says_the_right_one(served: Served, method: str, path: str, allowed: str):
    response = await served.http.request(method, path)
    assert (response.status_code, response.headers["allow"]) == (405, allowed)
    assert response.json()["ok"] is False


@pytest.mark.parametrize("path", ["/nothing", "/mcp/admin", "/api/v2/echo", "/api/v1/", "/api/v1/none", "//mcp"])
async def test_an_unknown_route_is_not_found(served: Served, path: str):
    response = await served.http.post(httpx.URL(served.url).copy_with(raw_path=path.encode()), json={})
    assert (response.status_code, await _code(response)) == (404, "NOT_FOUND")


async def test_a_trailing_slash_is_forgiven(served: Served):
    assert (await call_tool(served, HANDSHAKE, "echo", {"text": "x"}, path="/mcp/reviewer/")).status_code == 200


@pytest.mark.parametrize("path", ["/api/v1/echo", "/mcp"])
@pytest.mark.parametrize(
    ("query", "agent"), [("?project=%ff", b"a"), ("?project=" + "x" * 201, b"a"), ("", b"\xff"), ("", b"x" * 201)]
)
async def test_a_name_that_cannot_be_used_is_refused(served: Served, path: str, query: str, agent: bytes):
    headers = [(name.encode(), value.encode()) for name, value in mcp_headers(None, "tools/call").items()]
    response = await served.http.post(path + query, headers=[*headers, (b"tandem-agent", agent)], content=b"{}")
    assert (response.status_code, await _code(response)) == (400, "INVALID_INPUT")


@pytest.mark.parametrize("phase", [BrokerPhase.STARTING, BrokerPhase.DRAINING])
async def test_a_broker_that_is_not_ready_begins_nothing(phase: BrokerPhase):
    async with serving() as served:
        served.health.phase = phase
        health = await served.http.get("/healthz")
        call = await served.http.post("/api/v1/echo", json={"text": "x"})
        tool = await call_tool(served, HANDSHAKE, "echo", {"text": "x"})
        served.health.phase = BrokerPhase.READY
    assert health.json()["error"]["details"] == {"phase": phase, "version": "1.2.3", "pid": 4711}
    for response in (health, call, tool):
        assert response.status_code == 503
        assert response.headers["retry-after"] == "1"
        assert response.json()["error"]["code"] == "UNAVAILABLE"
        assert response.json()["error"]["retryable"] is True

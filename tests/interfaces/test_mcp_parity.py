"""The fast path answers as the SDK does, to well-formed calls and to everything else."""

from __future__ import annotations

import asyncio
import itertools
import json  # writes integers that orjson does not
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any, cast

import httpx
import orjson
import pytest

from tandem.bridge.http import HttpClient
from tandem.bridge.location import Target
from tests.acceptance.tables import table
from tests.interfaces.serving import HANDSHAKE, MODERN, Served, answer_of, call_tool, mcp_headers, mcp_message, serving

pytestmark = pytest.mark.anyio

ECHO: dict[str, Any] = {"name": "echo", "arguments": {"text": "x"}}
META = mcp_message(MODERN, "tools/call", {})["params"]["_meta"]
BOTH = [HANDSHAKE, MODERN]
REVISIONS = [None, "2024-11-05", "2025-03-26", HANDSHAKE, "2025-11-25", MODERN]
VARIATIONS: dict[str, list[Any]] = table("mcp_variations", Path(__file__).parent)
"""Variations of a call; an envelope is of the newest revision only."""


@pytest.fixture(scope="module")
async def pair() -> AsyncGenerator[tuple[Served, Served]]:
    async with serving(fast_path=True) as fast, serving(fast_path=False) as sdk:
        for served in (fast, sdk):
            await call_tool(served, MODERN, "echo", {"text": "first"})
        yield fast, sdk


async def _same(
    pair: tuple[Served, Served], body: bytes, headers: dict[str, str], path: str = "/mcp"
) -> httpx.Response:
    """Both answers, compared; gives the fast path's."""
    fast, sdk = [await served.http.post(path, content=body, headers=headers) for served in pair]
    assert fast.status_code == sdk.status_code, (fast.text, sdk.text)
    assert _headers(fast) == _headers(sdk)
    if fast.content and "content-type" in fast.headers:
        assert answer_of(fast) == answer_of(sdk)
    else:
        assert fast.text == sdk.text
    return fast


def _headers(response: httpx.Response) -> dict[str, str]:
    return {name: value for name, value in response.headers.items() if name not in {"content-length", "date"}}


def varied(kind: str, value: Any, revision: str | None) -> tuple[bytes, dict[str, str]]:
    """A call of `echo` that is not as usual in one thing: its body and its headers."""
    params: dict[str, Any] = ECHO
    match kind:
        case "parameters":
            params = value
        case "names":
            params = {"name": value, "arguments": {"role": "codex"}}
        case "metadata" | "envelope" if revision == MODERN and isinstance(value, dict):
            params = ECHO | {"_meta": META | cast("dict[str, Any]", value)}
        case "metadata":
            params = ECHO | {"_meta": value}
        case _:
            pass
    message: dict[str, Any] = mcp_message(revision, "tools/call", params) | (value if kind == "message" else {})
    name = params.get("name")
    headers = mcp_headers(revision, "tools/call", name if isinstance(name, str) else None)
    return json.dumps(message).encode(), headers | (value if kind == "headers" else {})


@pytest.mark.parametrize(
    ("kind", "revision"),
    [
        *itertools.product(["parameters"], REVISIONS),
        *itertools.product(sorted(VARIATIONS.keys() - {"envelope", "parameters"}), [None, *BOTH]),
        ("envelope", MODERN),
    ],
)
async def test_an_unusual_call_is_answered_as_by_the_sdk(pair: tuple[Served, Served], kind: str, revision: str | None):
    for value in VARIATIONS[kind]:
        for path in ["/mcp", "/mcp/proposer", "/mcp/handoff"] if kind == "names" else ["/mcp"]:
            await _same(pair, *varied(kind, value, revision), path)


@pytest.mark.parametrize("revision", BOTH)
async def test_a_notification_and_a_batch(pair: tuple[Served, Served], revision: str):
    headers = mcp_headers(revision, "notifications/cancelled")
    cancelled = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 99}}
    assert (await _same(pair, orjson.dumps(cancelled), headers)).status_code == 202
    batch = [mcp_message(revision, "tools/call", ECHO)]
    assert (await _same(pair, orjson.dumps(batch), mcp_headers(revision, "tools/call", "echo"))).status_code == 400


async def test_blanks_around_the_name_in_a_header_are_no_part_of_it(pair: tuple[Served, Served]):
    body = orjson.dumps(mcp_message(MODERN, "tools/call", ECHO))
    for served in pair:
        # As the client of the tests would not send it.
        sent = HttpClient(Target(str(served.http.base_url)))
        headers = {**mcp_headers(MODERN, "tools/call", "echo"), "mcp-name": "\t echo \t"}
        response = await asyncio.to_thread(sent.request, "POST", "/mcp", body, headers)
        assert (response.status, b'"error"' in response.read()) == (200, False)
        sent.close()


async def test_a_repeated_routing_header_is_a_contradiction(pair: tuple[Served, Served]):
    body = orjson.dumps(mcp_message(MODERN, "tools/call", ECHO))
    headers = [*mcp_headers(MODERN, "tools/call", "echo").items(), ("mcp-name", "refuse")]
    fast, sdk = [await served.http.post("/mcp", content=body, headers=headers) for served in pair]
    assert (fast.status_code, fast.json()) == (sdk.status_code, sdk.json())
    assert fast.status_code == 400


@pytest.mark.parametrize("revision", BOTH)
async def test_p12_a_request_with_an_id_that_is_none_is_answered(pair: tuple[Served, Served], revision: str):
    ids: list[Any] = [1.5, None, True, {}, []]
    for stated in ids:
        body = orjson.dumps(mcp_message(revision, "tools/call", ECHO) | {"id": stated})
        response = await _same(pair, body, mcp_headers(revision, "tools/call", "echo"))
        assert (response.status_code, response.json()["error"]["code"]) == (400, -32600)


@pytest.mark.parametrize("revision", BOTH)
@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"\xff\xfe", b'{"a":"\xc3\x28"}', b'{"x":NaN}', b"[" * 5000 + b"]" * 5000, b'"\\ud800"'],
    ids=["empty", "open", "not UTF-8", "bad sequence", "NaN", "deep", "surrogate"],
)
async def test_what_is_not_json_is_a_parse_error(pair: tuple[Served, Served], revision: str, body: bytes):
    response = await _same(pair, body, mcp_headers(revision, "tools/call", "echo"))
    assert (response.status_code, response.json()["error"]["code"]) == (400, -32700)

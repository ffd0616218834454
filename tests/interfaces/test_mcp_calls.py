"""Tool calls by hand-written JSON-RPC, in both protocol eras, on the fast path and through the SDK."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import orjson
import pytest

from tests.interfaces.serving import HANDSHAKE, MODERN, Served, answer_of, ask, call_tool, envelope_of, serving

pytestmark = pytest.mark.anyio
REVISIONS = [None, "2025-03-26", HANDSHAKE, "2025-11-25", MODERN]


@pytest.fixture(params=[True, False], ids=["fast", "sdk"], scope="module")
async def served(request: pytest.FixtureRequest) -> AsyncGenerator[Served]:
    async with serving(fast_path=request.param) as served:
        # The fast path of 2026-07-28 begins with the SDK's checks: let both be there.
        await call_tool(served, MODERN, "echo", {"text": "first"})
        yield served


@pytest.mark.parametrize("revision", REVISIONS)
async def test_text_and_structured_content_are_the_same_envelope(served: Served, revision: str | None):
    response = await call_tool(served, revision, "echo", {"text": 'hä "\u2028" \U0001f600'})
    result = answer_of(response)["result"]
    assert response.status_code == 200
    assert orjson.loads(result["content"][0]["text"]) == result["structuredContent"]
    assert result["content"][0]["text"] == orjson.dumps(result["structuredContent"]).decode()
    assert result["structuredContent"]["data"]["text"] == 'hä "\u2028" \U0001f600'
    assert result["isError"] is False


async def test_an_unknown_fault_has_a_reference_and_no_inner_text(served: Served):
    response = await call_tool(served, HANDSHAKE, "explode")
    error = envelope_of(response)["error"]
    assert error["code"] == "INTERNAL_ERROR"
    assert error["details"]["reference"] in error["message"]
    assert "secret" not in response.text


@pytest.mark.parametrize("revision", REVISIONS)
@pytest.mark.parametrize(
    ("arguments", "kind"),
    [('{"text": "x"}', "a string"), ([], "an array"), (5, "a number"), (True, "true or false")],
    ids=str,
)
async def test_arguments_that_are_no_object_are_refused_in_words(
    served: Served, revision: str | None, arguments: object, kind: str
):
    response = await ask(served, revision, "tools/call", {"name": "echo", "arguments": arguments})
    usual = await call_tool(served, revision, "echo", {"text": 1})
    result, compared = answer_of(response)["result"], answer_of(usual)["result"]
    assert {**result, "content": 0, "structuredContent": 0} == {**compared, "content": 0, "structuredContent": 0}
    assert orjson.loads(result["content"][0]["text"]) == result["structuredContent"]
    error = result["structuredContent"]["error"]
    assert (error["code"], error["details"]["field"]) == ("INVALID_INPUT", "arguments")
    assert error["message"].startswith(f"The arguments must be a JSON object, not {kind}")
    over_http = await served.http.post("/api/v1/echo", json=arguments)
    assert over_http.json()["error"]["message"] == error["message"]
    unknown = await ask(served, revision, "tools/call", {"name": "nothing", "arguments": arguments})
    assert envelope_of(unknown)["error"]["code"] == "NOT_FOUND"


@pytest.mark.parametrize("name", ["nothing", "administer"])
async def test_an_unknown_tool_and_an_administrators_are_refused_with_what_there_is(served: Served, name: str):
    answer = answer_of(await call_tool(served, MODERN, name))["result"]
    assert answer["isError"] is True
    assert answer["structuredContent"]["error"]["code"] == "NOT_FOUND"
    allowed = answer["structuredContent"]["error"]["details"]["allowed"]
    assert "echo" in allowed
    assert "administer" not in allowed


@pytest.mark.parametrize("revision", [HANDSHAKE, MODERN])
@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/mcp", "no.such"),
        ("/mcp/reviewer", "no.such"),
        ("/mcp/handoff", "no.such"),
        ("/mcp/handoff", "nothing"),
        ("/mcp/handoff", "administer"),
    ],
)
async def test_an_unknown_tool_of_hand_offs_has_a_code_of_its_own(served: Served, revision: str, path: str, name: str):
    answer = answer_of(await call_tool(served, revision, name, path=path))["result"]
    error = answer["structuredContent"]["error"]
    assert answer["isError"] is True
    assert (error["code"], error["details"]["tool"]) == ("INVALID_TOOL", name)
    assert ("session_open" in error["details"]["allowed"]) is (path != "/mcp/reviewer")
    assert ("echo" in error["details"]["allowed"]) is (path != "/mcp/handoff")
    assert "administer" not in error["details"]["allowed"]


@pytest.mark.parametrize("path", ["/mcp", "/mcp/handoff"])
@pytest.mark.parametrize("name", ["session_open", "session.open"])
async def test_a_dotted_name_is_the_same_tool(served: Served, path: str, name: str):
    envelope = envelope_of(await call_tool(served, HANDSHAKE, name, {"role": "codex"}, path=path))
    assert envelope == {"ok": True, "data": {"role": "codex"}}


@pytest.mark.parametrize("revision", [HANDSHAKE, MODERN])
async def test_the_endpoint_gives_role_and_project(served: Served, revision: str):
    response = await call_tool(served, revision, "echo", {"text": "x"}, path="/mcp/reviewer?project=caf%C3%A9")
    data = envelope_of(response)["data"]
    assert (data["role"], data["project"]) == ("reviewer", "café")


async def test_the_agent_is_the_header_before_the_clients_own_name(served: Served):
    unnamed = await call_tool(served, HANDSHAKE, "echo", {"text": "x"})
    by_client = await call_tool(served, MODERN, "echo", {"text": "x"})
    by_header = await call_tool(served, MODERN, "echo", {"text": "x"}, **{"tandem-agent": "planner-7"})
    agents = [envelope_of(response)["data"]["agent"] for response in (unnamed, by_client, by_header)]
    assert agents == [None, "toy-client", "planner-7"]


async def test_the_older_revisions_get_an_event_stream_and_the_newest_gets_json(served: Served):
    older = await call_tool(served, HANDSHAKE, "echo", {"text": "x"})
    newest = await call_tool(served, MODERN, "echo", {"text": "x"})
    assert older.headers["content-type"] == "text/event-stream"
    assert older.headers["x-accel-buffering"] == "no"
    assert newest.headers["content-type"] == "application/json"
    assert answer_of(newest)["result"]["resultType"] == "complete"


async def test_a_stale_session_id_changes_nothing(served: Served):
    response = await call_tool(served, HANDSHAKE, "echo", {"text": "x"}, **{"mcp-session-id": "of-another-broker"})
    assert envelope_of(response)["ok"] is True

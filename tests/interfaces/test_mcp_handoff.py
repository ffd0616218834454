"""Hand-off cycles over MCP, with the real broker behind the real socket, in both eras and on both paths."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable
from pathlib import Path
from typing import Any

import orjson
import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError
from mcp_types import TextResourceContents

from tests.interfaces.serving import (
    HANDSHAKE,
    MODERN,
    Reached,
    answer_of,
    broker_serving,
    call_tool,
)
from tests.relay import relay

pytestmark = pytest.mark.anyio
ERAS = [HANDSHAKE, MODERN]
LIMIT_SECONDS = 60
ENDPOINT = "/mcp/handoff"
TOOLS = [
    *("session_open", "cycle_start", "cycle_status", "lock_acquire"),
    *("handoff_write", "handoff_read", "cycle_complete", "cycle_archive"),
]

Call = Callable[..., Awaitable[dict[str, Any]]]
"""`call(tool, **arguments)` gives the answer's envelope."""


@pytest.fixture(params=[True, False], ids=["fast", "sdk"], scope="module")
async def served(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Reached]:
    data = tmp_path_factory.mktemp("data")
    workflows = {"relay": relay(archiver="planner"), "gated": relay(mode="approval")}
    async with broker_serving(data, fast_path=request.param, workflows=workflows) as served:
        await call_tool(served, MODERN, "cycle_status", path=f"{ENDPOINT}?project=first")
        yield served


@pytest.fixture
def project(request: pytest.FixtureRequest) -> str:
    """A project of the test's own: any name is one."""
    return "".join(letter if letter.isalnum() else "-" for letter in request.node.name)


def _dotted(name: str) -> str:
    return name.replace("_", ".", 1)


async def _keys(served: Reached, project: str, workflow: str = "frontend-backend") -> dict[str, str]:
    made = await served.http.post("/api/v1/cycle.init", json={"project": project, "workflow": workflow})
    return made.json()["data"]["keys"]


def _by_hand(
    served: Reached, revision: str, path: str, spell: Callable[[str], str] = str, agent: str | None = None
) -> Call:
    """Calls in hand-written JSON-RPC; each answer is checked to say the same twice."""
    named = {} if agent is None else {"tandem-agent": agent}

    async def call(tool: str, **arguments: Any) -> dict[str, Any]:
        result = answer_of(await call_tool(served, revision, spell(tool), arguments, path=path, **named))["result"]
        assert orjson.loads(result["content"][0]["text"]) == result["structuredContent"]
        assert result["isError"] is not result["structuredContent"]["ok"]
        return result["structuredContent"]

    return call


async def _done(call: Call, tool: str, **arguments: Any) -> dict[str, Any]:
    envelope = await call(tool, **arguments)
    assert envelope["ok"], envelope
    return envelope["data"]


async def _opened(call: Call, role: str, keys: dict[str, str], workflow: str = "frontend-backend") -> dict[str, str]:
    """What identifies a role's session in later calls."""
    session = await _done(call, "session_open", role=role, psk=keys[role], workflow=workflow)
    return {"session_token": session["session_token"]}


async def _locked(call: Call, session: dict[str, str]) -> dict[str, str]:
    lock = await _done(call, "lock_acquire", **session)
    return {**session, "lock_token": lock["lock_token"]}


def _payload(cycle_id: str, feature: str, producer: str, consumer: str) -> dict[str, Any]:
    others = ("files_modified", "endpoints", "data_shapes", "assumptions", "todos", "notes")
    arrays: dict[str, Any] = {name: [] for name in others}
    texts = {"cycle_id": cycle_id, "feature": feature, "producer": producer, "consumer": consumer}
    return {**texts, **arrays, "files_modified": ["src/hällo.py"], "extras": {"why": f"{producer}'s own"}}


async def _handed(call: Call, session: dict[str, str], producer: str, target: str) -> dict[str, Any]:
    """Take the lock and hand over; what was handed over is then there to be read."""
    status = await _done(call, "cycle_status")
    payload = _payload(status["cycle_id"], status["feature"], producer, target)
    written = await _done(call, "handoff_write", target=target, payload=payload, **await _locked(call, session))
    assert "lock_token" not in written
    assert await _done(call, "handoff_read", target=target) == payload
    return written


async def _play(call: Call, keys: dict[str, str], feature: str) -> tuple[list[str], Path]:
    """The built-in workflow from its first session to its archive; gives the phases on the way and the archive."""
    gemini = await _opened(call, "gemini", keys)
    codex = await _opened(call, "codex", keys)
    started = await _done(call, "cycle_start", feature=feature)
    phases = [started["phase"]]
    phases.append((await _handed(call, gemini, "gemini", "codex"))["phase"])
    phases.append((await _handed(call, codex, "codex", "gemini"))["phase"])
    phases.append((await _handed(call, gemini, "gemini", "codex"))["phase"])
    phases.append((await _handed(call, codex, "codex", "gemini"))["phase"])
    phases.append((await _done(call, "cycle_complete", **await _locked(call, gemini)))["phase"])
    archived = await _done(call, "cycle_archive", **await _locked(call, gemini))
    assert (await _done(call, "cycle_status"))["cycle_id"] is None
    return phases, Path(archived["archive"])


PHASES = ["frontend", "backend", "frontend_refine", "backend", "frontend_refine", "complete"]


@pytest.mark.parametrize("revision", ERAS)
@pytest.mark.parametrize("spell", [str, _dotted], ids=["underscored", "dotted"])
async def test_a_cycle_is_played_from_its_first_session_to_its_archive(
    served: Reached, revision: str, spell: Callable[[str], str], project: str
):
    keys = await _keys(served, project)
    call = _by_hand(served, revision, f"{ENDPOINT}?project={project}", spell)
    phases, archive = await _play(call, keys, "The login page")
    assert phases == PHASES
    assert json.loads((archive / "state.json").read_text("utf-8"))["feature"] == "The login page"


@pytest.mark.parametrize("revision", ERAS)
async def test_dotted_names_work_at_the_endpoint_of_all_roles_and_over_http(
    served: Reached, revision: str, project: str
):
    await _keys(served, project)
    started = await served.http.post("/api/v1/cycle.start", json={"project": project, "feature": "Search"})
    assert started.json()["data"]["phase"] == "frontend"
    call = _by_hand(served, revision, f"/mcp?project={project}")
    assert (await _done(call, "cycle.status"))["cycle_id"] == started.json()["data"]["cycle_id"]
    again = await call("cycle.start", feature="Search")
    assert again["error"]["code"] == "CYCLE_ALREADY_ACTIVE"


@pytest.mark.parametrize("revision", ERAS)
@pytest.mark.parametrize("role", ["proposer", "reviewer", "operator"])
async def test_a_reviews_role_is_told_where_hand_offs_are(served: Reached, revision: str, role: str):
    refused = await _by_hand(served, revision, f"/mcp/{role}")("lock.acquire", session_token="ss_1")
    assert (refused["error"]["code"], refused["error"]["details"]["allowed"]) == ("FORBIDDEN", ["handoff"])


async def test_a_cycle_is_a_resource_where_its_history_may_be_read(served: Reached, project: str):
    keys = await _keys(served, project)
    call = _by_hand(served, MODERN, f"{ENDPOINT}?project={project}")
    gemini = await _opened(call, "gemini", keys)
    cycle_id = (await _done(call, "cycle_start", feature="Search"))["cycle_id"]
    written = await _handed(call, gemini, "gemini", "codex")
    uri = f"tandem://cycles/{cycle_id}"
    for path in ("/mcp", "/mcp/operator"):
        async with Client(f"{served.url}{path}?project={project}") as client, asyncio.timeout(LIMIT_SECONDS):
            assert [link.uri for link in (await client.list_resources()).resources] == [uri]
            contents = (await client.read_resource(uri)).contents[0]
            assert isinstance(contents, TextResourceContents)
            document = orjson.loads(contents.text)
            assert document["cycle"]["phase"] == written["phase"]
            assert document["handoffs"][0]["payload"]["extras"] == {"why": "gemini's own"}
            with pytest.raises(MCPError, match="no such cycle"):
                await client.read_resource("tandem://cycles/none")
    async with Client(f"{served.url}/mcp/proposer?project={project}") as client, asyncio.timeout(LIMIT_SECONDS):
        assert (await client.list_resources()).resources == []
        with pytest.raises(MCPError, match="reviews are at"):
            await client.read_resource(uri)


async def test_a_configured_workflow_is_played_by_its_own_roles(served: Reached, project: str):
    keys = await _keys(served, project, "relay")
    assert set(keys) == {"planner", "builder", "tester"}
    call = _by_hand(served, MODERN, f"{ENDPOINT}?project={project}")
    sessions = {role: await _opened(call, role, keys, "relay") for role in keys}
    await _done(call, "cycle_start", feature="Search", workflow="relay")
    await _handed(call, sessions["planner"], "planner", "builder")
    await _handed(call, sessions["builder"], "builder", "tester")
    completed = await _done(call, "cycle_complete", **await _locked(call, sessions["tester"]))
    assert completed["active_role"] == "planner"
    await _done(call, "cycle_archive", **await _locked(call, sessions["planner"]))


@pytest.mark.parametrize("revision", ERAS)
async def test_in_approval_mode_the_wait_is_answered_by_the_reviewer(served: Reached, revision: str, project: str):
    keys = await _keys(served, project, "gated")
    call = _by_hand(served, revision, f"{ENDPOINT}?project={project}")
    review = _by_hand(served, revision, f"/mcp/reviewer?project={project}", agent="critic")
    planner = await _opened(call, "planner", keys, "gated")
    cycle_id = (await _done(call, "cycle_start", feature="Search"))["cycle_id"]
    sent = {"target": "builder", "payload": _payload(cycle_id, "Search", "planner", "builder")}
    written = await _done(call, "handoff_write", **sent, **await _locked(call, planner))
    assert (written["phase"], await _done(call, "handoff_read", target="builder")) == ("plan", {})
    for verdict, phase, turn in (("changes_requested", "plan", "planner"), ("approved", "build", "builder")):
        async with asyncio.timeout(LIMIT_SECONDS):
            waiting = asyncio.create_task(_done(call, "cycle_status", role=turn, wait=True, cursor=written["cursor"]))
            await _until_waiting(served, 1)
            claim = await _done(review, "claim_review", reviewer_id="rev-1", review_id=written["review_id"])
            about = {"review_id": claim["review_id"], "claim_generation": claim["claim_generation"]}
            await _done(
                review, "submit_verdict", **about, reviewer_id="rev-1", verdict=verdict, reason="Name the files."
            )
            status = await waiting
        assert (status["phase"], status["active_role"]) == (phase, turn)
        assert status["next_step"].startswith(f"{turn} works on {phase}")
        if verdict == "changes_requested":
            assert status["review"]["reason"] == "Name the files."
            written = await _done(call, "handoff_write", **sent, **await _locked(call, planner))
    assert await _done(call, "handoff_read", target="builder") == sent["payload"]


async def _until_waiting(served: Reached, number: int) -> None:
    """Return once exactly so many calls wait; asked over and over, as nothing tells."""
    while (await served.http.get("/healthz")).json()["data"]["waiting"] != number:
        pass

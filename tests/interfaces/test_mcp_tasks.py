"""Waits as tasks for a client that follows them, and as ever for all others, on both paths."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any, NamedTuple

import httpx
import orjson
import pytest
from mcp import Client

from tandem.server.mcp import tasks
from tandem.server.mcp.recognition import TASKS
from tests.interfaces.following import CreatedTask, Follower, TaskState, about
from tests.interfaces.serving import (
    HANDSHAKE,
    MODERN,
    Reached,
    answer_of,
    ask,
    broker_serving,
    envelope_of,
    mcp_headers,
    mcp_message,
)

pytestmark = pytest.mark.anyio
LIMIT_SECONDS = 60
METHODS = ("tasks/get", "tasks/update", "tasks/cancel")
REQUIRED: dict[str, Any] = {"requiredCapabilities": {"extensions": {TASKS: {}}}}
META: dict[str, Any] = mcp_message(MODERN, "", {})["params"]["_meta"]
FOLLOWING: dict[str, Any] = {**META, "io.modelcontextprotocol/clientCapabilities": {"extensions": {TASKS: {}}}}


class Proposed(NamedTuple):
    """A review that waits for its reviewer."""

    served: Reached
    review_id: str

    async def do(self, operation: str, **arguments: Any) -> Any:
        """Call an operation that must succeed; its data."""
        body = {"project": "shop", **arguments}
        envelope = (await self.served.http.post(f"/api/v1/{operation}", json=body)).json()
        assert envelope["ok"], envelope
        return envelope["data"]

    async def approve(self) -> None:
        """The verdict that is waited for."""
        claim = await self.do("claim_review", review_id=self.review_id, reviewer_id="rev-1")
        given = {"verdict": "approved", "claim_generation": claim["claim_generation"]}
        await self.do("submit_verdict", review_id=self.review_id, **given)

    async def wait(self, name: str = "get_review_status", **arguments: Any) -> httpx.Response:
        """A wait by a client that follows tasks."""
        of_review = {"review_id": self.review_id} if name == "get_review_status" else {}
        params = {"name": name, "arguments": {"wait": True, **of_review, **arguments}, "_meta": FOLLOWING}
        return await ask(self.served, MODERN, "tools/call", params, path="/mcp?project=shop")

    async def begin(self, name: str = "get_review_status", **arguments: Any) -> dict[str, Any]:
        """A wait that becomes a task; the task."""
        created = answer_of(await self.wait(name, **arguments))["result"]
        assert (created["resultType"], created["status"]) == ("task", "working")
        return created

    async def about(
        self,
        method: str,
        task: str,
        *,
        meta: dict[str, Any] = FOLLOWING,
        path: str = "/mcp?project=shop",
        agent: str = "toy-client",
        named: str | None = None,
    ) -> dict[str, Any]:
        """A request about a task; the answer's message."""
        params = {"taskId": task, "_meta": meta}
        headers = {"tandem-agent": agent} | ({} if named is None else {"mcp-name": named})
        body, head = orjson.dumps(mcp_message(MODERN, method, params)), mcp_headers(MODERN, method, **headers)
        return answer_of(await self.served.http.post(path, content=body, headers=head))


@pytest.fixture(params=[True, False], ids=["fast", "sdk"], scope="module")
async def served(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Reached]:
    async with broker_serving(tmp_path_factory.mktemp("data"), fast_path=request.param) as served:
        yield served


@pytest.fixture(autouse=True)
def brief(monkeypatch: pytest.MonkeyPatch) -> None:
    """A look that finds no news need not take as long as for a real client."""
    monkeypatch.setattr(tasks, "_HOLD_SECONDS", 0.2)


@pytest.fixture
async def proposed(served: Reached) -> Proposed:
    unnamed = Proposed(served, "")
    said = {"intent": "Improve it", "agent_type": "test", "description": "The change in words."}
    return Proposed(served, (await unnamed.do("create_review", **said))["review_id"])


async def test_p6_the_sdks_client_is_told_the_verdict_when_it_comes(proposed: Proposed):
    follower = Follower()
    address = f"{proposed.served.url}/mcp/proposer?project=shop"
    async with asyncio.timeout(LIMIT_SECONDS), Client(address, extensions=[follower]) as client:
        assert client.server_capabilities.extensions == {TASKS: {}}
        arguments = {"review_id": proposed.review_id, "wait": True, "timeout_s": 0.5}
        call = asyncio.create_task(client.call_tool("get_review_status", arguments))
        task = await follower.created.get()
        # The call's own time does not end it.
        assert await follower.heard.get() == "working"
        await proposed.approve()
        result = await call
    assert result.structured_content["data"]["status"] == "approved"
    assert (task.ttl_ms, task.created_at) == (25 * 3600 * 1000, task.last_updated_at)


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("get_review_status", {"wake_on": "any"}),
        ("list_reviews", {"status": "pending", "limit": 5}),
        ("cycle_status", {"project": "one"}),
        ("cycle.status", {"project": "two"}),
    ],
)
async def test_p6_a_task_ends_with_what_the_wait_would_have_answered(
    proposed: Proposed, name: str, arguments: dict[str, Any]
):
    cursor: dict[str, Any] = {}
    of_review: dict[str, Any] = {}
    if not name.startswith("cycle"):
        of_review = {"review_id": proposed.review_id} if name == "get_review_status" else {}
        cursor = {"cursor": (await proposed.do(name, **of_review))["cursor"]}
    task = await proposed.begin(name, **cursor, **arguments)
    if name.startswith("cycle"):
        await proposed.do("cycle_init", **arguments)
        await proposed.do("cycle_start", feature="Something", **arguments)
    else:
        await proposed.approve()
    # The verdict was there before the client asked.
    state = (await proposed.about("tasks/get", task["taskId"]))["result"]
    assert (state["status"], state["resultType"]) == ("completed", "complete")
    result: dict[str, Any] = state["result"]
    assert (result["isError"], result["resultType"]) == (False, "complete")
    assert orjson.loads(result["content"][0]["text"]) == result["structuredContent"]
    if cursor:
        plain = {"name": name, "arguments": {"wait": True, **cursor, **arguments, **of_review}}
        waited = await ask(proposed.served, MODERN, "tools/call", plain, path="/mcp?project=shop")
        assert result["structuredContent"] == envelope_of(waited)
    else:
        assert result["structuredContent"]["data"]["changed"] is True


async def test_what_has_its_answer_is_no_task(proposed: Proposed):
    looked = envelope_of(await proposed.wait(timeout_s=0))
    assert looked["data"]["changed"] is False
    assert envelope_of(await proposed.wait(wait=False))["data"]["changed"] is True
    assert envelope_of(await proposed.wait(review_id="rv_none"))["error"]["code"] == "NOT_FOUND"
    assert envelope_of(await proposed.wait(cursor="nonsense"))["error"]["code"] == "INVALID_INPUT"
    await proposed.approve()
    assert envelope_of(await proposed.wait())["data"]["status"] == "approved"
    assert envelope_of(await proposed.wait("get_activity_feed", cursor=looked["data"]["cursor"]))["data"]["changed"]


async def test_a_call_that_does_not_fit_into_an_id_waits_as_ever(proposed: Proposed):
    long = "shop-" + "".join(f"{number:x}" for number in range(40, 90))
    cursor = envelope_of(await proposed.wait("list_reviews", project=long, timeout_s=0.3))["data"]["cursor"]
    waiting = asyncio.create_task(proposed.wait("list_reviews", project=long, cursor=cursor))
    await proposed.do("create_review", project=long, intent="x", agent_type="test", description="x")
    assert envelope_of(await waiting)["data"]["changed"] is True


@pytest.mark.parametrize("revision", [HANDSHAKE, MODERN])
async def test_other_clients_wait_as_ever(proposed: Proposed, revision: str):
    # Older revisions cannot declare it, even with the words of the newest.
    meta = FOLLOWING if revision == HANDSHAKE else META
    arguments = {"review_id": proposed.review_id, "wait": True, "timeout_s": 0.3}
    params: dict[str, Any] = {"name": "get_review_status", "arguments": arguments, "_meta": meta}
    found = envelope_of(await ask(proposed.served, revision, "tools/call", params))["data"]
    assert (found["changed"], found["status"]) == (False, "pending")
    arguments |= {"cursor": found["cursor"], "timeout_s": LIMIT_SECONDS}
    waiting = asyncio.create_task(ask(proposed.served, revision, "tools/call", params))
    await proposed.approve()
    assert envelope_of(await waiting)["data"]["status"] == "approved"


async def test_a_forged_or_foreign_or_old_id_is_no_task(proposed: Proposed, monkeypatch: pytest.MonkeyPatch):
    task: str = (await proposed.begin())["taskId"]
    forged = ("B" if task[0] == "A" else "A") + task[1:]
    for method in METHODS:
        for unknown in ("", "x", "é", "A" * 5000, forged, task[:-4], task + "AAAA"):
            error = (await proposed.about(method, unknown))["error"]
            assert (error["code"], error["data"]["error"]["code"]) == (-32602, "NOT_FOUND")
        elsewhere = await proposed.about(method, task, path="/mcp/proposer?project=shop")
        by_another = await proposed.about(method, task, agent="another")
        assert elsewhere["error"] == by_another["error"] == error
    monkeypatch.setattr(tasks, "_LIFE_SECONDS", -1)
    for method in METHODS:
        expired = (await proposed.about(method, task))["error"]
        assert (expired["code"], expired["message"]) == (-32602, "This task has expired; call the tool again.")


async def test_who_does_not_follow_tasks_has_none(proposed: Proposed):
    task: str = (await proposed.begin())["taskId"]
    for method in METHODS:
        undeclared = (await proposed.about(method, task, meta=META))["error"]
        assert (undeclared["code"], undeclared["data"]) == (-32021, REQUIRED)
        older = answer_of(await ask(proposed.served, HANDSHAKE, method, {"taskId": task, "_meta": FOLLOWING}))
        assert older["error"]["code"] == -32601
        misled = await proposed.about(method, task, named="another")
        assert misled["error"]["code"] == -32020


async def test_a_cancelled_task_is_only_not_asked_about_any_more(proposed: Proposed):
    task: str = (await proposed.begin())["taskId"]
    for method in ("tasks/update", "tasks/cancel", "tasks/cancel"):
        acknowledged = (await proposed.about(method, task))["result"]
        assert acknowledged.keys() - {"_meta"} == {"resultType"}
    assert (await proposed.about("tasks/get", task))["result"]["status"] == "working"
    await proposed.approve()
    assert (await proposed.about("tasks/get", task))["result"]["status"] == "completed"
    assert "result" in await proposed.about("tasks/cancel", task)


@pytest.mark.parametrize(("wake_on", "status"), [("turn", "completed"), ("any", "working")])
async def test_a_task_that_waits_in_vain_ends_as_the_wait_would(
    proposed: Proposed, monkeypatch: pytest.MonkeyPatch, wake_on: str, status: str
):
    await proposed.approve()
    cursor = (await proposed.do("get_review_status", review_id=proposed.review_id))["cursor"]
    task: str = (await proposed.begin(cursor=cursor, wake_on=wake_on))["taskId"]
    assert (await proposed.about("tasks/get", task))["result"]["status"] == "working"
    monkeypatch.setattr(tasks, "_CALL_SECONDS", 0)
    state = (await proposed.about("tasks/get", task))["result"]
    assert state["status"] == status
    monkeypatch.setattr(tasks, "_WAIT_SECONDS", 0)
    told = (await proposed.about("tasks/get", task))["result"]["result"]["structuredContent"]["data"]
    assert (told["next_action"], told["changed"]) == ("apply_and_close", False)


async def test_p6_who_listens_is_told_of_each_tasks_end(proposed: Proposed):
    follower = Follower()
    async with (
        asyncio.timeout(LIMIT_SECONDS),
        Client(f"{proposed.served.url}/mcp?project=shop", extensions=[follower]) as client,
    ):
        arguments = {"review_id": proposed.review_id, "wait": True}
        task = await client.session.call_tool("get_review_status", arguments, allow_claimed=True)
        assert isinstance(task, CreatedTask)
        params: dict[str, Any] = {
            "notifications": {"taskIds": [task.task_id, "unknown"], "toolsListChanged": True},
            "_meta": FOLLOWING,
        }
        heard: list[dict[str, Any]] = []
        told = asyncio.Event()

        async def listen() -> None:
            body = orjson.dumps(mcp_message(MODERN, "subscriptions/listen", params, "heard"))
            head = mcp_headers(MODERN, "subscriptions/listen", **{"tandem-agent": "mcp"})
            async with proposed.served.http.stream("POST", "/mcp?project=shop", content=body, headers=head) as answer:
                async for line in answer.aiter_lines():
                    if line.startswith("data: "):
                        heard.append(orjson.loads(line.removeprefix("data: ")))
                        told.set()

        listening = asyncio.create_task(listen())
        await told.wait()
        await proposed.approve()
        await listening
        state = await client.session.send_request(about("tasks/get", task.task_id), TaskState)
    acknowledged, ended, closed = heard
    stamp = {"io.modelcontextprotocol/subscriptionId": "heard"}
    assert acknowledged["params"] == {"notifications": {"taskIds": [task.task_id]}, "_meta": stamp}
    assert (ended["method"], ended["params"]["_meta"]) == ("notifications/tasks", stamp)
    assert ended["params"]["result"]["structuredContent"] == (state.result or {})["structuredContent"]
    assert (closed["id"], closed["result"]) == ("heard", {"resultType": "complete", "_meta": stamp})


async def test_who_listens_has_to_follow_tasks_and_to_name_some(proposed: Proposed):
    named = {"notifications": {"taskIds": ["any"]}}
    undeclared = answer_of(await ask(proposed.served, MODERN, "subscriptions/listen", named))["error"]
    assert (undeclared["code"], undeclared["data"]) == (-32021, REQUIRED)
    nothing: list[dict[str, Any]] = [{}, {"taskIds": []}, {"taskIds": "x"}, {"toolsListChanged": True}]
    for stated in nothing:
        unnamed = {"notifications": stated, "_meta": FOLLOWING}
        error = answer_of(await ask(proposed.served, MODERN, "subscriptions/listen", unnamed))["error"]
        assert error["code"] == -32601

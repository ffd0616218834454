"""The official MCP client talking through the bridge to the real broker, in both eras of the protocol."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

from tests.interfaces.broker_process import WatchedBroker, watched_broker
from tests.modes import VARIATION

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WatchedBroker]:
    with watched_broker(tmp_path_factory.mktemp("broker")) as running:
        yield running


@asynccontextmanager
async def client_of(
    broker: WatchedBroker, *options: str, mode: str, folder: Path, **environment: str
) -> AsyncGenerator[Client]:
    server = StdioServerParameters(
        command=sys.executable,
        args=["-m", "tandem", "mcp", "--broker", broker.url, *options],
        env={"PATH": os.environ["PATH"], **environment},
        cwd=folder,
    )
    with open(os.devnull, "w", encoding="utf-8") as nowhere:  # noqa: ASYNC230, PTH123 - the client wants a file
        async with Client(stdio_client(server, errlog=nowhere), mode=mode) as client:
            yield client


@pytest.fixture(params=["legacy", "auto"])
def mode(request: pytest.FixtureRequest) -> str:
    return request.param


async def call(client: Client, name: str, **arguments: Any) -> dict[str, Any]:
    result = await client.call_tool(name, arguments)
    assert not result.is_error, result
    assert result.structured_content is not None
    return result.structured_content["data"]


async def test_a_whole_review_is_played_by_two_clients(broker: WatchedBroker, mode: str, tmp_path: Path) -> None:
    label = ("--project", f"label-{mode}")
    async with (
        client_of(broker, "--role", "proposer", *label, mode=mode, folder=tmp_path, TANDEM_AGENT="author") as proposer,
        client_of(broker, "--role", "reviewer", *label, mode=mode, folder=tmp_path, TANDEM_AGENT="critic") as reviewer,
    ):
        created = await call(
            proposer, "create_review", intent="say hello", agent_type="author", description="hello", path="greeting.txt"
        )
        review_id = created["review_id"]
        claim = await call(reviewer, "claim_review", reviewer_id="critic")
        assert claim["review_id"] == review_id
        seen: list[dict[str, Any]] = []

        async def wait() -> None:
            seen.append(await call(proposer, "get_review_status", review_id=review_id, wait=True, timeout_s=40))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(wait)
            # Another call passes the one that waits.
            await call(proposer, "get_discussion", review_id=review_id)
            await call(
                reviewer,
                "submit_verdict",
                review_id=review_id,
                verdict="approved",
                reviewer_id="critic",
                claim_generation=claim["claim_generation"],
            )
        assert (seen[0]["status"], seen[0]["next_action"]) == ("approved", "apply_and_close")
        assert (await call(proposer, "close_review", review_id=review_id))["outcome"] == "approved"


class Crew:
    """Both roles of a cycle, each with a client of its own that never saw a key."""

    def __init__(self, gemini: Client, codex: Client) -> None:
        self.clients = {"gemini": gemini, "codex": codex}
        self.sessions: dict[str, str] = {}
        self.cycle: dict[str, Any] = {}

    async def begin(self) -> None:
        for role, client in self.clients.items():
            self.sessions[role] = (await call(client, "session_open", role=role, psk=""))["session_token"]
        self.cycle = await call(self.clients["gemini"], "cycle.start", feature="Login page")

    async def hand_over(self, role: str, target: str) -> dict[str, Any]:
        named = {"cycle_id": self.cycle["cycle_id"], "feature": "Login page", "producer": role, "consumer": target}
        empty = ("files_modified", "endpoints", "data_shapes", "assumptions", "todos", "notes")
        payload: dict[str, Any] = {**named, **{name: list[str]() for name in empty}}
        await self.locked(role, "handoff_write", target=target, payload=payload)
        return payload

    async def locked(self, role: str, name: str, **arguments: Any) -> dict[str, Any]:
        client, session = self.clients[role], {"session_token": self.sessions[role]}
        lock = await call(client, "lock.acquire", **session)
        return await call(client, name, lock_token=lock["lock_token"], **session, **arguments)


def text_in(folder: Path) -> str:
    files = [file.read_text("utf-8") for file in folder.rglob("*.json")]
    assert len(files) == 6
    return "".join(files)


@VARIATION
async def test_a_whole_cycle_is_played_by_two_clients_that_never_see_a_key(
    broker: WatchedBroker, mode: str, tmp_path: Path
) -> None:
    project = f"cycle-{mode}"
    keys: dict[str, str] = broker.ask("cycle_init", project=project)["keys"]
    (tmp_path / "codex.psk").write_text(keys["codex"] + "\n", "utf-8")
    label = ("--role", "handoff", "--project", project)
    first = {"TANDEM_PSK": keys["gemini"]}
    second = {"TANDEM_PSK_FILE": str(tmp_path / "codex.psk"), "TANDEM_ROLE": "codex"}
    async with (
        client_of(broker, *label, mode=mode, folder=tmp_path, **first) as gemini,
        client_of(broker, *label, mode=mode, folder=tmp_path, **second) as codex,
    ):
        assert "handoff_write" in {tool.name for tool in (await gemini.list_tools()).tools}
        crew = Crew(gemini, codex)
        await crew.begin()
        seen: list[dict[str, Any]] = []
        written: list[dict[str, Any]] = []

        async def wait() -> None:
            seen.append(await call(codex, "cycle_status", role="codex", wait=True, timeout_s=40))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(wait)
            written.append(await crew.hand_over("gemini", "codex"))
        assert (seen[0]["phase"], seen[0]["active_role"]) == ("backend", "codex")
        assert [await call(codex, "handoff.read", target="codex")] == written
        await crew.hand_over("codex", "gemini")
        await crew.locked("gemini", "cycle_complete")
        archive = Path((await crew.locked("gemini", "cycle_archive"))["archive"])
        idle = await call(codex, "cycle_status")
    assert idle["cycle_id"] is None
    kept = text_in(archive)
    for secret in (*keys.values(), *crew.sessions.values(), crew.cycle["lock_token"]):
        assert secret not in kept

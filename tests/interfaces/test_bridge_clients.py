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

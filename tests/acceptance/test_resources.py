"""What agents read over MCP besides short answers: reviews and cycles as resources, and long diffs file by file."""

from __future__ import annotations

import asyncio
from typing import Any

import orjson
import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError
from mcp_types import TextResourceContents

from tests.acceptance.cycling import Crew
from tests.acceptance.reviewing import PROPOSAL, Desk
from tests.broker import BrokerProcess

pytest_plugins = ["tests.acceptance.cycling_crews"]
LIMIT_SECONDS = 60


async def document(client: Client, uri: str) -> Any:
    """The content of the only resource that the client is offered."""
    assert [resource.uri for resource in (await client.list_resources(cache_mode="bypass")).resources] == [uri]
    contents = (await client.read_resource(uri)).contents[0]
    assert isinstance(contents, TextResourceContents)
    return orjson.loads(contents.text)


@pytest.mark.anyio
async def test_a_review_is_a_resource_while_it_is_open(broker: BrokerProcess, desk: Desk):
    review = desk.put_up(path="PLAN.md", description="# The plan\n")
    async with Client(f"{broker.url}/mcp?project={desk.project}") as client, asyncio.timeout(LIMIT_SECONDS):
        shown = await document(client, f"tandem://reviews/{review}")
        assert shown["proposal"]["description"] == "# The plan\n"
        assert shown["status"]["status"] == "pending"
        assert shown["discussion"]["entries"] == []
        desk.do("close_review", review_id=review)
        assert (await client.list_resources(cache_mode="bypass")).resources == []
        with pytest.raises(MCPError):
            await client.read_resource("tandem://reviews/rv_0000000000000000")


@pytest.mark.anyio
async def test_a_cycle_is_a_resource_where_its_history_may_be_read(broker: BrokerProcess, fresh_crew: Crew):
    cycle = fresh_crew.start()["cycle_id"]
    handed = fresh_crew.handing("codex")
    fresh_crew.do("handoff_write", **handed)
    uri, address = f"tandem://cycles/{cycle}", f"{broker.url}/mcp{{}}?project={fresh_crew.project}"
    for path in ("", "/operator"):
        async with Client(address.format(path)) as client, asyncio.timeout(LIMIT_SECONDS):
            shown = await document(client, uri)
            assert shown["cycle"]["phase"] == "backend"
            assert shown["handoffs"][0]["payload"] == handed["payload"]
            with pytest.raises(MCPError, match="no such cycle"):
                await client.read_resource("tandem://cycles/none")
    async with Client(address.format("/proposer")) as client, asyncio.timeout(LIMIT_SECONDS):
        assert (await client.list_resources()).resources == []
        with pytest.raises(MCPError, match="reviews are at"):
            await client.read_resource(uri)


@pytest.mark.parametrize("fast", [True, False], ids=["fast path", "SDK"])
def test_a_long_diff_is_read_file_by_file(desk: Desk, fast: bool):
    parts = {
        name: f"diff --git a/{name} b/{name}\nnew file mode 100644\n--- /dev/null\n+++ b/{name}\n@@ -0,0 +1,4000 @@\n"
        + f"+{name} has a line\n" * 4000
        for name in ("a.txt", "b.txt")
    }

    def asked(operation: str, **arguments: Any) -> Any:
        return desk.over_mcp(operation, {"project": desk.project, **arguments}, fast=fast)["data"]

    review = asked("create_review", **PROPOSAL, diff="".join(parts.values()))["review_id"]
    claimed = asked("claim_review", reviewer_id="r")["review"]
    for answer in (claimed, asked("get_proposal", review_id=review)):
        assert answer["diff"] is None
        assert "get_proposal with review_id, round 1 and files=[path]" in answer["diff_left_out"]
        assert [one["path"] for one in answer["affected_files"]] == list(parts)
    one = asked("get_proposal", review_id=review, round=1, files=["b.txt"])
    assert (one["diff"], one["diff_left_out"]) == (parts["b.txt"], None)

"""The life of a review over MCP, with the real broker behind the real socket."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import orjson
import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError
from mcp_types import Implementation, TextResourceContents

from tests.interfaces.serving import broker_serving

pytestmark = pytest.mark.anyio


@pytest.fixture(params=[True, False], ids=["fast", "sdk"])
async def url(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[str]:
    async with broker_serving(tmp_path, fast_path=request.param) as served:
        yield f"{served.url}/mcp"


async def _call(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    result = await client.call_tool(tool, arguments)
    assert result.structured_content is not None
    assert result.is_error is not result.structured_content["ok"]
    return result.structured_content


async def _put_up(client: Client) -> dict[str, Any]:
    text = {"path": "PLAN.md", "description": "# The plan\n", "category": "plan_review"}
    return (await _call(client, "create_review", intent="Plan it", agent_type="gsd-planner", **text))["data"]


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_a_change_is_put_up_reviewed_and_closed(url: str, mode: Any):
    async with (
        Client(
            f"{url}/proposer?project=shop", mode=mode, client_info=Implementation(name="a", version="1")
        ) as proposer,
        Client(
            f"{url}/reviewer?project=shop", mode=mode, client_info=Implementation(name="b", version="1")
        ) as reviewer,
        asyncio.timeout(60),
    ):
        review = await _put_up(proposer)
        asked = {"review_id": review["review_id"], "wait": True, "cursor": review["cursor"]}
        verdict = asyncio.create_task(_call(proposer, "get_review_status", **asked))
        claim = (await _call(reviewer, "claim_review", reviewer_id="rev-1"))["data"]
        assert claim["review_id"] == review["review_id"]
        given = {"review_id": claim["review_id"], "claim_generation": claim["claim_generation"]}
        await _call(reviewer, "submit_verdict", verdict="approved", reviewer_id="rev-1", **given)
        status = (await verdict)["data"]
        assert (status["status"], status["next_action"]) == ("approved", "apply_and_close")
        closed = (await _call(proposer, "close_review", review_id=review["review_id"]))["data"]
        assert closed["outcome"] == "approved"


async def test_a_long_diff_is_read_file_by_file(url: str):
    parts = {
        name: f"diff --git a/{name} b/{name}\nnew file mode 100644\n--- /dev/null\n+++ b/{name}\n@@ -0,0 +1,4000 @@\n"
        + f"+{name} has a line\n" * 4000
        for name in ("a.txt", "b.txt")
    }
    async with Client(f"{url}?project=shop") as client, asyncio.timeout(60):
        made = {"intent": "Much", "agent_type": "a", "proposer_id": "a", "diff": "".join(parts.values())}
        review = (await _call(client, "create_review", **made))["data"]["review_id"]
        claimed = (await _call(client, "claim_review", reviewer_id="r"))["data"]["review"]
        whole = (await _call(client, "get_proposal", review_id=review))["data"]
        for answer in (claimed, whole):
            assert answer["diff"] is None
            assert "get_proposal with review_id, round 1 and files=[path]" in answer["diff_left_out"]
            assert [one["path"] for one in answer["affected_files"]] == list(parts)
        one = (await _call(client, "get_proposal", review_id=review, round=1, files=["b.txt"]))["data"]
        assert (one["diff"], one["diff_left_out"]) == (parts["b.txt"], None)


async def test_a_review_is_a_resource_while_it_is_open(url: str):
    async with Client(f"{url}?project=shop") as client, asyncio.timeout(60):
        review = await _put_up(client)
        uri = f"tandem://reviews/{review['review_id']}"
        assert [resource.uri for resource in (await client.list_resources()).resources] == [uri]
        contents = (await client.read_resource(uri)).contents[0]
        assert isinstance(contents, TextResourceContents)
        document = orjson.loads(contents.text)
        assert document["proposal"]["description"] == "# The plan\n"
        assert document["status"]["status"] == "pending"
        assert document["discussion"]["entries"] == []
        await _call(client, "close_review", review_id=review["review_id"])
        assert (await client.list_resources(cache_mode="bypass")).resources == []
        with pytest.raises(MCPError):
            await client.read_resource("tandem://reviews/rv_0000000000000000")

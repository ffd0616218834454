"""The official client over a real socket, in both protocol eras, on both paths."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError
from mcp_types import TextContent, TextResourceContents

from tests.interfaces.serving import Served, serving

pytestmark = pytest.mark.anyio


@pytest.fixture(params=[True, False], ids=["fast", "sdk"], scope="module")
async def served(request: pytest.FixtureRequest) -> AsyncGenerator[Served]:
    async with serving(fast_path=request.param) as served:
        yield served


@pytest.fixture(params=["legacy", "auto"])
async def client(served: Served, request: pytest.FixtureRequest) -> AsyncGenerator[Client]:
    async with Client(f"{served.url}/mcp?project=shop", mode=request.param) as client:
        yield client


def _text(content: object) -> str:
    assert isinstance(content, TextContent | TextResourceContents)
    return content.text


async def test_it_connects_and_is_taught_the_loop(client: Client):
    assert client.server_info is not None
    assert (client.server_info.name, client.server_info.version) == ("tandem", "1.2.3")
    assert "create_review" in (client.instructions or "")
    assert "claim_review" in (client.instructions or "")


async def test_prompts_begin_the_loop(client: Client):
    prompts = {prompt.name: prompt for prompt in (await client.list_prompts()).prompts}
    assert set(prompts) == {"review_next_change", "submit_my_change"}
    given = await client.get_prompt("review_next_change", {"reviewer_id": "rev-7", "project": "shop"})
    assert '"rev-7"' in _text(given.messages[0].content)
    assert '"shop"' in _text(given.messages[0].content)
    with pytest.raises(MCPError, match="reviewer_id"):
        await client.get_prompt("review_next_change", {})
    with pytest.raises(MCPError, match="no prompt"):
        await client.get_prompt("nothing", {})


async def test_open_reviews_are_resources_page_by_page(client: Client):
    first = await client.list_resources()
    second = await client.list_resources(cursor=first.next_cursor)
    assert [str(resource.uri) for resource in first.resources] == ["tandem://reviews/rv_1"]
    assert [str(resource.uri) for resource in second.resources] == ["tandem://reviews/rv_3"]
    assert second.next_cursor is None
    templates = (await client.list_resource_templates()).resource_templates
    assert [template.uri_template for template in templates] == ["tandem://reviews/{review_id}"]


@pytest.mark.parametrize("uri", ["tandem://reviews/rv_none", "tandem://reviews/", "file:///etc/passwd"])
async def test_an_unknown_resource_is_a_protocol_error_with_its_uri(client: Client, uri: str):
    with pytest.raises(MCPError) as refused:
        await client.read_resource(uri)
    assert refused.value.error.code == -32602
    assert refused.value.error.data["uri"] == uri


@pytest.mark.parametrize(
    ("role", "prompts"),
    [
        ("proposer", ["submit_my_change"]),
        ("reviewer", ["review_next_change"]),
        ("operator", []),
        ("handoff", ["frontend-backend_gemini", "frontend-backend_codex"]),
    ],
)
async def test_a_role_endpoint_offers_its_own_things(served: Served, role: str, prompts: list[str]):
    async with Client(f"{served.url}/mcp/{role}") as client:
        assert [prompt.name for prompt in (await client.list_prompts()).prompts] == prompts
        tools = {tool.name for tool in (await client.list_tools()).tools}
    assert ("keyed" in tools) == (role == "proposer")
    assert ("session_open" in tools) == (role == "handoff")

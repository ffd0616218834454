"""How a program is given the token that its broker asks for: where it reads it, and nobody else does."""

from __future__ import annotations

import json

import pytest

from tandem.pool.reviewers import Invocation, RunContext
from tests.reviewers.providing import MCP, PROMPT, made, values

ACCESS = "tdm_r_WyJjb2RleC1yMSJd.0123456789abcdef"
BEARER = {"Authorization": f"Bearer {ACCESS}"}
NAMES = ("codex", "claude", "gemini", "opencode", "custom")


def let_in(name: str, room: RunContext) -> Invocation:
    return made(name).agent(room, PROMPT, MCP, ACCESS)


@pytest.mark.parametrize("name", NAMES)
def test_no_program_has_it_among_its_arguments_or_in_its_prompt(name: str, room: RunContext) -> None:
    invocation = let_in(name, room)
    assert ACCESS not in " ".join(invocation.argv)
    assert ACCESS.encode() not in invocation.stdin
    assert ACCESS not in repr(invocation)
    places = [*invocation.environment.values(), *(content.decode() for content in invocation.files.values())]
    assert sum(ACCESS in place for place in places) == 1


@pytest.mark.parametrize("name", NAMES)
def test_a_program_that_only_answers_has_none(name: str, room: RunContext) -> None:
    assert made(name).agent(room, PROMPT, MCP) == made(name).agent(room, PROMPT, MCP, None)
    assert "Authorization" not in str(made(name).agent(room, PROMPT, MCP).files)
    assert "TANDEM_TOKEN" not in made(name).review(room, PROMPT).environment


def test_each_program_reads_it_where_it_looks_for_it(room: RunContext) -> None:
    invocations = {name: let_in(name, room) for name in NAMES}
    of_claude = json.loads(invocations["claude"].files["mcp.json"])
    of_gemini = json.loads(invocations["gemini"].files["home/.gemini/settings.json"])
    of_opencode = json.loads(invocations["opencode"].environment["OPENCODE_CONFIG_CONTENT"])
    servers = [of_claude["mcpServers"], of_gemini["mcpServers"], of_opencode["mcp"]]
    assert [one["tandem"]["headers"] for one in servers] == [BEARER] * 3
    assert invocations["codex"].environment["TANDEM_TOKEN"] == ACCESS
    [server] = [one for one in values(invocations["codex"], "-c") if one.startswith("mcp_servers.tandem=")]
    assert '"bearer_token_env_var"="TANDEM_TOKEN"' in server
    # Where Tandem's own programs look.
    assert invocations["custom"].environment["TANDEM_TOKEN"] == ACCESS

"""How a program is given the token that its broker asks for: where it reads it, and nobody else does."""

from __future__ import annotations

import json
from typing import Any

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


def test_claude_reads_it_from_the_file_of_its_servers(room: RunContext) -> None:
    assert json.loads(let_in("claude", room).files["mcp.json"])["mcpServers"]["tandem"]["headers"] == BEARER


def test_gemini_reads_it_from_its_settings(room: RunContext) -> None:
    settings = json.loads(let_in("gemini", room).files["home/.gemini/settings.json"])
    assert settings["mcpServers"]["tandem"]["headers"] == BEARER


def test_opencode_reads_it_from_the_settings_in_its_environment(room: RunContext) -> None:
    settings: dict[str, Any] = json.loads(let_in("opencode", room).environment["OPENCODE_CONFIG_CONTENT"])
    assert settings["mcp"]["tandem"]["headers"] == BEARER


def test_codex_is_told_which_variable_has_it(room: RunContext) -> None:
    invocation = let_in("codex", room)
    assert invocation.environment["TANDEM_TOKEN"] == ACCESS
    [server] = [one for one in values(invocation, "-c") if one.startswith("mcp_servers.tandem=")]
    assert '"bearer_token_env_var"="TANDEM_TOKEN"' in server


def test_a_program_of_the_persons_own_finds_it_where_tandems_own_look(room: RunContext) -> None:
    assert let_in("custom", room).environment["TANDEM_TOKEN"] == ACCESS

"""Logins and tokens: each program has the user's login for its service, and a token where it alone reads it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tandem.pool.reviewers import Invocation, RunContext
from tandem.pool.reviewers.providers import NAMES
from tests.reviewers.providing import MCP, PROMPT, made, values, without_keys

ACCESS = "tdm_r_WyJjb2RleC1yMSJd.0123456789abcdef"
BEARER = {"Authorization": f"Bearer {ACCESS}"}
OPENCODE = ".local/share/opencode/auth.json"
ENTRIES = {"openai": {"type": "oauth", "access": "a", "refresh": "once"}, "some": {"type": "api", "key": "k"}}
CODEX = {"access_token": "a", "id_token": "i", "refresh_token": "once", "account_id": "x"}
LOGINS: dict[str, tuple[str, dict[str, Any], dict[str, Any] | None]] = {
    # Its file in the user's home; what that holds, and what the program gets: nothing that can be used only once.
    "claude": (
        ".claude/.credentials.json",
        {"claudeAiOauth": {"accessToken": "a", "refreshToken": "once"}, "mcpOAuth": {"x": 1}},
        {"claudeAiOauth": {"accessToken": "a", "refreshToken": None}},
    ),
    "codex": (
        ".codex/auth.json",
        {"OPENAI_API_KEY": None, "tokens": CODEX},
        {"OPENAI_API_KEY": None, "tokens": {**CODEX, "refresh_token": ""}},
    ),
    "gemini": (".gemini/oauth_creds.json", {"refresh_token": "r"}, {"refresh_token": "r"}),
    "opencode some/model": (OPENCODE, ENTRIES, {"some": {"type": "api", "key": "k"}}),
    "opencode openai/gpt": (OPENCODE, ENTRIES, {"openai": {"type": "oauth", "access": "a", "refresh": ""}}),
    "opencode other/model": (OPENCODE, ENTRIES, None),
}


def write_login(room: RunContext, path: str, content: object) -> Path:
    file = Path(room.environment["HOME"], path)
    file.parent.mkdir(parents=True)
    file.write_text(json.dumps(content))
    return file


@pytest.mark.parametrize("case", LOGINS)
def test_a_program_has_the_users_login_but_not_what_can_be_used_once(room: RunContext, case: str) -> None:
    name, _, model = case.partition(" ")
    path, content, expected = LOGINS[case]
    login = write_login(room, path, content)
    bare = without_keys(room, **({"OPENAI_API_KEY": "of another program"} if name == "codex" else {}))
    invocation = made(name).review(replace(bare, model=model or bare.model), PROMPT)
    copy = invocation.files.get(f"home/{path}")
    assert (json.loads(copy) if copy else None) == expected
    assert json.loads(login.read_text()) == content
    assert "CODEX_API_KEY" not in invocation.environment
    # A key comes first.
    assert f"home/{path}" not in made(name).review(room, PROMPT).files


def test_codex_takes_a_key_before_a_login_and_a_login_before_anothers_key(room: RunContext) -> None:
    bare = without_keys(room, OPENAI_API_KEY="of others")
    assert made("codex").review(bare, PROMPT).environment["CODEX_API_KEY"] == "of others"
    write_login(room, ".codex/auth.json", {"OPENAI_API_KEY": "of the login", "tokens": None})
    assert made("codex").review(bare, PROMPT).environment["CODEX_API_KEY"] == "of the login"
    assert made("codex").review(room, PROMPT).environment["CODEX_API_KEY"] == "key"


def test_claude_is_given_the_keys_of_a_cloud_only_when_it_is_told_to_use_it(room: RunContext) -> None:
    keys = {"AWS_SECRET_ACCESS_KEY": "secret", "CLAUDE_CODE_USE_BEDROCK": "1"}
    assert "AWS_SECRET_ACCESS_KEY" not in made("claude").review(room, PROMPT).environment
    cloud = replace(room, environment={**room.environment, **keys})
    assert made("claude").review(cloud, PROMPT).environment["AWS_SECRET_ACCESS_KEY"] == "secret"


# --------------------------------------------------------------------------------------- the token of the broker


def let_in(name: str, room: RunContext) -> Invocation:
    return made(name).agent(room, PROMPT, MCP, ACCESS)


@pytest.mark.parametrize("name", NAMES)
def test_no_program_has_the_token_among_its_arguments_or_in_its_prompt(name: str, room: RunContext) -> None:
    invocation = let_in(name, room)
    assert ACCESS not in " ".join(invocation.argv)
    assert ACCESS.encode() not in invocation.stdin
    assert ACCESS not in repr(invocation)
    places = [*invocation.environment.values(), *(content.decode() for content in invocation.files.values())]
    assert sum(ACCESS in place for place in places) == 1
    without = made(name).agent(room, PROMPT, MCP)
    assert "Authorization" not in str(without.files)
    assert "TANDEM_TOKEN" not in {**without.environment, **made(name).review(room, PROMPT).environment}


@pytest.mark.parametrize("has_token", [True, False])
def test_each_agent_has_the_one_server_and_the_token_where_it_looks_for_it(room: RunContext, has_token: bool) -> None:
    def started(name: str) -> Invocation:
        return let_in(name, room) if has_token else made(name).agent(room, PROMPT, MCP)

    headers = {"headers": BEARER} if has_token else {}
    claude, gemini, opencode, codex, custom = map(started, ("claude", "gemini", "opencode", "codex", "custom"))
    http = {"type": "http", "url": MCP, **headers}
    assert json.loads(claude.files["mcp.json"]) == {"mcpServers": {"tandem": http}}
    assert values(claude, "--mcp-config") == [str(Path(room.scratch, "mcp.json"))]
    assert values(claude, "--allowedTools") == ["mcp__tandem__*"]
    assert {"--restricted", "--strict-mcp-config"} <= set(claude.argv)
    settings = json.loads(gemini.files["home/.gemini/settings.json"])
    assert settings["mcpServers"] == {"tandem": {"httpUrl": MCP, "trust": True, **headers}}
    content = json.loads(opencode.environment["OPENCODE_CONFIG_CONTENT"])
    assert content["mcp"] == {"tandem": {"type": "remote", "url": MCP, "enabled": True, **headers}}
    assert content["permission"]["tandem_*"] == "allow"
    # It waits for the server.
    variable = ',"bearer_token_env_var"="TANDEM_TOKEN"' if has_token else ""
    assert f'mcp_servers.tandem={{"url"="{MCP}","required"=true{variable}}}' in values(codex, "-c")
    assert custom.environment["TANDEM_REVIEW_MCP_URL"] == MCP
    # Where Tandem's own programs look.
    token = ACCESS if has_token else None
    assert [one.environment.get("TANDEM_TOKEN") for one in (codex, custom)] == [token, token]

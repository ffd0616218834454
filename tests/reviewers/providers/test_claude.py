"""Claude Code: three tools that read, and nothing of anybody's settings."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

from tandem.pool.reviewers import RunContext
from tests.reviewers.providing import MCP, MODEL, PROMPT, SCHEMA, ended, made, values, without_keys


def test_claude_has_three_tools_and_nothing_of_anybodys_settings(room: RunContext, tmp_path: Path) -> None:
    invocation = made("claude").review(room, PROMPT)
    assert values(invocation, "--tools") == ["Read,Grep,Glob"]
    assert values(invocation, "--setting-sources") == [""]
    assert values(invocation, "--effort") == ["high"]
    assert values(invocation, "--model") == [MODEL]
    assert values(invocation, "--add-dir") == [str(tmp_path / "run" / "given")]
    assert [json.loads(one) for one in values(invocation, "--json-schema")] == [SCHEMA]
    assert {"--restricted", "--safe-mode", "--strict-mcp-config", "--disable-slash-commands"} <= set(invocation.argv)
    assert invocation.environment["CLAUDE_CONFIG_DIR"] == str(tmp_path / "run" / "home" / ".claude")
    assert values(invocation, "--output-format") == ["stream-json"]
    assert (invocation.folder, invocation.talks) == (room.workspace, True)


def test_claude_says_what_it_found_and_what_it_cost(room: RunContext) -> None:
    usage = {"input_tokens": 100, "cache_creation_input_tokens": 5, "cache_read_input_tokens": 40, "output_tokens": 20}
    result = {"type": "result", "is_error": False, "result": "words", "usage": usage, "total_cost_usd": 0.25}
    reply = made("claude").read(ended(json.dumps({**result, "structured_output": {"verdict": "approved"}})), room)
    assert reply.text == '{"verdict": "approved"}'
    assert (reply.tokens_in, reply.tokens_out, reply.cost_usd) == (145, 20, 0.25)
    assert made("claude").read(ended(json.dumps(result)), room).text == "words"
    wrong = {**result, "is_error": True, "result": "Not logged in · Please run /login"}
    failed = made("claude").read(ended(f'{{"type":"system"}}\n{json.dumps(wrong)}\n', 1), room)
    assert (failed.text, failed.cost_usd, failed.error) == (None, 0.25, "Not logged in · Please run /login")


def test_claude_takes_the_users_login_but_not_what_can_be_used_once(room: RunContext) -> None:
    login = Path(room.environment["HOME"], ".claude", ".credentials.json")
    login.parent.mkdir()
    login.write_text(json.dumps({"claudeAiOauth": {"accessToken": "a", "refreshToken": "once"}, "mcpOAuth": {"x": 1}}))
    invocation = made("claude").review(without_keys(room), PROMPT)
    copy = json.loads(invocation.files["home/.claude/.credentials.json"])
    assert copy == {"claudeAiOauth": {"accessToken": "a", "refreshToken": None}}
    assert "home/.claude/.credentials.json" not in made("claude").review(room, PROMPT).files


def test_claude_is_given_the_keys_of_a_cloud_only_when_it_is_told_to_use_it(room: RunContext) -> None:
    keys = {"AWS_SECRET_ACCESS_KEY": "secret", "CLAUDE_CODE_USE_BEDROCK": "1"}
    assert "AWS_SECRET_ACCESS_KEY" not in made("claude").review(room, PROMPT).environment
    cloud = replace(room, environment={**room.environment, **keys})
    assert made("claude").review(cloud, PROMPT).environment["AWS_SECRET_ACCESS_KEY"] == "secret"


def test_claude_as_an_agent_has_the_one_server(room: RunContext) -> None:
    invocation = made("claude").agent(room, PROMPT, MCP)
    (file,) = values(invocation, "--mcp-config")
    servers = json.loads(invocation.files[os.path.relpath(file, room.scratch)])
    assert servers == {"mcpServers": {"tandem": {"type": "http", "url": MCP}}}
    assert values(invocation, "--allowedTools") == ["mcp__tandem__*"]
    assert {"--restricted", "--strict-mcp-config"} <= set(invocation.argv)
    assert invocation.talks


def test_claude_says_that_its_account_is_limited_and_until_when(room: RunContext) -> None:
    limit = {"type": "rate_limit_event", "rate_limit_info": {"status": "rejected", "resetsAt": 1_795_730_000}}
    result = {"type": "result", "is_error": True, "result": "You've hit your session limit"}
    lines = "\n".join(map(json.dumps, (limit, result)))
    assert made("claude").read(ended(lines, 1), room).error == "You've hit your session limit (resets at 1795730000)"
    retry = {"type": "system", "subtype": "api_retry", "error_status": 429, "error": "rate_limit"}
    assert made("claude").read(ended(json.dumps(retry), 143), room).error == "rate_limit (status 429)"

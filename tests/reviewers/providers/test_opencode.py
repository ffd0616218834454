"""opencode: started outside the repository."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from tandem.pool.reviewers import Invocation, RunContext
from tests.reviewers.providing import MCP, MODEL, PROMPT, ended, made, values, without_keys


def settings_of_opencode(invocation: Invocation) -> dict[str, Any]:
    return json.loads(invocation.environment["OPENCODE_CONFIG_CONTENT"])


def test_opencode_starts_outside_the_repository_and_may_only_read_it(room: RunContext, tmp_path: Path) -> None:
    invocation = made("opencode").review(room, PROMPT)
    assert invocation.folder == str(tmp_path / "run" / "desk")
    assert json.dumps(room.workspace) in invocation.stdin.decode()
    permission = settings_of_opencode(invocation)["permission"]
    assert {tool for tool, decision in permission.items() if decision == "allow"} == {"grep", "glob", "list"}
    assert (permission["*"], permission["read"]["*"], permission["read"]["*.env"]) == ("deny", "allow", "deny")
    outside = permission["external_directory"]
    assert {where for where, decision in outside.items() if decision == "allow"} == {
        room.workspace, f"{room.workspace}/**", str(tmp_path / "run" / "given"), f"{tmp_path}/run/given/**",
    }  # fmt: skip
    assert outside["*"] == "deny"
    assert values(invocation, "--model") == [MODEL]
    assert values(invocation, "--variant") == ["high"]
    assert invocation.environment["OPENCODE_DISABLE_PROJECT_CONFIG"] == "1"


def test_opencode_says_what_it_found_and_what_it_cost(room: RunContext) -> None:
    tokens = {"input": 100, "output": 20, "reasoning": 5, "cache": {"read": 7, "write": 3}}
    step = {"type": "step_finish", "part": {"tokens": tokens, "cost": 0.125}}
    events = [step, {"type": "text", "part": {"text": "So."}}, {"type": "text", "part": {"text": "{}"}}, step]
    reply = made("opencode").read(ended("\n".join(map(json.dumps, events))), room)
    assert (reply.text, reply.tokens_in, reply.tokens_out, reply.cost_usd) == ("{}", 220, 50, 0.25)


def test_opencode_says_what_went_wrong(room: RunContext) -> None:
    data = {"message": "Incorrect API key provided", "statusCode": 401}
    event = {"type": "error", "sessionID": "ses_1", "error": {"name": "APIError", "data": data}}
    assert made("opencode").read(ended(json.dumps(event), 1), room).error == "Incorrect API key provided (status 401)"


def test_opencode_takes_the_login_for_its_service_alone(room: RunContext) -> None:
    login = Path(room.environment["HOME"], ".local", "share", "opencode", "auth.json")
    login.parent.mkdir(parents=True)
    entries = {"openai": {"type": "oauth", "access": "a", "refresh": "once"}, "some": {"type": "api", "key": "k"}}
    login.write_text(json.dumps(entries))

    def copied(model: str) -> object:
        invocation = made("opencode").review(replace(without_keys(room), model=model), PROMPT)
        content = invocation.files.get("home/.local/share/opencode/auth.json")
        return json.loads(content) if content else None

    assert copied("some/model") == {"some": {"type": "api", "key": "k"}}
    assert copied("openai/gpt") == {"openai": {"type": "oauth", "access": "a", "refresh": ""}}
    assert copied("other/model") is None


def test_opencode_can_use_a_model_of_this_machine(room: RunContext) -> None:
    here = replace(room, environment={**room.environment, "SOME_BASE_URL": "http://127.0.0.1:11434/v1"})
    service = settings_of_opencode(made("opencode").review(here, PROMPT))["provider"]["some"]
    assert service["options"] == {"baseURL": "http://127.0.0.1:11434/v1", "apiKey": "{env:SOME_API_KEY}"}
    assert list(service["models"]) == ["model-1.5:latest"]


def test_opencode_as_an_agent_has_the_one_server(room: RunContext) -> None:
    settings = settings_of_opencode(made("opencode").agent(room, PROMPT, MCP))
    assert settings["mcp"] == {"tandem": {"type": "remote", "url": MCP, "enabled": True}}
    assert settings["permission"]["tandem_*"] == "allow"


def test_opencode_says_how_long_its_service_asks_to_wait(room: RunContext) -> None:
    data = {"message": "Too many requests", "statusCode": 429, "responseHeaders": {"retry-after": "20"}}
    event = {"type": "error", "error": {"name": "APIError", "data": data}}
    said = made("opencode").read(ended(json.dumps(event), 1), room).error
    assert said == "Too many requests, retry after 20 (status 429)"

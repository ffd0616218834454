"""Each program only reads, in the round's folder alone, with nothing of anybody's settings."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from tandem.pool.reviewers import Invocation, RunContext
from tests.reviewers.providing import MCP, MODEL, PROMPT, SCHEMA, made, values


def settings_of_gemini(invocation: Invocation) -> dict[str, Any]:
    return json.loads(invocation.files["home/.gemini/settings.json"])


def settings_of_opencode(invocation: Invocation) -> dict[str, Any]:
    return json.loads(invocation.environment["OPENCODE_CONFIG_CONTENT"])


def test_claude_has_three_tools_and_nothing_of_anybodys_settings(room: RunContext, tmp_path: Path) -> None:
    invocation = made("claude").review(room, PROMPT)
    expected = {
        "--tools": "Read,Grep,Glob",
        "--setting-sources": "",
        "--effort": "high",
        "--model": MODEL,
        "--add-dir": str(tmp_path / "run" / "given"),
        "--output-format": "stream-json",
        "--json-schema": json.dumps(SCHEMA),
    }
    assert {option: values(invocation, option) for option in expected} == {one: [it] for one, it in expected.items()}
    assert {"--restricted", "--safe-mode", "--strict-mcp-config", "--disable-slash-commands"} <= set(invocation.argv)
    assert invocation.environment["CLAUDE_CONFIG_DIR"] == str(tmp_path / "run" / "home" / ".claude")
    assert (invocation.folder, invocation.talks) == (room.workspace, True)


def test_gemini_reads_in_a_folder_that_it_does_not_trust(room: RunContext, tmp_path: Path) -> None:
    invocation = made("gemini").review(room, PROMPT)
    assert (invocation.folder, invocation.talks) == (room.workspace, True)
    assert invocation.environment["GEMINI_CLI_TRUST_WORKSPACE"] == "false"
    settings = settings_of_gemini(invocation)
    assert settings["tools"] == {"core": ["read_file", "list_directory", "glob", "grep_search"]}
    assert settings["context"]["includeDirectories"] == [str(tmp_path / "run" / "given")]
    assert settings["security"]["auth"] == {"selectedType": "gemini-api-key"}
    off = {"enabled": False}
    assert [settings[one] for one in ("mcpServers", "hooksConfig", "skills")] == [{}, off, off]


def test_gemini_as_an_agent_starts_outside_the_repository(room: RunContext, tmp_path: Path) -> None:
    invocation = made("gemini").agent(room, PROMPT, MCP)
    assert invocation.folder == str(tmp_path / "run" / "desk")
    # It obeys a GEMINI.md in the folder where it works.
    assert settings_of_gemini(invocation)["context"]["includeDirectories"] == [str(tmp_path / "run" / "given")]
    assert json.dumps(room.workspace) in invocation.stdin.decode()


def test_opencode_starts_outside_the_repository_and_may_only_read_it(room: RunContext, tmp_path: Path) -> None:
    invocation = made("opencode").review(room, PROMPT)
    assert invocation.folder == str(tmp_path / "run" / "desk")
    assert json.dumps(room.workspace) in invocation.stdin.decode()
    permission = settings_of_opencode(invocation)["permission"]
    assert {tool for tool, decision in permission.items() if decision == "allow"} == {"grep", "glob", "list"}
    assert (permission["*"], permission["read"]["*"], permission["read"]["*.env"]) == ("deny", "allow", "deny")
    readable = [room.workspace, str(tmp_path / "run" / "given")]
    allowed = dict.fromkeys([*readable, *(f"{folder}/**" for folder in readable)], "allow")
    assert permission["external_directory"] == {"*": "deny", **allowed}
    assert (values(invocation, "--model"), values(invocation, "--variant")) == ([MODEL], ["high"])
    assert invocation.environment["OPENCODE_DISABLE_PROJECT_CONFIG"] == "1"


def test_opencode_can_use_a_model_of_this_machine(room: RunContext) -> None:
    here = replace(room, environment={**room.environment, "SOME_BASE_URL": "http://127.0.0.1:11434/v1"})
    service = settings_of_opencode(made("opencode").review(here, PROMPT))["provider"]["some"]
    assert service["options"] == {"baseURL": "http://127.0.0.1:11434/v1", "apiKey": "{env:SOME_API_KEY}"}
    assert list(service["models"]) == ["model-1.5:latest"]


def test_a_custom_program_is_run_as_it_is_and_told_the_rest_by_variables(room: RunContext) -> None:
    invocation = made("custom").review(room, PROMPT)
    assert (invocation.argv, invocation.stdin.decode()) == (("/opt/reviewer", "--flag"), PROMPT)
    told = {name: value for name, value in invocation.environment.items() if name.startswith("TANDEM_REVIEW_")}
    schema = str(Path(room.scratch, "schema.json"))
    expected = {"EFFORT": "high", "MODEL": MODEL, "SCHEMA": schema}
    assert told == {f"TANDEM_REVIEW_{name}": value for name, value in expected.items()}

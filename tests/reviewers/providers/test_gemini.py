"""Gemini CLI: a folder that it does not trust."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tandem.pool.reviewers import Invocation, RunContext
from tests.reviewers.providing import MCP, PROMPT, ended, made, without_keys


def settings_of_gemini(invocation: Invocation) -> dict[str, Any]:
    return json.loads(invocation.files["home/.gemini/settings.json"])


def test_gemini_reads_in_a_folder_that_it_does_not_trust(room: RunContext, tmp_path: Path) -> None:
    invocation = made("gemini").review(room, PROMPT)
    assert (invocation.folder, invocation.talks) == (room.workspace, True)
    assert invocation.environment["GEMINI_CLI_TRUST_WORKSPACE"] == "false"
    settings = settings_of_gemini(invocation)
    assert settings["tools"] == {"core": ["read_file", "list_directory", "glob", "grep_search"]}
    assert settings["context"]["includeDirectories"] == [str(tmp_path / "run" / "given")]
    assert settings["security"]["auth"] == {"selectedType": "gemini-api-key"}
    assert (settings["mcpServers"], settings["hooksConfig"], settings["skills"]) == (
        {},
        {"enabled": False},
        {"enabled": False},
    )


def test_gemini_says_what_it_found_and_read(room: RunContext) -> None:
    said = {"type": "message", "role": "assistant", "delta": True}
    events = (
        {"type": "message", "role": "user", "content": "the prompt"},
        {**said, "content": "I read first."},
        {"type": "tool_use", "tool_name": "read_file"},
        {"type": "tool_result", "output": "x"},
        {**said, "content": '{"verdict": '},
        {**said, "content": '"approved"}'},
        {"type": "result", "status": "success", "stats": {"total_tokens": 136, "input_tokens": 110}},
    )
    reply = made("gemini").read(ended("\n".join(map(json.dumps, events))), room)
    assert (reply.text, reply.tokens_in, reply.tokens_out) == ('{"verdict": "approved"}', 110, 26)


def test_gemini_says_what_went_wrong(room: RunContext) -> None:
    event = {"type": "result", "status": "error", "error": {"type": "Error", "message": "API key not valid."}}
    assert made("gemini").read(ended(json.dumps(event), 1), room).error == "API key not valid."


def test_gemini_takes_the_users_login(room: RunContext) -> None:
    login = Path(room.environment["HOME"], ".gemini", "oauth_creds.json")
    login.parent.mkdir()
    login.write_text('{"refresh_token": "r"}')
    invocation = made("gemini").review(without_keys(room), PROMPT)
    assert invocation.files["home/.gemini/oauth_creds.json"] == b'{"refresh_token": "r"}'
    assert settings_of_gemini(invocation)["security"]["auth"] == {"selectedType": "oauth-personal"}
    assert "home/.gemini/oauth_creds.json" not in made("gemini").review(room, PROMPT).files


def test_gemini_as_an_agent_starts_outside_the_repository(room: RunContext, tmp_path: Path) -> None:
    invocation = made("gemini").agent(room, PROMPT, MCP)
    assert invocation.folder == str(tmp_path / "run" / "desk")
    settings = settings_of_gemini(invocation)
    assert settings["mcpServers"] == {"tandem": {"httpUrl": MCP, "trust": True}}
    # In a folder that it works in it would obey what is called GEMINI.md.
    assert settings["context"]["includeDirectories"] == [str(tmp_path / "run" / "given")]
    assert json.dumps(room.workspace) in invocation.stdin.decode()

"""Codex: a permission profile, a schema, and the answer in a file."""

from __future__ import annotations

import json
import os
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tandem.errors import ConfigInvalid
from tandem.pool.reviewers import Invocation, RunContext
from tests.reviewers.providing import MCP, PROMPT, SCHEMA, ended, made, values, without_keys


def settings_of_codex(invocation: Invocation) -> dict[str, Any]:
    merged: dict[str, Any] = {}
    for one in values(invocation, "-c"):
        merged |= {one.partition("=")[0]: tomllib.loads(f"value = {one.partition('=')[2]}")["value"]}
    return merged


def test_codex_answers_by_schema_into_a_file(room: RunContext) -> None:
    invocation = made("codex").review(room, PROMPT)
    assert invocation.argv[:3] == ("codex", "exec", "--json")
    assert invocation.argv[-1] == "-"
    assert values(invocation, "-C") == [room.workspace]
    (schema,) = values(invocation, "--output-schema")
    assert json.loads(invocation.files[os.path.relpath(schema, room.scratch)]) == SCHEMA
    answer = Path(*values(invocation, "--output-last-message"))
    answer.write_text('{"verdict": "approved"}\n')
    event = {"type": "item.completed", "item": {"type": "agent_message", "text": "Let me see."}}
    assert made("codex").read(ended(json.dumps(event)), room).text == '{"verdict": "approved"}'


def test_codex_only_reads_the_repository_and_reaches_no_network(room: RunContext, tmp_path: Path) -> None:
    package = tmp_path / "lib" / "node_modules" / "@openai" / "codex" / "bin"
    package.mkdir(parents=True)
    (package / "codex.js").touch(0o700)
    (tmp_path / "codex").symlink_to(package / "codex.js")
    room = replace(room, environment={**room.environment, "PATH": str(tmp_path)})
    for invocation in (made("codex").review(room, PROMPT), made("codex").agent(room, PROMPT, MCP)):
        settings = settings_of_codex(invocation)
        assert settings["default_permissions"] == "tandem"
        assert settings["permissions.tandem"] == {
            "filesystem": {
                ":minimal": "read",
                ":workspace_roots": {".": "read"},
                str(tmp_path / "lib" / "node_modules"): "read",
                str(tmp_path / "run" / "given"): "read",
            },
            "network": {"enabled": False},
        }
        assert settings["model_reasoning_effort"] == "high"
        assert settings["project_doc_max_bytes"] == 0
        assert not any("danger" in word or word in {"--sandbox", "--trust"} for word in invocation.argv)


def test_codex_behind_a_launcher_is_refused(room: RunContext, tmp_path: Path) -> None:
    (tmp_path / "volta-shim").touch(0o700)
    (tmp_path / "codex").symlink_to(tmp_path / "volta-shim")
    with pytest.raises(ConfigInvalid, match="launcher"):
        made("codex").review(replace(room, environment={"PATH": str(tmp_path)}), PROMPT)


def _skills(room: RunContext, count: int, *, width: int = 1) -> list[str]:
    folder = Path(room.workspace, ".agents", "skills")
    for number in range(count):
        skill = folder / f"{'s' * width}{number:04}"
        skill.mkdir(parents=True)
        (skill / "SKILL.md").write_text("---\nname: trap\n---\n")
    return sorted(str(one) for one in folder.rglob("SKILL.md"))


def test_all_of_many_skills_are_switched_off_and_those_behind_links(room: RunContext, tmp_path: Path) -> None:
    (tmp_path / "elsewhere" / "linked").mkdir(parents=True)
    (tmp_path / "elsewhere" / "linked" / "SKILL.md").write_text("---\nname: trap\n---\n")
    expected = _skills(room, 300)
    folder = Path(room.workspace, ".agents", "skills")
    (folder / "link").symlink_to(tmp_path / "elsewhere")
    (folder / "back").symlink_to(folder)
    off = settings_of_codex(made("codex").review(room, PROMPT))["skills.config"]
    assert [one["path"] for one in off] == sorted([*expected, str(tmp_path / "elsewhere" / "linked" / "SKILL.md")])
    assert {one["enabled"] for one in off} == {False}


def test_more_skills_than_can_be_switched_off_refuse_the_run(room: RunContext) -> None:
    _skills(room, 600, width=200)
    with pytest.raises(ConfigInvalid, match="more skills for Codex than can be switched off"):
        made("codex").review(room, PROMPT)


def test_codex_can_use_another_service(room: RunContext) -> None:
    elsewhere = replace(room, environment={**room.environment, "OPENAI_BASE_URL": "http://127.0.0.1:4000/v1"})
    settings = settings_of_codex(made("codex").review(elsewhere, PROMPT))
    assert settings["model_provider"] == "tandem"
    assert settings["model_providers.tandem"]["base_url"] == "http://127.0.0.1:4000/v1"
    assert settings["model_providers.tandem"]["env_key"] == "CODEX_API_KEY"
    of_this_machine = made("codex").review(without_keys(room, OPENAI_BASE_URL="http://127.0.0.1:4000/v1"), PROMPT)
    assert "env_key" not in settings_of_codex(of_this_machine)["model_providers.tandem"]

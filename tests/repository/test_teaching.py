"""The texts for agents are true: their commands exist, each client can read them, and the plugins have the same."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tandem.server.mcp.server import instructions
from tandem.setup import teaching
from tandem.setup.teaching import SKILL, ClientName
from tests.architecture.source import ROOT
from tools import plugins

EVERYTHING = "\n".join(
    [teaching.block(), plugins.plugin_files()["plugins/tandem/README.md"]]
    + [file.text for client in teaching.CLIENTS for file in teaching.files(client)]
)
REFERENCES = re.compile(r"\b(?:create_review|get_review_status|accept_counter_patch|close_review)\b")


def test_the_tools_in_the_texts_are_tools() -> None:
    from tandem.bridge.operations import OPERATIONS

    assert {found[0] for found in REFERENCES.finditer(EVERYTHING)} == {
        "accept_counter_patch",
        "close_review",
        "create_review",
        "get_review_status",
    }
    assert set(OPERATIONS) >= {found[0] for found in REFERENCES.finditer(EVERYTHING)}


@pytest.mark.parametrize("client", teaching.CLIENTS)
def test_each_client_gets_its_own_form(client: ClientName) -> None:
    files = {file.path: file for file in teaching.files(client)}
    assert sum(path.endswith(f"/skills/{SKILL}/SKILL.md") for path in files) == 1
    for path, file in files.items():
        assert not re.match(r"/|[A-Z]:|\.\.", path)
        assert "gsd-" not in path, "GSD's updater takes those away"
        assert file.text.endswith("\n")
        if path.endswith(".toml"):
            document = tomllib.loads(file.text)
            assert set(document) == {"description", "prompt"}
        elif client != "cursor" or "skills" in path:
            front, _, body = file.text.removeprefix("---\n").partition("\n---\n")
            facts = dict(line.split(": ", 1) for line in front.splitlines())
            assert len(facts["description"]) < 1024
            assert facts.get("name") == (Path(path).parent.name if "skills" in path else None)
            assert body.strip()
    reviews = [file.text for path, file in files.items() if re.search(r"tandem[/-]review\.", path)]
    assert len(reviews) == (0 if client == "codex" else 1)
    assert "{arguments}" not in EVERYTHING


def test_every_text_says_the_same_way_to_wait_and_the_cheaper_one_first() -> None:
    texts = [teaching.block(), teaching.skill(), teaching.command("claude", "review"), instructions("proposer", ())]
    commit, go_on = "`tandem commit -m 'why'`", "`tandem commit`"
    for text in texts:
        plain = " ".join(text.split())
        assert commit in plain
        assert go_on in plain
        assert re.search(r"12\W+not yet|not yet \(exit status 12\)", plain)
        assert re.search(r"14\W+(\| )?(stop|a person has to look: stop)|14 \| a person has to look: stop", plain)
        # The way that costs a turn of the model each time comes after the one that costs none.
        tools = [plain.find(name) for name in ("create_review", "get_review_status") if name in plain]
        assert all(plain.index("tandem") < found for found in tools)
    assert texts[3].index(commit) < texts[3].index("get_review_status")


def test_agents_are_told_how_a_whole_branch_reaches_its_base_branch() -> None:
    for text in (teaching.block(), teaching.skill()):
        assert "`tandem land BRANCH`" in text
        assert "`tandem submit --branch --wait -m '" in text
    assert "submit --range" not in EVERYTHING


def test_the_texts_are_short() -> None:
    assert len(teaching.block()) < 1500
    assert all(len(file.text) < 6000 for client in teaching.CLIENTS for file in teaching.files(client))


def test_hooks_name_no_place_of_a_machine_in_a_shared_file() -> None:
    portable = teaching.hooks("claude", ["tandem", "hook"])
    local = teaching.hooks("claude", [sys.executable, "-c", "it's; a program"])
    assert {entry.path for entry in portable} == {".claude/settings.json"}
    assert {entry.path for entry in local} == {".claude/settings.local.json"}
    for client in ("codex", "gemini"):
        assert {entry.scope for entry in teaching.hooks(client, [sys.executable])} == {"user"}
    assert teaching.hooks("opencode", ["tandem", "hook"]) == teaching.hooks("cursor", ["tandem", "hook"]) == ()


def test_a_hooks_command_is_what_it_was_made_of(plain: Path) -> None:
    program = 'import sys; from tandem.hooks.main import main; main()  # it\'s "quoted" $HOME'
    for client in ("claude", "codex", "gemini"):
        for entry in teaching.hooks(client, [sys.executable, "-c", program]):
            [group] = entry.items
            [handler] = group["hooks"]
            assert handler["type"] == "command"
            assert 0 < handler["timeout"] // (1000 if client == "gemini" else 1) <= 60
            command = ["cmd", "/c", handler["command"]] if os.name == "nt" else ["sh", "-c", handler["command"]]
            done = subprocess.run(command, cwd=plain, input=b"{}", capture_output=True, check=False, timeout=60)
            assert (done.returncode, done.stderr, done.stdout) == (0, b"", b"")


def test_codex_is_known_to_ask_for_trust() -> None:
    [note] = teaching.notes("codex")
    assert "/hooks" in note


def test_the_plugins_in_the_repository_are_current() -> None:
    assert plugins.stale(ROOT) == []
    files = plugins.plugin_files()
    for name, text in files.items():
        if name.endswith(".json"):
            json.loads(text)
    skill = files[f"plugins/tandem/skills/{SKILL}/SKILL.md"]
    installed = [file for client in teaching.CLIENTS for file in teaching.files(client)]
    assert {skill} == {file.text for file in installed if file.path.endswith(f"skills/{SKILL}/SKILL.md")}


def test_a_plugin_that_is_not_current_is_noticed(tmp_path: Path) -> None:
    assert plugins.main([], tmp_path) == 0
    assert plugins.main(["--check"], tmp_path) == 0
    (tmp_path / "plugins" / "tandem" / "README.md").write_text("other\n", "utf-8")
    (tmp_path / "plugins" / "tandem" / "left-over.md").write_text("old\n", "utf-8")
    (tmp_path / ".claude-plugin" / "marketplace.json").unlink()
    assert len(plugins.stale(tmp_path)) == 3
    assert plugins.main(["--check"], tmp_path) == 1

"""`tandem init` and `uninit`, with a real broker, repositories as people have them, and a home folder of their own."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.broker import DATA_DIRS
from tests.commandline import git
from tests.modes import VARIATION
from tests.repository.desks import CLIENTS, SERVER_FILES, THEIRS, Desk, command_of, commit, make_desk

__all__ = ["make_desk"]


def test_sets_every_client_up_and_takes_exactly_that_back(desk: Desk) -> None:
    before = desk.all()
    ended = desk.for_all()
    assert ended.status == 0, ended.stderr
    assert desk.projects()[desk.name] == str(desk.root)
    for name in SERVER_FILES:
        assert command_of(desk.root, name) == ["tandem", "mcp", "--role", "proposer"]
    for name in ("CLAUDE.md", "AGENTS.md", "GEMINI.md"):
        assert (desk.root / name).read_text("utf-8").count("tandem:review begin") == 1
    settings = json.loads((desk.root / ".claude/settings.json").read_bytes())
    assert settings["permissions"]["allow"] == ["mcp__tandem__*"]
    assert "hooks" not in settings
    assert (desk.home / ".claude/skills/tandem-review/SKILL.md").is_file()
    assert "CLAUDE.md" in ended.stdout
    assert "~/.claude/skills/tandem-review/SKILL.md" in ended.stdout
    ended = desk.run("uninit", "--yes")
    assert ended.status == 0, ended.stderr
    assert desk.all() == before
    assert desk.name not in desk.projects()
    assert "Nothing of Tandem's" in desk.run("uninit", "--yes").stderr


def test_merges_into_whatever_is_there_and_restores_it_to_the_byte(desk: Desk) -> None:
    desk.write(THEIRS)
    before = desk.all()
    assert desk.for_all("--gate").status == 0
    there, times = desk.all(), desk.times()
    assert all(there[f"repository/{name}"] != content for name, content in THEIRS.items())
    assert b'"other": {"command": "x"}' in (desk.root / ".mcp.json").read_bytes()
    assert tomllib.loads((desk.root / ".codex/config.toml").read_text("utf-8"))["mcp_servers"]["other"]["args"] == [
        "[x]"
    ]
    rules = json.loads((desk.root / "opencode.json").read_bytes())["permission"]
    assert list(rules.items()) == [("*", "ask"), ("tandem_*", "allow")]
    again = desk.for_all("--gate")
    assert (again.status, "No file had to be changed" in again.stdout) == (0, True)
    assert (desk.all(), desk.times()) == (there, times)
    desk.person("uninit", "--yes")
    assert desk.all() == before


def test_a_dry_run_prints_what_git_can_apply_and_changes_nothing(desk: Desk) -> None:
    desk.write(THEIRS)
    before, times = desk.all(), desk.times()
    options = [word for name in CLIENTS for word in ("--client", name)]
    shown = subprocess.run(
        [sys.executable, "-m", "tandem", "init", "--dry-run", "--gate", *options],
        cwd=desk.root,
        env={**os.environ, "TANDEM_BROKER": desk.inside.url},
        capture_output=True,
        check=True,
        timeout=60,
    )
    assert (desk.all(), desk.times()) == (before, times)
    assert "would be registered as repository" in shown.stderr.decode()
    assert "gate would be switched on" in shown.stderr.decode()
    assert str(desk.root) not in desk.projects().values()
    parts = [f"diff --git {part}" for part in shown.stdout.decode("utf-8", "surrogateescape").split("diff --git ")[1:]]
    for_project = "".join(part for part in parts if not part.startswith("diff --git a/~/"))
    assert len(parts) > for_project.count("diff --git") > 5
    patch = for_project.encode("utf-8", "surrogateescape")
    subprocess.run(["git", "apply", "--whitespace=nowarn"], cwd=desk.root, input=patch, check=True)
    applied = desk.all()
    git(desk.root, "stash", "--all", "--quiet")
    desk.write(THEIRS)
    assert desk.for_all("--gate").status == 0
    done = {name: content for name, content in desk.all().items() if name.startswith("repository/")}
    assert done == {name: content for name, content in applied.items() if name.startswith("repository/")}
    dry = desk.run("uninit", "--dry-run", "--json").data
    assert {one["change"] for one in dry["files"]} == {"change", "delete"}
    assert "-  " in dry["diff"]


def test_what_a_person_and_the_clients_write_meanwhile_stays(desk: Desk) -> None:
    desk.for_all("--gate")
    settings, config, notes = (
        desk.root / name for name in (".claude/settings.json", ".codex/config.toml", "AGENTS.md")
    )
    settings.write_bytes(settings.read_bytes().replace(b'"mcp__tandem__*"', b'"mcp__tandem__*",\n      "Bash(ls)"'))
    config.write_bytes(config.read_bytes() + b'\n[projects."/x"]\ntrust_level = "trusted"\n')
    notes.write_bytes(b"# Ours\n\n" + notes.read_bytes() + b"\nMore.\n")
    (desk.root / ".gemini/own.md").write_bytes(b"own")
    desk.person("uninit", "--yes")
    left = {
        name: content for name, content in desk.all().items() if name.startswith("repository/.") or "AGENTS" in name
    }
    assert left == {
        "repository/.claude": "folder",
        "repository/.claude/settings.json": b'{\n  "permissions": {\n    "allow": [\n      "Bash(ls)"\n    ]\n  }\n}\n',
        "repository/.codex": "folder",
        "repository/.codex/config.toml": b'\n[projects."/x"]\ntrust_level = "trusted"\n',
        "repository/.gemini": "folder",
        "repository/.gemini/own.md": b"own",
        "repository/.git": "folder",
        "repository/AGENTS.md": b"# Ours\n\n\nMore.\n",
    }


def test_finds_clients_by_their_programs_and_their_folders(desk: Desk, tmp_path: Path) -> None:
    ended = desk.init()
    assert (ended.status, "--client claude|codex" in ended.stderr) == (0, True)
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "codex").write_text("#!/bin/sh\n", "utf-8")
    (programs / "codex").chmod(0o755)
    (desk.home / ".gemini").mkdir()
    path = os.pathsep.join([str(programs), os.environ["PATH"]])
    found = desk.init("--json", PATH=path).data["clients"]
    assert found == [
        {"client": "codex", "title": "Codex", "program": str(programs / "codex"), "folder": None},
        {"client": "gemini", "title": "Gemini CLI", "program": None, "folder": str(desk.home / ".gemini")},
    ]
    assert {path.name for path in desk.root.iterdir()} >= {".codex", ".gemini", "AGENTS.md", "GEMINI.md"}
    assert not (desk.root / ".mcp.json").exists()
    more = desk.init("--client", "cursor", "--json").data["clients"]
    assert [one["client"] for one in more] == ["codex", "gemini", "cursor"]
    assert desk.init("--client", "emacs").status == 1


def test_what_init_wrote_passes_the_gate_and_an_edit_of_it_does_not(desk: Desk) -> None:
    desk.write({"AGENTS.md": b"# Ours\n", ".mcp.json": b'{"mcpServers": {}}'})
    git(desk.root, "add", "--all")
    git(desk.root, "commit", "--quiet", "--message", "ours")
    desk.write({".mcp.json": b'{"mcpServers": {"mine": {"command": "x"}}}'})
    ended = desk.init("--client", "claude", "--client", "codex", "--gate", "--broker", desk.inside.url)
    assert "approved what init wrote" in ended.stdout
    [line] = [line for line in ended.stderr.splitlines() if "next: git add" in line]
    command = line.partition("next: ")[2]
    # A person had changed that one before: only init's own bytes are approved.
    assert ".mcp.json" not in command
    (desk.root / "AGENTS.md").write_bytes((desk.root / "AGENTS.md").read_bytes() + b"One more line.\n")
    edited = subprocess.run(["sh", "-c", command], cwd=desk.root, check=False, capture_output=True, text=True)
    assert "AGENTS.md: no approved round has this content" in edited.stderr
    text = (desk.root / "AGENTS.md").read_bytes().removesuffix(b"One more line.\n")
    (desk.root / "AGENTS.md").write_bytes(text)
    done = subprocess.run(["sh", "-c", command], cwd=desk.root, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert git(desk.root, "status", "--short").split() == ["M", ".mcp.json"]
    again = desk.init("--client", "claude", "--client", "codex", "--gate", "--json").data
    assert (again["approved_as"], again["files"]) == (None, [])


def test_what_init_says_to_run_next_commits_its_own_files_alone_also_outside_of_a_sparse_checkout(desk: Desk) -> None:
    git(desk.root, "sparse-checkout", "set", "somewhere")
    desk.write({"mine.py": b"mine\n"})
    git(desk.root, "add", "--sparse", "mine.py")
    ended = desk.init("--client", "claude", "--gate", "--yes", "--broker", desk.inside.url)
    [command] = re.findall("next: (git add .*)", ended.stderr)
    done = subprocess.run(["sh", "-c", command], cwd=desk.root, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert git(desk.root, "status", "--short").split() == ["A", "mine.py"]


def test_the_gate_records_the_broker_of_the_environment_and_the_clients_files_do_not(desk: Desk) -> None:
    assert desk.init("--client", "claude", "--gate", "--yes").status == 0
    gate = json.loads((desk.root / ".git/tandem/gate.json").read_bytes())
    assert (gate["broker"], Path(gate["data_dir"])) == (desk.inside.url, DATA_DIRS[desk.inside.url])
    assert desk.inside.url not in (desk.root / ".mcp.json").read_text("utf-8")
    (desk.root / "a.txt").write_text("new\n", "utf-8")
    # Without the variable and without a token, the hook finds the broker, which proves whose it is.
    git(desk.root, "add", "a.txt")
    refused = subprocess.run(["git", "commit", "-m", "x"], cwd=desk.root, check=False, capture_output=True, text=True)
    assert "no approved round has this content" in refused.stderr


def test_a_broker_that_was_named_is_on_record_without_a_gate_too(desk: Desk) -> None:
    desk.init("--client", "claude", "--broker", desk.inside.url)
    known = desk.run("status", "--json", TANDEM_BROKER="").data
    assert (known["url"], known["from"]) == (desk.inside.url, "the record in the git folder")
    assert desk.run("review", "list", TANDEM_BROKER="").status == 0
    desk.run("uninit", "--yes")
    assert desk.run("status", "--json", TANDEM_BROKER="").data["from"] != known["from"]


def test_a_broker_of_another_user_is_not_put_on_record(desk: Desk) -> None:
    key = DATA_DIRS[desk.inside.url] / "owner.key"
    key.chmod(0o644)
    try:
        refused = desk.init("--client", "claude", "--gate")
    finally:
        key.chmod(0o600)
    assert refused.status == 1
    assert "No hook would ask" in refused.stderr
    assert not (desk.root / ".git/tandem/gate.json").exists()


def test_an_agent_that_runs_init_approves_nothing(desk: Desk) -> None:
    ended = desk.init("--client", "claude", "--gate", CLAUDECODE="1")
    assert "What init wrote is not approved: an agent ran this command" in ended.stderr
    assert "tandem submit --staged" in ended.stderr.splitlines()[-1]


def test_with_the_gate_commits_are_refused_until_uninit_and_no_agent_undoes_it(desk: Desk) -> None:
    ended = desk.init("--client", "claude", "--gate")
    assert "gate     on" in ended.stdout
    hooks = json.loads((desk.root / ".claude/settings.json").read_bytes())["hooks"]
    assert "tandem hook agent" in json.dumps(hooks["PreToolUse"])
    (desk.root / "a.txt").write_text("new\n", "utf-8")
    refused = commit(desk)
    assert "tandem: refused" in refused.stderr
    by_agent = desk.run("uninit", "--yes", CLAUDECODE="1")
    assert (by_agent.status, "CLAUDECODE" in by_agent.stderr) == (1, True)
    assert commit(desk).returncode != 0
    assert desk.init("--client", "claude").status == 0
    assert "PreToolUse" in (desk.root / ".claude/settings.json").read_text("utf-8")
    unasked = desk.run("uninit", "--yes")
    assert (unasked.status, "at a terminal" in unasked.stderr) == (1, True)
    assert commit(desk).returncode != 0
    desk.run("commit", "-m", "m", "--timeout", "0")
    assert "gate     off" in desk.person("uninit", "--yes")
    assert not (desk.root / ".git/tandem/commit").exists()
    assert commit(desk).returncode == 0


DIES = """
import os, signal, sys
from tandem.__main__ import main
real, at = os.replace, sys.argv.pop(1)
def dies(source, target, **named):
    if os.path.basename(target) == at:
        os.kill(os.getpid(), signal.SIGKILL)
    return real(source, target, **named)
os.replace = dies
main()
"""


@pytest.mark.skipif(sys.platform == "win32", reason="platform: no SIGKILL")
@pytest.mark.parametrize(
    ("file", "again"),
    [
        pytest.param("init.json", False, marks=VARIATION),
        pytest.param("CLAUDE.md", True, marks=VARIATION),
        ("pre-push", True),
        ("gate.json", False),
    ],
)
def test_what_a_killed_init_left_is_cleaned_by_the_next_command(desk: Desk, file: str, again: bool) -> None:
    before = desk.all()
    arguments = ["init", "--yes", "--name", desk.name, "--client", "claude", "--gate"]
    died = subprocess.run(
        [sys.executable, "-c", DIES, file, *arguments],
        env={**os.environ, "TANDEM_BROKER": desk.inside.url},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
        timeout=60,
    )
    assert died.returncode == -signal.SIGKILL, died.stderr.decode()
    if again:
        assert "gate     on" in desk.run(*arguments).stdout
        assert not [name for name in desk.all() if name.endswith((".new", ".lock"))]
    desk.person("uninit", "--yes")
    assert desk.all() == before
    assert desk.name not in desk.projects()


def test_what_uninit_could_not_tell_the_broker_it_tells_it_the_next_time(desk: Desk) -> None:
    before = desk.all()
    assert desk.init("--client", "claude", "--gate", "--broker", desk.inside.url).status == 0
    away = desk.person("uninit", "--yes", TANDEM_BROKER="http://127.0.0.1:9")
    assert "run 'tandem uninit' again" in " ".join(away.split())
    assert desk.run("uninit", "--yes").status == 0
    assert desk.all() == before
    assert desk.name not in desk.projects()


def test_a_gate_that_was_on_before_stays_on(desk: Desk) -> None:
    assert desk.run("gate", "on", "--project", desk.name, "--new").status == 0
    desk.init("--client", "claude", "--gate")
    ended = desk.run("uninit", "--yes")
    assert "still on" in ended.stderr
    assert desk.name in desk.projects()
    (desk.root / "a.txt").write_text("new\n", "utf-8")
    assert commit(desk).returncode != 0
    desk.person("gate", "off")

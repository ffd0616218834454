"""`tandem init` where something is in the way, missing or elsewhere, and where there is more than one of it."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.broker import fresh_project
from tests.commandline import git
from tests.repository.desks import THEIRS, Desk, command_of, make_desk, process, server_of
from tests.repository.gating import new_repository
from tests.repository.terminal import at_a_terminal

__all__ = ["make_desk"]


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        (".mcp.json", b'{\n  "mcpServers": {,}\n}', "line 2, column 18"),
        (".codex/config.toml", b"a = 1\n[b\n", "line 2"),
        (".claude/settings.json", b'{"permissions": {"allow": "x"}}', 'permissions.allow" is not a list'),
    ],
)
def test_a_file_that_cannot_be_read_is_named_and_nothing_is_done(
    desk: Desk, name: str, content: bytes, says: str
) -> None:
    desk.write({name: content})
    before = desk.all()
    ended = desk.for_all("--gate")
    assert ended.status == 1
    assert str(desk.root / name) in ended.stderr
    assert says in ended.stderr
    assert desk.all() == before
    assert desk.name not in desk.projects()
    assert not (desk.root / ".git" / "tandem").exists()


def test_a_gate_that_cannot_be_installed_takes_everything_back(desk: Desk) -> None:
    desk.write(THEIRS)
    hooks = desk.root / ".git" / "hooks"
    for path in hooks.glob("*"):
        path.unlink()
    hooks.rmdir()
    hooks.write_bytes(b"in the way")
    before = desk.all()
    ended = desk.for_all("--gate")
    assert ended.status == 1
    assert desk.all() == before
    assert desk.name not in desk.projects()
    assert not (desk.root / ".git" / "tandem" / "installed.json").exists()
    assert not (desk.root / ".git" / "tandem" / "init.json").exists()


def test_a_server_of_our_name_that_is_not_ours_is_left_alone_and_said(desk: Desk) -> None:
    theirs = {
        ".mcp.json": b'{"mcpServers": {"tandem": {"command": "mine"}}}',
        ".codex/config.toml": b'[mcp_servers]\ntandem = { command = "mine" }\n',
    }
    desk.write(theirs)
    ended = desk.init("--client", "claude", "--client", "codex")
    assert ended.status == 0
    for name, content in theirs.items():
        assert (desk.root / name).read_bytes() == content
        assert str(desk.root / name) in ended.stderr
    desk.run("uninit", "--yes")
    assert {name: (desk.root / name).read_bytes() for name in theirs} == theirs


def test_instructions_that_import_the_shared_ones_get_no_block_of_their_own(desk: Desk) -> None:
    desk.write({"CLAUDE.md": b"@AGENTS.md\n", "AGENTS.md": b"# Ours\n"})
    assert desk.init("--client", "claude", "--client", "codex").status == 0
    assert (desk.root / "CLAUDE.md").read_bytes() == b"@AGENTS.md\n"
    assert (desk.root / "AGENTS.md").read_text("utf-8").count("tandem:review begin") == 1


def test_without_tandem_on_path_the_interpreter_is_named_and_works(desk: Desk) -> None:
    ended = desk.init("--client", "claude", "--client", "opencode", "--client", "codex", PATH=os.defpath)
    assert "not on PATH" in ended.stderr
    assert command_of(desk.root, ".mcp.json")[:4] == [sys.executable, "-P", "-m", "tandem"]
    (desk.root / "tandem.py").write_text("raise SystemExit('taken from the repository')", "utf-8")
    for command in (command_of(desk.root, ".mcp.json"), command_of(desk.root, "opencode.json")):
        answered = subprocess.run([*command, "--help"], cwd=desk.root, check=True, capture_output=True, timeout=60)
        assert b"Usage: tandem mcp" in answered.stdout


def test_a_broker_that_is_named_is_the_clients_too(desk: Desk) -> None:
    assert desk.init("--client", "cursor", "--broker", desk.inside.url).status == 0
    assert server_of(desk.root, ".cursor/mcp.json")["args"][-2:] == ["--broker", desk.inside.url]
    away = desk.init("--client", "cursor", "--broker", "http://127.0.0.1:1")
    assert (away.status, "127.0.0.1:1" in away.stderr) == (3, True)


def test_files_of_the_user_stay_while_another_project_needs_them(
    desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = {name: content for name, content in desk.all().items() if name.startswith("home/")}
    other = new_repository(tmp_path / "other")
    desk.init("--client", "claude")
    skill = desk.home / ".claude/skills/tandem-review/SKILL.md"
    monkeypatch.chdir(other)
    name, desk.name = desk.name, fresh_project()
    assert desk.init("--client", "claude").status == 0
    monkeypatch.chdir(desk.root)
    assert desk.run("uninit", "--yes").status == 0
    assert skill.is_file()
    assert name not in desk.projects()
    monkeypatch.chdir(other)
    assert desk.run("uninit", "--yes").status == 0
    assert {name: content for name, content in desk.all().items() if name.startswith("home/")} == before


def test_folders_that_a_variable_moves_are_found(desk: Desk, tmp_path: Path) -> None:
    moved = {"CODEX_HOME": str(tmp_path / "codex"), "CLAUDE_CONFIG_DIR": str(tmp_path / "claude")}
    (tmp_path / "codex").mkdir()
    (tmp_path / "codex" / "hooks.json").write_bytes(b'{"hooks": {}}')
    found = desk.init("--gate", "--json", **moved).data
    assert [one["client"] for one in found["clients"]] == ["codex"]
    assert b"tandem hook agent" in (tmp_path / "codex" / "hooks.json").read_bytes()
    assert (tmp_path / "codex" / "skills" / "tandem-review" / "SKILL.md").is_file()
    # Also when the variable is no longer set.
    desk.person("uninit", "--yes")
    assert [path.name for path in (tmp_path / "codex").rglob("*")] == ["hooks.json"]
    assert (tmp_path / "codex" / "hooks.json").read_bytes() == b'{"hooks": {}}'


def test_a_linked_working_tree_is_set_up_by_itself(desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    git(desk.root, "worktree", "add", "--quiet", "-b", "side", str(tmp_path / "side"))
    desk.init("--client", "claude")
    monkeypatch.chdir(tmp_path / "side")
    again = desk.init("--client", "claude", "--json").data
    assert (again["project"], again["registered"]) == (desk.name, False)
    assert (tmp_path / "side" / ".mcp.json").is_file()
    assert desk.run("uninit", "--yes").status == 0
    assert sorted(path.name for path in (tmp_path / "side").iterdir()) == [".git", "a.txt", "b.txt"]
    assert (desk.root / ".mcp.json").is_file()
    assert desk.name in desk.projects()


@pytest.mark.skipif(sys.platform == "win32", reason="platform: modes are POSIX's")
def test_a_git_folder_that_cannot_be_written_is_named_with_what_helps(desk: Desk) -> None:
    # Root may write in spite of the modes, but not in a user namespace without the files' owner.
    alone = ["unshare", "--user"] if os.geteuid() == 0 else []
    if alone and subprocess.run([*alone, "true"], check=False, capture_output=True, timeout=60).returncode:
        pytest.skip("platform: this machine allows no user namespaces")
    before, folder = desk.all(), desk.root / ".git"
    folder.chmod(0o500)
    try:
        for options in ((), ("--gate",)):
            command = [*alone, sys.executable, "-m", "tandem", "init", "--yes", "--client", "claude", *options]
            environment = {**os.environ, "TANDEM_BROKER": desk.inside.url}
            ended = subprocess.run(
                command, cwd=desk.root, env=environment, check=False, capture_output=True, text=True, timeout=60
            )
            assert ended.returncode == 1
            assert "Traceback" not in ended.stderr
            assert "refused: UNAVAILABLE" in ended.stderr
            [advice] = re.findall("once you may write there: (.*)", ended.stderr)
            assert advice == f"chmod u+rwx {folder}"
        subprocess.run(shlex.split(advice), check=True)
        assert desk.all() == before
        assert desk.init("--client", "claude").status == 0
    finally:
        folder.chmod(0o755)


@pytest.mark.skipif(sys.platform == "win32", reason="platform: there are no pseudo-terminals")
@pytest.mark.parametrize("command", ["init", "uninit"])
def test_a_no_is_no_refusal(desk: Desk, command: str) -> None:
    if command == "uninit":
        desk.init("--client", "claude")
    before = desk.all()
    arguments = [command, *(("--client", "claude") if command == "init" else ())]
    broker = {"TANDEM_BROKER": desk.inside.url}
    status, shown = at_a_terminal(arguments, desk.root, typed="n\n", after="Type yes: ", **broker)
    assert status == 1
    assert shown.endswith("Nothing was changed.\n")
    assert "FORBIDDEN" not in shown
    assert "refused" not in shown
    assert desk.all() == before


@pytest.mark.skipif(sys.platform == "win32", reason="platform: there are no pseudo-terminals")
@pytest.mark.parametrize("answer", ["yes", "reviewed"])
def test_a_person_chooses_what_becomes_of_commits(desk: Desk, answer: str) -> None:
    arguments = ["init", "--gate", "--client", "claude", "--name", desk.name]
    broker = {"TANDEM_BROKER": desk.inside.url}
    status, shown = at_a_terminal(arguments, desk.root, typed=f"{answer}\n", after="Type yes: ", **broker)
    assert status == 0
    chosen = {"yes": "free"}.get(answer, answer)
    assert f"commits  {chosen}: " in shown
    assert json.loads((desk.root / ".git/tandem/gate.json").read_text("utf-8"))["commits"] == chosen
    # Where it is on, a script only tightens it.
    stricter = desk.init("--client", "claude", "--commits", "followed")
    assert stricter.status == (0 if chosen == "free" else 1)


def test_without_a_terminal_it_needs_a_yes(desk: Desk) -> None:
    before = desk.all()
    ended = process(desk, "init", "--client", "claude", TANDEM_BROKER=desk.inside.url)
    assert (ended.status, "--dry-run" in ended.stderr, "--yes" in ended.stderr) == (1, True, True)
    assert desk.all() == before


def test_outside_of_a_repository_it_says_so(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(desk.home)
    for command in ("init", "uninit"):
        ended = desk.run(command, "--yes")
        assert (ended.status, "not in a git repository" in ended.stderr) == (1, True)


def test_starts_a_broker_in_the_background_when_none_runs(desk: Desk) -> None:
    own = {"TANDEM_PORT": "0"}
    assert "would be started" in process(desk, "init", "--dry-run", "--client", "claude", **own).stderr
    init = ("init", "--yes", "--client", "claude", "--json")
    try:
        done = process(desk, *init, **own).data
        assert done["broker_started"]
        listed = process(desk, "project", "list", "--json", **own).data["projects"]
        assert [one["root"] for one in listed] == [str(desk.root)]
        assert not process(desk, *init, **own).data["broker_started"]
    finally:
        assert process(desk, "down", **own).status == 0
    # Without a broker everything but the registration is removed, and the command says so.
    ended = process(desk, "uninit", "--yes", **own)
    assert (ended.status, "still registered" in ended.stderr) == (0, True)
    assert not (desk.root / ".mcp.json").exists()

"""`tandem doctor` finds problems, names the fixes, and fires every hook with a change that it must refuse."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import tandem
from tandem.setup import trust
from tests.acceptance.checking import bubblewrap
from tests.broker import BrokerProcess
from tests.commandline import Ended, Inside, Shell, finish
from tests.modes import VARIATION
from tests.repository.gating import Gated

DEAD = "#!/bin/sh\nexit 0\n"


@pytest.fixture
def user(shared_broker: BrokerProcess, tmp_path: Path) -> dict[str, str]:
    """A home folder of the person's own, in which Claude Code, Codex and Gemini CLI were used."""
    home = tmp_path / "person"
    for folder in (".claude", ".codex", ".gemini"):
        (home / folder).mkdir(parents=True)
    (home / ".gitconfig").write_text("[user]\n\tname = A\n\temail = a@example.invalid\n", "utf-8")
    return {"HOME": str(home), "USERPROFILE": str(home), "TANDEM_DATA_DIR": str(shared_broker.data_dir)}


@pytest.fixture
def here(gated: Gated, user: dict[str, str]) -> Gated:
    """A repository with its gate on, in which that person works."""
    return replace(gated, environment=user)


def examined(ended: Ended) -> dict[str, Any]:
    """Returns the report of `doctor --json`; its exit status says whether there is a problem."""
    assert ended.status == int(not ended.data["healthy"]), ended.stdout
    return ended.data


def said(found: dict[str, Any], check: str, state: str | None = None) -> list[str]:
    """Returns the messages of one check."""
    return [
        one["message"]
        for one in found["findings"]
        if one["check"] == check and (state is None or one["state"] == state)
    ]


def problems(found: dict[str, Any]) -> dict[str, str]:
    """Returns the messages of the problems by check; each problem has a fix."""
    wrong = [one for one in found["findings"] if one["state"] == "problem"]
    assert all(one["fix"] for one in wrong), wrong
    return {one["check"]: one["message"] for one in wrong}


def everything(here: Gated) -> tuple[str, ...]:
    """Returns the state that an examination must not change."""
    reviews = here.call("list_reviews")["reviews"]
    return (
        here.git("for-each-ref"),
        here.git("count-objects"),
        here.git("status", "--porcelain"),
        here.git("reflog"),
        json.dumps(reviews),
    )


@VARIATION
def test_hooks_are_judged_where_unreviewed_commits_pass_and_nothing_is_put_up(here: Gated) -> None:
    here.settings(tandem_enabled=True, execution_mode="optimistic")
    here.git("switch", "--quiet", "--create", "plan")
    before = everything(here)
    found = examined(here.tandem("doctor", "--json"))
    assert len(said(found, "hooks", "ok")) == 3
    assert everything(here) == before


def test_settings_that_a_start_or_a_reviewer_would_refuse_are_problems(here: Gated) -> None:
    pool = json.dumps({"enabled": True, "workspace_path": "/none", "prompt_template_path": "/x"})
    for stated, says in (
        ({"TANDEM_GIT_EXECUTABLE": "nogit"}, {"git_executable is 'nogit', which is no program."}),
        (
            {"TANDEM_HOST": "192.0.2.7", "TANDEM_REVIEWER_POOL": pool},
            {"Tandem does not listen on 192.0.2.7", "workspace_path is '/none'", "The prompt template /x: there is no"},
        ),
    ):
        at_fault = replace(here, environment={**here.environment, **stated})
        found = said(examined(at_fault.tandem("doctor", "--json")), "settings", "problem")
        assert [any(one.startswith(start) for one in found) for start in says] == [True] * len(found), found


def test_a_broker_that_is_away_is_said_first_with_the_command_that_starts_it(
    plain: Path, user: dict[str, str], tmp_path: Path
) -> None:
    away = {**user, "TANDEM_DATA_DIR": str(tmp_path / "missing"), "TANDEM_BROKER": "", "TANDEM_PORT": "0"}
    found = examined(finish(Shell("", plain).start("doctor", "--json", **away)))
    assert "broker" in problems(found)
    assert said(found, "project", "skipped")
    try:
        mended = examined(finish(Shell("", plain).start("doctor", "--fix", "--json", **away)))
        assert any("The broker answers at" in one for one in said(mended, "broker", "ok"))
        assert said(mended, "database", "ok")
    finally:
        assert finish(Shell("", plain).start("down", **away)).status == 0


def test_a_working_trees_files_for_clients_are_compared_with_what_init_writes(here: Gated, tmp_path: Path) -> None:
    assert here.tandem("init", "--gate", "--yes").status == 0
    here.git("add", "--all")
    here.git("commit", "--quiet", "-m", "Set up Tandem")
    there = here.linked(tmp_path / "linked", "feature")
    found = examined(here.tandem("doctor", "--json", cwd=there))
    assert problems(found) == {}
    assert said(found, "clients", "ok")
    assert said(found, "servers", "ok")
    hooks = {f"The hook of {client} refuses unapproved content." for client in ("claude", "codex", "gemini")}
    assert {*said(found, "agent hooks", "ok")} == hooks
    config = json.loads((there / ".mcp.json").read_text("utf-8"))
    config["mcpServers"]["tandem"]["timeout"] = 5
    (there / ".mcp.json").write_text(json.dumps(config), "utf-8")
    (there / "CLAUDE.md").unlink()
    found = examined(here.tandem("doctor", "--json", cwd=there))
    assert problems(found) == {"clients": "Not as tandem init writes them: CLAUDE.md"}
    assert ".mcp.json" in " ".join(said(found, "clients", "note"))
    mended = examined(here.tandem("doctor", "--fix", "--json", cwd=there))
    assert problems(mended) == {}
    assert (there / "CLAUDE.md").exists()


@VARIATION
def test_checks_that_are_trusted_are_told_with_where_they_run(here: Gated, monkeypatch: pytest.MonkeyPatch) -> None:
    config_dir = Path(os.environ["TANDEM_CONFIG_DIR"])
    here.write({".tandem/checks.toml": "[[check]]\nname = 'x'\ncommand = ['true']\n"})
    trust.add(config_dir, trust.Project.at(str(here.root), config_dir).candidates())
    monkeypatch.setenv("PATH", f"{bubblewrap()}{os.pathsep}{os.environ['PATH']}")
    found = examined(here.tandem("doctor", "--json", PATH=os.environ["PATH"]))
    assert "bubblewrap" in said(found, "checks", "ok")[0]


def test_a_commit_is_tried_on_request_and_leaves_nothing(here: Gated) -> None:
    here.write({"a.txt": "something of mine\n"})
    before = everything(here)
    found = examined(here.tandem("doctor", "--deep", "--json"))
    refuse = ("prepare-commit-msg", "reference-transaction", "pre-push", "git commit")
    assert said(found, "hooks", "ok") == [f"{one} refuses unapproved content." for one in refuse]
    assert said(found, "gate") == ["The gate is on for main (reviewed, per_task, blocking); git starts its hooks."]
    assert everything(here) == before


@pytest.mark.parametrize("works", [True, False])
def test_a_review_by_the_pool_is_tried_on_request_and_leaves_no_project(
    tmp_path_factory: pytest.TempPathFactory, tmp_path: Path, *, works: bool
) -> None:
    answers = [sys.executable, "-m", "tandem.examples.scripted_reviewer"]
    command = answers if works else [sys.executable, "-c", "raise SystemExit('no model')"]
    pool = {"enabled": True, "provider": "custom", "command": command, "spawn_cooldown_seconds": 0}
    with BrokerProcess(tmp_path_factory.mktemp("broker"), reviewer_pool=json.dumps(pool)) as broker:
        inside = Inside(broker.url, tmp_path)
        with contextlib.chdir(tmp_path):
            environment = {"TANDEM_DATA_DIR": str(broker.data_dir)}
            found = examined(inside.run("doctor", "--deep", "--json", stdin=b"", **environment))
        assert json.loads(inside.post("list_projects", {}))["data"]["projects"] == []
    if works:
        assert said(found, "review", "ok") == ["The pool's program reviewed a try: approved."]
    else:
        assert "gave no verdict" in problems(found)["review"]


def test_a_checkout_that_is_newer_than_the_running_broker_is_a_problem(tmp_path: Path) -> None:
    copy = shutil.copytree(Path(tandem.__file__).parent, tmp_path / "checkout" / "tandem")
    data_dir = str(tmp_path / "data")
    theirs = {"PYTHONPATH": str(copy.parent), "TANDEM_DATA_DIR": data_dir, "TANDEM_BROKER": "", "TANDEM_PORT": "0"}
    shell = Shell("", tmp_path)
    assert finish(shell.start("up", "--background", **theirs)).status == 0
    try:
        newest = time.time() + 60
        os.utime(copy / "app.py", (newest, newest))
        found = examined(finish(shell.start("doctor", "--json", **theirs)))
        assert f"before {copy / 'app.py'} was changed" in problems(found)["version"]
    finally:
        assert finish(shell.start("down", **theirs)).status == 0


@VARIATION
def test_people_read_a_line_for_each_finding_with_its_fix_and_a_summary(here: Gated, tmp_path: Path) -> None:
    here.settings(trusted=False, tandem_enabled=True, review_granularity="per_plan")
    (here.root / ".git" / "hooks" / "pre-push").write_text(DEAD, "utf-8")
    ended = here.tandem("doctor")
    assert ended.status == 1
    lines = ended.stdout.splitlines()
    assert any(line.startswith("ok       git ") for line in lines)
    assert any(line.startswith("PROBLEM  gate") and "pre-push" in line for line in lines)
    assert any(line.strip() == "fix: tandem gate on" for line in lines)
    assert lines[-1].endswith("tandem doctor --fix applies the safe repairs.")
    assert "Not trusted, and so without effect: review_granularity" in " ".join(ended.stdout.split())
    # Outside of a repository the machine and the broker are looked at.
    found = examined(here.tandem("doctor", "--json", cwd=tmp_path))
    assert "is in no git repository" in said(found, "project", "note")[0]
    assert said(found, "broker", "ok")


@pytest.mark.skipif(os.name != "posix", reason="platform: elsewhere the system has no list of users")
def test_a_user_of_whom_the_system_knows_no_home_folder_is_told_to_name_one(tmp_path: Path) -> None:
    unknown = (
        "import pwd, sys\n"
        "def missing(number): raise KeyError(number)\n"
        "pwd.getpwuid = missing\n"
        "from tandem.__main__ import main\n"
        "sys.argv = ['tandem', 'doctor', '--json']\n"
        "main()"
    )
    environment = {name: value for name, value in os.environ.items() if name != "HOME"}
    done = subprocess.run(
        [sys.executable, "-c", unknown], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    found = examined(Ended(done.returncode, done.stdout, done.stderr))
    assert "no home folder" in problems(found)["home"]

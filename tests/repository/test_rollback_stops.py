"""A rollback that stops says why and names the next step; branch, index and working tree stay as they are."""

from __future__ import annotations

import os
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest

from tandem.errors import InvalidTransition
from tandem.gsd.rollback.rolling import verify
from tests.commandline import Shell
from tests.modes import VARIATION
from tests.repository.rolling_back import BASE, BRANCH, UNHOOKED, Plan, Task, with_lines


def conflicting(plan: Plan) -> str:
    """A branch whose merge conflicts with `work`."""
    plan.git("switch", "--quiet", "-c", "other", "main")
    plan.foreign({"f.txt": "something else\n"})
    plan.git("switch", "--quiet", BRANCH)
    return "other"


def test_in_the_middle_of_something(plan: Plan, task: Task) -> None:
    plan.git("switch", "--quiet", "-c", "side", "main")
    plan.foreign({"side.txt": "side\n"})
    other = conflicting(plan)
    for doing in ("merge", "rebase", "cherry-pick"):
        assert plan.gated.try_git(*UNHOOKED, doing, other).status != 0
        error = plan.refused(task.review, code="INVALID_INPUT")
        assert error["details"]["in_progress"] == doing
        assert f"git {doing} --" in error["message"]
        plan.git(doing, "--abort")
    # Without conflicts, too.
    plan.git(*UNHOOKED, "merge", "--no-commit", "--no-ff", "side")
    assert plan.refused(task.review, code="INVALID_INPUT")["details"]["in_progress"] == "merge"
    plan.git("merge", "--abort")
    plan.git("switch", "--quiet", "--detach")
    assert "git switch" in plan.refused(task.review, code="INVALID_INPUT")["message"]
    plan.git("switch", "--quiet", BRANCH)
    plan.refused("rv_nobody", code="NOT_FOUND")
    plan.rolled_back(task.review)


@VARIATION
def test_local_changes_in_the_same_file(plan: Plan, task: Task) -> None:
    mine = with_lines(l3="three", l20="mine")
    plan.gated.write({"f.txt": mine})
    for _ in ("unstaged", "staged"):
        assert plan.refused(task.review, code="INVALID_INPUT")["details"]["paths"] == ["f.txt"]
        assert plan.read("f.txt") == mine
        plan.git("add", "f.txt")
    plan.git("reset", "--quiet", "--hard")
    # A deleted file is a local change.
    plan.gated.write({"new.txt": None})
    assert plan.refused(task.review, code="INVALID_INPUT")["details"]["paths"] == ["new.txt"]


def test_an_untracked_file_where_one_comes_back(plan: Plan) -> None:
    plan.foreign({"between.txt": "x\n"})
    task = plan.commit({"f.txt": None}, "feat(03-02): remove")
    plan.reject(task.review)
    plan.gated.write({"f.txt": "mine\n"})
    for ignored in ("", "f.txt\n"):
        (plan.root / ".git" / "info" / "exclude").write_text(ignored)
        assert plan.refused(task.review, code="INVALID_INPUT")["details"]["paths"] == ["f.txt"]
        assert plan.read("f.txt") == "mine\n"


def test_other_local_changes_stay_as_they_are(plan: Plan, task: Task) -> None:
    plan.foreign({"g.txt": "g\n", "h.txt": "h\n"})
    plan.gated.write({"g.txt": "unstaged\n", "h.txt": "staged\n", "untracked.txt": "untracked\n"})
    plan.git("add", "h.txt")
    before = plan.git("status", "--porcelain")
    plan.rolled_back(task.review)
    assert plan.git("status", "--porcelain") == before
    assert (plan.read("g.txt"), plan.read("h.txt")) == ("unstaged\n", "staged\n")
    assert plan.read("f.txt") == BASE
    assert plan.git("stash", "list") == ""


def test_an_approved_change_is_not_rolled_back(plan: Plan) -> None:
    task = plan.commit({"f.txt": with_lines(l3="three")}, "feat(03-02): count")
    plan.refused(task.review, code="INVALID_TRANSITION")
    plan.approve(task.review)
    assert "approved" in plan.refused(task.review, code="INVALID_TRANSITION")["message"]


def test_the_verify_command_sees_the_result_and_a_failing_one_stops(plan: Plan, task: Task) -> None:
    plan.verify_by("no-such-program-anywhere")
    assert "verify_command" in plan.refused(task.review, code="CONFIG_INVALID")["message"]
    script = "import sys; sys.stdout.write(open('f.txt').read()); sys.exit(7)"
    plan.verify_by(sys.executable, "-c", script)
    error = plan.refused(task.review, code="INVALID_TRANSITION")
    assert error["details"]["status_code"] == 7
    assert error["details"]["output"] == BASE.strip()
    plan.verify_by(sys.executable, "-c", "import pathlib, sys; sys.exit(pathlib.Path('new.txt').exists())")
    done = plan.rolled_back(task.review)
    assert done["verify"][0] == sys.executable


def test_a_verify_command_of_the_repository_or_the_environment_does_not_count(
    plan: Plan, task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan.gated.write({".tandem/config.toml": 'verify_command = ["false"]\n'})
    monkeypatch.setenv("TANDEM_VERIFY_COMMAND", '["true"]')
    assert plan.refused(task.review, code="CONFIG_INVALID")["details"]["setting"] == "verify_command"
    monkeypatch.delenv("TANDEM_VERIFY_COMMAND")
    assert plan.rolled_back(task.review)["verify"] is None


def test_a_verify_command_is_ended_with_all_that_it_started_when_its_time_is_up(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    os.mkfifo(pid)
    script = f"sleep 600 & echo $! > {pid}; wait"
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(verify, ("sh", "-c", script), "here", tmp_path, threading.Event(), 3)
        child = psutil.Process(int(pid.read_text()))
        with pytest.raises(InvalidTransition, match="did not end within 3 s"):
            running.result()
        child.wait(10)


def test_head_moved_meanwhile(plan: Plan, task: Task) -> None:
    commit = f"git -C {plan.root} -c core.hooksPath=/dev/null commit --quiet --allow-empty -m meanwhile"
    plan.verify_by(*commit.split())
    before = plan.head
    ended = plan.rollback(task.review, "--json")
    error = ended.envelope["error"]
    assert (error["code"], error["retryable"]) == ("UNAVAILABLE", True)
    assert "HEAD moved" in error["message"]
    assert plan.gated.head("HEAD^") == before
    assert plan.read("new.txt") == "new\n"
    assert plan.is_clean()


@VARIATION
def test_a_file_that_changed_meanwhile(plan: Plan, task: Task) -> None:
    plan.verify_by(sys.executable, "-c", f"open({str(plan.root / 'f.txt')!r}, 'a').write('mine')")
    ended = plan.rollback(task.review, "--json")
    assert ended.envelope["error"]["details"]["paths"] == ["f.txt"]
    assert plan.head == task.commit
    assert plan.read("f.txt") == with_lines(l3="three") + "mine"


def test_a_hook_of_the_repository_may_refuse_the_publication(plan: Plan, task: Task) -> None:
    hooks = plan.root / "own-hooks"
    hooks.mkdir()
    (hooks / "reference-transaction").write_text(
        '#!/bin/sh\n[ "$1" = prepared ] && grep -q refs/heads/work && { echo "not today" >&2; exit 1; }\nexit 0\n'
    )
    (hooks / "reference-transaction").chmod(0o755)
    (plan.root / ".git" / "info" / "exclude").write_text("own-hooks/\n")
    plan.git("config", "core.hooksPath", str(hooks))
    error = plan.refused(task.review, code="INVALID_TRANSITION")
    assert "not today" in error["message"]


def test_one_at_a_time(plan: Plan, task: Task, tmp_path: Path) -> None:
    waiting, go = tmp_path / "waiting", tmp_path / "go"
    os.mkfifo(waiting)
    os.mkfifo(go)
    script = f"open({str(waiting)!r}, 'w').close(); open({str(go)!r}).close()"
    plan.verify_by(sys.executable, "-c", script)
    first = Shell(plan.gated.broker.url, plan.root).start("rollback", task.review)
    with first, waiting.open():
        second = plan.rollback(task.review, "--json")
        go.open("w").close()
        assert first.wait(60) == 0
    assert second.envelope["error"]["code"] == "UNAVAILABLE"
    assert "Another rollback" in second.envelope["error"]["message"]
    assert plan.read("f.txt") == BASE

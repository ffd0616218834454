"""A rollback that is killed at any step leaves everything as before or done, and the next call ends it."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from tests.commandline import COMMAND_SECONDS, Ended, finish
from tests.forked import run_tandem
from tests.repository.gating import Gated
from tests.repository.rolling_back import BASE, Plan, Task, optimistic, with_lines

# Is run by git, as a filter, a signing program or a hook, and by the rollback as its verify command.
KILLER = """\
import os, sys
folder, point = sys.argv[1:3]
if point == "smudge":
    point = "publish" if os.path.realpath(os.getcwd()) == sys.argv[3] else "scratch"
if os.path.exists(f"{folder}/armed"):
    import json, pathlib
    folder = pathlib.Path(folder)
    order = json.loads((folder / "order.json").read_text())
    if point == order["point"] and (point != "reference" or "refs/heads/work" in sys.stdin.read()):
        import psutil
        try:
            os.unlink(folder / "armed")
        except FileNotFoundError:
            pass
        else:
            victims = []
            if order["tandem"]:
                victims += [psutil.Process(int((folder / "pid").read_text()))]
            if order["git"]:
                # From the outside in: a git whose own git is killed would still tidy up behind it.
                victims += [one for one in reversed(psutil.Process().parents()) if one.name() == "git"]
            for victim in victims:
                victim.kill()
if sys.argv[2] == "smudge":
    sys.stdout.buffer.write(sys.stdin.buffer.read())
"""
TANDEM = "import os, sys; open(sys.argv.pop(1), 'w').write(str(os.getpid())); from tandem.cli.main import run; run()"


@dataclass
class Crash:
    """A repository in which a rollback is killed."""

    plan: Plan
    folder: Path

    def killer(self, point: str) -> list[str]:
        return [sys.executable, str(self.folder / "killer.py"), str(self.folder), point, str(self.plan.root.resolve())]

    def arm(self, point: str, *, git: bool, tandem: bool = True) -> None:
        """Have the next rollback killed there, and git with it or in its stead."""
        (self.folder / "killer.py").write_text(KILLER)
        (self.folder / "order.json").write_text(json.dumps({"point": point, "git": git, "tandem": tandem}))
        (self.folder / "armed").touch()
        common = self.plan.root / ".git"
        if point in {"scratch", "publish"}:
            (common / "info" / "attributes").write_text("*.txt filter=killer\n")
            # It is run for every file of every checkout, mostly for nothing: that is not to cost an interpreter.
            guard = f"[ -e {shlex.quote(str(self.folder / 'armed'))} ] || exec cat"
            smudge = self._script("smudge", self.killer("smudge"), "exit $?", guard)
            self.plan.git("config", "filter.killer.smudge", shlex.quote(str(smudge)))
        elif point == "verify":
            config = Path(os.environ["TANDEM_CONFIG_DIR"]) / "config.toml"
            config.write_text(f"verify_command = {json.dumps(self.killer('verify'))}\n")
        elif point == "commit":
            signer = self._script("signer", [*self.killer("commit")], "exit 1")
            self.plan.git("config", "gpg.program", str(signer))
            self.plan.git("config", "commit.gpgSign", "true")
        else:
            hooks = self.folder / "hooks"
            hooks.mkdir()
            name = {"reference": "reference-transaction", "merged": "post-merge"}[point]
            guard = '[ "$1" = prepared ] || exit 0' if point == "reference" else ":"
            self._script(f"hooks/{name}", self.killer(point), "exit 0", guard)
            self.plan.git("config", "core.hooksPath", str(hooks))

    def _script(self, name: str, argv: list[str], last: str, first: str = ":") -> Path:
        file = self.folder / name
        file.write_text(f"#!/bin/sh\n{first}\n{shlex.join(argv)}\n{last}\n")
        file.chmod(0o755)
        return file

    def rollback(self, *arguments: str) -> Ended:
        """`tandem rollback` in a process of its own."""
        temporary = self.folder / "temporary"
        temporary.mkdir(exist_ok=True)
        environment = {**os.environ, "TANDEM_BROKER": self.plan.gated.broker.url, "TMPDIR": str(temporary)}
        if not (self.folder / "armed").exists():
            ended = run_tandem(["rollback", *arguments], self.plan.root, environment, seconds=COMMAND_SECONDS)
            return Ended(ended.returncode, ended.stdout, ended.stderr)
        # The killer has to find its id in a file.
        process = subprocess.Popen(
            [sys.executable, "-c", TANDEM, str(self.folder / "pid"), "rollback", *arguments],
            cwd=self.plan.root,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        return finish(process)

    def settle(self) -> None:
        """Wait until the git that it left behind, if any, is done too."""
        left: list[psutil.Process] = []
        for process in psutil.process_iter():
            with suppress(psutil.Error):
                if process.name() == "git" and Path(process.cwd()).is_relative_to(self.plan.root):
                    left.append(process)
        _, running = psutil.wait_procs(left, COMMAND_SECONDS)
        assert running == []

    def disarm(self) -> None:
        """Have signatures no longer wanted, which only the killer could give."""
        self.plan.gated.try_git("config", "--unset", "commit.gpgSign")

    @property
    def left(self) -> list[str]:
        """The scratch worktrees that are still there."""
        return [path.name for path in (self.folder / "temporary").iterdir()]


@pytest.fixture
def crash(gated: Gated, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Crash:
    folder = tmp_path / "crash"
    folder.mkdir()
    return Crash(optimistic(gated, monkeypatch.chdir), folder)


@pytest.fixture
def task(crash: Crash) -> Task:
    """A rejected commit that changes a file, adds one and takes one away, with unrelated local changes beside it."""
    crash.plan.foreign({"gone.txt": "gone\n", "other.bin": "other\n"})
    found = crash.plan.commit(
        {"f.txt": with_lines(l3="three"), "new/file.txt": "new\n", "gone.txt": None}, "feat(03-02): count"
    )
    crash.plan.reject(found.review)
    crash.plan.gated.write({"other.bin": "mine\n", "untracked.bin": "mine\n"})
    return found


def look(plan: Plan) -> dict[str, object]:
    """Branch, index and working tree."""
    found = plan.snapshot()
    return {name: found[name] for name in ("refs", "head", "index", "files")}


def ensure_ended(crash: Crash, task: Task) -> None:
    """Everything is done, once, told, and tidy; what was local still is."""
    plan = crash.plan
    assert plan.git("rev-list", "--count", f"{task.commit}..HEAD") == "1"
    assert plan.read("f.txt") == BASE
    assert plan.read("gone.txt") == "gone\n"
    assert not (plan.root / "new").exists()
    assert plan.git("status", "--porcelain") == " M other.bin\n?? untracked.bin"
    found = plan.snapshot()
    assert (found["locks"], found["note"], found["worktrees"].count("worktree ")) == ([], False, 1)
    assert crash.left == []
    assert plan.gated.call("get_gate", plan="03-02")["plan"]["rolled_back"] == [task.review]


@pytest.mark.parametrize("point", ["scratch", "commit", "verify"])
def test_killed_before_it_publishes(crash: Crash, task: Task, point: str) -> None:
    crash.arm(point, git=True)
    before = look(crash.plan)
    assert crash.rollback(task.review).status == -9
    crash.settle()
    assert look(crash.plan) == before
    assert crash.left != []
    crash.disarm()
    again = crash.rollback(task.review)
    assert again.status == 0, again.stderr
    ensure_ended(crash, task)


@pytest.mark.parametrize("point", ["publish", "reference", "merged"])
def test_killed_while_git_publishes_it_is_done_all_the_same(crash: Crash, task: Task, point: str) -> None:
    crash.arm(point, git=False)
    assert crash.rollback(task.review).status == -9
    crash.settle()
    plan = crash.plan
    assert plan.git("rev-list", "--count", f"{task.commit}..HEAD") == "1"
    assert plan.git("status", "--porcelain") == " M other.bin\n?? untracked.bin"
    again = crash.rollback(task.review, "--json")
    assert again.data["finished"]
    assert again.data["reverted"][0]["commit"] == task.commit
    ensure_ended(crash, task)
    assert crash.rollback(task.review, "--json").data["already"] == [plan.head]


@pytest.mark.parametrize("point", ["publish", "reference", "merged"])
def test_killed_together_with_git_the_next_call_ends_it(crash: Crash, task: Task, point: str) -> None:
    crash.arm(point, git=True)
    assert crash.rollback(task.review).status == -9
    crash.settle()
    again = crash.rollback(task.review)
    assert again.status == 0, again.stderr
    ensure_ended(crash, task)


@pytest.mark.parametrize("point", ["scratch", "publish", "reference"])
def test_a_killed_git_is_cleared_up_at_once(crash: Crash, task: Task, point: str) -> None:
    crash.arm(point, git=True, tandem=False)
    before = look(crash.plan)
    ended = crash.rollback(task.review, "--json")
    assert (ended.status, ended.envelope["error"]["code"]) == (1, "UNAVAILABLE")
    assert look(crash.plan) == before
    assert crash.left == []
    again = crash.rollback(task.review)
    assert again.status == 0, again.stderr
    ensure_ended(crash, task)


def test_what_was_left_is_removed_wherever_it_was_made(crash: Crash, task: Task) -> None:
    crash.arm("verify", git=True)
    assert crash.rollback(task.review).status == -9
    assert crash.left != []
    # In this process, which has another folder for what is temporary.
    crash.plan.rolled_back(task.review)
    ensure_ended(crash, task)


def test_a_worktree_of_the_users_with_such_a_name_stays(crash: Crash, task: Task, tmp_path: Path) -> None:
    mine = tmp_path / "tandem-rollback-mybranch"
    crash.plan.git("worktree", "add", "--quiet", "--detach", str(mine))
    crash.plan.rolled_back(task.review)
    assert f"worktree {mine}" in crash.plan.git("worktree", "list", "--porcelain").splitlines()


def test_a_dry_run_does_not_touch_what_a_crash_left(crash: Crash, task: Task) -> None:
    crash.arm("publish", git=True)
    crash.rollback(task.review)
    before = look(crash.plan)
    refused = crash.rollback(task.review, "--dry-run", "--json")
    assert refused.envelope["error"]["details"]["review_id"] == task.review
    assert look(crash.plan) == before


def test_what_was_changed_after_the_crash_is_not_written_over(crash: Crash, task: Task) -> None:
    crash.arm("publish", git=True)
    crash.rollback(task.review)
    crash.plan.gated.write({"f.txt": "my own work\n"})
    before = look(crash.plan)
    refused = crash.rollback(task.review, "--json")
    assert refused.status == 1
    assert refused.envelope["error"]["details"]["paths"] == ["f.txt"]
    assert look(crash.plan) == before
    crash.plan.gated.write({"f.txt": with_lines(l3="three")})
    assert crash.rollback(task.review).status == 0
    ensure_ended(crash, task)


def test_the_broker_is_told_when_it_is_back(crash: Crash, task: Task) -> None:
    broker = crash.plan.gated.broker
    stop = f"import os, signal; os.kill({broker.pid}, signal.SIGKILL)"
    config = Path(os.environ["TANDEM_CONFIG_DIR"]) / "config.toml"
    config.write_text(f"verify_command = {json.dumps([sys.executable, '-c', stop])}\n")
    first = crash.rollback(task.review, "--json")
    assert first.status == 1
    assert "No broker answers" in first.data["unsaid"]
    assert crash.plan.read("f.txt") == BASE
    broker.kill()
    broker.start()
    config.unlink()
    again = crash.rollback(task.review, "--json")
    assert again.data["finished"]
    assert again.data["unsaid"] is None
    ensure_ended(crash, task)


def test_interrupted_by_the_person(crash: Crash, task: Task) -> None:
    waiting = crash.folder / "waiting"
    os.mkfifo(waiting)
    argv = [sys.executable, "-c", f"import time; open({str(waiting)!r}, 'w').close(); time.sleep({COMMAND_SECONDS})"]
    config = Path(os.environ["TANDEM_CONFIG_DIR"]) / "config.toml"
    config.write_text(f"verify_command = {json.dumps(argv)}\n")
    before = look(crash.plan)
    process = subprocess.Popen(
        [sys.executable, "-m", "tandem", "rollback", task.review],
        cwd=crash.plan.root,
        env={**os.environ, "TANDEM_BROKER": crash.plan.gated.broker.url},
        stderr=subprocess.DEVNULL,
    )
    with process, waiting.open():
        process.send_signal(2)
        assert process.wait(COMMAND_SECONDS) != 0
    assert look(crash.plan) == before
    found = crash.plan.snapshot()
    assert (found["note"], found["worktrees"].count("worktree ")) == (False, 1)

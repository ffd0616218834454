"""A rollback that is killed at any step leaves everything as before or done, and the next call ends it."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from tests.commandline import COMMAND_SECONDS, Ended, Shell, finish
from tests.forked import run_tandem, start_tandem
from tests.repository.gating import Gated
from tests.repository.rolling_back import BASE, Plan, Task, optimistic, with_lines

KILLS = int(os.environ.get("TANDEM_ROLLBACK_KILLS", "4"))
"""At how many points a rollback is killed; 100 take some minutes."""

GONE = [f"gone/{number}.txt" for number in range(24)]

# Each step is a letter: `g` a git is started, `f` a file of ours is written, moved or removed, `s` git writes a file,
# `p` and `c` a branch is about to move and has moved, `i` the index is written, `v` the verify command runs.
STEP = """\
#!/bin/sh
cd {folder}
printf %.1s "{letter}" >> steps
case "$(cat steps)" in
    $(cat at 2>/dev/null)) rm at; . ./kill;;
esac
{last}
"""


@dataclass
class Crash:
    """A repository in which a rollback is killed."""

    plan: Plan
    folder: Path

    def install(self) -> None:
        """Have git count its steps, where a rollback is told to use this configuration."""
        (self.folder / "hooks").mkdir()
        self._script("hooks/reference-transaction", "$1")
        self._script("hooks/post-index-change", "i")
        settings = {
            "include.path": os.environ.get("GIT_CONFIG_GLOBAL", "~/.gitconfig"),
            "core.hooksPath": str(self.folder / "hooks"),
            "filter.step.smudge": shlex.quote(str(self._script("smudge", "s", "exec cat"))),
        }
        for name, value in settings.items():
            self.plan.git("config", "--file", str(self.folder / "gitconfig"), name, value)
        (self.plan.root / ".git" / "info" / "attributes").write_text("*.txt filter=step\n")

    def arm(self, at: str, *, git: bool, tandem: bool = True) -> None:
        """Have the next rollback killed once its steps match a pattern, and git with it or in its stead."""
        (self.folder / "steps").unlink(missing_ok=True)
        (self.folder / "at").write_text(at)
        killed = ["kill -9 $(cat pid)"] * tandem + ["kill -9 0"] * git
        (self.folder / "kill").write_text("\n".join([*killed, ""]))
        if "v" in at:
            self.plan.verify_by(str(self._script("verify", "v")))

    def _script(self, name: str, letter: str, last: str = "exit 0") -> Path:
        file = self.folder / name
        file.write_text(STEP.format(folder=shlex.quote(str(self.folder)), letter=letter, last=last))
        file.chmod(0o755)
        return file

    def rollback(self, *arguments: str) -> Ended:
        """`tandem rollback` in a process of its own."""
        temporary = self.folder / "temporary"
        temporary.mkdir(exist_ok=True)
        environment = {**os.environ, "TANDEM_BROKER": self.plan.gated.broker.url, "TMPDIR": str(temporary)}
        if not (self.folder / "at").exists():
            ended = run_tandem(["rollback", *arguments], self.plan.root, environment, seconds=COMMAND_SECONDS)
            return Ended(ended.returncode, ended.stdout, ended.stderr)
        watched = [str(self.plan.root), str(temporary)]
        environment["GIT_CONFIG_GLOBAL"] = str(self.folder / "gitconfig")
        words, pipe = [str(self.folder), *watched, "rollback", *arguments], subprocess.PIPE
        module = "tests.repository.counting_steps"
        return finish(start_tandem(words, self.plan.root, environment, stdout=pipe, stderr=pipe, module=module))

    def settle(self) -> None:
        """Wait until the git that it left behind, if any, is done too."""
        left: list[psutil.Process] = []
        for process in psutil.process_iter():
            with suppress(psutil.Error):
                if process.name() == "git" and Path(process.cwd()).is_relative_to(self.plan.root):
                    left.append(process)
        _, running = psutil.wait_procs(left, COMMAND_SECONDS)
        assert running == []

    @property
    def left(self) -> list[str]:
        """The scratch worktrees that are still there; an empty one, whose making was cut short, goes after a day."""
        return [path.name for path in (self.folder / "temporary").glob("tandem-*") if any(path.iterdir())]


@pytest.fixture
def crash(gated: Gated, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Crash:
    folder = tmp_path / "crash"
    folder.mkdir()
    found = Crash(optimistic(gated, monkeypatch.chdir), folder)
    found.plan.foreign({**dict.fromkeys(GONE, "gone\n"), "other.bin": "other\n", "staged.bin": "other\n"})
    found.install()
    return found


@pytest.fixture
def task(crash: Crash) -> Task:
    return rejected(crash.plan, "03-02")


def rejected(plan: Plan, key: str) -> Task:
    """A rejected commit that changes a file, adds one and takes some away, with unrelated local changes beside it."""
    files = {"f.txt": with_lines(l3=f"three of {key}"), "new/file.txt": "new\n", **dict.fromkeys(GONE)}
    found = plan.commit(files, f"feat({key}): count")
    plan.reject(found.review)
    plan.gated.stage({"staged.bin": "mine\n"})
    plan.gated.write({"other.bin": "mine\n", "untracked.bin": "mine\n"})
    return found


def are_local_changes_whole(plan: Plan) -> bool:
    """Whether the person's changed, staged and added files are as they were."""
    mine = [plan.read(name) for name in ("other.bin", "staged.bin", "untracked.bin")]
    return mine == ["mine\n"] * 3 and plan.git("show", ":staged.bin") == "mine"


def look(plan: Plan) -> dict[str, object]:
    """Branch, index and working tree."""
    found = plan.snapshot()
    return {name: found[name] for name in ("refs", "head", "index", "files")}


def ensure_ended(crash: Crash, task: Task, key: str = "03-02") -> None:
    """The rollback is done, once, reported, and tidy; local changes are kept."""
    plan = crash.plan
    assert plan.git("rev-list", "--count", f"{task.commit}..HEAD") == "1"
    assert plan.read("f.txt") == BASE
    assert {plan.read(name) for name in GONE} == {"gone\n"}
    assert not (plan.root / "new").exists()
    assert plan.git("status", "--porcelain") == " M other.bin\nM  staged.bin\n?? untracked.bin"
    assert are_local_changes_whole(plan)
    found = plan.snapshot()
    assert (found["locks"], found["note"], found["worktrees"].count("worktree ")) == ([], False, 1)
    assert crash.left == []
    assert plan.gated.call("get_gate", plan=key)["plan"]["rolled_back"] == [task.review]


def moments(steps: str) -> list[int]:
    """At which steps to kill: half of them evenly over all, half from the moving of the branch on."""
    publishing = steps.index("p")
    everywhere, late = KILLS - KILLS // 2, KILLS // 2
    spread = [1 + number * len(steps) // everywhere for number in range(everywhere)]
    later = [publishing + number * (len(steps) - publishing) // late for number in range(late)]
    free = (number for number in range(1, len(steps) + 1) if number not in {*spread, *later})
    chosen = {*spread, *(number + 1 for number in later)}
    return sorted([*chosen, *(next(free) for _ in range(min(KILLS, len(steps)) - len(chosen)))])


@pytest.mark.timeout(120 + 30 * KILLS)
def test_killed_at_any_step_the_next_call_ends_it(crash: Crash) -> None:
    plan = crash.plan
    task = rejected(plan, "02-01")
    # Never: its verify command, which is a step too, runs once.
    crash.arm("*v*v*v", git=False)
    assert crash.rollback(task.review).status == 0
    ensure_ended(crash, task, "02-01")
    steps = (crash.folder / "steps").read_text()
    (crash.folder / "at").unlink()
    reached: list[str] = []
    for number, moment in enumerate(moments(steps)):
        # What Python and an empty folder leave there would be steps of the next rollback.
        shutil.rmtree(crash.folder / "temporary")
        plan.git("checkout", "--quiet", "HEAD", "--", "other.bin", "staged.bin")
        (plan.root / "untracked.bin").unlink()
        key = f"03-{number}"
        task = rejected(plan, key)
        crash.arm("?" * moment, git=number % 3 != 0)
        ended = crash.rollback(task.review)
        assert ended.status == -9, (moment, steps, ended.stdout)
        crash.settle()
        reached.append((crash.folder / "steps").read_text())
        how = f"after step {moment} of {steps}"
        assert plan.git("rev-list", "--count", f"{task.commit}..HEAD") in {"0", "1"}, how
        assert are_local_changes_whole(plan), how
        again = crash.rollback(task.review)
        assert again.status == 0, how + again.stderr
        ensure_ended(crash, task, key)
    assert any("c" in one for one in reached)
    assert any("p" not in one for one in reached)
    moved = sum("c" in one for one in reached)
    print(f"killed {len(reached)} times, {moved} of them after the branch had moved: {steps}")  # noqa: T201 read with -s


def test_killed_before_the_branch_moves_nothing_is_touched(crash: Crash, task: Task, tmp_path: Path) -> None:
    # A worktree of the user's with such a name.
    mine = tmp_path / "tandem-rollback-mybranch"
    crash.plan.git("worktree", "add", "--quiet", "--detach", str(mine))
    crash.arm("*p", git=True)
    before = look(crash.plan)
    assert crash.rollback(task.review).status == -9
    crash.settle()
    assert look(crash.plan) == before
    assert crash.left != []
    # In this process, which has another folder for temporary files.
    crash.plan.rolled_back(task.review)
    assert f"worktree {mine}" in crash.plan.git("worktree", "list", "--porcelain").splitlines()
    crash.plan.git("worktree", "remove", str(mine))
    ensure_ended(crash, task)


@pytest.mark.parametrize("at", ["*p", "*c*s"])
def test_a_killed_git_is_cleared_up_at_once(crash: Crash, task: Task, at: str) -> None:
    crash.arm(at, git=True, tandem=False)
    before = look(crash.plan)
    ended = crash.rollback(task.review, "--json")
    assert crash.left == []
    if at == "*p":
        assert (ended.status, ended.envelope["error"]["code"]) == (1, "UNAVAILABLE")
        assert look(crash.plan) == before
        assert crash.rollback(task.review).status == 0
    else:
        assert ended.status == 0
    ensure_ended(crash, task)


def test_neither_a_dry_run_nor_the_next_touches_what_was_changed_after_the_crash(crash: Crash, task: Task) -> None:
    crash.arm("*c*s", git=True)
    crash.rollback(task.review)
    before = look(crash.plan)
    refused = crash.rollback(task.review, "--dry-run", "--json")
    assert refused.envelope["error"]["details"]["review_id"] == task.review
    assert look(crash.plan) == before
    crash.plan.gated.write({"f.txt": "my own work\n"})
    before = look(crash.plan)
    refused = crash.rollback(task.review, "--json")
    assert refused.status == 1
    assert refused.envelope["error"]["details"]["paths"] == ["f.txt"]
    assert look(crash.plan) == before
    crash.plan.gated.write({"f.txt": with_lines(l3="three of 03-02")})
    assert crash.rollback(task.review).status == 0
    ensure_ended(crash, task)


def test_the_broker_is_told_when_it_is_back(crash: Crash, task: Task) -> None:
    broker = crash.plan.gated.broker
    stop = f"import os, signal; os.kill({broker.pid}, signal.SIGKILL)"
    config = crash.plan.verify_by(sys.executable, "-c", stop)
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
    script = f"import time; open({str(waiting)!r}, 'w').close(); time.sleep({COMMAND_SECONDS})"
    crash.plan.verify_by(sys.executable, "-c", script)
    before = look(crash.plan)
    process = Shell(crash.plan.gated.broker.url, crash.plan.root).start("rollback", task.review)
    with process, waiting.open():
        process.send_signal(2)
        assert process.wait(COMMAND_SECONDS) != 0
    assert look(crash.plan) == before
    found = crash.plan.snapshot()
    assert (found["note"], found["worktrees"].count("worktree ")) == (False, 1)

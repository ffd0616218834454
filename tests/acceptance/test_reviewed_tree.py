"""A pool's reviewer reads exactly the round, in any state of the project's folder."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.staffed import Counter, StaffedBroker, counter, only_posix, until
from tests.git.sandbox import Sandbox
from tests.modes import VARIATION

pytestmark = only_posix
ROUNDS = 4
OWN = "THE_TESTS_OWN_GIT"


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StaffedBroker]:
    """One for projects of the tests' own, each of which has reviewers of its own."""
    with StaffedBroker(tmp_path_factory.mktemp("staffed"), {"max_pool_size": 6}) as started:
        yield started


@pytest.fixture
def project(broker: StaffedBroker, tmp_path: Path) -> Iterator[Counter]:
    """A project of it."""
    with counter(broker, tmp_path / "repository") as opened:
        yield opened


def read(project: Counter, review: str) -> dict[str, Any]:
    """What the reviewer of a review read."""
    return json.loads(project.decided(review)["verdict_reason"])


def proposed(repository: Sandbox, content: str) -> dict[str, str]:
    """A change to the first file, made against HEAD; the working tree is as before."""
    repository.write("a.txt", content)
    change = {"diff": repository.diff("--no-textconv"), "base": repository.head()}
    repository.git("checkout", "--quiet", "--", "a.txt")
    return change


def make_hostile(repository: Sandbox, trace: Path) -> None:
    """Filters, programs and hooks that leave a trace and give wrong bytes, unless it is the test itself that runs git.

    Must be called after the broker has started, which else takes itself for the test.
    """
    run = f'test -n "${OWN}" || {{ touch "{trace}"; echo wrong; }}'
    for name in ("filter.bad.smudge", "filter.bad.clean", "diff.bad.textconv"):
        repository.git("config", name, f"{run}; cat")
    for name in ("core.fsmonitor", "core.sshCommand", "diff.external"):
        repository.git("config", name, run)
    for name in ("post-checkout", "post-index-change", "reference-transaction", "post-commit", "pre-commit"):
        hook = repository.write(f".git/hooks/{name}", f"#!/bin/sh\n{run}\n")
        hook.chmod(0o755)


def upset(repository: Sandbox, number: int) -> None:
    """Leaves the folder dirty, behind, on another branch, or in the middle of a merge with conflicts, by turns."""
    repository.git("reset", "--quiet", "--hard")
    repository.git("switch", "--quiet", "--force", "--detach", ("main", "main~2", "other", "main")[number % 4])
    if number % 4 == 3:
        assert repository.run("merge", "other", check=False).returncode == 1
    else:
        repository.write("a.txt", "dirty\n")
    repository.write("secret.env", "PASSWORD=1\n")
    repository.write("left.txt", "left\n")


def test_the_reviewer_reads_the_round_and_not_the_projects_folder(
    project: Counter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(OWN, "1")
    repository, trace = Sandbox(project.root), tmp_path / "trace"
    repository.write(".gitignore", "secret.env\n")
    repository.write(".gitattributes", "*.txt text eol=crlf ident filter=bad diff=bad\n")
    repository.commit("settings")
    make_hostile(repository, trace)
    repository.git("branch", "other")
    rounds: list[tuple[str, dict[str, str]]] = []
    for number in range(ROUNDS):
        content = f"round {number}, {secrets.token_hex(8)}\n$Id$\n"
        rounds.append((content, proposed(repository, content)))
        if number % 4 == 3:
            repository.write("a.txt", f"step {number}\n")
            repository.commit(f"step {number}")
    repository.git("switch", "--quiet", "other")
    repository.write("a.txt", "another\n")
    repository.commit("another")
    reviews: list[str] = []
    for number, (_, change) in enumerate(rounds):
        reviews.append(project.put_up(intent="read a.txt secret.env left.txt", **change))
        upset(repository, number)
    for review, (content, change) in zip(reviews, rounds, strict=True):
        found = read(project, review)
        assert found["files"] == {"a.txt": content}
        assert found["log"].split()[1] == change["base"]
        assert found["status"] == ""
    assert not trace.exists()
    monkeypatch.delenv(OWN)
    repository.git("status")
    assert trace.exists(), "the hostile program would show"


def test_p10_the_reviewer_reads_the_change_on_the_tip_and_is_told_what_it_stands_on(project: Counter) -> None:
    repository = Sandbox(project.root)
    repository.git("switch", "--quiet", "--create", "side")
    repository.write("beside.txt", "beside\n")
    base = repository.commit("beside")
    change = proposed(repository, "proposed\n")
    repository.git("switch", "--quiet", "main")
    repository.write("b.txt", "newer\n")
    tip = repository.commit("newer")
    project.do("set_gate", enabled=True, branches=["main"])
    review = project.put_up(intent="read a.txt b.txt beside.txt", **change)
    found = read(project, review)
    assert found["files"] == {"a.txt": "proposed\n", "b.txt": "newer\n", "beside.txt": "beside\n"}
    assert {tip, base} <= {*found["log"].split()}
    [prompt] = [json.loads(file.read_text("utf-8"))["prompt"] for file in project.broker.notes.glob(f"run-{review}-*")]
    assert "neither approved nor on that base branch" in prompt
    assert base in prompt
    # What does not merge is read on its base, which is said.
    repository.write("a.txt", "otherwise\n")
    repository.commit("the same line")
    review = project.put_up(intent="read a.txt b.txt", **change)
    assert read(project, review)["files"]["a.txt"] == "proposed\n"
    [prompt] = [json.loads(file.read_text("utf-8"))["prompt"] for file in project.broker.notes.glob(f"run-{review}-*")]
    assert "It could not be merged with the tip of the base branch" in prompt


def test_a_text_without_a_base_is_read_beside_the_newest_commit(project: Counter) -> None:
    repository = Sandbox(project.root)
    repository.write("b.txt", "dirty\n")
    review = project.put_up(intent="read a.txt b.txt", description="# Plan\n", category="plan_review")
    found = read(project, review)
    assert found["log"].split() == [repository.head()]
    assert {*found["files"]} == {"a.txt"}
    [prompt] = [json.loads(file.read_text("utf-8"))["prompt"] for file in project.broker.notes.glob(f"run-{review}-*")]
    assert "names no commit" in prompt


@VARIATION
def test_of_a_reviewer_that_is_killed_while_its_folder_is_made_nothing_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", f"{slow_git(tmp_path)}{os.pathsep}{os.environ['PATH']}")
    with StaffedBroker(tmp_path) as broker, counter(broker, tmp_path / "repository") as project:
        broker.let("take-long")
        review = project.ask("approve")
        until(broker.programs, "git is at work")
        [worker], [tree] = broker.workers(), broker.trees()
        (broker.notes / "take-long").unlink()
        os.kill(worker.pid, signal.SIGKILL)
        assert project.decided(review)["status"] == "approved"
        assert [one.cmdline() for one in broker.programs()] == []
        assert not tree.exists()


def slow_git(folder: Path) -> Path:
    """A folder with a git that makes no working tree as long as a test has it so."""
    notes, program = folder / "notes", folder / "bin" / "git"
    sleep = f"exec '{sys.executable}' -I -S -c 'import time; time.sleep(300)' '{notes}'"
    slow = f'case "$*" in *"read-tree --reset -u"*) test -e "{notes}/take-long" && {sleep};; esac'
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\n{slow}\nexec "{shutil.which("git")}" "$@"\n')
    program.chmod(0o755)
    return program.parent

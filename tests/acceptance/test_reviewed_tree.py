"""A pool's reviewer reads exactly the round, whatever the project's folder is like at that moment."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.staffed import Counter, StaffedBroker, counter, only_posix, until
from tests.git.sandbox import Sandbox

pytestmark = only_posix
ROUNDS = 20


def read(project: Counter, review: str) -> dict[str, Any]:
    """What the reviewer of a review read."""
    return json.loads(project.decided(review)["verdict_reason"])


def proposed(repository: Sandbox, content: str) -> dict[str, str]:
    """A change to the first file, made against HEAD; the working tree is as before."""
    repository.write("a.txt", content)
    change = {"diff": repository.diff(), "base": repository.head()}
    repository.git("checkout", "--quiet", "--", "a.txt")
    return change


def test_the_reviewer_reads_the_round_and_not_the_projects_folder(tmp_path: Path) -> None:
    with StaffedBroker(tmp_path) as broker, counter(broker, tmp_path / "repository") as project:
        repository = Sandbox(project.root)
        repository.write(".gitignore", "secret.env\n")
        repository.commit("ignore")
        bases: dict[str, tuple[str, str]] = {}
        for number in range(ROUNDS):
            content = f"round {number}, {secrets.token_hex(8)}\n"
            change = proposed(repository, content)
            review = project.put_up(intent="read a.txt secret.env left.txt", **change)
            bases[review] = (content, change["base"])
            # Meanwhile the folder goes on: dirty, behind, on another branch, in the middle of a merge.
            repository.write("secret.env", "PASSWORD=1\n")
            repository.write("left.txt", "left\n")
            if number % 4 == 3:
                (repository.root / "left.txt").unlink()
                repository.commit(f"step {number}")
                repository.git("switch", "--quiet", "--create", f"side-{number}", "HEAD~1")
                (repository.root / ".git" / "MERGE_HEAD").write_text(f"{change['base']}\n")
                repository.write("a.txt", "in the middle of something\n")
                repository.git("checkout", "--quiet", "--force", "main")
        for review, (content, base) in bases.items():
            found = read(project, review)
            assert found["files"] == {"a.txt": content}
            assert found["log"].split()[1] == base
            assert found["status"] == ""


def test_a_text_without_a_base_is_read_beside_the_newest_commit(tmp_path: Path) -> None:
    with StaffedBroker(tmp_path) as broker, counter(broker, tmp_path / "repository") as project:
        repository = Sandbox(project.root)
        repository.write("b.txt", "dirty\n")
        review = project.put_up(intent="read a.txt b.txt", description="# Plan\n", category="plan_review")
        found = read(project, review)
        assert found["log"].split() == [repository.head()]
        assert {*found["files"]} == {"a.txt"}
        [prompt] = [json.loads(file.read_text("utf-8"))["prompt"] for file in broker.notes.glob(f"run-{review}-*")]
        assert "names no commit" in prompt


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
    slow = f'case "$*" in "read-tree --reset -u"*) test -e "{notes}/take-long" && {sleep};; esac'
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\n{slow}\nexec "{shutil.which("git")}" "$@"\n')
    program.chmod(0o755)
    return program.parent

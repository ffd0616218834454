"""What the gate adds to `git commit`, with all of its hooks; and what `tandem commit` adds to that."""

from __future__ import annotations

import asyncio
import os
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median

from bench import machine
from bench.processes import Broker, environment, python
from bench.report import quartiles
from bench.repositories import SMALL, make_repository
from bench.run import Run
from bench.wire import api_call

MEASURE = "commits: what the gate adds to git commit"
ADDED_MS = 100.0
TANDEM_ADDED_MS = 150.0
_PROJECT = "gated"
_FILES = SMALL


async def measure(run: Run) -> None:
    """The same commits in a repository with the gate and in one without, by turns, on a base branch and beside it."""
    record = run.recorder(MEASURE)
    with Broker(run.scratch / "committing") as broker:
        env = {**environment(broker.data_dir), "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull}
        plain, gated = (working_tree(run.scratch / name, env) for name in ("plain", "gated"))
        url = f"http://127.0.0.1:{broker.port}"
        command = [python(), "-m", "tandem", "gate", "on", "--broker", url]
        await asyncio.to_thread(subprocess.run, command, cwd=gated, env=env, check=True, capture_output=True)
        for branch, where in (("main", "on a base branch"), ("feature", "on another branch")):
            for root in (plain, gated):
                git(root, env, "checkout", "--quiet", "-B", branch)
            bare, judged = await _commits(broker.port, plain, gated, env, run.times(30, 8))
            added = [one - other for one, other in zip(judged, bare, strict=True)]
            detail = f"{quartiles(added, digits=0)}; a plain one takes {median(bare):.0f}"
            record.add(f"a commit {where}: added", median(added), "ms", ADDED_MS, detail=detail)
        by_git, by_tandem = await _by_tandem(broker.port, gated, env, run.times(30, 8))
        added = [one - other for one, other in zip(by_tandem, by_git, strict=True)]
        detail = f"{quartiles(added, digits=0)}; git commit takes {median(by_git):.0f}"
        record.add("tandem commit, approved: added to git's", median(added), "ms", TANDEM_ADDED_MS, detail=detail)


async def _commits(
    port: int, plain: Path, gated: Path, env: dict[str, str], times: int
) -> tuple[list[float], list[float]]:
    """Milliseconds of each commit without the gate, and of each with it."""
    bare: list[float] = []
    judged: list[float] = []
    for number in range(times + 1):
        for root, taken in ((plain, bare), (gated, judged)):
            change(root, env, number)
            if root is gated:
                await _submit_and_approve(port, root, env)
            taken.append(await asyncio.to_thread(_commit_ms, root, env, number))
    # The first one reads everything from the disk.
    return bare[1:], judged[1:]


async def _by_tandem(port: int, root: Path, env: dict[str, str], times: int) -> tuple[list[float], list[float]]:
    """Milliseconds of each commit of an approved change by git, and of each by `tandem commit`."""
    taken: tuple[list[float], list[float]] = ([], [])
    for number in range(times + 1):
        for program, kept in zip((["git"], [python(), "-m", "tandem"]), taken, strict=True):
            change(root, env, number)
            await _submit_and_approve(port, root, env)
            kept.append(await asyncio.to_thread(_commit_ms, root, env, number, program))
    return taken[0][1:], taken[1][1:]


def change(root: Path, env: dict[str, str], number: int) -> None:
    """Stage a change of a file, another one for each number."""
    files = git(root, env, "ls-files").splitlines()
    file = root / files[number % len(files)]
    file.write_text(f"{file.read_text('utf-8')}# {number}, {time.time_ns()}\n", "utf-8")
    git(root, env, "add", "--all")


async def _submit_and_approve(port: int, root: Path, env: dict[str, str]) -> None:
    diff = git(root, env, "diff", "--cached", "--binary", "--full-index")
    what = {"project": _PROJECT, "intent": "A commit to measure", "diff": diff}
    created = await api_call(port, "create_review", agent_type="bench", proposer_id="writer", **what)
    await approve(port, created["review_id"])


async def approve(port: int, review_id: str) -> None:
    """Claim and approve a review."""
    claim = await api_call(port, "claim_review", review_id=review_id, reviewer_id="reader")
    given = {"verdict": "approved", "claim_generation": claim["claim_generation"]}
    await api_call(port, "submit_verdict", review_id=review_id, **given)


def _commit_ms(root: Path, env: dict[str, str], number: int, program: Sequence[str] = ("git",)) -> float:
    words = [*program, "commit", "--quiet", "-m", f"change {number}"]
    with machine.starting_a_server(pinned=False):
        started = time.perf_counter()
        subprocess.run(words, cwd=root, env=env, check=True, capture_output=True)
        return (time.perf_counter() - started) * 1000


def working_tree(root: Path, env: dict[str, str]) -> Path:
    """A repository with its files checked out."""
    make_repository(root, _FILES)
    for name, value in (("user.name", "Bench"), ("user.email", "bench@example.invalid"), ("gc.auto", "0")):
        git(root, env, "config", name, value)
    git(root, env, "reset", "--quiet", "--hard")
    return root


def git(root: Path, env: dict[str, str], *arguments: str) -> str:
    """The output of a git command that ends well."""
    done = subprocess.run(["git", *arguments], cwd=root, env=env, check=True, capture_output=True, text=True)
    return done.stdout

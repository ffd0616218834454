"""The time to validate a diff, and whether other clients notice."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections import defaultdict
from statistics import median
from typing import Any

from bench.floors import PROCESS
from bench.processes import Broker
from bench.report import percentile, quartiles
from bench.repositories import LARGE, SMALL, make_diff, make_repository
from bench.run import Recorder, Run
from bench.wire import Agent, api_call, timed

MEASURE = "validation: what a diff adds to create_review, and to others' calls"
FEW_FILES_MS = 8.0
TWENTY_FILES_MS = 15.0
ADDED_P50_MS = 2.0
ADDED_P99_MS = 10.0
VALIDATORS = 4
_WARM_UP = 5
_SIZES = {1: FEW_FILES_MS, 3: FEW_FILES_MS, 20: TWENTY_FILES_MS}


async def measure(run: Run) -> None:
    """Sequential costs in a small and a large repository, then others' calls beside validations."""
    record = run.recorder(MEASURE)
    with Broker(run.scratch / "validation") as broker:
        agent = await Agent.connect(broker.port)
        for name, files in (("small", SMALL), ("large", LARGE)):
            root = await asyncio.to_thread(make_repository, run.scratch / name, files)
            await api_call(broker.port, "register_project", root=str(root), name=name)
        numbers = itertools.count()
        for name, files in (("small", SMALL), ("large", LARGE)):
            await _added(run, record, agent, name, files, numbers)
        await _beside(run, record, broker, numbers)
        await agent.connection.close()


async def _added(
    run: Run, record: Recorder, agent: Agent, name: str, files: int, numbers: itertools.count[int]
) -> None:
    """Create reviews with and without diffs in turns; what the diff adds."""
    taken: dict[int, list[float]] = defaultdict(list)
    for turn in range(run.times(80, 20) + _WARM_UP):
        for size in (0, *_SIZES):
            diff = make_diff(numbers, size or 1, files)
            # Without validation the same text is stored as a description.
            content = {"diff": diff} if size else {"description": diff}
            milliseconds = await timed(lambda content=content: _create(agent, name, content))
            if turn >= _WARM_UP:
                taken[size].append(milliseconds)
    without = median(taken[0])
    record.add(f"{name} repository ({files:,} files): create_review without a diff", without, "ms")
    for size, target in _SIZES.items():
        added = median(taken[size]) - without
        detail = f"{added / run.floors[PROCESS]:.1f}x git --version; {quartiles(taken[size])}"
        record.add(f"{name} repository: a diff of {size} files adds", added, "ms", target, detail=detail)


async def _create(agent: Agent, project: str, content: dict[str, str]) -> dict[str, Any]:
    created = await agent.call(
        "create_review", project=project, intent="Measure validation", agent_type="gsd-executor", **content
    )
    assert created["validated"] is ("diff" in content), created
    return created


async def _beside(run: Run, record: Recorder, broker: Broker, numbers: itertools.count[int]) -> None:
    """Another client's calls, with and without diffs of 3 files being validated all the time."""
    watcher = await Agent.connect(broker.port)
    review = (await _create(watcher, "small", {"description": "watched"}))["review_id"]
    agents = [await Agent.connect(broker.port) for _ in range(VALIDATORS)]
    alone: list[float] = []
    beside: list[float] = []
    done = 0
    stop = asyncio.Event()

    async def validate(agent: Agent) -> None:
        nonlocal done
        while not stop.is_set():
            await _create(agent, "large", {"diff": make_diff(numbers, 3, LARGE)})
            done += 1

    async def watch(latencies: list[float]) -> None:
        until = time.perf_counter() + run.times(3, 1)
        while time.perf_counter() < until:
            latencies.append(await timed(lambda: watcher.call("get_review_status", review_id=review)))

    for _ in range(3):
        await watch(alone)
        stop.clear()
        validating = [asyncio.create_task(validate(agent)) for agent in agents]
        await watch(beside)
        stop.set()
        await asyncio.gather(*validating)
    for agent in (watcher, *agents):
        await agent.connection.close()
    record.add("get_review_status alone: p50", median(alone), "ms", detail=f"p99 {percentile(alone, 0.99):.2f}")
    rate = f"{done / (3 * run.times(3, 1)):.0f} validations/s meanwhile"
    detail = f"p99 {percentile(beside, 0.99):.2f}; {rate}"
    record.add(f"get_review_status beside {VALIDATORS} validations: p50", median(beside), "ms", detail=detail)
    record.add("validations add to p50", median(beside) - median(alone), "ms", ADDED_P50_MS)
    added = percentile(beside, 0.99) - percentile(alone, 0.99)
    record.add("validations add to p99", added, "ms", ADDED_P99_MS)

"""A review's life in five calls: its cost to the broker, and how it goes with many clients."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections import defaultdict
from collections.abc import Awaitable
from contextlib import closing
from pathlib import Path
from statistics import median
from typing import Any

from bench.floors import ROUTE, TRANSACTION
from bench.processes import Broker
from bench.report import percentile, quartiles, ratio_of_pairs
from bench.run import Recorder, Run
from bench.wire import MODERN, SESSION_ERA, Agent
from tandem.schema import TANDEM
from tandem.store.schema import SQLITE_WORDS

MEASURE = "life_cycle: create, claim, get_proposal, verdict, close over MCP"
CPU_MS = 3.0
SPEED_UP = 2.0
CLIENTS = 32
_CALLS = 5
_WRITES = 4

Latencies = dict[str, list[float]]


async def cycle(agent: Agent, latencies: Latencies) -> None:
    """One review from its submission to its end; each call's milliseconds are noted."""

    async def noted(name: str, call: Awaitable[dict[str, Any]]) -> dict[str, Any]:
        started = time.perf_counter()
        answer = await call
        latencies[name].append((time.perf_counter() - started) * 1000)
        return answer

    created = await noted(
        "create_review",
        agent.call(
            "create_review",
            project="bench",
            intent="Teach the parser to accept trailing commas",
            agent_type="gsd-executor",
            # One connection plays both sides, which are two principals.
            proposer_id="bench-proposer",
            phase="03",
            plan="02",
            task="1",
            description="The grammar allows them in calls and literals; tests cover both.",
        ),
    )
    which = {"review_id": created["review_id"]}
    claimed = await noted("claim_review", agent.call("claim_review", reviewer_id="bench-reviewer", **which))
    await noted("get_proposal", agent.call("get_proposal", **which))
    generation = claimed["claim_generation"]
    await noted(
        "submit_verdict", agent.call("submit_verdict", verdict="approved", claim_generation=generation, **which)
    )
    closed = await noted("close_review", agent.call("close_review", **which))
    assert closed["outcome"] == "approved"


async def measure(run: Run) -> None:
    """Both eras of the protocol, alone and together, in turns, so that noise hits all alike."""
    record = run.recorder(MEASURE)
    with Broker(run.scratch / "life-cycle") as broker:
        eras = [await _Era.connect(broker, revision) for revision in (SESSION_ERA, MODERN)]
        for era in eras:
            await era.together(2)
        for _ in range(run.times(7, 3)):
            for era in eras:
                await era.round(alone=run.times(150, 50), each=run.times(12, 4))
        for era in eras:
            era.report(run, record)
            await era.close()
    _add_size(record, broker.data_dir / "tandem.db")


def _add_size(record: Recorder, database: Path) -> None:
    """What a cycle leaves behind: rows, events and indexes, without the text, which is the same one in all."""
    with (
        closing(sqlite3.connect(database)) as full,
        closing(sqlite3.connect(":memory:", isolation_level=None)) as empty,
    ):
        TANDEM.prepare(empty, SQLITE_WORDS)
        added = _bytes(full) - _bytes(empty)
        (cycles,) = full.execute("SELECT count(*) FROM reviews").fetchone()
    record.add("size of the database a cycle, SQLite", added / cycles / 1000, "kB", detail=f"{cycles} cycles")


def _bytes(connection: sqlite3.Connection) -> int:
    pages, free, size = (
        int(connection.execute(f"PRAGMA {what}").fetchone()[0])
        for what in ("page_count", "freelist_count", "page_size")
    )
    return (pages - free) * size


class _Era:
    """The clients of one protocol revision, and their measurements."""

    def __init__(self, broker: Broker, revision: str, agents: list[Agent]) -> None:
        self._broker = broker
        self._revision = revision
        self._agents = agents
        self._cpu_alone: list[float] = []
        self._cpu_together: list[float] = []
        self._rate_alone: list[float] = []
        self._rate_together: list[float] = []
        self._latencies: Latencies = defaultdict(list)
        self._crowded: Latencies = defaultdict(list)

    @classmethod
    async def connect(cls, broker: Broker, revision: str) -> _Era:
        return cls(broker, revision, [await Agent.connect(broker.port, revision) for _ in range(CLIENTS)])

    async def together(self, each: int) -> float:
        async def several(agent: Agent) -> None:
            for _ in range(each):
                await cycle(agent, self._crowded)

        started = time.perf_counter()
        await asyncio.gather(*map(several, self._agents))
        return each * CLIENTS / (time.perf_counter() - started)

    async def round(self, *, alone: int, each: int) -> None:
        used, started = self._broker.cpu_ms(), time.perf_counter()
        for _ in range(alone):
            await cycle(self._agents[0], self._latencies)
        self._rate_alone.append(alone / (time.perf_counter() - started))
        self._cpu_alone.append((self._broker.cpu_ms() - used) / alone)
        used = self._broker.cpu_ms()
        self._rate_together.append(await self.together(each))
        self._cpu_together.append((self._broker.cpu_ms() - used) / (each * CLIENTS))

    def report(self, run: Run, record: Recorder) -> None:
        floor = _CALLS * run.floors[ROUTE] + _WRITES * run.floors[TRANSACTION]
        name, cpu = self._revision, median(self._cpu_alone)
        detail = f"{cpu / floor:.1f}x the floors; best {min(self._cpu_alone):.2f}; {quartiles(self._cpu_alone)}"
        record.add(f"{name}: broker CPU a cycle, 1 client", cpu, "ms", CPU_MS, detail=detail)
        crowd = median(self._cpu_together)
        detail = f"best {min(self._cpu_together):.2f}; {quartiles(self._cpu_together)}"
        record.add(f"{name}: broker CPU a cycle, {CLIENTS} clients", crowd, "ms", CPU_MS, detail=detail)
        record.add(f"{name}: cycles, 1 client", median(self._rate_alone), "/s", detail=quartiles(self._rate_alone))
        record.add(
            f"{name}: cycles, {CLIENTS} clients",
            median(self._rate_together),
            "/s",
            detail=quartiles(self._rate_together),
        )
        ratio = ratio_of_pairs(self._rate_together, self._rate_alone)
        record.add(f"{name}: {CLIENTS} clients against 1", ratio, "x", SPEED_UP, ">=")
        calls = " ".join(f"{call}={median(values):.2f}" for call, values in self._latencies.items())
        everything = [value for values in self._latencies.values() for value in values]
        record.add(f"{name}: answer, 1 client", median(everything), "ms", detail=calls)
        crowded = [value for values in self._crowded.values() for value in values]
        detail = f"p99 {percentile(crowded, 0.99):.1f}"
        record.add(f"{name}: answer, {CLIENTS} clients", median(crowded), "ms", detail=detail)

    async def close(self) -> None:
        for agent in self._agents:
            await agent.connection.close()

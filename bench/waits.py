"""Waiting: how soon a waiter hears, the cost of a wait, and what becomes of waiters who vanish."""

from __future__ import annotations

import asyncio
import time
from statistics import median
from typing import Any

import orjson

from bench.processes import Broker
from bench.report import percentile, quartiles
from bench.run import Recorder, Run
from bench.wire import HEALTH, MODERN, SESSION_ERA, Agent, Connection

MEASURE = "waits: 1,000 parked calls, one of which is answered"
PARKED = 1_000
QUEUE_WAITERS = 100
WAKE_MS = 2.0
MEMORY_KB = 32.0
FREED_MS = 100.0
_VANISHING = 100
_WAIT_SECONDS = 900
_LONGEST_LOOK_SECONDS = 60
_BATCH = 50
_SETTLE_SECONDS = 1.0


async def measure(run: Run) -> None:
    """First memory, for each era; then latencies with everybody parked; then waiters that vanish."""
    record = run.recorder(MEASURE)
    for revision in (SESSION_ERA, MODERN):
        with Broker(run.scratch / f"waits-{revision}", wait_max_seconds=_WAIT_SECONDS) as broker:
            # Both eras have imported all that they need before memory is counted.
            first = await Agent.connect(broker.port, SESSION_ERA)
            agent = await Agent.connect(broker.port, revision)
            crowd = await _park(broker, agent, record, revision)
            await _wake(run, broker, agent, record, revision)
            await _vanish(run, broker, crowd, record, revision)
            await first.connection.close()


async def _review(agent: Agent, project: str = "bench") -> dict[str, Any]:
    who = {"agent_type": "gsd-executor", "proposer_id": "bench-proposer"}
    return await agent.call("create_review", project=project, intent="Wait for me", **who)


async def _park(broker: Broker, agent: Agent, record: Recorder, revision: str) -> list[Agent]:
    """A thousand clients who wait: most for their own review, some for a queue of their own."""
    places = [await _review(agent, f"bench-{number % QUEUE_WAITERS}") for number in range(PARKED)]
    await asyncio.sleep(_SETTLE_SECONDS)
    before = broker.rss_bytes()
    crowd: list[Agent] = []
    for start in range(0, PARKED, _BATCH):
        batch = [Agent(await Connection.open(broker.port), revision) for _ in range(_BATCH)]
        for number, (waiter, place) in enumerate(zip(batch, places[start : start + _BATCH], strict=True), start):
            _begin_wait(waiter, number, place)
        crowd += batch
        await _until_waiting(broker, len(crowd))
    await asyncio.sleep(_SETTLE_SECONDS)
    each = (broker.rss_bytes() - before) / PARKED / 1000
    detail = f"{PARKED} sockets and their calls; broker has {broker.rss_bytes() / 1e6:.0f} MB"
    record.add(f"{revision}: memory a parked call", each, "kB", MEMORY_KB, detail=detail)
    return crowd


def _begin_wait(waiter: Agent, number: int, place: dict[str, Any]) -> None:
    if number % (PARKED // QUEUE_WAITERS):
        which = {"review_id": place["review_id"], "wake_on": "any", "cursor": place["cursor"]}
        waiter.begin("get_review_status", wait=True, timeout_s=_WAIT_SECONDS, **which)
    else:
        # Nothing there will ever be approved, so this queue stays as it is.
        which = {"project": place["project"], "status": "rejected", "cursor": place["cursor"]}
        waiter.begin("list_reviews", wait=True, timeout_s=_WAIT_SECONDS, **which)


async def _until_waiting(broker: Broker, count: int) -> None:
    """Return once so many calls are parked."""
    connection = await Connection.open(broker.port)
    deadline = time.monotonic() + _LONGEST_LOOK_SECONDS
    while orjson.loads(await connection.ask(HEALTH))["data"]["waiting"] != count:
        assert time.monotonic() < deadline, "the broker never counted the waiters"
        await asyncio.sleep(0.001)
    await connection.close()


async def _wake(run: Run, broker: Broker, agent: Agent, record: Recorder, revision: str) -> None:
    """The time from an answered write to the answer of the one who waited for it."""
    waiter = await Agent.connect(broker.port, revision)
    verdicts: list[float] = []
    submissions: list[float] = []
    for _ in range(run.times(100, 25)):
        created = await _review(agent)
        which = {"review_id": created["review_id"]}
        claimed = await agent.call("claim_review", reviewer_id="bench-reviewer", **which)
        waiter.begin("get_review_status", wait=True, cursor=claimed["cursor"], timeout_s=30, **which)
        verdict = {"verdict": "approved", "claim_generation": claimed["claim_generation"], **which}
        told, took = await _answered(broker, agent, waiter, "submit_verdict", verdict)
        assert told["changed"]
        assert told["status"] == "approved"
        verdicts.append(took)
        queue = {"project": "bench", "status": "pending", "cursor": told["cursor"]}
        waiter.begin("list_reviews", wait=True, timeout_s=30, limit=1, **queue)
        new = {"project": "bench", "intent": "Wake the queue", "agent_type": "gsd-executor"}
        told, took = await _answered(broker, agent, waiter, "create_review", new)
        assert told["changed"]
        submissions.append(took)
        await agent.call("close_review", review_id=told["reviews"][0]["review_id"])
    for name, taken in (("a verdict to its waiter", verdicts), ("a submission to a queue's waiter", submissions)):
        detail = f"p90 {percentile(taken, 0.9):.2f}; {quartiles(taken)}; {PARKED:,} others parked"
        record.add(f"{revision}: from {name}", median(taken), "ms", WAKE_MS, detail=detail)
    await waiter.connection.close()


async def _answered(
    broker: Broker, agent: Agent, waiter: Agent, name: str, arguments: dict[str, Any]
) -> tuple[dict[str, Any], float]:
    """A write beside a parked wait: the waiter's answer, and by how many ms it came after the write's."""
    await _until_waiting(broker, PARKED + 1)
    waiting = asyncio.create_task(_noted(waiter))
    await agent.call(name, **arguments)
    written = time.perf_counter()
    told, at = await waiting
    return told, (at - written) * 1000


async def _noted(waiter: Agent) -> tuple[dict[str, Any], float]:
    told = await waiter.end()
    return told, time.perf_counter()


async def _vanish(run: Run, broker: Broker, crowd: list[Agent], record: Recorder, revision: str) -> None:
    """Clients that are gone without a word are no longer waited for."""
    connection = await Connection.open(broker.port)
    left = PARKED
    freed: list[float] = []
    for waiter in [crowd.pop() for _ in range(run.times(20, 5))]:
        left -= 1
        freed.append(await _time_until(connection, left, [waiter]))
    record.add(f"{revision}: a vanished client's wait is freed after", median(freed), "ms", FREED_MS)
    gone = [crowd.pop() for _ in range(_VANISHING)]
    left -= _VANISHING
    took = await _time_until(connection, left, gone)
    record.add(f"{revision}: {_VANISHING} at once are freed after", took, "ms", FREED_MS)
    for waiter in crowd:
        waiter.connection.abort()
    await connection.close()


async def _time_until(connection: Connection, left: int, gone: list[Agent]) -> float:
    """How long it takes, in milliseconds, until only so many calls are waiting."""
    started = time.perf_counter()
    for waiter in gone:
        waiter.connection.abort()
    while orjson.loads(await connection.ask(HEALTH))["data"]["waiting"] != left:
        assert time.perf_counter() - started < _LONGEST_LOOK_SECONDS, "the broker still waits for vanished clients"
    return (time.perf_counter() - started) * 1000

"""Lists, feeds, statistics and the queue's head: the same whether a thousand reviews are stored or a million."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections import defaultdict
from statistics import median
from typing import Any

import orjson

from bench.history import LAST_WEEK, make_history
from bench.processes import BareServer, Broker
from bench.report import percentile, quartiles
from bench.run import Recorder, Run
from bench.wire import HEALTH, MODERN, Agent, CallFailed, Connection, http_request, tool_answer, tool_call

PAGES = "pages: with a thousand stored reviews, and with a million; as many are open in both"
BACKLOG = "backlog: with a thousand stored reviews, and with a million; half of them are open"
OPEN = 600
RATIO = 2.0
STALL_MS = 50.0
FEW = 1_000
MANY = 1_000_000
MANY_QUICK = 100_000
READERS = 4
_WINDOWS = 5
_PING_EVERY_SECONDS = 0.002

READS: dict[str, tuple[str, dict[str, Any]]] = {
    "list_reviews": ("list_reviews", {}),
    "list_reviews status=pending": ("list_reviews", {"status": "pending"}),
    "list_reviews status=closed": ("list_reviews", {"status": "closed"}),
    "list_reviews category": ("list_reviews", {"category": "verification"}),
    "list_reviews project": ("list_reviews", {"project": "alpha"}),
    "list_reviews turn": ("list_reviews", {"turn": "proposer"}),
    "list_reviews priority": ("list_reviews", {"priority": "critical"}),
    "list_reviews attention": ("list_reviews", {"attention": True}),
    "list_reviews closed, category": ("list_reviews", {"status": "closed", "category": "handoff"}),
    "list_reviews closed, priority": ("list_reviews", {"status": "closed", "priority": "low"}),
    "list_reviews project, closed, category": (
        "list_reviews",
        {"project": "alpha", "status": "closed", "category": "handoff"},
    ),
    "list_reviews project, pending, turn": (
        "list_reviews",
        {"project": "alpha", "status": "pending", "turn": "reviewer"},
    ),
    "list_reviews project, category, priority": (
        "list_reviews",
        {"project": "alpha", "category": "code_change", "priority": "normal"},
    ),
    "get_activity_feed": ("get_activity_feed", {}),
    "get_activity_feed project": ("get_activity_feed", {"project": "alpha"}),
    "get_activity_feed status=closed": ("get_activity_feed", {"status": "closed"}),
    "get_review_stats": ("get_review_stats", {}),
    "get_review_stats project": ("get_review_stats", {"project": "alpha"}),
    "get_audit_log": ("get_audit_log", {}),
    "get_audit_log kind": ("get_audit_log", {"kind": "verdict_submitted"}),
}
# More history does mean more work for these; by the days asked for, or up to a bound of events looked through.
BOUNDED: dict[str, tuple[str, dict[str, Any]]] = {
    "get_review_stats of a week": ("get_review_stats", {"since": LAST_WEEK}),
    "get_activity_feed status=pending": ("get_activity_feed", {"status": "pending"}),
}

# What the browser's pages ask for; no tool of agents.
OF_PEOPLE: dict[str, tuple[str, dict[str, Any]]] = {
    "get_inbox": ("get_inbox", {"person": "somebody"}),
    "get_inbox project": ("get_inbox", {"person": "somebody", "project": "alpha"}),
    "search_reviews newest": ("search_reviews", {"sort": "newest"}),
}

Pair = tuple[float, float]


async def measure(run: Run) -> None:
    """A history that grows as histories do: by reviews that are closed."""
    many = run.times(MANY, MANY_QUICK)
    await _compare_histories(run, run.recorder(PAGES), {FEW: OPEN, many: OPEN})


async def measure_backlog(run: Run) -> None:
    """The worst case: no review is ever closed."""
    many = run.times(MANY, MANY_QUICK)
    await _compare_histories(run, run.recorder(BACKLOG), {FEW: FEW // 2, many: many // 2})


async def _compare_histories(run: Run, record: Recorder, sizes: dict[int, int]) -> None:
    """Every kind of page in turns on both histories, then everything at once with a pinger beside it."""
    started = time.perf_counter()
    folders = [await asyncio.to_thread(make_history, run.cache, *size) for size in sizes.items()]
    seconds = time.perf_counter() - started
    detail = " and ".join(
        f"{reviews:,} reviews, {open_reviews:,} of them open" for reviews, open_reviews in sizes.items()
    )
    record.add("histories made, or found", seconds, "s", detail=detail)
    with Broker(folders[0]) as short, Broker(folders[1]) as long:
        agents = [await Agent.connect(broker.port) for broker in (short, long)]
        await _reads(run, record, agents)
        await _claims(run, record, agents)
        await _writes(run, record, agents)
        for agent in agents:
            await agent.connection.close()
        await _stalls(run, record, long)


async def _reads(run: Run, record: Recorder, agents: list[Agent]) -> None:
    for name, (operation, arguments) in (READS | BOUNDED | OF_PEOPLE).items():
        request = _post(operation, arguments) if name in OF_PEOPLE else tool_call(MODERN, operation, arguments)
        taken: tuple[list[float], list[float]] = ([], [])
        for turn in range(run.times(120, 40)):
            for agent, latencies in zip(agents, taken, strict=True):
                started = time.perf_counter()
                answer = await agent.connection.ask(request)
                latencies.append((time.perf_counter() - started) * 1000)
                if not turn:
                    _check(answer, name)
        _compare(record, name, *taken, bounded=name in BOUNDED)


def _post(operation: str, arguments: dict[str, Any]) -> bytes:
    return http_request("POST", f"/api/v1/{operation}", orjson.dumps(arguments))


def _check(answer: bytes, name: str) -> None:
    """Refuse to time refusals."""
    if name not in OF_PEOPLE:
        tool_answer(answer)
    elif not orjson.loads(answer)["ok"]:
        raise CallFailed(answer.decode())


def _compare(record: Recorder, name: str, few: list[float], many: list[float], *, bounded: bool = False) -> None:
    detail = f"{median(few):.2f} ms and {median(many):.2f} ms; p99 {percentile(many, 0.99):.1f}"
    record.add(name, median(many) / median(few), "x", None if bounded else RATIO, detail=detail)


async def _claims(run: Run, record: Recorder, agents: list[Agent]) -> None:
    """The queue's head, given back each time."""
    for name, arguments in (
        ("claim_review next", {}),
        ("claim_review next, project", {"project": "alpha"}),
        ("claim_review next, category", {"category": "verification"}),
    ):
        taken: tuple[list[float], list[float]] = ([], [])
        for _ in range(run.times(60, 20)):
            for agent, latencies in zip(agents, taken, strict=True):
                started = time.perf_counter()
                claimed = await agent.call("claim_review", reviewer_id="bench-reviewer", **arguments)
                latencies.append((time.perf_counter() - started) * 1000)
                generation = claimed["claim_generation"]
                await agent.call("release_claim", review_id=claimed["review_id"], claim_generation=generation)
        _compare(record, name, *taken)


async def _writes(run: Run, record: Recorder, agents: list[Agent]) -> None:
    """Reviews that come and go."""
    created: tuple[list[float], list[float]] = ([], [])
    closed: tuple[list[float], list[float]] = ([], [])
    for _ in range(run.times(60, 20)):
        for position, agent in enumerate(agents):
            started = time.perf_counter()
            new = await agent.call("create_review", project="delta", intent="One more", agent_type="gsd-executor")
            created[position].append((time.perf_counter() - started) * 1000)
            started = time.perf_counter()
            await agent.call("close_review", review_id=new["review_id"])
            closed[position].append((time.perf_counter() - started) * 1000)
    _compare(record, "create_review", *created)
    _compare(record, "close_review", *closed)


async def _stalls(run: Run, record: Recorder, broker: Broker) -> None:
    """How long the broker's loop keeps a ping waiting while pages are read; the bare server tells the noise."""
    stop = asyncio.Event()

    async def read(offset: int) -> int:
        requests = [tool_call(MODERN, operation, arguments) for operation, arguments in (READS | BOUNDED).values()]
        connection = await Connection.open(broker.port)
        done = 0
        for request in itertools.cycle(requests[offset:] + requests[:offset]):
            if stop.is_set():
                await connection.close()
                return done
            await connection.ask(request)
            done += 1
        return done

    with BareServer() as bare:
        pingers = {"broker": (broker.port, HEALTH), "bare": (bare.port, http_request("GET", "/"))}
        worst: dict[str, list[float]] = defaultdict(list)
        pings: list[float] = []
        reading = [asyncio.create_task(read(number * 5)) for number in range(READERS)]
        seconds = run.times(3, 1)
        for _ in range(_WINDOWS):
            found = await asyncio.gather(*(_ping(port, request, seconds) for port, request in pingers.values()))
            for name, latencies in zip(pingers, found, strict=True):
                worst[name].append(max(latencies))
            pings += found[0]
        stop.set()
        done = sum(await asyncio.gather(*reading))
    rate = f"{done / (_WINDOWS * seconds):.0f} pages/s by {READERS} readers"
    detail = f"of each of {_WINDOWS} windows: {quartiles(worst['broker'], digits=1)}; {rate}"
    record.add("worst wait of a ping beside all of these", median(worst["broker"]), "ms", STALL_MS, detail=detail)
    record.add("the same on a bare server beside it", median(worst["bare"]), "ms", detail="the machine's own noise")
    record.add("ping beside all of these: p50", median(pings), "ms", detail=f"p99 {percentile(pings, 0.99):.1f}")


async def _ping(port: int, request: bytes, seconds: float) -> list[float]:
    connection = await Connection.open(port)
    latencies: list[float] = []
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        started = time.perf_counter()
        await connection.ask(request)
        latencies.append((time.perf_counter() - started) * 1000)
        await asyncio.sleep(_PING_EVERY_SECONDS)
    await connection.close()
    return latencies

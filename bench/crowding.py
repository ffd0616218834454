"""One large request beside everybody else's: its cost for each path, and how long another client waits meanwhile."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Awaitable
from statistics import median
from typing import Any, Final

import orjson

from bench.processes import Broker
from bench.report import percentile, quartiles
from bench.repositories import SMALL, make_repository
from bench.run import Recorder, Run
from bench.wire import Connection, api_call, http_request

MEASURE = "crowding: large commits, and what others wait for them"
FEW, MANY = 60, 6_000
APPROVALS: Final = 4
EACH = 1.5
ADDED_MS = 50.0
_MOST = 95_000
_PAUSE_SECONDS = 0.002
_PROJECT = "crowded"
_EMPTY = hashlib.sha1(b"blob 0\0", usedforsecurity=False).hexdigest()


async def measure(run: Run) -> None:
    """Commits that four approvals cover all but for one file of each: refused, path by path."""
    record = run.recorder(MEASURE)
    with Broker(run.scratch / "crowding", git_timeout_seconds=60, diff_limit_bytes=10_000_000) as broker:
        root = await asyncio.to_thread(make_repository, run.scratch / "crowded", SMALL)
        await api_call(broker.port, "register_project", root=str(root), name=_PROJECT)
        review = await _approved(broker.port, _diff("seen", 1))
        idle = await _Other(broker.port, review).until(asyncio.sleep(run.times(3, 1)))
        record.add("another client's call: p50", median(idle), "ms", detail=f"p99 {percentile(idle, 0.99):.2f}")
        each: dict[int, float] = {}
        for paths, approvals in ((FEW, APPROVALS), (MANY, APPROVALS), (_MOST, 1)):
            for number in range(approvals):
                await _approved(broker.port, _diff(f"of{paths}", paths, number))
            waits: list[float] = []
            taken = [await _refused(broker.port, review, paths, waits) for _ in range(run.times(5, 3))]
            each[paths] = median(taken) / paths * 1000
            what = f"a refused commit of {paths:,} paths, {approvals} approval{'s' * (approvals > 1)}"
            record.add(f"{what}: each path", each[paths], "us", detail=f"all {quartiles(taken, digits=0)} ms")
            _record_waits(record, what, waits, idle, ADDED_MS if paths == MANY else None)
        record.add(f"{MANY:,} paths against {FEW}, each path", each[MANY] / each[FEW], "x", EACH)
        record.add(f"{_MOST:,} paths against {FEW}, each path", each[_MOST] / each[FEW], "x", EACH)


def _record_waits(record: Recorder, what: str, waits: list[float], idle: list[float], target: float | None) -> None:
    added = max(waits) - percentile(idle, 0.99)
    detail = f"p50 {median(waits):.1f}, p99 {percentile(waits, 0.99):.1f} (n={len(waits)})"
    record.add(f"{what}: the longest that another call waits", added, "ms", target, detail=detail)


class _Other:
    """A client that asks where a review stands, again and again."""

    def __init__(self, port: int, review: str) -> None:
        self._port = port
        self._request = http_request("POST", "/api/v1/get_review_status", orjson.dumps({"review_id": review}))

    async def until(self, work: Awaitable[Any]) -> list[float]:
        """How long each of its calls took while some work was done, in milliseconds."""
        connection = await Connection.open(self._port)
        done, taken = asyncio.ensure_future(work), list[float]()
        while not done.done():
            began = time.perf_counter()
            await connection.ask(self._request)
            taken.append((time.perf_counter() - began) * 1000)
            await asyncio.sleep(_PAUSE_SECONDS)
        await connection.close()
        await done
        return taken


async def _refused(port: int, review: str, paths: int, waits: list[float]) -> float:
    """How long a refused commit takes, in milliseconds; adds what another client waits meanwhile."""
    changes = [{"path": _path(f"of{paths}", at), "mode_after": "100644", "blob_after": _EMPTY} for at in range(paths)]
    request = http_request("POST", "/api/v1/check_gate", orjson.dumps({"project": _PROJECT, "changes": changes}))
    connection = await Connection.open(port)
    began = time.perf_counter()
    took = 0.0

    async def ask() -> bytes:
        nonlocal took
        answer = await connection.ask(request)
        took = (time.perf_counter() - began) * 1000
        return answer

    asking = asyncio.ensure_future(ask())
    waits += await _Other(port, review).until(asking)
    await connection.close()
    decision = orjson.loads(asking.result())["data"]
    assert (decision["allowed"], len(decision["paths"])) == (False, paths)
    return took


def _path(folder: str, number: int) -> str:
    return f"{folder}/{number // 100:03}/{number:05}.py"


def _diff(folder: str, files: int, more: int = 0) -> str:
    """New files without content, and one more."""
    names = [*(_path(folder, number) for number in range(files)), f"{folder}/more-{more}"]
    return "".join(f"diff --git a/{name} b/{name}\nnew file mode 100644\n" for name in names)


async def _approved(port: int, diff: str) -> str:
    proposal: dict[str, Any] = {"intent": "To be crowded", "agent_type": "bench", "proposer_id": "writer"}
    created = await api_call(port, "create_review", project=_PROJECT, diff=diff, **proposal)
    review: str = created["review_id"]
    claim = await api_call(port, "claim_review", review_id=review, reviewer_id="reader")
    generation = claim["claim_generation"]
    await api_call(port, "submit_verdict", review_id=review, verdict="approved", claim_generation=generation)
    return review

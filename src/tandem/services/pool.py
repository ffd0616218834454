"""Supervisors of reviewer pools: registered, heard of, and told what to do."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict, dataclass

import orjson

from tandem.clock import MICROSECONDS
from tandem.domain.events import Kind
from tandem.domain.pool_answers import Order, Orders, Registered
from tandem.domain.reviewers import Pool, PoolRules, Reviewer, ReviewerState
from tandem.errors import InvalidSession
from tandem.services import pool_plan, reviewer_runs
from tandem.services.context import Call, Services, transact
from tandem.services.pool_plan import Circumstances, Decision
from tandem.services.pool_state import rules_of
from tandem.services.reviews import Wait
from tandem.services.views import time_or_none
from tandem.services.waits import topic
from tandem.store import events, reviewers
from tandem.store.base import Unit

_KILL_GRACE_SECONDS = 60
_PASS_GRACE_SECONDS = 600
"""How much longer a reviewer's pass is good for than the reviewer may live: it ends with the reviewer anyway."""
_LEAST_WAIT_SECONDS = 0.05
_DID_NOTHING = "the program ended at once without a review; look at its log: tandem reviewers logs"


@dataclass(frozen=True, slots=True)
class NewPool:
    """A supervisor as it registers.

    Attributes:
        projects: The projects that it serves; null for all that are registered.
    """

    supervisor_id: str
    incarnation: str
    host: str
    provider: str
    mode: str
    model: str | None
    projects: Sequence[str] | None
    rules: PoolRules


@dataclass(frozen=True, slots=True)
class Sighting:
    """What a supervisor says of one reviewer.

    Attributes:
        wanted: What it was last told to have it do; null if it knows nothing of it.
        quick: Whether it ended at once, or because its program fails at once.
        error: Why it ended, in words.
    """

    reviewer_id: str
    state: str
    wanted: str | None = None
    pid: int | None = None
    started_us: int | None = None
    exit_code: int | None = None
    quick: bool = False
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Beat:
    """One heartbeat of a supervisor."""

    supervisor_id: str
    incarnation: str
    reviewers: Sequence[Sighting]
    quiet: bool = False
    closing: bool = False


async def register(services: Services, call: Call, new: NewPool) -> Registered:
    """Take in a supervisor that starts; what its earlier starts left behind counts as ended from here on."""

    def work(unit: Unit) -> Registered:
        events.lock(unit)
        now = services.clock.now_us()
        before = reviewers.find_pool(unit, new.supervisor_id)
        for one in reviewers.list_live(unit, new.supervisor_id):
            _terminate(unit, one, None, "its supervisor was started anew", quick=False, now_us=now)
        pool = reviewers.put_pool(
            unit,
            before,
            _registered(before, new, now),
            actor=new.supervisor_id,
            kind=Kind.POOL_REGISTERED,
            at_us=now,
            data={"incarnation": new.incarnation, "host": new.host, "provider": new.provider, "mode": new.mode},
        )
        return Registered(pool.id, pool.incarnation, services.waits.cursor(pool.event_seq))

    answer = await transact(services, call, work)
    await reviewer_runs.reclaim_abandoned(services)
    return answer


async def heartbeat(services: Services, beat: Beat, wait: Wait | None) -> Orders:
    """Take in what a supervisor says of its reviewers, decide what is due, and answer with what it should do.

    Raises:
        InvalidSession: The supervisor was registered anew meanwhile, or never.
    """
    await services.store.write(lambda unit: _take_in(unit, services, beat))
    if any(one.state == "ended" for one in beat.reviewers):
        await reviewer_runs.reclaim_abandoned(services)
    known = {one.reviewer_id: one.wanted for one in beat.reviewers if one.state != "ended"}

    async def look() -> Orders:
        now = services.clock.now_us()
        registered = tuple(name for name in services.projects.names() if services.projects.root(name) is not None)
        circumstances = Circumstances(registered, beat.quiet, beat.closing, now)

        def work(unit: Unit) -> tuple[Decision, dict[str, str], int]:
            events.lock(unit)
            decision = pool_plan.decide(unit, _current(unit, beat), circumstances)
            return decision, reviewers.held_reviews(unit), events.head(unit)[1]

        decision, held, newest = await services.store.write(work)
        return _orders(services, decision, held, known, newest, now)

    return await _answer_in_time(services, beat, look_for=look, wait=wait)


async def _answer_in_time(
    services: Services, beat: Beat, *, look_for: Callable[[], Awaitable[Orders]], wait: Wait | None
) -> Orders:
    """Look until there is something to do, or something is due that no event announces, or the time is up."""
    if wait is None:
        return await look_for()
    policy = services.policy
    asked = policy.wait_seconds if wait.timeout_seconds is None else wait.timeout_seconds
    loop = asyncio.get_running_loop()
    deadline = loop.time() + min(asked, policy.wait_max_seconds)
    names = [topic(state=state) for state in ("pending", ReviewerState.ACTIVE, ReviewerState.DRAINING)]
    with services.waits.parking(*names, f"pool:{beat.supervisor_id}") as pause:
        while True:
            orders = await look_for()
            left = deadline - loop.time()
            if orders.changed or services.waits.closing or left <= 0:
                return orders
            woken = await pause(max(_LEAST_WAIT_SECONDS, min(left, orders.again_s)))
            if not woken and services.waits.closing:
                return orders


def _registered(before: Pool | None, new: NewPool, now_us: int) -> Pool:
    return Pool(
        id=new.supervisor_id,
        incarnation=new.incarnation,
        host=new.host,
        provider=new.provider,
        mode=new.mode,
        model=new.model,
        projects=None if new.projects is None else orjson.dumps(sorted(new.projects)).decode(),
        rules=orjson.dumps(asdict(new.rules)).decode(),
        registered_at=now_us,
        ended_at=None,
        # A person's pause, and that of a budget, outlast a restart.
        paused=before.paused if before else None,
        paused_kind=before.paused_kind if before else None,
        paused_by=before.paused_by if before else None,
        paused_at=before.paused_at if before else None,
        circuit_until=None,
        circuit_opened=0,
        forgiven=0,
        last_seen_at=now_us,
        event_seq=before.event_seq if before else 0,
        event_hash=before.event_hash if before else "",
    )


def _take_in(unit: Unit, services: Services, beat: Beat) -> None:
    events.lock(unit)
    pool = _current(unit, beat)
    now = services.clock.now_us()
    for seen in beat.reviewers:
        reviewer = reviewers.find(unit, seen.reviewer_id)
        if reviewer is None or reviewer.pool_id != pool.id or reviewer.ended_at is not None:
            continue
        if reviewer.pid is None and seen.pid is not None:
            reviewer = _spawned(unit, reviewer, seen, now)
        if seen.state == "ended":
            idle = reviewer.gave_up_at_once(now)
            why = seen.error or (_DID_NOTHING if idle else f"exit status {seen.exit_code}")
            _terminate(unit, reviewer, seen.exit_code, why, quick=seen.quick or idle, now_us=now)
    if beat.closing and not reviewers.list_live(unit, pool.id):
        after = pool._replace(ended_at=now, last_seen_at=now)
        reviewers.put_pool(unit, pool, after, actor=pool.id, kind=Kind.POOL_ENDED, at_us=now, data={})
    else:
        reviewers.touch_pool(unit, pool.id, now)


def _spawned(unit: Unit, before: Reviewer, seen: Sighting, now_us: int) -> Reviewer:
    after = before._replace(pid=seen.pid, started_us=seen.started_us)
    facts = {"pid": seen.pid, "provider": before.provider, "host": before.host}
    return reviewers.put(
        unit, before, after, actor=before.pool_id, kind=Kind.REVIEWER_SPAWNED, at_us=now_us, data=facts
    )


def _terminate(unit: Unit, before: Reviewer, exit_code: int | None, why: str, *, quick: bool, now_us: int) -> None:
    after = before._replace(
        state=ReviewerState.TERMINATED.value, ended_at=now_us, exit_code=exit_code, end_reason=why, quick=int(quick)
    )
    facts = {"exit_code": exit_code, "reviews_completed": before.reviews_completed, "reason": why, "quick": quick}
    reviewers.put(unit, before, after, actor=before.pool_id, kind=Kind.REVIEWER_TERMINATED, at_us=now_us, data=facts)


def _current(unit: Unit, beat: Beat) -> Pool:
    pool = reviewers.find_pool(unit, beat.supervisor_id)
    if pool is None or pool.incarnation != beat.incarnation:
        raise InvalidSession(
            "Another start of this supervisor has registered, or none has: end your reviewers, and register anew.",
            supervisor_id=beat.supervisor_id,
        )
    return pool


def _orders(
    services: Services,
    decision: Decision,
    held: dict[str, str],
    known: dict[str, str | None],
    newest: int,
    now_us: int,
) -> Orders:
    deadline = services.policy.review_deadline_seconds + _KILL_GRACE_SECONDS
    passes = _passes(services, decision, known)
    orders = tuple(
        Order(
            reviewer_id=one.id,
            name=one.name,
            project=one.project,
            root=services.projects.root(one.project),
            wanted=one.wanted(now_us, deadline, holds=one.id in held),
            drain_reason=one.drain_reason,
            review_id=held.get(one.id),
            access=passes.get(one.id),
        )
        for one in decision.live
    )
    return Orders(
        reviewers=orders,
        paused=decision.pool.paused,
        circuit_open_until=time_or_none(decision.pool.circuit_until),
        again_s=max(0.0, (decision.again_us - now_us) / MICROSECONDS),
        changed={one.reviewer_id: one.wanted for one in orders} != known,
        cursor=services.waits.cursor(newest),
    )


def _passes(services: Services, decision: Decision, known: dict[str, str | None]) -> dict[str, str]:
    """What reviewers that are to be started show the broker, where it needs tokens."""
    if not services.gatekeeper.required:
        return {}
    longest = rules_of(decision.pool).max_ttl_seconds + services.policy.review_deadline_seconds + _PASS_GRACE_SECONDS
    return {
        one.id: services.gatekeeper.pass_for(one.id, one.project, longest)
        for one in decision.live
        if one.state == ReviewerState.ACTIVE and one.id not in known
    }

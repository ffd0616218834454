"""Supervisors of reviewer pools: registered, heard of, and told what to do."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

import orjson

from tandem.contract.answer import shown, time_or_none
from tandem.contract.caller import Caller
from tandem.core.clock import MICROSECONDS
from tandem.errors import InvalidSession
from tandem.pool import plan as pool_plan
from tandem.pool import queries as reviewers
from tandem.pool import runs as reviewer_runs
from tandem.pool.contract import Order, Orders, Registered, ReviewerSighting, SupervisorHeartbeat, SupervisorRegister
from tandem.pool.plan import PoolDecision
from tandem.pool.rules import Pool, Reviewer, ReviewerState, supervisor_id
from tandem.reviews.context import Services
from tandem.store import events
from tandem.store.base import Unit
from tandem.store.context import transact, wait_seconds
from tandem.store.event import EventKind
from tandem.store.waits import topic

_KILL_GRACE_SECONDS = 60
_PASS_GRACE_SECONDS = 600
"""How much longer a reviewer's pass is good for than the reviewer may live: it ends with the reviewer anyway."""
_LEAST_WAIT_SECONDS = 0.05
_STATED: Final = ("incarnation", "host", "provider", "mode", "model", "projects", "rules")
"""What a supervisor says of itself when it registers."""
_DID_NOTHING = "the program ended at once without a review; look at its log: tandem reviewers logs"


async def supervisor_register(services: Services, caller: Caller, request: SupervisorRegister) -> Registered:
    """Take in a supervisor that starts; what its earlier starts left behind counts as ended from here on.

    A start that has registered already, and did not hear of it, is answered as before. One that says something else
    of itself goes on with other settings: its reviewers stay, and their failures are forgotten.
    """
    pool_id = supervisor_id(request.secret)

    def work(unit: Unit) -> Registered:
        events.lock(unit)
        now = services.clock.now_us()
        before = reviewers.find_pool(unit, pool_id)
        after = _registered(before, pool_id, request, now)
        if before is not None and before.ended_at is None and before.incarnation == after.incarnation:
            if all(getattr(before, name) == getattr(after, name) for name in _STATED):
                reviewers.touch_pool(unit, pool_id, now)
                return Registered(pool_id, before.incarnation, services.waits.cursor(before.event_seq, unit))
            newest = reviewers.list_newest(unit, before, 1)
            after = after._replace(forgiven=newest[0].number if newest else 0)
        else:
            for one in reviewers.list_live(unit, pool_id):
                _terminate(unit, one, None, "its supervisor was started again", quick=False, now_us=now)
        facts = {name: getattr(request, name) for name in ("incarnation", "host", "provider", "mode")}
        pool = reviewers.put(unit, before, after, EventKind.POOL_REGISTERED, pool_id, now, **facts)
        return Registered(pool.id, pool.incarnation, services.waits.cursor(pool.event_seq, unit))

    answer = await transact(services, caller, work)
    services.has_pools.set()
    await reviewer_runs.reclaim_abandoned(services)
    return answer


async def supervisor_heartbeat(services: Services, _caller: Caller, request: SupervisorHeartbeat) -> Orders:
    """Take in a supervisor's reports of its reviewers, decide the next steps, and answer with its orders.

    Raises:
        InvalidSession: The supervisor was registered again meanwhile, or never.
    """
    await services.store.write(lambda unit: _take_in(unit, services, request))
    if any(one.state == "ended" for one in request.reviewers):
        await reviewer_runs.reclaim_abandoned(services)
    known = {one.reviewer_id: one.wanted for one in request.reviewers if one.state != "ended"}

    async def look() -> Orders:
        registered = services.projects.names()

        def work(unit: Unit) -> Orders:
            events.lock(unit)
            now, pool = services.clock.now_us(), _current(unit, request)
            decision = pool_plan.decide(
                unit, pool, registered, quiet=request.quiet, closing=request.closing, now_us=now
            )
            return _orders(unit, services, decision, known, now)

        return await services.store.write(work)

    return await _answer_in_time(services, request, look)


async def _answer_in_time(
    services: Services, request: SupervisorHeartbeat, look_for: Callable[[], Awaitable[Orders]]
) -> Orders:
    """Look until there is something to do, or something is due that no event announces, or the time is up."""
    if not request.wait:
        return await look_for()
    loop = asyncio.get_running_loop()
    deadline = loop.time() + wait_seconds(services, request)
    names = [topic(state=state) for state in ("pending", ReviewerState.ACTIVE, ReviewerState.DRAINING)]
    with services.waits.parking(*names, f"pool:{supervisor_id(request.secret)}") as pause:
        while True:
            orders = await look_for()
            left = deadline - loop.time()
            if orders.changed or services.waits.closing or left <= 0:
                return orders
            woken = await pause(max(_LEAST_WAIT_SECONDS, min(left, orders.again_s)))
            if not woken and services.waits.closing:
                return orders


def _registered(before: Pool | None, pool_id: str, request: SupervisorRegister, now_us: int) -> Pool:
    fresh = Pool(
        id=pool_id,
        **{name: getattr(request, name) for name in ("incarnation", "host", "provider", "mode", "model")},
        projects=None if request.projects is None else orjson.dumps(sorted(request.projects)).decode(),
        rules=orjson.dumps(request.rules.model_dump()).decode(),
        registered_at=now_us,
        last_seen_at=now_us,
    )
    if before is None:
        return fresh
    # A person's pause, and that of a budget, outlast a restart.
    paused = ("paused", "paused_kind", "paused_by", "paused_at", "paused_until", "profiles_out")
    kept = (*paused, "event_seq", "event_hash")
    if before.provider != fresh.provider and before.paused_kind == "quota":
        # Another provider has a quota of its own.
        kept = kept[-2:]
    return fresh._replace(**{name: getattr(before, name) for name in kept})


def _take_in(unit: Unit, services: Services, request: SupervisorHeartbeat) -> None:
    events.lock(unit)
    pool = _current(unit, request)
    now = services.clock.now_us()
    for seen in request.reviewers:
        reviewer = reviewers.find(unit, seen.reviewer_id)
        if reviewer is None or reviewer.pool_id != pool.id or reviewer.ended_at is not None:
            continue
        if reviewer.pid is None and seen.pid is not None:
            reviewer = _spawned(unit, reviewer, seen, now)
        activity = seen.activity.model_dump_json(exclude_defaults=True) if seen.activity is not None else None
        if activity != reviewer.activity:
            reviewer = _noticed(unit, reviewer, activity, now)
        if seen.state == "ended":
            idle = seen.retry_after_s is None and reviewer.failed_at_once(now)
            why = seen.error or (_DID_NOTHING if idle else f"exit status {seen.exit_code}")
            _terminate(unit, reviewer, seen.exit_code, why, quick=seen.quick or idle, now_us=now)
            if seen.retry_after_s is not None:
                pool = pool_plan.wait_for_quota(unit, pool, why, seen.retry_after_s, now, reviewer.profile)
    if request.closing and not reviewers.list_live(unit, pool.id):
        after = pool._replace(ended_at=now, last_seen_at=now)
        reviewers.put(unit, pool, after, EventKind.POOL_ENDED, pool.id, now)
    else:
        reviewers.touch_pool(unit, pool.id, now)


def _spawned(unit: Unit, before: Reviewer, seen: ReviewerSighting, now_us: int) -> Reviewer:
    after = before._replace(pid=seen.pid, started_us=seen.started_us)
    facts = {"pid": seen.pid, "provider": before.provider, "host": before.host}
    return reviewers.put(unit, before, after, EventKind.REVIEWER_SPAWNED, before.pool_id, now_us, **facts)


def _noticed(unit: Unit, before: Reviewer, activity: str | None, now_us: int) -> Reviewer:
    """Note what a reviewer does; only that it falls silent, or no longer is, is an event."""
    after = before._replace(activity=activity)
    since = after.said().get("silent_us")
    if (since is None) == ("silent_us" not in before.said()):
        reviewers.note_activity(unit, before.id, activity)
        return after
    facts = {"silent": since is not None, "since": time_or_none(since)}
    return reviewers.put(unit, before, after, EventKind.REVIEWER_SILENT, before.pool_id, now_us, **facts)


def _terminate(unit: Unit, before: Reviewer, exit_code: int | None, why: str, *, quick: bool, now_us: int) -> None:
    after = before._replace(
        state=ReviewerState.TERMINATED.value, ended_at=now_us, exit_code=exit_code, end_reason=why, quick=int(quick)
    )
    facts = {"exit_code": exit_code, "reviews_completed": before.reviews_completed, "reason": why, "quick": quick}
    reviewers.put(unit, before, after, EventKind.REVIEWER_TERMINATED, before.pool_id, now_us, **facts)


def _current(unit: Unit, request: SupervisorHeartbeat) -> Pool:
    pool_id = supervisor_id(request.secret)
    pool = reviewers.find_pool(unit, pool_id)
    if pool is None or pool.incarnation != request.incarnation:
        raise InvalidSession(
            "Another start of this supervisor has registered, or none has: end your reviewers, and register again.",
            supervisor_id=pool_id,
        )
    return pool


def _orders(
    unit: Unit, services: Services, decision: PoolDecision, known: dict[str, str | None], now_us: int
) -> Orders:
    held = reviewers.held_reviews(unit)
    deadline_seconds = services.policy.review_deadline_seconds
    pass_seconds = pool_plan.rules_of(decision.pool).max_ttl_seconds + deadline_seconds + _PASS_GRACE_SECONDS

    def access(one: Reviewer) -> str | None:
        """The token of a reviewer that must be started, where the broker needs tokens."""
        starts = one.state == ReviewerState.ACTIVE and one.id not in known
        auth = services.authenticator
        return auth.pass_for(one.id, one.project, pass_seconds) if auth.required and starts else None

    orders = tuple(
        shown(
            Order,
            one,
            reviewer_id=one.id,
            root=_root(services, one.project),
            wanted=one.wanted(now_us, deadline_seconds + _KILL_GRACE_SECONDS, holds=one.id in held),
            review_id=held[one.id].review_id if one.id in held else None,
            access=access(one),
        )
        for one in decision.live
    )
    return Orders(
        reviewers=orders,
        paused=decision.pool.paused,
        circuit_open_until=time_or_none(decision.pool.circuit_until),
        again_s=max(0.0, (decision.again_us - now_us) / MICROSECONDS),
        changed={one.reviewer_id: one.wanted for one in orders} != known,
        cursor=services.waits.cursor(services.waits.newest(unit)),
    )


def _root(services: Services, project: str) -> str | None:
    """The project's folder; empty where its reviewers get the files from the broker; None for a label."""
    if not services.projects.is_registered(project):
        return None
    return "" if services.projects.mirror(project) is not None else services.projects.root(project) or ""

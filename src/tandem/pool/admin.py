"""What operators do about reviewer pools: look, read logs, start and end reviewers by hand, pause and resume."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress

import orjson

from tandem.contract.answer import shown, time_or_none
from tandem.contract.caller import Caller
from tandem.core.clock import MICROSECONDS, utc_day
from tandem.core.log_files import Part, last_part, next_part
from tandem.core.visible import visible
from tandem.errors import InvalidInput, NotFound, PoolDisabled, TandemError
from tandem.pool import plan as pool_plan
from tandem.pool import profiles
from tandem.pool import queries as reviewers
from tandem.pool import runs as reviewer_runs
from tandem.pool.contract import (
    GetReviewerLog,
    KillReviewer,
    ListReviewers,
    PauseReviewers,
    PoolsChanged,
    PoolView,
    ProfileRules,
    ProfileView,
    ResumeReviewers,
    ReviewerList,
    ReviewerLog,
    ReviewerView,
    SpawnReviewer,
)
from tandem.pool.queries import Held
from tandem.pool.reviewers import logs
from tandem.pool.rules import (
    DrainReason,
    Pool,
    Reviewer,
    ReviewerState,
    what_failed,
)
from tandem.present.words import duration
from tandem.reviews.context import Services
from tandem.store import events
from tandem.store.base import Unit
from tandem.store.context import amend, transact
from tandem.store.waits import wait_until

_RECENT = 20
_LONGEST_LINE = 4_000
"""Characters; of a longer one the beginning is shown."""

_MICRO = 1_000_000
_START_SECONDS = 10.0
"""How long a start by hand is waited for; a supervisor that is there takes a fraction of a second."""


async def list_reviewers(services: Services, caller: Caller, request: ListReviewers) -> ReviewerList:
    """Reviewers that have not ended, the newest of those that have, and all pools."""
    project = request.project or caller.project

    def work(unit: Unit) -> ReviewerList:
        now = services.clock.now_us()
        live = reviewers.list_live(unit)
        held = reviewers.held_reviews(unit)
        shown = [one for one in live if project in (None, one.project)] + reviewers.list_recent(unit, _RECENT, project)
        pools = [pool_view(unit, pool, live, now) for pool in reviewers.list_pools(unit)]
        return ReviewerList(tuple(reviewer_view(one, held.get(one.id)) for one in shown), tuple(pools))

    return await services.store.read(work)


async def get_reviewer_log(services: Services, _caller: Caller, request: GetReviewerLog) -> ReviewerLog:
    """The last lines of a reviewer's log, or those after a position.

    Raises:
        UnknownReviewer: No pool of this broker has it.
        InvalidInput: The position is none of ours.
    """
    reviewer = await services.store.read(lambda unit: reviewer_runs.require(unit, request.reviewer_id))
    part = await asyncio.to_thread(_part, services, reviewer, request.lines, request.position)
    return ReviewerLog(
        reviewer_id=reviewer.id,
        lines=() if part is None else tuple(map(_shown, part.lines)),
        position=request.position if part is None else part.position,
        available=part is not None,
        host=reviewer.host,
    )


def _part(services: Services, reviewer: Reviewer, lines: int, position: str | None) -> Part | None:
    """The lines that a request asks for; None if the log is not here."""
    log = logs.newest(services.reviewer_logs, reviewer.id)
    if log is None:
        return None
    # It may be removed, or closed to us.
    with suppress(OSError):
        if not position:
            return last_part(log.path, lines)
        found = next_part(log.path, position, lines)
        if found is None:
            raise InvalidInput("position must be one that get_reviewer_log answered.", field="position")
        return found
    return None


def _shown(line: str) -> str:
    return visible(line if len(line) <= _LONGEST_LINE else f"{line[:_LONGEST_LINE]}…")


async def spawn_reviewer(services: Services, caller: Caller, request: SpawnReviewer) -> ReviewerView:
    """Start a reviewer by hand; answers when its process runs, or after ten seconds as it is then.

    Raises:
        PoolDisabled: No pool serves the project, or it is paused.
        PoolCapReached: The pool has as many reviewers as it may.
        SpawnCooldown: One was started just now.
    """
    project = services.projects.require(request.project, caller.project)
    actor = caller.operator

    def work(unit: Unit) -> ReviewerView:
        events.lock(unit)
        now = services.clock.now_us()
        pool = _pool_for(unit, services, project, now)
        kind = _kind_for(unit, pool, project, now)
        requested = pool_plan.request(unit, pool, project, by=actor, now_us=now, profile=kind.name)
        return reviewer_view(requested, None)

    asked = await transact(services, caller, work)

    async def look() -> tuple[ReviewerView, bool]:
        found = await services.store.read(lambda unit: reviewers.find(unit, asked.reviewer_id))
        shown = reviewer_view(found, None) if found is not None else asked
        return shown, shown.pid is not None or shown.ended_at is not None

    spawned = await wait_until(
        services.waits, f"reviewer:{asked.reviewer_id}", look=look, timeout_seconds=_START_SECONDS
    )
    await amend(services, caller, spawned)
    return spawned


async def kill_reviewer(services: Services, caller: Caller, request: KillReviewer) -> ReviewerView:
    """End a reviewer: after its current review, or with `force` at once. One that has ended stays as it is.

    Raises:
        UnknownReviewer: No pool of this broker has it.
    """

    def work(unit: Unit) -> ReviewerView:
        events.lock(unit)
        found = reviewer_runs.require(unit, request.reviewer_id)
        now = services.clock.now_us()
        if found.state != ReviewerState.TERMINATED:
            found = pool_plan.drain(
                unit, found, DrainReason.MANUAL, actor=caller.operator, now_us=now, kill=request.force
            )
        return reviewer_view(found, reviewers.held_reviews(unit).get(found.id))

    return await transact(services, caller, work)


async def pause_reviewers(services: Services, caller: Caller, request: PauseReviewers) -> PoolsChanged:
    """Have one pool, or all, start nothing more; reviewers finish their review, and end.

    Raises:
        NotFound: There is no such pool.
        PoolDisabled: There is none at all.
    """
    why = request.reason or "no reason given"
    actor = caller.operator
    return await _change_pools(
        services,
        caller,
        request.supervisor_id,
        lambda unit, pool, now: pool_plan.pause(unit, pool, why, "manual", actor=actor, now_us=now),
    )


async def resume_reviewers(services: Services, caller: Caller, request: ResumeReviewers) -> PoolsChanged:
    """Let one pool, or all, start reviewers again, after a pause of any kind; closes its circuit too.

    Raises:
        NotFound: There is no such pool.
        PoolDisabled: There is none at all.
    """
    actor = caller.operator

    def change(unit: Unit, pool: Pool, now: int) -> Pool:
        resumed = pool_plan.resume(unit, pool, actor=actor, now_us=now)
        resumed = pool_plan.let_in(unit, resumed, actor=actor, now_us=now, all_=True)
        return pool_plan.close_circuit(unit, resumed, "resumed by hand", actor=actor, now_us=now)

    return await _change_pools(services, caller, request.supervisor_id, change)


async def _change_pools(
    services: Services, caller: Caller, supervisor_id: str | None, change: Callable[[Unit, Pool, int], Pool]
) -> PoolsChanged:
    def work(unit: Unit) -> PoolsChanged:
        events.lock(unit)
        now = services.clock.now_us()
        known = reviewers.list_pools(unit)
        chosen = [pool for pool in known if supervisor_id in (None, pool.id)]
        if not chosen:
            raise _no_pool(known, supervisor_id)
        live = reviewers.list_live(unit)
        return PoolsChanged(tuple(pool_view(unit, change(unit, pool, now), live, now) for pool in chosen))

    return await transact(services, caller, work)


def _no_pool(known: list[Pool], supervisor_id: str | None) -> TandemError:
    if supervisor_id is None or not known:
        return PoolDisabled(f"There is no reviewer pool. {_HOW_TO_ENABLE}", why="there is no pool")
    return NotFound(
        f"There is no pool '{supervisor_id}'.", supervisor_id=supervisor_id, allowed=[pool.id for pool in known]
    )


_HOW_TO_ENABLE = (
    "Choose a program that reviews with `tandem reviewers setup`, or run a pool with `tandem reviewers --broker URL`."
)


def _pool_for(unit: Unit, services: Services, project: str, now_us: int) -> Pool:
    """The pool with the most room that may start a reviewer for a project."""
    if not services.projects.is_registered(project):
        raise PoolDisabled(
            f"'{project}' is not registered; register it with `tandem project add`.",
            why="the project is not registered",
            allowed=services.projects.names(),
        )
    live = [pool for pool in reviewers.list_pools(unit) if pool.is_live(now_us)]
    serving = [pool for pool in live if pool.serves(project)]
    if not serving:
        why = f"no pool serves '{project}'" if live else "no pool is running"
        raise PoolDisabled(f"No reviewer can be started: {why}. {_HOW_TO_ENABLE}", why=why)
    refusals: list[TandemError] = []
    for pool in sorted(serving, key=lambda one: len(reviewers.list_live(unit, one.id))):
        try:
            pool_plan.refuse_start(unit, pool, now_us)
        except TandemError as refusal:
            refusals.append(refusal)
        else:
            return pool
    raise refusals[0]


def _kind_for(unit: Unit, pool: Pool, project: str, now_us: int) -> ProfileRules:
    """The first profile that may start a reviewer for a project."""
    kinds = [one for one in profiles.of(pool) if not one.projects or project in one.projects]
    found = next((one for one in kinds if profiles.opens_at(unit, pool, one, now_us) <= now_us), None)
    if found is None:
        why = next((_why_out(unit, pool, one, now_us) for one in kinds), None) or "no profile is for this project"
        raise PoolDisabled(f"No reviewer can be started: {why}.", why=why)
    return found


def pool_view(unit: Unit, pool: Pool, live: list[Reviewer], now_us: int) -> PoolView:
    """A pool as operators see it."""
    spent_usd, tokens = reviewers.spent_on(unit, pool.id, utc_day(now_us))
    state, why = _state(unit, pool, now_us)
    return shown(
        PoolView,
        pool,
        supervisor_id=pool.id,
        state=state,
        why=why,
        active=sum(one.pool_id == pool.id for one in live),
        max_pool_size=pool_plan.rules_of(pool).max_pool_size,
        circuit_open_until=time_or_none(pool.circuit_until),
        spent_today_usd=spent_usd or None,
        tokens_today=tokens,
        profiles=tuple(
            ProfileView(one.name, one.provider, one.model, one.voting, _why_out(unit, pool, one, now_us))
            for one in pool_plan.rules_of(pool).profile
        ),
    )


def _why_out(unit: Unit, pool: Pool, one: ProfileRules, now_us: int) -> str | None:
    out = profiles.outs(pool).get(one.name)
    if out is not None:
        return out.why
    newest = profiles.newest(unit, pool, one)
    is_open = profiles.opens_at(unit, pool, one, now_us) <= now_us
    return None if is_open else what_failed(newest, pool.forgiven)


def _state(unit: Unit, pool: Pool, now_us: int) -> tuple[str, str | None]:
    if pool.ended_at is not None:
        return "ended", "its supervisor has stopped"
    if not pool.is_live(now_us):
        silent = (now_us - pool.last_seen_at) / MICROSECONDS
        return "lost", f"its supervisor on {pool.host} was last heard of {duration(silent)} ago"
    if pool.paused_until is not None:
        return "rate_limited", pool_plan.what_pauses(pool, now_us)
    if pool.paused is not None:
        return "paused", f"{pool.paused} (by {pool.paused_by})"
    if pool.circuit_until is not None:
        newest = reviewers.list_newest(unit, pool, _RECENT)
        return "circuit_open", what_failed(newest, pool.forgiven)
    return "running", None


def reviewer_view(reviewer: Reviewer, held: Held | None) -> ReviewerView:
    """A reviewer as operators see it."""
    done = reviewer.reviews_completed
    doing, since = reviewer.doing(held and held.claimed_at)
    return shown(
        ReviewerView,
        reviewer,
        reviewer_id=reviewer.id,
        supervisor_id=reviewer.pool_id,
        review_id=held and held.review_id,
        review_title=held and held.title,
        claimed_at=time_or_none(held and held.claimed_at),
        doing=doing,
        doing_since=time_or_none(since),
        last_output_at=time_or_none(reviewer.said().get("output_us")),
        approval_rate=reviewer.approvals / done if done else None,
        mean_review_seconds=reviewer.review_us / done / MICROSECONDS if done else None,
        outcomes=orjson.loads(reviewer.outcomes),
        cost_usd=reviewer.cost_microusd / _MICRO,
    )

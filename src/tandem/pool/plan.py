"""The next steps of a pool: decided and written in one transaction, one pool's decision after another.

Starts, drains, pauses and the circuit are all decided here, and behind the log's lock: so no pool ever has more
reviewers than it may, also where two decide at the same time.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

import orjson

from tandem.core.clock import DAY_US, MICROSECONDS, isoformat, utc_day
from tandem.errors import PoolCapReached, PoolDisabled, SpawnCooldown
from tandem.pool import profiles
from tandem.pool import queries as reviewers
from tandem.pool.contract import PoolRules, ProfileRules
from tandem.pool.profiles import Out, rules_of
from tandem.pool.rules import (
    AT_ONCE_SECONDS,
    CIRCUIT_FAILURES,
    DrainReason,
    PauseKind,
    Pool,
    ProjectQueue,
    Reviewer,
    ReviewerState,
    circuit_seconds,
    drain_reason,
    failures_in_a_row,
    next_start,
    next_try,
    plainly,
    reviewer_id,
    start_at,
)
from tandem.reviews import queries as reviews
from tandem.reviews.queries import Waiting
from tandem.store import events
from tandem.store.base import Unit
from tandem.store.event import EventKind

BROKER = "broker"
"""The actor of decisions that no person makes."""

_LOOKED_AT = 12
_FIRST_WAIT_SECONDS = 60
_LONGEST_WAIT_SECONDS = 3600
"""How long a pool waits for a quota that names no time: twice as long each time in a row."""


@dataclass(frozen=True, slots=True)
class PoolDecision:
    """A decision, which is written already.

    Attributes:
        pool: The pool as it is now.
        live: Its reviewers that have not ended.
        again_us: When something will be due.
    """

    pool: Pool
    live: tuple[Reviewer, ...]
    again_us: int


def decide(
    unit: Unit, pool: Pool, projects: Collection[str], *, quiet: bool, closing: bool, now_us: int
) -> PoolDecision:
    """Drain, start, pause and resume, as is due; the unit has the log's lock.

    Args:
        unit: The unit of work.
        pool: The pool.
        projects: The registered projects.
        quiet: Whether these are the pool's quiet hours.
        closing: Whether its supervisor stops.
        now_us: The time.
    """
    pool = keep_circuit(unit, pool, now_us)
    pool = _keep_pauses(unit, pool, quiet=quiet, now_us=now_us)
    rules = rules_of(pool)
    everyone = reviewers.list_live(unit)
    held = reviewers.held_reviews(unit)
    of_all = DrainReason.SHUTDOWN if closing else DrainReason.PAUSED if pool.paused is not None else None
    own = _drain_due(unit, pool, [one for one in everyone if one.pool_id == pool.id], held, of_all, now_us)
    again = [_idle_at(one, rules) for one in own if one.state == ReviewerState.ACTIVE and one.id not in held]
    if not closing and pool.paused is None:
        everyone = [one for one in everyone if one.pool_id != pool.id] + own
        open_at = {one.name: profiles.opens_at(unit, pool, one, now_us) for one in profiles.of(pool)}
        again += open_at.values()
        served = _demands(unit, pool, everyone, held, projects, now_us)
        demands = [one for one in served if open_at[one.profile] <= now_us]
        due = next_start(demands, rules, len(own))
        if due is not None:
            opens = _opens_at(unit, pool, rules)
            if opens <= now_us:
                own.append(request(unit, pool, due.project, by="scaling", now_us=now_us, profile=due.profile))
                opens = now_us + round(rules.spawn_cooldown_seconds * MICROSECONDS)
            again.append(opens)
        elif rules.profile and len(own) >= rules.max_pool_size and next_start(demands, rules, 0) is not None:
            own = _make_room(unit, own, held, served, now_us)
        retry = reviewers.next_retry(unit, now_us)
        again += [retry] if retry is not None else []
    again += [until for until in (pool.circuit_until, pool.paused_until) if until is not None]
    ahead = [instant for instant in again if instant > now_us]
    return PoolDecision(pool, tuple(own), min(ahead, default=now_us + DAY_US))


def _make_room(
    unit: Unit, own: list[Reviewer], held: Collection[str], served: list[ProjectQueue], now_us: int
) -> list[Reviewer]:
    """Drain one that has nothing to do, while the pool has no room for one of another profile."""
    busy = {(one.project, one.profile) for one in served if one.pending or one.seats}
    waits = (one for one in own if one.state == ReviewerState.ACTIVE and one.id not in held)
    spare = next((one for one in waits if (one.project, one.profile or "") not in busy), None)
    if spare is None or any(one.state == ReviewerState.DRAINING for one in own):
        return own
    drained = drain(unit, spare, DrainReason.IDLE, actor=BROKER, now_us=now_us)
    return [drained if one is spare else one for one in own]


def request(unit: Unit, pool: Pool, project: str, *, by: str, now_us: int, profile: str = "") -> Reviewer:
    """Put a new reviewer into the pool; its supervisor will start it. The unit has the log's lock."""
    kind: ProfileRules = next(one for one in profiles.of(pool) if one.name == profile)
    newest = reviewers.list_newest(unit, pool, 1)
    number = newest[0].number + 1 if newest else 1
    # Another supervisor may have called its start the same.
    while reviewers.find(unit, reviewer_id(profile or kind.provider, number, pool.incarnation)) is not None:
        number += 1
    new = Reviewer(
        id=reviewer_id(profile or kind.provider, number, pool.incarnation),
        number=number,
        pool_id=pool.id,
        incarnation=pool.incarnation,
        project=project,
        provider=kind.provider,
        mode=pool.mode,
        model=kind.model,
        host=pool.host,
        requested_by=by,
        spawned_at=now_us,
        last_active_at=now_us,
        profile=profile or None,
    )
    about = {"pool": pool.id, "provider": kind.provider, "mode": pool.mode}
    return reviewers.put(unit, None, new, EventKind.REVIEWER_REQUESTED, by, now_us, by=by, **about)


def drain(
    unit: Unit, reviewer: Reviewer, reason: DrainReason, *, actor: str, now_us: int, kill: bool = False
) -> Reviewer:
    """Have a reviewer end: after its review, or at once. The unit has the log's lock."""
    if reviewer.state != ReviewerState.ACTIVE and not (kill and not reviewer.kill):
        return reviewer
    after = reviewer._replace(
        state=ReviewerState.DRAINING.value,
        drain_reason=reviewer.drain_reason or reason.value,
        drained_at=reviewer.drained_at or now_us,
        kill=int(kill or reviewer.kill),
    )
    facts = {"reason": reason.value, "at_once": bool(after.kill)}
    return reviewers.put(unit, reviewer, after, EventKind.REVIEWER_DRAIN_START, actor, now_us, **facts)


def refuse_start(unit: Unit, pool: Pool, now_us: int) -> None:
    """Refuse what a person asks for when the pool may start nothing.

    Raises:
        PoolDisabled: It is paused.
        PoolCapReached: It has as many reviewers as it may.
        SpawnCooldown: One was started just now, or too many failed at once.
    """
    rules = rules_of(pool)
    if pool.paused is not None:
        message = f"{what_pauses(pool, now_us)} Resume it now with `tandem reviewers resume`."
        raise PoolDisabled(message, why=pool.paused)
    if len(reviewers.list_live(unit, pool.id)) >= rules.max_pool_size:
        raise PoolCapReached(
            f"The pool has {rules.max_pool_size} reviewers already, as many as it may (max_pool_size). End one with"
            " kill_reviewer, or wait for one to end.",
            limit=rules.max_pool_size,
            supervisor_id=pool.id,
        )
    opens = _opens_at(unit, pool, rules)
    if opens > now_us:
        seconds = round((opens - now_us) / MICROSECONDS, 3)
        why = "too many reviewers failed at once" if pool.circuit_until else "one was started just now"
        raise SpawnCooldown(f"Try again in {seconds:g} s: {why}.", retry_after_s=seconds, supervisor_id=pool.id)


def _drain_due(
    unit: Unit, pool: Pool, own: list[Reviewer], held: Collection[str], of_all: DrainReason | None, now_us: int
) -> list[Reviewer]:
    rules = rules_of(pool)
    left = sum(one.state == ReviewerState.ACTIVE for one in own)
    after: list[Reviewer] = []
    for one in own:
        spare = left > rules.min_pool_size
        reason = of_all or drain_reason(one, rules, busy=one.id in held, spare=spare, now_us=now_us)
        if reason is None or one.state != ReviewerState.ACTIVE:
            after.append(one)
        else:
            left -= 1
            after.append(drain(unit, one, reason, actor=BROKER, now_us=now_us))
    return after


def _demands(
    unit: Unit,
    pool: Pool,
    everyone: list[Reviewer],
    held: Collection[str],
    projects: Collection[str],
    now_us: int,
) -> list[ProjectQueue]:
    served = set(projects)
    if pool.projects is not None:
        served &= set(orjson.loads(pool.projects))
    counts = reviewers.count_claimable(unit, now_us)
    pools = [one for one in reviewers.list_pools(unit) if one.is_live(now_us) and one.id != pool.id] + [pool]
    advisers = profiles.advisers(unit, pools, now_us)
    has_profiles = any(rules_of(one).profile for one in pools)
    kinds = {(one.id, kind.name): (one, kind) for one in pools for kind in profiles.of(one)}
    working = [
        (one, kinds[key])
        for one in everyone
        if one.state == ReviewerState.ACTIVE and (key := (one.pool_id, one.profile or "")) in kinds
    ]
    found: list[ProjectQueue] = []
    for project in sorted(served):
        there = [(one, its) for one, its in working if one.project == project]
        claimable, under_policy = counts.get(project, (0, 0))
        # Where any reviewer may take any review, their number says it all.
        is_chosen = claimable > 0 and (has_profiles or under_policy > 0)
        waiting = reviews.list_waiting(unit, project, now_us) if is_chosen else []
        # Those that vote are not given them, however idle they are.
        awaited = {one.review.id for one in waiting if profiles.is_awaited(advisers, one)}
        for kind in profiles.of(pool):
            own = sum((one.pool_id, one.profile or "") == (pool.id, kind.name) for one, _ in there)
            asked = ProjectQueue(project, claimable, len(there), own, kind.name)
            if is_chosen:
                fit = [one for one in waiting if profiles.suits(pool, kind, one)]
                fit = [one for one in fit if not kind.voting or one.review.id not in awaited]
                asked = _of_those(asked, kind, fit, there, held, awaited)
            found.append(asked)
    return found


_Working = tuple[Reviewer, tuple[Pool, ProfileRules]]


def _of_those(
    asked: ProjectQueue,
    kind: ProfileRules,
    fit: Sequence[Waiting],
    there: Sequence[_Working],
    held: Collection[str],
    awaited: Collection[str],
) -> ProjectQueue:
    """What the reviews that a profile fits ask of it."""
    free = [one for one in fit if one.review.held]
    pending = [one for one in fit if not one.review.held]

    def could(working: _Working, some: Sequence[Waiting]) -> bool:
        reviewer, (its_pool, its_kind) = working
        its = (one for one in some if not its_kind.voting or one.review.id not in awaited)
        return any(profiles.suits(its_pool, its_kind, one, reviewer.id) for one in its)

    return replace(
        asked,
        pending=len(pending),
        active=sum(not pending or could(one, pending) for one in there),
        seats=sum(profiles.seats_of(kind, one.review) for one in free),
        idle=sum(one[0].id not in held and could(one, free) for one in there),
    )


def _opens_at(unit: Unit, pool: Pool, rules: PoolRules) -> int:
    """When the pool may start its next reviewer."""
    newest = reviewers.list_newest(unit, pool, _LOOKED_AT)
    failures = 0 if rules.profile else failures_in_a_row(newest, pool.forgiven)
    opens = start_at(newest[0] if newest else None, failures, rules)
    if pool.circuit_until is None:
        return opens
    if newest and newest[0].spawned_at >= pool.circuit_until:
        # The one try is under way; what becomes of it opens or closes the circuit.
        return newest[0].spawned_at + AT_ONCE_SECONDS * MICROSECONDS
    return pool.circuit_until


def _keep_pauses(unit: Unit, pool: Pool, *, quiet: bool, now_us: int) -> Pool:
    """Pause for quiet hours, and end the pauses that end by themselves."""
    is_over = (
        (pool.paused_kind == "quiet_hours" and not quiet)
        or (pool.paused_kind == "budget_per_day" and utc_day(pool.paused_at or 0) != utc_day(now_us))
        or (pool.paused_until is not None and pool.paused_until <= now_us)
    )
    if is_over:
        pool = resume(unit, pool, actor=BROKER, now_us=now_us)
    pool = let_in(unit, pool, actor=BROKER, now_us=now_us)
    if quiet and pool.paused is None:
        pool = pause(unit, pool, "these are its quiet hours", "quiet_hours", actor=BROKER, now_us=now_us)
    return pool


def _idle_at(reviewer: Reviewer, rules: PoolRules) -> int:
    idle = reviewer.last_active_at + round(rules.idle_timeout_seconds * MICROSECONDS)
    old = reviewer.spawned_at + round(rules.max_ttl_seconds * MICROSECONDS)
    return min(idle, old) + 1000


def pause(unit: Unit, pool: Pool, why: str, kind: PauseKind, *, actor: str, now_us: int) -> Pool:
    """Have a pool start nothing more; one that is paused stays so for the reason it has, unless a person gives one."""
    if pool.paused is not None and (kind != "manual" or pool.paused_kind == "manual"):
        return pool
    after = pool._replace(paused=why, paused_kind=kind, paused_by=actor, paused_at=now_us, paused_until=None)
    return reviewers.put(unit, pool, after, EventKind.POOL_PAUSED, actor, now_us, reason=why, kind=kind)


def leave_out(unit: Unit, pool: Pool, profile: str, out: Out, **more: object) -> Pool:
    """Have a profile start nothing; for the rest of its limit, or until a person says so.

    Args:
        unit: The unit of work; it has the log's lock.
        pool: The profile's pool.
        profile: Its name.
        out: Why.
        more: Further facts for the log.
    """
    after = pool._replace(profiles_out=profiles.stored(profiles.outs(pool) | {profile: out}))
    facts = {"reason": out.why, "kind": out.kind, "profile": profile, **more}
    written = reviewers.put(unit, pool, after, EventKind.POOL_PAUSED, BROKER, out.at, **facts)
    for one in reviewers.list_live(unit, pool.id):
        if one.profile == profile:
            drain(unit, one, DrainReason.PAUSED, actor=BROKER, now_us=out.at)
    return written


def let_in(unit: Unit, pool: Pool, *, actor: str, now_us: int, all_: bool = False) -> Pool:
    """Let profiles start reviewers again whose time is up, or all of them."""
    found = profiles.outs(pool)
    left = {name: out for name, out in found.items() if not (all_ or out.is_over(now_us))}
    if left == found:
        return pool
    facts = {"reason": "; ".join(found[name].why for name in found.keys() - left), "kind": "profile"}
    after = pool._replace(profiles_out=profiles.stored(left))
    return reviewers.put(unit, pool, after, EventKind.POOL_RESUMED, actor, now_us, **facts)


def wait_for_quota(unit: Unit, pool: Pool, said: str, seconds: float, now_us: int, profile: str | None = None) -> Pool:
    """Have a pool, or the profile that met the quota, start nothing until its provider takes requests again.

    Args:
        unit: The unit of work; it has the log's lock.
        pool: The pool.
        profile: The profile, where the pool has any.
        said: The program's words.
        seconds: The wait that they name; 0 if none: then it grows from one such time to the next without a verdict
            between.
        now_us: The time.
    """
    out = profiles.outs(pool).get(profile or "")
    if (pool.paused is not None and (pool.paused_kind != "quota" or not seconds)) or (out is not None and not seconds):
        return pool
    named, seconds = bool(seconds), seconds or _unnamed_wait(unit, pool, now_us, profile)
    until = max(now_us + round(seconds * MICROSECONDS), pool.paused_until or 0, (out and out.until) or 0)
    facts = {"reason": said, "kind": "quota", "seconds": seconds, "named": named, "until": isoformat(until)}
    if profile is not None:
        more = {name: facts[name] for name in ("seconds", "named", "until")}
        return leave_out(unit, pool, profile, Out("quota", said, now_us, until), **more)
    after = pool._replace(paused=said, paused_kind="quota", paused_by=BROKER, paused_at=now_us, paused_until=until)
    paused = reviewers.put(unit, pool, after, EventKind.POOL_PAUSED, BROKER, now_us, **facts)
    # At once: the reviewer that met the quota would take the next review meanwhile.
    for one in reviewers.list_live(unit, pool.id):
        drain(unit, one, DrainReason.PAUSED, actor=BROKER, now_us=now_us)
    return paused


def _unnamed_wait(unit: Unit, pool: Pool, now_us: int, profile: str | None) -> float:
    recent = events.list_newest(unit, _LOOKED_AT, subject=pool.subject)
    pauses = [(one.at, orjson.loads(one.data)) for one in recent if one.kind == EventKind.POOL_PAUSED]
    met = [(at, data) for at, data in pauses if data["kind"] == "quota" and data.get("profile") == profile]
    waits = [(at, float(data["seconds"])) for at, data in met if not data["named"]]
    if not waits:
        return _FIRST_WAIT_SECONDS
    at, last_seconds = waits[-1]
    newest = reviewers.list_newest(unit, pool, _LOOKED_AT, profile)
    worked = any(one.spawned_at > at and one.reviews_completed for one in newest)
    is_over = worked or now_us - at > DAY_US
    return _FIRST_WAIT_SECONDS if is_over else min(2 * last_seconds, _LONGEST_WAIT_SECONDS)


def until_next_day(now_us: int) -> int:
    """Microseconds until midnight UTC, when a day's budget begins again."""
    return DAY_US - now_us % DAY_US


def what_pauses(pool: Pool, now_us: int) -> str:
    """Why a paused pool starts nothing, in a sentence."""
    if pool.paused_until is not None:
        why = pool.paused or ""
        said = plainly(why)
        code = "429" if "429" in why and "429" not in said else ""
        return (
            f"{pool.provider} is rate limited ({': '.join(filter(None, (code, said)))})."
            f" {next_try(pool.paused_until, now_us)}."
        )
    return f"The reviewer pool is paused: {pool.paused} (by {pool.paused_by})."


def resume(unit: Unit, pool: Pool, *, actor: str, now_us: int) -> Pool:
    """Let a pool start reviewers again."""
    if pool.paused is None:
        return pool
    after = pool._replace(paused=None, paused_kind=None, paused_by=None, paused_at=None, paused_until=None)
    facts = {"reason": pool.paused, "kind": pool.paused_kind}
    return reviewers.put(unit, pool, after, EventKind.POOL_RESUMED, actor, now_us, **facts)


def close_circuit(unit: Unit, pool: Pool, why: str, *, actor: str, now_us: int) -> Pool:
    """Forget the quick exits so far."""
    newest = reviewers.list_newest(unit, pool, _LOOKED_AT)
    to_forget = any(one.quick for one in newest if one.number > pool.forgiven)
    if pool.circuit_until is None and pool.circuit_opened == 0 and not to_forget:
        return pool
    forgiven = newest[0].number if newest else pool.forgiven
    after = pool._replace(circuit_until=None, circuit_opened=0, forgiven=forgiven)
    return reviewers.put(unit, pool, after, EventKind.CIRCUIT_CLOSED, actor, now_us, reason=why)


def keep_circuit(unit: Unit, pool: Pool, now_us: int) -> Pool:
    """Open the circuit after too many quick exits in a row; close it once a reviewer has lasted."""
    newest = reviewers.list_newest(unit, pool, _LOOKED_AT)
    # Profiles have circuits of their own: `profiles.opens_at`.
    failures = 0 if rules_of(pool).profile else failures_in_a_row(newest, pool.forgiven)
    if pool.circuit_until is None:
        return _open_circuit(unit, pool, newest, now_us) if failures >= CIRCUIT_FAILURES else pool
    if not newest or newest[0].spawned_at < pool.circuit_until:
        return pool
    # Half open: one was started since the circuit's time was up.
    if newest[0].quick:
        return _open_circuit(unit, pool, newest, now_us)
    lasted = now_us - newest[0].spawned_at >= AT_ONCE_SECONDS * MICROSECONDS or newest[0].reviews_completed > 0
    if lasted or newest[0].ended_at is not None:
        return close_circuit(unit, pool, f"{newest[0].id} lasted", actor=BROKER, now_us=now_us)
    return pool


def _open_circuit(unit: Unit, pool: Pool, newest: list[Reviewer], now_us: int) -> Pool:
    until = now_us + circuit_seconds(pool.circuit_opened) * MICROSECONDS
    after = pool._replace(circuit_until=until, circuit_opened=pool.circuit_opened + 1)
    last = newest[0]
    facts = {"reason": last.end_reason, "exit_code": last.exit_code, "until": isoformat(until), "reviewer_id": last.id}
    return reviewers.put(unit, pool, after, EventKind.CIRCUIT_OPENED, BROKER, now_us, **facts)

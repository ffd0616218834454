"""Whether a pool may start anything: pauses, the circuit breaker, and how both are shown."""

from __future__ import annotations

import orjson

from tandem.clock import MICROSECONDS, isoformat, utc_day
from tandem.domain.events import Kind
from tandem.domain.pool_answers import PoolView, ReviewerView
from tandem.domain.reviewers import (
    AT_ONCE_SECONDS,
    CIRCUIT_FAILURES,
    PauseKind,
    Pool,
    PoolRules,
    Reviewer,
    circuit_seconds,
    failures_in_a_row,
)
from tandem.services.views import time_or_none
from tandem.store import reviewers
from tandem.store.base import Unit

_MICRO = 1_000_000
_LOOKED_AT = CIRCUIT_FAILURES + 4


def rules_of(pool: Pool) -> PoolRules:
    """The numbers that a pool is run by."""
    return PoolRules(**orjson.loads(pool.rules))


def pause(unit: Unit, pool: Pool, why: str, kind: PauseKind, *, actor: str, now_us: int) -> Pool:
    """Have a pool start nothing more; one that is paused stays so for the reason it has, unless a person gives one."""
    if pool.paused is not None and (kind != "manual" or pool.paused_kind == "manual"):
        return pool
    after = pool._replace(paused=why, paused_kind=kind, paused_by=actor, paused_at=now_us)
    facts = {"reason": why, "kind": kind}
    return reviewers.put_pool(unit, pool, after, actor=actor, kind=Kind.POOL_PAUSED, at_us=now_us, data=facts)


def resume(unit: Unit, pool: Pool, *, actor: str, now_us: int) -> Pool:
    """Let a pool start reviewers again."""
    if pool.paused is None:
        return pool
    after = pool._replace(paused=None, paused_kind=None, paused_by=None, paused_at=None)
    facts = {"reason": pool.paused, "kind": pool.paused_kind}
    return reviewers.put_pool(unit, pool, after, actor=actor, kind=Kind.POOL_RESUMED, at_us=now_us, data=facts)


def close_circuit(unit: Unit, pool: Pool, why: str, *, actor: str, now_us: int) -> Pool:
    """Forget the quick exits so far."""
    newest = reviewers.list_newest(unit, pool, _LOOKED_AT)
    to_forget = any(one.quick for one in newest if one.number > pool.forgiven)
    if pool.circuit_until is None and pool.circuit_opened == 0 and not to_forget:
        return pool
    forgiven = newest[0].number if newest else pool.forgiven
    after = pool._replace(circuit_until=None, circuit_opened=0, forgiven=forgiven)
    return reviewers.put_pool(
        unit, pool, after, actor=actor, kind=Kind.CIRCUIT_CLOSED, at_us=now_us, data={"reason": why}
    )


def keep_circuit(unit: Unit, pool: Pool, now_us: int) -> Pool:
    """Open the circuit after too many quick exits in a row; close it once a reviewer has lasted."""
    newest = reviewers.list_newest(unit, pool, _LOOKED_AT)
    failures = failures_in_a_row(newest, pool.forgiven)
    if pool.circuit_until is None:
        return _open_circuit(unit, pool, newest, now_us) if failures >= CIRCUIT_FAILURES else pool
    # Half open: one was started since the circuit's time was up.
    tried = bool(newest) and newest[0].spawned_at >= pool.circuit_until
    if not tried:
        return pool
    if newest[0].quick:
        return _open_circuit(unit, pool, newest, now_us)
    lasted = now_us - newest[0].spawned_at >= AT_ONCE_SECONDS * MICROSECONDS or newest[0].reviews_completed > 0
    if lasted or newest[0].ended_at is not None:
        return close_circuit(unit, pool, f"{newest[0].id} lasted", actor="broker", now_us=now_us)
    return pool


def _open_circuit(unit: Unit, pool: Pool, newest: list[Reviewer], now_us: int) -> Pool:
    until = now_us + circuit_seconds(pool.circuit_opened) * MICROSECONDS
    after = pool._replace(circuit_until=until, circuit_opened=pool.circuit_opened + 1)
    facts = {
        "reason": newest[0].end_reason,
        "exit_code": newest[0].exit_code,
        "until": isoformat(until),
        "reviewer_id": newest[0].id,
    }
    return reviewers.put_pool(unit, pool, after, actor="broker", kind=Kind.CIRCUIT_OPENED, at_us=now_us, data=facts)


def pool_view(unit: Unit, pool: Pool, live: list[Reviewer], now_us: int) -> PoolView:
    """A pool as operators see it."""
    used = reviewers.spent_on(unit, pool.id, utc_day(now_us))
    state, why = _state(unit, pool, now_us)
    return PoolView(
        supervisor_id=pool.id,
        host=pool.host,
        provider=pool.provider,
        mode=pool.mode,
        model=pool.model,
        state=state,
        why=why,
        active=sum(one.pool_id == pool.id for one in live),
        max_pool_size=rules_of(pool).max_pool_size,
        circuit_open_until=time_or_none(pool.circuit_until),
        spent_today_usd=used.cost_microusd / _MICRO,
        tokens_today=used.tokens,
        last_seen_at=isoformat(pool.last_seen_at),
    )


def _state(unit: Unit, pool: Pool, now_us: int) -> tuple[str, str | None]:
    if pool.ended_at is not None:
        return "ended", "its supervisor has stopped"
    if not pool.is_live(now_us):
        return "lost", f"its supervisor on {pool.host} was not heard of since {isoformat(pool.last_seen_at)}"
    if pool.paused is not None:
        return "paused", f"{pool.paused} (by {pool.paused_by})"
    if pool.circuit_until is not None:
        newest = reviewers.list_newest(unit, pool, 1)
        last = newest[0].end_reason if newest and newest[0].end_reason else "they ended at once"
        return "circuit_open", f"{CIRCUIT_FAILURES} or more reviewers in a row failed at once; the last: {last}"
    return "running", None


def reviewer_view(reviewer: Reviewer, held: str | None) -> ReviewerView:
    """A reviewer as operators see it."""
    done = reviewer.reviews_completed
    return ReviewerView(
        reviewer_id=reviewer.id,
        name=reviewer.name,
        project=reviewer.project,
        state=reviewer.state,
        provider=reviewer.provider,
        mode=reviewer.mode,
        model=reviewer.model,
        supervisor_id=reviewer.pool_id,
        host=reviewer.host,
        pid=reviewer.pid,
        spawned_at=isoformat(reviewer.spawned_at),
        last_active_at=isoformat(reviewer.last_active_at),
        drain_reason=reviewer.drain_reason,
        ended_at=time_or_none(reviewer.ended_at),
        exit_code=reviewer.exit_code,
        end_reason=reviewer.end_reason,
        review_id=held,
        reviews_completed=done,
        approvals=reviewer.approvals,
        rejections=reviewer.rejections,
        approval_rate=reviewer.approvals / done if done else None,
        mean_review_seconds=reviewer.review_us / done / MICROSECONDS if done else None,
        outcomes=orjson.loads(reviewer.outcomes),
        tokens_in=reviewer.tokens_in,
        tokens_out=reviewer.tokens_out,
        cost_usd=reviewer.cost_microusd / _MICRO,
    )

"""Pools and their reviewers: tables, reading, and writing together with the event that explains it.

A writer takes the log's head first (`events.lock`, or by writing an event), so that decisions on a
pool come one after the other, and no two writers wait for each other in a circle.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, Final, NamedTuple, TypeVar

from sqlalchemy import Index, and_, bindparam, func, or_, select, update

from tandem.core.clock import utc_day
from tandem.pool.rules import Pool, Reviewer, may_be_reviewer
from tandem.reviews import tables as review_tables
from tandem.reviews.claim_rules import AtWork, beside
from tandem.reviews.rules import Review, State
from tandem.store import ledger
from tandem.store import tables as log_tables
from tandem.store.base import Unit
from tandem.store.event import ALL_TIME, CounterMove, EventKind
from tandem.store.statement import Statement, equal, stated
from tandem.store.tables import partial_index, record_table

pools = record_table(
    "pools",
    Pool,
    small=("circuit_opened", "forgiven"),
    comments={
        "id": "the supervisor's",
        "incarnation": "of the supervisor's latest start",
        "projects": "a JSON list; null for all that are registered",
        "paused": "why, in words",
        "paused_until": "when a pause for a provider's quota ends",
    },
)

reviewers = record_table(
    "reviewers",
    Reviewer,
    Index("ix_reviewers_number", "pool_id", "incarnation", "number"),
    Index("ix_reviewers_spawned", "spawned_at", "id"),
    partial_index("ix_reviewers_profile", "pool_id", "incarnation", "profile", "number", where="profile IS NOT NULL"),
    partial_index("ix_reviewers_live", "pool_id", where="ended_at IS NULL"),
    small=("number", "kill", "quick", "reviews_completed", "approvals", "rejections"),
    foreign={"pool_id": "pools.id"},
)


_p = pools.c
_w = reviewers.c
_r = review_tables.reviews.c
_counters = log_tables.counters
_k = _counters.c
_Record = TypeVar("_Record", Pool, Reviewer)
_UNLOGGED: Final = ledger.STAMPS | {"last_seen_at", "activity"}

_get_pool = Statement(select(pools).where(_p.id == bindparam("pool_id")))
_pools = Statement(select(pools).order_by(_p.registered_at, _p.id))
_pools_heard = Statement(
    select(pools).where(_p.ended_at.is_(None), _p.last_seen_at > bindparam("since")).order_by(_p.registered_at, _p.id)
)
_touch_pool = Statement(
    update(pools).where(_p.id == bindparam("key")).values(last_seen_at=bindparam("new_last_seen_at"))
)
_get = Statement(select(reviewers).where(_w.id == bindparam("reviewer_id")))
_live = Statement(select(reviewers).where(_w.ended_at.is_(None)).order_by(_w.pool_id, _w.number))
_note = Statement(update(reviewers).where(_w.id == bindparam("key")).values(activity=bindparam("new_activity")))
_is_held = _r.state.in_([State.CLAIMED.value, State.IN_REVIEW.value])
_held = Statement(
    select(_r.reviewer_id, _r.id, _r.intent, _r.claimed_at)
    .where(
        _is_held,
        _r.reviewer_id.in_(select(_w.id).where(_w.ended_at.is_(None))),
    )
    .order_by(_r.id)
)
# As few as there are reviewers at work.
_beside = Statement(select(review_tables.reviews).where(_is_held, _r.leases.is_not(None)))
_abandoned = Statement(
    select(_r.id, _r.reviewer_id)
    .join(reviewers, _w.id == _r.reviewer_id)
    .where(_is_held, _w.ended_at.is_not(None))
    .order_by(_r.id)
)
_claimable = (
    or_(_r.state == State.PENDING.value, and_(_is_held, _r.seats_free > 0)),
    _r.attention.is_(None),
    _r.by_checks == 0,
)
_claimables = Statement(
    select(_r.project, func.count(), func.count(_r.needs))
    .where(*_claimable, or_(_r.not_before.is_(None), _r.not_before <= bindparam("now")))
    .group_by(_r.project)
)
_next_retry = Statement(select(func.min(_r.not_before)).where(*_claimable, _r.not_before > bindparam("now")))


@cache
def _newest(*names: str) -> Statement:
    newest_first = select(reviewers).where(*equal(_w, *names)).order_by(_w.number.desc())
    return Statement(newest_first.limit(bindparam("limit")))


@cache
def _spent(*names: str) -> Statement:
    return Statement(
        select(_k.metric, func.sum(_k.count))
        .join(reviewers, _w.id == _k.reviewer_id)
        .where(_k.day == bindparam("day"), _k.category == "", *equal(_w, *names))
        .group_by(_k.metric)
    )


@cache
def _recent(*names: str) -> Statement:
    ended = select(reviewers).where(_w.ended_at.is_not(None), *equal(_w, *names))
    return Statement(ended.order_by(_w.spawned_at.desc(), _w.id.desc()).limit(bindparam("limit")))


@cache
def _models(*, project: bool, since: bool) -> Statement:
    statement = select(_w.id, func.coalesce(_w.model, _w.provider)).join(_counters, _k.reviewer_id == _w.id).distinct()
    if project:
        statement = statement.where(_k.project == bindparam("project"))
    return Statement(statement.where(_k.day >= bindparam("since") if since else _k.day == ALL_TIME))


def find_pool(unit: Unit, pool_id: str) -> Pool | None:
    """The pool of a supervisor."""
    return unit.find(Pool, _get_pool, pool_id=pool_id)


def get_pool(unit: Unit, reviewer: Reviewer) -> Pool:
    """The pool of a reviewer, to which its row refers."""
    return Pool(*unit.all(_get_pool, pool_id=reviewer.pool_id)[0])


def list_pools(unit: Unit) -> list[Pool]:
    """All pools that were ever registered, oldest first: one for each supervisor."""
    return unit.list_of(Pool, _pools)


def list_heard(unit: Unit, since_us: int) -> list[Pool]:
    """Pools that have not ended and were heard of after that, oldest first."""
    return unit.list_of(Pool, _pools_heard, since=since_us)


def touch_pool(unit: Unit, pool_id: str, now_us: int) -> None:
    """Note that a supervisor was heard of, which is no event."""
    unit.execute(_touch_pool, key=pool_id, new_last_seen_at=now_us)


def find(unit: Unit, reviewer_id: str) -> Reviewer | None:
    """A reviewer of a pool; None for every other one."""
    # Asked several times a call, mostly of names that none of them can have.
    return unit.find(Reviewer, _get, reviewer_id=reviewer_id) if may_be_reviewer(reviewer_id) else None


def list_live(unit: Unit, pool_id: str | None = None) -> list[Reviewer]:
    """Reviewers that have not ended, of one pool or of all."""
    return [one for one in unit.list_of(Reviewer, _live) if pool_id in (None, one.pool_id)]


def list_recent(unit: Unit, limit: int, project: str | None) -> list[Reviewer]:
    """Reviewers that have ended, newest first."""
    named = stated(project=project)
    return unit.list_of(Reviewer, _recent(*named), limit=limit, **named)


def list_newest(unit: Unit, pool: Pool, limit: int, profile: str | None = None) -> list[Reviewer]:
    """The newest reviewers of a pool's incarnation, perhaps of one profile, newest first."""
    named = {"pool_id": pool.id, "incarnation": pool.incarnation, **stated(profile=profile or None)}
    return unit.list_of(Reviewer, _newest(*named), limit=limit, **named)


def note_activity(unit: Unit, reviewer_id: str, activity: str | None) -> None:
    """Note what a reviewer does, which is no event."""
    unit.execute(_note, key=reviewer_id, new_activity=activity)


class Held(NamedTuple):
    """The review that a reviewer holds, and since when."""

    review_id: str
    title: str
    claimed_at: int


def held_reviews(unit: Unit) -> dict[str, Held]:
    """What each live reviewer holds, by the reviewer's id."""
    found = {reviewer: Held(*held) for reviewer, *held in unit.all(_held)}
    for review, one in _held_beside(unit):
        found[one.holder] = Held(review.id, review.intent, one.claimed_at)
    return found


def _held_beside(unit: Unit) -> list[tuple[Review, AtWork]]:
    return [(review, one) for review in unit.list_of(Review, _beside) for one in beside(review)]


def list_abandoned(unit: Unit) -> list[tuple[str, str]]:
    """Reviews that are held by reviewers that have ended, each with its holder."""
    found = [(row[0], row[1]) for row in unit.all(_abandoned)]
    for review, one in _held_beside(unit):
        known = find(unit, one.holder)
        if known is not None and known.ended_at is not None:
            found.append((review.id, one.holder))
    return found


def count_claimable(unit: Unit, now_us: int) -> dict[str, tuple[int, int]]:
    """By project, how many reviews could be claimed now, and how many of these have a policy."""
    return {row[0]: (row[1], row[2]) for row in unit.all(_claimables, now=now_us)}


def next_retry(unit: Unit, now_us: int) -> int | None:
    """When the next review that waits for a later try can be claimed."""
    return unit.value(_next_retry, now=now_us)


def spent_on(unit: Unit, pool_id: str, day: str, profile: str | None = None) -> tuple[float, int]:
    """The US dollars and tokens that a pool's runs, perhaps those of one profile, used up on a day (ISO date, UTC)."""
    named = stated(pool_id=pool_id, profile=profile)
    found = {row[0]: int(row[1]) for row in unit.all(_spent(*named), day=day, **named)}
    return found.get("cost_microusd", 0) / 1_000_000, found.get("tokens_in", 0) + found.get("tokens_out", 0)


def list_models(unit: Unit, *, project: str | None, since_day: str | None) -> dict[str, str]:
    """The model of each reviewer that counted for something, over all time or since a day; else its program's name."""
    statement = _models(project=project is not None, since=since_day is not None)
    return {row[0]: row[1] for row in unit.all(statement, **stated(project=project, since=since_day))}


def put(
    unit: Unit, before: _Record | None, after: _Record, kind: EventKind, actor: str, at_us: int, /, **data: Any
) -> _Record:
    """Write the change that an event made to a pool or a reviewer, and the event; a reviewer's use is counted."""
    what, table = ("pool", pools) if isinstance(after, Pool) else ("reviewer", reviewers)
    written = ledger.write(
        unit,
        table,
        before,
        after,
        at=at_us,
        actor=actor,
        kind=kind,
        old=before.state if before else None,
        new=after.state,
        data=data,
        delta={what: ledger.changes(before, after, _UNLOGGED)},
    )
    if isinstance(after, Reviewer):
        unit.count(reviewer_moves(before._asdict() if before else {}, after._asdict(), at_us))
    return written


SPENT = ("tokens_in", "tokens_out", "cost_microusd")
"""What a reviewer's runs use up: columns of a reviewer, and metrics that are counted."""


def reviewer_moves(before: Mapping[str, Any], after: Mapping[str, Any], at_us: int) -> list[CounterMove]:
    """The counters that an event of a reviewer moves, in lock order: its use since the event before.

    Args:
        before: The reviewer's columns before the event; empty when it was created by it.
        after: The columns after it.
        at_us: The event's time.
    """
    used = {metric: after[metric] - before.get(metric, 0) for metric in SPENT}
    return [
        CounterMove(after["project"], day, "", after["id"], name, used[name])
        for day in (ALL_TIME, utc_day(at_us))
        for name in sorted(SPENT)
        if used[name]
    ]

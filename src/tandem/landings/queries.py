"""Landings: their table, reading, and writing together with the event."""

from __future__ import annotations

from functools import cache

import orjson
from sqlalchemy import Index, bindparam, select, update

from tandem.landings.rules import Landing, LandingState
from tandem.store import ledger
from tandem.store.base import Unit
from tandem.store.event import EventKind
from tandem.store.statement import Statement, equal, stated
from tandem.store.tables import partial_index, record_table

landings = record_table(
    "landings",
    Landing,
    partial_index("ix_landings_line", "project", "id", where="ended_at IS NULL"),
    Index("ix_landings_newest", "project", "id"),
    small=("generation", "number"),
    comments={"branch": "the base branch", "source": "the branch that lands", "review_ids": "a JSON list"},
)
_l = landings.c
_get = Statement(select(landings).where(_l.id == bindparam("landing_id")))
_touch = Statement(update(landings).where(_l.id == bindparam("key")).values(last_seen_at=bindparam("new_last_seen_at")))
_KINDS = {LandingState.WAITING: EventKind.LANDING_QUEUED}


@cache
def _listed(*named: str, ended: bool) -> Statement:
    is_wanted, order = (_l.ended_at.is_not(None), _l.id.desc()) if ended else (_l.ended_at.is_(None), _l.number)
    listed = select(landings).where(*equal(_l, "project", *named), is_wanted)
    return Statement(listed.order_by(order).limit(bindparam("limit")))


def find(unit: Unit, landing_id: str) -> Landing | None:
    """A landing by its id."""
    return unit.find(Landing, _get, landing_id=landing_id)


def list_of(unit: Unit, project: str, limit: int, *, ended: bool, **filters: str | None) -> list[Landing]:
    """The landings in line, in their order, or those that have ended, newest first; of one `branch` or `source`."""
    given = stated(**filters)
    return unit.list_of(Landing, _listed(*given, ended=ended), project=project, limit=limit, **given)


def touch(unit: Unit, landing_id: str, now_us: int) -> None:
    """Note that a landing's process was heard of, which is no event."""
    unit.execute(_touch, key=landing_id, new_last_seen_at=now_us)


def put(unit: Unit, before: Landing | None, after: Landing, actor: str) -> Landing:
    """Write a landing with its event."""
    kind = EventKind.LANDING_STARTED if after.ended_at is None else EventKind.LANDING_ENDED
    return ledger.write(
        unit,
        landings,
        before,
        after,
        at=after.changed_at,
        actor=actor,
        kind=_KINDS.get(LandingState(after.state), kind),
        old=None if before is None else before.state,
        new=after.state,
        data={
            **{name: getattr(after, name) for name in ("branch", "source", "head", "tip", "reason")},
            "commit": after.commit_id,
            "review_ids": orjson.loads(after.review_ids),
        },
        delta=ledger.whole(unit, landings, after, "last_seen_at"),
    )

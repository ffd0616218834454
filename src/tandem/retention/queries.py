"""Statements by which reviews and cycles lose their contents; each finds its rows by an index."""

from __future__ import annotations

from typing import Final, NamedTuple

from sqlalchemy import and_, bindparam, delete, exists, select, text, union, update

from tandem.cycles import tables as cycle_tables
from tandem.retention.rules import BLANK
from tandem.reviews import tables
from tandem.store import tables as log_tables
from tandem.store.base import Unit
from tandem.store.event import Event
from tandem.store.statement import Statement

_r = tables.reviews.c
_c = cycle_tables.cycles.c
_h = cycle_tables.handoffs.c
_NAMED: Final = (
    tables.rounds.c.description_id,
    tables.rounds.c.diff_id,
    tables.rounds.c.base_files_id,
    tables.counter_patches.c.content_id,
    tables.checks.c.log_id,
)
"""Columns of a review's rows that name a content."""

_closed = Statement(
    select(_r.id, _r.event_seq, _r.updated_at)
    .where(text(tables.CLOSED_WITH_CONTENTS), _r.event_seq > bindparam("after"))
    .order_by(_r.event_seq)
    .limit(bindparam("limit"))
)
_archived = Statement(
    select(_c.id, _c.event_seq, _c.updated_at)
    .where(text(cycle_tables.ARCHIVED_WITH_CONTENTS), _c.event_seq > bindparam("after"))
    .order_by(_c.event_seq)
    .limit(bindparam("limit"))
)
_payloads = Statement(select(_h.content_id).where(_h.cycle_id == bindparam("cycle_id")).distinct())
_blank_payloads = Statement(
    update(cycle_tables.handoffs).where(_h.cycle_id == bindparam("key")).values(BLANK["handoffs"])
)
_contents = Statement(
    union(*(select(name).where(name.table.c.review_id == bindparam("review_id"), name.is_not(None)) for name in _NAMED))
)
_blank = tuple(
    Statement(update(table).where(table.c.review_id == bindparam("key")).values(BLANK[table.name]))
    for table in (tables.rounds, tables.verdicts, tables.messages, tables.counter_patches, tables.checks)
)
_delete_viewed = Statement(delete(tables.viewed_files).where(tables.viewed_files.c.review_id == bindparam("review_id")))
_delete_content = Statement(
    delete(log_tables.contents).where(
        log_tables.contents.c.id == bindparam("id"),
        *(~exists().where(and_(name == bindparam("id"), name.is_not(None))) for name in (*_NAMED, _h.content_id)),
    )
)
_blank_event = Statement(
    update(log_tables.events)
    .where(log_tables.events.c.seq == bindparam("key"))
    .values(data=bindparam("new_data"), delta=bindparam("new_delta"))
)
_newest_removed = tuple(
    Statement(select(seq).where(seq.is_not(None)).order_by(seq.desc()).limit(1))
    for seq in (_r.removed_seq, _c.removed_seq)
)


class Closed(NamedTuple):
    """A closed review, or an archived cycle, that has its contents."""

    id: str
    event_seq: int
    updated_at: int


def list_closed(unit: Unit, after: int, limit: int) -> list[Closed]:
    """Closed reviews that have their contents, those first to which nothing has happened for longest."""
    return [Closed(*row) for row in unit.all(_closed, after=after, limit=limit)]


def list_archived(unit: Unit, after: int, limit: int) -> list[Closed]:
    """Archived cycles that have their payloads, those first to which nothing has happened for longest."""
    return [Closed(*row) for row in unit.all(_archived, after=after, limit=limit)]


def list_payloads(unit: Unit, cycle_id: str) -> list[str]:
    """The names of all that a cycle's hand-offs name in the content store."""
    return [str(row[0]) for row in unit.all(_payloads, cycle_id=cycle_id)]


def blank_payloads(unit: Unit, cycle_id: str) -> None:
    """Take the payloads from a cycle's hand-offs."""
    unit.execute(_blank_payloads, key=cycle_id)


def list_contents(unit: Unit, review_id: str) -> list[str]:
    """The names of all that a review's rows name in the content store."""
    return [str(row[0]) for row in unit.all(_contents, review_id=review_id)]


def blank_rows(unit: Unit, review_id: str) -> None:
    """Take the contents from everything that a review has beside its own row."""
    for statement in _blank:
        unit.execute(statement, key=review_id)
    unit.execute(_delete_viewed, review_id=review_id)


def blank_event(unit: Unit, event: Event) -> None:
    """Store what is left of an event."""
    unit.execute(_blank_event, key=event.seq, new_data=event.data, new_delta=event.delta)


def delete_content(unit: Unit, name: str) -> None:
    """Delete a content that nothing names any more."""
    unit.execute(_delete_content, id=name)


def newest_removed(unit: Unit) -> int:
    """The number of the newest event whose contents were removed; 0 if none were."""
    rows = [unit.one_or_none(one) for one in _newest_removed]
    return max((int(row[0]) for row in rows if row), default=0)

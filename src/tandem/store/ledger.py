"""Appending to the log: events, the texts that they name, and the counters that they move."""

from __future__ import annotations

import hashlib
from functools import cache
from itertools import chain
from typing import Any, Final

from sqlalchemy import bindparam, insert, update
from sqlalchemy.dialects import postgresql, sqlite

from tandem.store import tables
from tandem.store.base import Unit
from tandem.store.dialects import PerDialect
from tandem.store.event import CounterMove, Event
from tandem.store.statement import Statement

_next_seq = Statement(
    update(tables.log_head)
    .where(tables.log_head.c.id == 1)
    .values(seq=tables.log_head.c.seq + 1)
    .returning(tables.log_head.c.seq)
)
_insert_event = Statement(insert(tables.events))
_insert_content = PerDialect(
    sqlite=sqlite.insert(tables.contents).on_conflict_do_nothing(),
    postgresql=postgresql.insert(tables.contents).on_conflict_do_nothing(),
)


_COUNTER_COLUMNS: Final = tuple(str(column.name) for column in tables.counters.columns)


@cache
def _counter_parameters(count: int) -> tuple[str, ...]:
    """The parameters of so many counters, one counter after another."""
    return tuple(f"{column}_{number}" for number in range(count) for column in _COUNTER_COLUMNS)


@cache
def _move_counters(count: int) -> PerDialect:
    """Adds to so many counters at once; no counter may be among them twice."""
    return PerDialect(sqlite=_counter_upsert(sqlite, count), postgresql=_counter_upsert(postgresql, count))


def _counter_upsert(module: Any, count: int) -> Any:
    parameters = iter(_counter_parameters(count))
    values: list[dict[str, Any]] = [
        {column: bindparam(next(parameters)) for column in _COUNTER_COLUMNS} for _ in range(count)
    ]
    statement = module.insert(tables.counters).values(values)
    return statement.on_conflict_do_update(
        index_elements=[column.name for column in tables.counters.primary_key],
        set_={
            "count": tables.counters.c.count + statement.excluded.count,
            "total_us": tables.counters.c.total_us + statement.excluded.total_us,
        },
    )


def content_id(body: str) -> str:
    """The name of a text in the content store."""
    return hashlib.sha256(body.encode()).hexdigest()


def keep_content(unit: Unit, body: str | None) -> str | None:
    """Put a text into the content store, unless it is there; its name, or null for none."""
    if body is None:
        return None
    name = content_id(body)
    unit.execute(_insert_content[unit.dialect], id=name, body=body)
    return name


def append(unit: Unit, draft: Event) -> Event:
    """Append one event to the log, sealed; a draft with the number 0 is given the next one."""
    numbered = draft if draft.seq else draft._replace(seq=take_seq(unit))
    event = numbered._replace(kind=str(draft.kind)).sealed(unit.seal)
    unit.execute(_insert_event, **event._asdict())
    unit.on_commit(event.seq)
    return event


def take_seq(unit: Unit) -> int:
    """The next number of the log; nobody else gets one until this transaction ends."""
    row = unit.one_or_none(_next_seq)
    if row is None:
        raise LookupError("the log has no head; the database was not made by Tandem")
    return int(row[0])


def count(unit: Unit, moved: list[CounterMove]) -> None:
    """Move counters; those of one event, in lock order."""
    if not moved:
        return
    params = zip(_counter_parameters(len(moved)), chain.from_iterable(moved), strict=True)
    unit.execute(_move_counters(len(moved))[unit.dialect], **dict(params))

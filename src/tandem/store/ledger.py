"""Appending to the log: events, the texts that they name, and the counters that they move."""

# Methods of named tuples begin with an underscore.
# pyright: reportPrivateUsage=false
from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, Final, Protocol, Self, TypeVar

import orjson
from sqlalchemy import Table, bindparam, insert, update
from sqlalchemy.dialects import postgresql

from tandem.store import tables
from tandem.store.base import RunAgain, Unit
from tandem.store.event import GENESIS, Event, content_of, sealed_value
from tandem.store.statement import Statement, insert_if_new

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tandem.store.event import CounterMove


_next_seq = Statement(
    update(tables.log_head)
    .where(tables.log_head.c.id == 1)
    .values(seq=tables.log_head.c.seq + 1)
    .returning(tables.log_head.c.seq)
)
_insert_event = Statement(insert(tables.events))
_insert_content = insert_if_new(tables.contents)
STAMPS: Final = frozenset({"event_seq", "event_hash"})
"""Columns that name a row's newest event, which the event itself cannot have in its delta."""
SEALED: Final = frozenset({"key_hash", "token_hash", "secret", "url"})
"""Columns of which events have a keyed hash only."""


class Logged(Protocol):
    """A row whose changes are events: a named tuple with the columns `event_seq` and `event_hash`."""

    @property
    def project(self) -> str | None:
        """The project it belongs to, if to one."""
        ...

    @property
    def subject(self) -> str:
        """What its events are about."""
        ...

    @property
    def event_seq(self) -> int:
        """The number of its newest event."""
        ...

    @property
    def event_hash(self) -> str:
        """The hash of its newest event."""
        ...

    @property
    def _fields(self) -> tuple[str, ...]: ...

    def __iter__(self) -> Iterator[Any]: ...

    def _asdict(self) -> dict[str, Any]: ...

    def _replace(self, **changed: Any) -> Self: ...


R = TypeVar("R", bound=Logged)


@cache
def _insert(table: Table) -> Statement:
    return Statement(insert(table))


@cache
def _keys(table: Table) -> tuple[str, ...]:
    return tuple(column.name for column in table.primary_key)


@cache
def _update(table: Table, names: tuple[str, ...]) -> Statement:
    """Changes just these columns: indexes on the others are then left alone."""
    keys = [table.c[name] == bindparam(f"key_{name}") for name in _keys(table)]
    return Statement(
        update(table)
        .where(*keys, table.c.event_seq == bindparam("expected_seq"))
        .values({name: bindparam(f"new_{name}") for name in names})
    )


def content_id(body: str) -> str:
    """The name of a text in the content store."""
    return hashlib.sha256(body.encode()).hexdigest()


def keep_content(unit: Unit, body: str | None) -> str | None:
    """Put a text into the content store, unless it is there; its name, or None for none."""
    if body is None:
        return None
    name = content_id(body)
    unit.put(_insert_content, id=name, body=body)
    return name


def changes(before: Logged | None, after: Logged, but: Collection[str] = STAMPS) -> dict[str, Any]:
    """The columns that differ between two versions of a row, or all of a new one; `but` some."""
    if before is None:
        return {name: value for name, value in after._asdict().items() if name not in but}
    return {
        name: new
        for name, new, old in zip(after._fields, after, before, strict=True)
        if new is not old and new != old and name not in but
    }


def write(  # noqa: PLR0913 one for each column of the event
    unit: Unit,
    table: Table,
    before: R | None,
    after: R,
    *,
    at: int,
    actor: str,
    kind: str,
    data: Mapping[str, Any],
    old: str | None = None,
    new: str | None = None,
    delta: Mapping[str, Any] | None = None,
    seq: int = 0,
    changed: Mapping[str, Any] | None = None,
) -> R:
    """Write a row, together with the event that explains it; the row with the event's number and hash.

    Args:
        unit: The unit of work.
        table: The row's table.
        before: The row as it is stored; None for a new one.
        after: What becomes of it.
        at: When, in microseconds since the epoch.
        actor: Who did it.
        kind: What happened.
        data: Facts for readers.
        old: The state before, where there is one.
        new: The state after, where there is one.
        delta: What a replay rebuilds the row from; by default the whole row.
        seq: The event's number, if it was taken already.
        changed: What `changes` says of the two rows, if it was asked already.
    """
    if delta is None:
        delta = whole(unit, table, after)
    event = append(
        unit,
        Event(
            seq=seq,
            at=at,
            project=after.project or "",
            subject=after.subject,
            actor=actor,
            kind=kind,
            old=old,
            new=new,
            data=orjson.dumps(data).decode(),
            delta=orjson.dumps(delta).decode(),
            previous=before.event_hash if before else GENESIS,
        ),
    )
    if before is not None and event.seq <= before.event_seq:
        # A subject's events are chained in the order of their numbers, and a transaction that began later was faster.
        raise RunAgain(f"event {before.event_seq} of {event.subject} came before event {event.seq}")
    written = after._replace(event_seq=event.seq, event_hash=event.hash)
    if before is None:
        unit.put(_insert(table), **written._asdict())
    else:
        _write_changes(unit, table, before, written, changes(before, after) if changed is None else changed)
    return written


def whole(unit: Unit, table: Table, row: Logged, *but: str) -> dict[str, dict[str, Any]]:
    """The delta that has all of a row, under the singular of its table's name; `but` some columns."""
    kept = changes(None, row, STAMPS.union(but))
    sealed = {name: sealed_value(unit.seal, kept[name]) for name in SEALED & kept.keys()}
    return {table.name.removesuffix("s"): kept | sealed}


def _write_changes(unit: Unit, table: Table, before: Logged, after: Logged, changed: Mapping[str, Any]) -> None:
    unit.put_one(
        _update(table, (*changed, *STAMPS)),
        expected_seq=before.event_seq,
        new_event_seq=after.event_seq,
        new_event_hash=after.event_hash,
        **{f"key_{name}": getattr(after, name) for name in _keys(table)},
        **{f"new_{name}": value for name, value in changed.items()},
    )


def append(unit: Unit, draft: Event) -> Event:
    """Append one event to the log, sealed; a draft with the number 0 is given the next one."""
    # Built at once: each `_replace` of a named tuple costs as much as a statement's parameters.
    said = (draft.seq or take_seq(unit), *draft[1:5], str(draft.kind), *draft[6:-1])
    event = Event(*said, hash=unit.seal(content_of(said)))
    unit.put(_insert_event, **event._asdict())
    unit.on_commit(event.seq, event.subject)
    return event


def take_seq(unit: Unit) -> int:
    """The next number of the log: of the transaction, or of all of them, in turns."""
    given = unit.take_seq()
    return unit.value(_next_seq) if given is None else given


_COLUMNS: Final = tuple(str(column.name) for column in tables.counters.columns)


@cache
def moving(count: int) -> Statement:
    """Adds to so many counters at once; no counter may be among them twice."""
    parameters = iter(_parameters(count))
    values: list[dict[str, Any]] = [{column: bindparam(next(parameters)) for column in _COLUMNS} for _ in range(count)]
    statement = postgresql.insert(tables.counters).values(values)
    return Statement(
        statement.on_conflict_do_update(
            index_elements=[column.name for column in tables.counters.primary_key],
            set_={
                "count": tables.counters.c.count + statement.excluded.count,
                "total_us": tables.counters.c.total_us + statement.excluded.total_us,
            },
        )
    )


def moved(moves: Sequence[CounterMove], slot: int) -> dict[str, Any]:
    """The parameters of `moving`; `slot` is what these counters are kept in, beside those of other writers."""
    values: list[Any] = []
    for move in moves:
        values += (*move[:5], slot, *move[5:])
    return dict(zip(_parameters(len(moves)), values, strict=True))


@cache
def _parameters(count: int) -> tuple[str, ...]:
    """The parameters of so many counters, one counter after another."""
    return tuple(f"{column}_{number}" for number in range(count) for column in _COLUMNS)

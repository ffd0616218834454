"""Retention: removes contents a number of days after a review or cycle was closed; the log stays verifiable.

Rows and events lose the same, and a replay still gives the rows. Each statement finds its rows by an index.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Final, NamedTuple, cast

import orjson
from sqlalchemy import BindParameter, Table, and_, bindparam, delete, exists, select, text, union, update

from tandem.core.clock import MICROSECONDS
from tandem.cycles import queries as cycle_tables
from tandem.cycles import queries as cycles
from tandem.cycles.rules import Cycle
from tandem.reviews import queries as reviews
from tandem.reviews import tables
from tandem.reviews.context import Services
from tandem.reviews.reading import close_in
from tandem.reviews.rules import Review, State
from tandem.reviews.writing import change_review
from tandem.store import events, log
from tandem.store import tables as log_tables
from tandem.store.base import Unit
from tandem.store.event import REMOVED, Event, EventKind
from tandem.store.ledger import content_id, keep_content
from tandem.store.statement import Statement

_EMPTY: Final = content_id("")
"""The content that stands for one that was removed, where a row has to have one."""

_SAID: Final = "(removed)"

_BLANK: Final[dict[str, dict[str, Any]]] = {
    "reviews": {"intent": _SAID, "verdict_reason": None},
    "rounds": {"intent": _SAID, "description_id": None, "diff_id": None, "base_files_id": None, "metadata": "{}"},
    "verdicts": {"reason": None},
    "messages": {"body": _SAID, "metadata": "{}"},
    "findings": {
        "claim": _SAID,
        **dict.fromkeys(("file", "line", "end_line", "failure", "suggestion", "lines", "answer", "settled_reason")),
    },
    "counter_patches": {"content_id": _EMPTY, "reason": None},
    "checks": {"reason": None, "log_id": None},
    "handoffs": {"content_id": _EMPTY},
}
"""By table, what columns with contents have afterwards. What a gate, statistics or a replay needs is not among them."""

_PARTS: Final = {
    "review": "reviews",
    "round": "rounds",
    "verdict": "verdicts",
    "messages": "messages",
    "findings": "findings",
    "counter_patch": "counter_patches",
    "decision": "counter_patches",
    "checks": "checks",
    "handoff": "handoffs",
}
"""The parts of a delta that are such rows, or changed columns of them."""

_AT_ONCE: Final = 20
"""Reviews, and cycles, that one sweep looks at."""
_SECONDS_A_DAY: Final = 86_400
_EVENT_LIMIT: Final = 10_000
"""Events that a review or a cycle may have; one with more keeps its contents, as its unit would hold up others."""

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

_KEY: Final[BindParameter[str]] = bindparam("key")


class _Closed(NamedTuple):
    """A closed review, or an archived cycle, that has its contents."""

    id: str
    event_seq: int
    updated_at: int


class _Kind(NamedTuple):
    """Reviews, or cycles: how those that have their contents are found, and lose them.

    Attributes:
        closed: Finds those that were closed, or archived.
        contents: Finds the names of all that the rows of one name in the content store.
        blank: Take the contents from every row of one but its own.
    """

    closed: Statement
    contents: Statement
    blank: tuple[Statement, ...]


def _closed(table: Table, condition: str) -> Statement:
    columns = table.c
    return Statement(
        select(columns.id, columns.event_seq, columns.updated_at)
        .where(text(condition), columns.event_seq > bindparam("after"))
        .order_by(columns.event_seq)
        .limit(bindparam("limit"))
    )


_REVIEWS: Final = _Kind(
    _closed(tables.reviews, tables.CLOSED_WITH_CONTENTS),
    Statement(union(*(select(name).where(name.table.c.review_id == _KEY, name.is_not(None)) for name in _NAMED))),
    (
        *(
            Statement(update(table).where(table.c.review_id == _KEY).values(_BLANK[table.name]))
            for table in (
                *(tables.rounds, tables.verdicts, tables.messages, tables.findings, tables.counter_patches),
                tables.checks,
            )
        ),
        *(Statement(delete(table).where(table.c.review_id == _KEY)) for table in (tables.viewed_files, tables.drafts)),
    ),
)
_CYCLES: Final = _Kind(
    _closed(cycle_tables.cycles, cycle_tables.ARCHIVED_WITH_CONTENTS),
    Statement(select(_h.content_id).where(_h.cycle_id == _KEY).distinct()),
    (Statement(update(cycle_tables.handoffs).where(_h.cycle_id == _KEY).values(_BLANK["handoffs"])),),
)
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


class Place(NamedTuple):
    """Where a sweep goes on: after which event's number."""

    reviews: int = 0
    cycles: int = 0


async def remove_contents(services: Services, after: Place) -> Place:
    """Take the contents from the next few that are closed for longer than `retention_days`.

    Args:
        services: What the services share.
        after: What the last call answered.

    Returns:
        Where the next call goes on.
    """
    kept_us = round(services.policy.retention_days * _SECONDS_A_DAY * MICROSECONDS)
    if not kept_us:
        return Place()
    return Place(
        await _sweep(services, after.reviews, kept_us, _REVIEWS, _of_review),
        await _sweep(services, after.cycles, kept_us, _CYCLES, partial(_of_cycle, services)),
    )


def newest_removed(unit: Unit) -> int:
    """The number of the newest event whose contents were removed; 0 if none were."""
    return max(unit.value(one) or 0 for one in _newest_removed)


async def _sweep(
    services: Services,
    after: int,
    kept_us: int,
    kind: _Kind,
    remove: Callable[[Unit, _Closed, int], int],
) -> int:
    now = services.clock.now_us()
    found = await services.store.read(lambda unit: _list_closed(unit, kind, after, _AT_ONCE))
    for one in found:
        if one.updated_at > now - kept_us:
            # What follows is younger still.
            return 0
        removed = await services.store.write(lambda unit, one=one: remove(unit, one, now))
        if removed:
            services.waits.expire(removed)
            # Others' writes first: nothing is urgent here.
            await asyncio.sleep(0)
        after = one.event_seq
    return after if len(found) == _AT_ONCE else 0


def _of_review(unit: Unit, found: _Closed, now_us: int) -> int:
    """Take one review's contents; the number of the newest event that lost its own, 0 if none did."""
    before = reviews.get(unit, found.id, lock=True)
    left = _left(unit, found, before) if before.state == State.CLOSED else []
    if not left:
        return 0
    after = before._replace(**_BLANK["reviews"], updated_at=now_us, removed_at=now_us, removed_seq=before.event_seq)
    return _take(unit, _REVIEWS, left, before, partial(change_review, unit, before, after))


def _of_cycle(services: Services, unit: Unit, found: _Closed, now_us: int) -> int:
    """Take one cycle's payloads; the number of the newest event that lost its contents, 0 if none did.

    The reviews of its hand-offs are never closed: they end here, and lose the same texts when it is their turn.
    """
    before = cycles.find(unit, found.id, lock=True)
    left = [] if before is None else _left(unit, found, before)
    if before is None or not left:
        return 0
    for review_id in sorted({one.review_id for one in cycles.list_handoffs(unit, found.id) if one.review_id}):
        close_in(unit, services, reviews.get(unit, review_id, lock=True), "broker", "Its cycle was archived long ago.")
    after = before._replace(updated_at=now_us, removed_at=now_us, removed_seq=before.event_seq)
    return _take(unit, _CYCLES, left, before, partial(cycles.change, unit, before, after))


def _take(unit: Unit, kind: _Kind, left: list[Event], before: Review | Cycle, change: Callable[..., object]) -> int:
    """Take the contents from the rows of one, and write what became of it; the number of its newest event before."""
    named = _blank_rows(unit, kind, before.id)
    facts = {"events": len(left), "last": left[-1].seq, "chain": log.content_chain(left)}
    change(actor="broker", kind=EventKind.CONTENTS_REMOVED, data=facts)
    _delete_contents(unit, named)
    return before.event_seq


def _left(unit: Unit, found: _Closed, before: Review | Cycle) -> list[Event]:
    """Take the contents from the events of one; returns the emptied events, none if they keep theirs."""
    if (before.event_seq, before.removed_at) != (found.event_seq, None):
        return []
    history = events.list_after(unit, 0, _EVENT_LIMIT + 1, subject=before.subject)
    # Of events with hashes of a lost key, a checkpoint vouches for every word.
    if len(history) > _EVENT_LIMIT or history[0].seq < events.read_head(unit).keyed_from:
        return []
    left = [_without_contents(event) for event in history]
    for event in left:
        unit.execute(_blank_event, key=event.seq, new_data=event.data, new_delta=event.delta)
    keep_content(unit, "")
    return left


def _without_contents(event: Event) -> Event:
    """An event without its contents; the hash stays, for the chains it is in."""
    delta: dict[str, Any] = orjson.loads(event.delta)
    for part, table in _PARTS.items():
        if part in delta:
            delta[part] = _blanked(table, delta[part])
    return event._replace(data=REMOVED, delta=orjson.dumps(delta).decode())


def _blanked(table: str, value: Any) -> Any:
    if isinstance(value, list):
        return [_blanked(table, row) for row in cast("list[dict[str, Any]]", value)]
    return {name: _BLANK[table].get(name, old) for name, old in value.items()}


def _list_closed(unit: Unit, kind: _Kind, after: int, limit: int) -> list[_Closed]:
    """Those that have their contents, first the ones to which nothing has happened for longest."""
    return unit.list_of(_Closed, kind.closed, after=after, limit=limit)


def _blank_rows(unit: Unit, kind: _Kind, key: str) -> list[str]:
    """Take the contents from everything that one has beside its own row; the names of those contents."""
    named = [str(row[0]) for row in unit.all(kind.contents, key=key)]
    for statement in kind.blank:
        unit.execute(statement, key=key)
    return named


def _delete_contents(unit: Unit, named: Iterable[str]) -> None:
    """Delete those contents that nothing names any more."""
    for name in named:
        if name != _EMPTY:
            unit.execute(_delete_content, id=name)

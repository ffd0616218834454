"""What reviews and cycles lose with their contents, in rows and events alike, and the statements that take it.

A replay still gives the rows. Each statement finds its rows by an index.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, NamedTuple, cast

import orjson
from sqlalchemy import BindParameter, Table, and_, bindparam, delete, exists, select, text, union, update

from tandem.cycles import queries as cycle_tables
from tandem.reviews import tables
from tandem.store import tables as log_tables
from tandem.store.base import Unit
from tandem.store.event import REMOVED, Event
from tandem.store.ledger import content_id
from tandem.store.statement import Statement

EMPTY: Final = content_id("")
"""The content that stands for one that was removed, where a row has to have one."""

_SAID: Final = "(removed)"

BLANK: Final[dict[str, dict[str, Any]]] = {
    "reviews": {"intent": _SAID, "verdict_reason": None},
    "rounds": {"intent": _SAID, "description_id": None, "diff_id": None, "base_files_id": None, "metadata": "{}"},
    "verdicts": {"reason": None},
    "messages": {"body": _SAID, "metadata": "{}"},
    "findings": {
        "claim": _SAID,
        **dict.fromkeys(("file", "line", "end_line", "failure", "suggestion", "lines", "answer", "settled_reason")),
    },
    "counter_patches": {"content_id": EMPTY, "reason": None},
    "checks": {"reason": None, "log_id": None},
    "handoffs": {"content_id": EMPTY},
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


def without_contents(event: Event) -> Event:
    """An event without its contents; the hash stays, for the chains it is in."""
    delta: dict[str, Any] = orjson.loads(event.delta)
    for part, table in _PARTS.items():
        if part in delta:
            delta[part] = _blanked(table, delta[part])
    return event._replace(data=REMOVED, delta=orjson.dumps(delta).decode())


def _blanked(table: str, value: Any) -> Any:
    if isinstance(value, list):
        return [_blanked(table, row) for row in cast("list[dict[str, Any]]", value)]
    return {name: BLANK[table].get(name, old) for name, old in value.items()}


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


class Kind(NamedTuple):
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


REVIEWS: Final = Kind(
    _closed(tables.reviews, tables.CLOSED_WITH_CONTENTS),
    Statement(union(*(select(name).where(name.table.c.review_id == _KEY, name.is_not(None)) for name in _NAMED))),
    (
        *(
            Statement(update(table).where(table.c.review_id == _KEY).values(BLANK[table.name]))
            for table in (
                *(tables.rounds, tables.verdicts, tables.messages, tables.findings, tables.counter_patches),
                tables.checks,
            )
        ),
        *(Statement(delete(table).where(table.c.review_id == _KEY)) for table in (tables.viewed_files, tables.drafts)),
    ),
)
CYCLES: Final = Kind(
    _closed(cycle_tables.cycles, cycle_tables.ARCHIVED_WITH_CONTENTS),
    Statement(select(_h.content_id).where(_h.cycle_id == _KEY).distinct()),
    (Statement(update(cycle_tables.handoffs).where(_h.cycle_id == _KEY).values(BLANK["handoffs"])),),
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


class Closed(NamedTuple):
    """A closed review, or an archived cycle, that has its contents."""

    id: str
    event_seq: int
    updated_at: int


def list_closed(unit: Unit, kind: Kind, after: int, limit: int) -> list[Closed]:
    """Those that have their contents, first the ones to which nothing has happened for longest."""
    return unit.list_of(Closed, kind.closed, after=after, limit=limit)


def blank_rows(unit: Unit, kind: Kind, key: str) -> list[str]:
    """Take the contents from everything that one has beside its own row; the names of those contents."""
    named = [str(row[0]) for row in unit.all(kind.contents, key=key)]
    for statement in kind.blank:
        unit.execute(statement, key=key)
    return named


def blank_event(unit: Unit, event: Event) -> None:
    """Store an event without its contents."""
    unit.execute(_blank_event, key=event.seq, new_data=event.data, new_delta=event.delta)


def delete_contents(unit: Unit, named: Iterable[str]) -> None:
    """Delete those contents that nothing names any more."""
    for name in named:
        if name != EMPTY:
            unit.execute(_delete_content, id=name)


def newest_removed(unit: Unit) -> int:
    """The number of the newest event whose contents were removed; 0 if none were."""
    return max(unit.value(one) or 0 for one in _newest_removed)

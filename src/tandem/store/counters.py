"""Counters, and how far a unit of work moves them."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import bindparam
from sqlalchemy.dialects import postgresql

from tandem.store import tables
from tandem.store.statement import Statement

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tandem.store.event import CounterMove

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

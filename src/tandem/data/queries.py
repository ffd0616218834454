"""Reading all rows of every table, and writing them into an empty database."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any, Final

from sqlalchemy import (
    BindParameter,
    ColumnClause,
    Table,
    bindparam,
    column,
    func,
    insert,
    select,
    table,
    tuple_,
    update,
)

from tandem.schema import TANDEM
from tandem.store import tables
from tandem.store.base import Row, Unit
from tandem.store.statement import Statement

TABLES: Final = (
    tables.log_head,
    *(one for one in TANDEM.metadata.sorted_tables if one is not tables.log_head),
)
"""Every table behind those that it refers to; first the one in which two restores of one database would meet."""

_PAGE = 200
_CONTENT_PAGE = 20
"""A diff may have megabytes."""
_PARAMETERS_AT_ONCE = 1_000
_BYTES_AT_ONCE = 1_000_000


def count_rows(unit: Unit) -> int:
    """How many rows there are in all tables."""
    return sum(int(unit.all(_count(one))[0][0]) for one in TABLES)


def is_empty(unit: Unit) -> bool:
    """Whether no table has a row."""
    return not any(unit.all(_first_page(one, 1)) for one in TABLES)


def read_rows(unit: Unit, of: Table) -> Iterator[Row]:
    """All rows of a table, in pages by its key."""
    limit = _CONTENT_PAGE if of is tables.contents else _PAGE
    keys = [of.columns.keys().index(key.name) for key in of.primary_key]
    page = unit.all(_first_page(of, limit))
    while page:
        yield from page
        if len(page) < limit:
            return
        after = {f"after_{number}": page[-1][key] for number, key in enumerate(keys)}
        page = unit.all(_next_page(of, limit), **after)


def columns_of(of: Table) -> tuple[str, ...]:
    """The names of a table's columns."""
    return tuple(map(str, of.columns.keys()))


def write_rows(unit: Unit, name: str, columns: tuple[str, ...], rows: Iterable[Row]) -> None:
    """Insert rows into a table, which may have other columns than in this version.

    What a row has of the same table it gets last, when that row is there.
    """
    of_itself = _of_itself(name) if name in TANDEM.metadata.tables else None
    later: list[dict[str, Any]] = []
    at_once = max(1, _PARAMETERS_AT_ONCE // len(columns))
    batch: list[Row] = []
    size = 0
    for row in rows:
        if of_itself is not None and row[columns.index(of_itself)] is not None:
            values = dict(zip(columns, row, strict=True))
            later.append({"to": values[of_itself], "row": values[_only_key(name)]})
            batch.append(tuple({**values, of_itself: None}.values()))
        else:
            batch.append(row)
        size += sum(len(value) for value in row if isinstance(value, str))
        if len(batch) == at_once or size > _BYTES_AT_ONCE:
            _insert(unit, name, columns, batch, at_once)
            batch, size = [], 0
    _insert(unit, name, columns, batch, at_once)
    for reference in later:
        unit.execute(_refer(name, str(of_itself)), **reference)


def _insert(unit: Unit, name: str, columns: tuple[str, ...], rows: list[Row], at_once: int) -> None:
    # Few statements of many rows, and not one for each number of rows.
    size = at_once if len(rows) == at_once else 1
    for start in range(0, len(rows), size):
        values = {
            f"{column_name}_{number}": value
            for number, row in enumerate(rows[start : start + size])
            for column_name, value in zip(columns, row, strict=True)
        }
        unit.execute(_inserts(name, columns, size), **values)


@cache
def _count(of: Table) -> Statement:
    return Statement(select(func.count()).select_from(of))


@cache
def _first_page(of: Table, limit: int) -> Statement:
    return Statement(select(of).order_by(*of.primary_key).limit(limit))


@cache
def _next_page(of: Table, limit: int) -> Statement:
    after = tuple_(*(_parameter(f"after_{number}") for number in range(len(of.primary_key))))
    return Statement(select(of).where(tuple_(*of.primary_key) > after).order_by(*of.primary_key).limit(limit))


@cache
def _inserts(name: str, columns: tuple[str, ...], count: int) -> Statement:
    into = table(name, *map(_column, columns))
    values = [
        {column_name: _parameter(f"{column_name}_{number}") for column_name in columns} for number in range(count)
    ]
    return Statement(insert(into).values(values))


@cache
def _refer(name: str, of_itself: str) -> Statement:
    key = _only_key(name)
    into = table(name, *map(_column, (of_itself, key)))
    return Statement(update(into).where(into.c[key] == bindparam("row")).values({of_itself: bindparam("to")}))


def _parameter(name: str) -> BindParameter[Any]:
    return bindparam(name)


def _column(name: str) -> ColumnClause[Any]:
    return column(name)


def _of_itself(name: str) -> str | None:
    """The column that refers to the same table."""
    of = TANDEM.metadata.tables[name]
    return next((key.parent.name for key in of.foreign_keys if key.column.table is of), None)


def _only_key(name: str) -> str:
    (key,) = TANDEM.metadata.tables[name].primary_key
    return str(key.name)

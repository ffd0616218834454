"""The schema that a database has, against the one that Tandem makes: nothing is missing, nothing acts by itself."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Iterable
from contextlib import closing
from typing import Any, Final

from sqlalchemy import text

from tandem.schema import TANDEM
from tandem.store.base import Unit
from tandem.store.schema import SQLITE_WORDS, VERSION_TABLE
from tandem.store.statement import Statement

Query = Callable[[str], list[tuple[Any, ...]]]
_ACTS: Final = "it can change written or read data; drop it"
_SQLITE_WORDS: Final = re.compile(r"\b(CHECK|COLLATE|GENERATED|ON CONFLICT)\b", re.IGNORECASE)
"""What a table can say beside its columns and keys; Tandem's tables say none of it."""
_POSTGRESQL_ACTS: Final = {
    "trigger": "SELECT relname, tgname FROM pg_trigger JOIN here ON here.oid = tgrelid WHERE NOT tgisinternal",
    "rule": "SELECT relname, rulename FROM pg_rewrite JOIN here ON here.oid = ev_class",
    "row policy": "SELECT relname, 'that is switched on' FROM here WHERE relrowsecurity",
    "check": "SELECT relname, conname FROM pg_constraint JOIN here ON here.oid = conrelid WHERE contype = 'c'",
}
"""Objects that act by themselves: table and name of each."""
_HERE: Final = (
    "WITH here AS (SELECT oid, relname, relrowsecurity FROM pg_class"
    " WHERE relnamespace = current_schema()::regnamespace)"
)
_TYPES: Final = {"BIGINT": "bigint", "INTEGER": "integer", "TEXT": "text"}


def list_schema_problems(unit: Unit) -> tuple[list[str], bool]:
    """The problems of the schema, and whether all tables and columns can be read."""

    def query(sql: str) -> list[tuple[Any, ...]]:
        return unit.all(Statement(text(sql)))

    return (_sqlite if unit.dialect == "sqlite" else _postgresql)(query)


def list_file_problems(unit: Unit, limit: int) -> list[str]:
    """What SQLite finds wrong with the pages of its file; PostgreSQL looks after its own."""
    if unit.dialect != "sqlite":
        return []
    rows = unit.all(Statement(text(f"PRAGMA integrity_check({limit})")))
    return [str(row[0]) for row in rows if row[0] != "ok"]


def _sqlite(query: Query) -> tuple[list[str], bool]:
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        TANDEM.prepare(connection, SQLITE_WORDS)
        wanted = _sqlite_objects(lambda sql: connection.execute(sql).fetchall())
        found = _sqlite_objects(query)
        problems = [
            f"the schema has a {kind} {name}, which Tandem did not make: {_ACTS}"
            for kind, name in found.keys() - wanted
        ]
        missing = wanted.keys() - found.keys()
        problems += [f"the {kind} {name} is missing" for kind, name in missing]
        readable = not any(kind == "table" for kind, _ in missing)
        for kind, name in sorted(wanted.keys() & found.keys()):
            if kind == "table":
                ours = _sqlite_columns(lambda sql: connection.execute(sql).fetchall(), name)
                theirs = _sqlite_columns(query, name)
                readable = readable and ours.keys() <= theirs.keys()
                problems += _columns(name, ours, theirs)
                problems += [
                    f"the table {name} says {word}, which Tandem did not write: {_ACTS}"
                    for word in _SQLITE_WORDS.findall(found[kind, name])
                ]
            elif wanted[kind, name] != found[kind, name]:
                problems.append(f"the index {name} is not as Tandem makes it")
    return problems, readable


def _sqlite_objects(query: Query) -> dict[tuple[str, str], str]:
    rows = query("SELECT type, name, sql FROM sqlite_master")
    # What SQLite makes by itself, of keys and of statistics.
    return {
        (str(kind), str(name)): " ".join(str(sql).split())
        for kind, name, sql in rows
        if kind not in {"table", "index"} or not str(name).startswith("sqlite_")
    }


def _sqlite_columns(query: Query, table: str) -> dict[str, Any]:
    rows = query(f"SELECT name, type, \"notnull\", dflt_value, pk, hidden FROM pragma_table_xinfo('{table}')")  # noqa: S608 - a table of ours
    return {str(row[0]): row[1:] for row in rows}


def _columns(table: str, ours: dict[str, Any], theirs: dict[str, Any]) -> Iterable[str]:
    for column in sorted(ours.keys() | theirs.keys()):
        if column not in theirs:
            yield f"the table {table} has lost its column {column}"
        elif column not in ours:
            yield f"the table {table} has a column {column}, which Tandem did not make"
        elif ours[column] != theirs[column]:
            yield f"the column {column} of the table {table} is not as Tandem makes it"


def _postgresql(query: Query) -> tuple[list[str], bool]:
    tables = TANDEM.metadata.tables
    found: dict[str, dict[str, Any]] = {}
    for table, column, kind, nullable, generated in query(
        "SELECT table_name, column_name, data_type, is_nullable, is_generated FROM information_schema.columns"
        " WHERE table_schema = current_schema()"
    ):
        found.setdefault(table, {})[column] = (kind, nullable == "YES", generated != "NEVER")
    problems = [f"the table {name} is missing" for name in sorted({*tables, VERSION_TABLE} - found.keys())]
    readable = not problems
    for name, table in tables.items():
        if name in found:
            ours = {c.name: (_TYPES[str(c.type)], bool(c.nullable), False) for c in table.columns}
            readable = readable and ours.keys() <= found[name].keys()
            problems += _columns(name, ours, found[name])
    for what, sql in _POSTGRESQL_ACTS.items():
        problems += [
            f"the schema has a {what} {name} on {table}, which Tandem did not make: {_ACTS}"
            for table, name in query(f"{_HERE} {sql}")
            if table in tables or table == VERSION_TABLE
        ]
    indexes = {str(index.name) for table in tables.values() for index in table.indexes}
    there = {row[0] for row in query("SELECT indexname FROM pg_indexes WHERE schemaname = current_schema()")}
    problems += [f"the index {name} is missing" for name in sorted(indexes - there)]
    return problems, readable

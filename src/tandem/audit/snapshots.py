"""The database as an audit reads it: the state row by row, held against the log, and the schema against ours."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from functools import reduce
from typing import Any, Final

from sqlalchemy import ColumnElement, Select, bindparam, exists, func, or_, select, text, tuple_

from tandem.audit.replay import Key, Row, key_of
from tandem.cycles import queries as cycle_tables
from tandem.gate import queries as gate_tables
from tandem.gate.queries import AGAINST
from tandem.reviews import tables as review_tables
from tandem.schema import TANDEM
from tandem.store import tables
from tandem.store.base import Unit
from tandem.store.event import Event, EventKind
from tandem.store.schema import SQLITE_WORDS, VERSION_TABLE
from tandem.store.sqlite_unit import ILLEGIBLE
from tandem.store.statement import Statement

_PAGE = 1_000
_e = tables.events.c

_OF_A_REVIEW: Final = (
    *("rounds", "verdicts", "messages", "findings", "counter_patches", "checks"),
    *("approvals", "approved_paths", "rollbacks", "taken_back"),
)
_STORED: Final[dict[str, dict[str, tuple[str, ...]]]] = {
    "project:": {"projects": ("name",)},
    "session:": {"sessions": ("id",)},
    "cycle:": {"cycles": ("id",), "handoffs": ("cycle_id",)},
    "pool:": {"pools": ("id",)},
    "reviewer:": {"reviewers": ("id",)},
    "gate:": {"gates": ("project",)},
    "token:": {"access_tokens": ("id",)},
    "key:": {"cycle_keys": ("project", "workflow", "role")},
    "override:": {"overrides": ("project", "id")},
    "commit:": {"commits": ("project", "id"), "commit_reviews": ("project", "commit_id")},
    "landing:": {"landings": ("id",)},
    "webhook:": {"webhooks": ("id",)},
    "": {"reviews": ("id",), **dict.fromkeys(_OF_A_REVIEW, ("review_id",))},
}
"""The tables that store a subject, by the prefix of its name, and the columns that make up the rest of the name."""


def _columns(table: str, names: tuple[str, ...]) -> list[ColumnElement[Any]]:
    return [TANDEM.metadata.tables[table].c[name] for name in names]


def _rest(columns: list[ColumnElement[Any]]) -> ColumnElement[Any]:
    """A subject's name behind its prefix: the columns, a slash between them."""
    return reduce(lambda name, column: name + "/" + column, columns)


def _few(rows: Select[*tuple[Any, ...]]) -> Statement:
    """So many of the rows as are asked for."""
    return Statement(rows.limit(bindparam("limit")))


_rows = {
    table: Statement(
        select(TANDEM.metadata.tables[table]).where(
            *(column == bindparam(f"part_{number}") for number, column in enumerate(_columns(table, names)))
        )
    )
    for tables_of in _STORED.values()
    for table, names in tables_of.items()
}
_events = Statement(
    select(tables.events)
    .where(tuple_(_e.subject, _e.seq) > tuple_(bindparam("after_subject"), bindparam("after_seq")))
    .order_by(_e.subject, _e.seq)
    .limit(_PAGE)
)
_reviews = review_tables.reviews.c
_unexplained = (
    # Other subjects have events too: a review is made by one of a kind of its own.
    _few(
        select(_reviews.id).where(~exists().where(_e.subject == _reviews.id, _e.kind == str(EventKind.REVIEW_CREATED)))
    ),
    *(
        _few(select(name).distinct().where(~exists().where(_reviews.id == name)))
        for name in (TANDEM.metadata.tables[table].c.review_id for table in _OF_A_REVIEW)
    ),
    # The project of a name with a slash in it would be ambiguous.
    *(
        _few(select(_rest(parts)).where(or_(*(part.contains("/") for part in parts[1:]))))
        for tables_of in _STORED.values()
        for parts in (_columns(*stored) for stored in tables_of.items())
        if len(parts) > 1
    ),
    *(
        _few(select(name).where(~exists().where(_e.subject == name)))
        for prefix, tables_of in _STORED.items()
        for name in (prefix + _rest(_columns(*stored)) for stored in tables_of.items())
        if prefix
    ),
)
_missing_contents = tuple(
    _few(select(of, name).where(name.is_not(None), ~exists().where(tables.contents.c.id == name)))
    for of, name in (
        (review_tables.rounds.c.review_id, review_tables.rounds.c.description_id),
        (review_tables.rounds.c.review_id, review_tables.rounds.c.diff_id),
        (review_tables.counter_patches.c.review_id, review_tables.counter_patches.c.content_id),
        (review_tables.checks.c.review_id, review_tables.checks.c.log_id),
        (cycle_tables.handoffs.c.cycle_id, cycle_tables.handoffs.c.content_id),
    )
)
_p, _cr, _v = gate_tables.plan_refusals.c, gate_tables.commit_reviews.c, review_tables.verdicts.c
_refused = exists().where(_v.review_id == _cr.review_id, _v.verdict.in_(AGAINST)).correlate(gate_tables.commit_reviews)
_wrong_refusals = (
    _few(
        select(_p.project, _p.plan, _p.review_id).where(
            ~exists()
            .where(_cr.project + "" == _p.project, _cr.plan == _p.plan, _cr.review_id == _p.review_id, _refused)
            .correlate(gate_tables.plan_refusals)
        )
    ),
    _few(
        select(_cr.project, _cr.plan, _cr.review_id).where(
            _cr.plan.is_not(None),
            _refused,
            ~exists()
            .where(_p.project == _cr.project, _p.plan == _cr.plan, _p.review_id == _cr.review_id)
            .correlate(gate_tables.commit_reviews),
        )
    ),
)
_contents = _few(
    select(tables.contents).where(tables.contents.c.id > bindparam("after")).order_by(tables.contents.c.id)
)
_CONTENT_PAGE = 100
_key = [column for column in tables.counters.c if column.name not in ("count", "total_us", "slot")]
_counters = Statement(
    select(*_key, func.sum(tables.counters.c.count), func.sum(tables.counters.c.total_us)).group_by(*_key)
)


def events_by_subject(unit: Unit) -> Iterator[Event]:
    """The whole log, subject by subject, each in its order."""
    subject, seq = "", 0
    while page := unit.all(_events, after_subject=subject, after_seq=seq):
        for row in page:
            yield Event(*row)
        subject, seq = page[-1][3], page[-1][0]


def rows_of(unit: Unit, subject: str) -> dict[str, dict[Key, Row]]:
    """Everything that is stored of a subject of events, by table and primary key."""
    prefix = next(prefix for prefix in _STORED if subject.startswith(prefix))
    found: dict[str, dict[Key, Row]] = {}
    for table, names in _STORED[prefix].items():
        parts = subject.removeprefix(prefix).rsplit("/", len(names) - 1)
        given = {f"part_{number}": part for number, part in enumerate([""] * (len(names) - len(parts)) + parts)}
        columns = TANDEM.metadata.tables[table].columns.keys()
        rows = [dict(zip(columns, row, strict=True)) for row in unit.all(_rows[table], **given)]
        found[table] = {key_of(table, row): row for row in rows}
    return found


_PROBLEMS: Final = {
    "{} is stored, but no event speaks of it": _unexplained,
    "the plan's refused review {} {} {} does not fit its commits and verdicts": _wrong_refusals,
    "the content {1} of {0} is missing": _missing_contents,
}
"""What rows show that should not be there."""


def list_problems(unit: Unit, limit: int) -> list[str]:
    """Rows that do not fit others, in words; so many of each statement."""
    return [
        words.format(*row)
        for words, statements in _PROBLEMS.items()
        for statement in statements
        for row in unit.all(statement, limit=limit)
    ]


def list_contents(unit: Unit) -> Iterator[tuple[str, str]]:
    """Every text of the content store with its name."""
    after = ""
    while page := unit.all(_contents, after=after, limit=_CONTENT_PAGE):
        yield from ((name, body) for name, body in page)
        after = page[-1][0]
        if ILLEGIBLE in str(after):
            # There is no going on from a name that is no text.
            return


def list_counters(unit: Unit) -> dict[Key, tuple[int, int]]:
    """Every counter by its key (project, day, category, reviewer, metric): count and total."""
    return {tuple(row[:5]): (int(row[5]), int(row[6])) for row in unit.all(_counters)}


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

    return (_sqlite_problems if unit.dialect == "sqlite" else _postgresql_problems)(query)


def list_file_problems(unit: Unit, limit: int) -> list[str]:
    """What SQLite finds wrong with the pages of its file; PostgreSQL looks after its own."""
    if unit.dialect != "sqlite":
        return []
    rows = unit.all(Statement(text(f"PRAGMA integrity_check({limit})")))
    return [str(row[0]) for row in rows if row[0] != "ok"]


def _sqlite_problems(query: Query) -> tuple[list[str], bool]:
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
                problems += _column_problems(name, ours, theirs)
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


def _column_problems(table: str, ours: dict[str, Any], theirs: dict[str, Any]) -> Iterable[str]:
    for column in sorted(ours.keys() | theirs.keys()):
        if column not in theirs:
            yield f"the table {table} has lost its column {column}"
        elif column not in ours:
            yield f"the table {table} has a column {column}, which Tandem did not make"
        elif ours[column] != theirs[column]:
            yield f"the column {column} of the table {table} is not as Tandem makes it"


def _postgresql_problems(query: Query) -> tuple[list[str], bool]:
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
            problems += _column_problems(name, ours, found[name])
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

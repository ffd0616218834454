"""The tables, once, for both databases.

Only plain types: statements are compiled once and run on the raw cursor, so no type processor
would run. Times are microseconds since the epoch, JSON is text, booleans are 0 or 1.

Column order is the field order of the domain record that a table holds.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from types import NoneType
from typing import Any, get_args, get_type_hints

from sqlalchemy import BigInteger, Column, ForeignKey, Index, Integer, MetaData, Table, Text, text

from tandem.store.event import Event, Head

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
    }
)


_KEY = BigInteger().with_variant(Integer, "sqlite")
"""SQLite has a table in the order of its key only if the column is an INTEGER."""


def partial_index(name: str, *columns: str, where: str, unique: bool = False) -> Index:
    """An index of those rows only that meet a condition."""
    return Index(name, *columns, unique=unique, postgresql_where=text(where), sqlite_where=text(where))


def record_table(
    name: str,
    record: type,
    *indexes: Index,
    key: Collection[str] = ("id",),
    small: Collection[str] = (),
    foreign: Mapping[str, str] = {},
    comments: Mapping[str, str] = {},
    defaults: Mapping[str, str] = {},
    **options: Any,
) -> Table:
    """The table of a record: a column for each field, nullable where the field may be None.

    Args:
        name: The table's name.
        record: A named tuple or dataclass, of whole numbers and texts.
        indexes: Its indexes.
        key: The fields of the primary key.
        small: Numbers that need no more than 31 bits.
        foreign: The column that a field refers to, as `table.column`.
        comments: The contents of columns whose fields do not say so.
        defaults: The database's values where a writer names none.
        options: Of the table, such as its comment.
    """
    columns: list[Column[Any]] = []
    for field, kind in get_type_hints(record).items():
        kinds = get_args(kind) or (kind,)
        stored = Text if str in kinds else Integer if field in small else _KEY if (field,) == key else BigInteger
        refers = [ForeignKey(foreign[field])] if field in foreign else []
        columns.append(
            Column(
                field,
                stored,
                *refers,
                primary_key=field in key,
                nullable=NoneType in kinds,
                autoincrement=False,
                comment=comments.get(field),
                server_default=text(defaults[field]) if field in defaults else None,
            )
        )
    options.setdefault("sqlite_with_rowid", False)
    return Table(name, metadata, *columns, *indexes, **options)


log_head = record_table(
    "log_head",
    Head,
    small=("id",),
    comments={
        "id": "always 1",
        "log_id": "which log a cursor belongs to",
        "seq": "the newest event; numbers are given in commit order",
        "checkpoint_seq": "the newest checkpoint event",
        "event_hash": "hash of the newest event of the subject `log`",
        "keyed_from": "the first keyed event",
        "key_check": "tells which secret the hashes need",
        "epochs": "places and names of restored copies, for cursors",
        "auth": "the setting `auth` of the last start; empty if that did not say it",
    },
    defaults={"keyed_from": "0", "key_check": "''", "epochs": "''", "auth": "''"},
    sqlite_with_rowid=True,
    comment="One row; its lock makes sequence numbers follow the order of commits.",
)

events = record_table(
    "events",
    Event,
    Index("ix_events_subject", "subject", "seq"),
    Index("ix_events_project", "project", "seq"),
    key=("seq",),
    sqlite_with_rowid=True,
)

contents = Table(
    "contents",
    metadata,
    Column("id", Text, primary_key=True, comment="SHA-256 of the body's UTF-8 bytes, hexadecimal"),
    Column("body", Text, nullable=False),
    sqlite_with_rowid=False,
    comment="Diffs and texts, kept once each; events and rounds name them by hash.",
)


counters = Table(
    "counters",
    metadata,
    Column("project", Text, primary_key=True),
    Column("day", Text, primary_key=True, comment="ISO date, or empty for all time"),
    Column("category", Text, primary_key=True),
    Column("reviewer_id", Text, primary_key=True, comment="empty for what no reviewer did"),
    Column("metric", Text, primary_key=True),
    Column("slot", Integer, primary_key=True, autoincrement=False, comment="whose part of the sum it is"),
    Column("count", BigInteger, nullable=False),
    Column("total_us", BigInteger, nullable=False),
    Index("ix_counters_day", "day"),
    sqlite_with_rowid=False,
    comment="Statistics, kept as things happen; in slots, or all writers would wait for one row.",
)

idempotency = Table(
    "idempotency",
    metadata,
    Column("principal", Text, primary_key=True),
    Column("project", Text, primary_key=True),
    Column("operation", Text, primary_key=True),
    Column("key", Text, primary_key=True),
    Column("body_hash", Text, nullable=False),
    Column("answer", Text),
    Column("created_at", BigInteger, nullable=False),
    Index("ix_idempotency_created_at", "created_at"),
    sqlite_with_rowid=False,
)

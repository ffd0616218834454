"""A unit of work on PostgreSQL, and what the server's errors mean."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import psycopg

from tandem.errors import InvalidInput, Unavailable
from tandem.store.base import Conflict, Row
from tandem.store.event import Seal, unkeyed

if TYPE_CHECKING:
    from tandem.store.statement import Statement

RUN_AGAIN: Final = frozenset({"40001", "40P01"})
"""Serialization failure and deadlock: nothing was kept, and the same unit may well succeed."""

# Classes and codes of SQLSTATE, and what they mean for whoever keeps the broker running.
_UNAVAILABLE: Final = {
    "40": "other transactions were in the way each time; try again later",
    "08": "the connection to PostgreSQL was lost; try again",
    "53": "PostgreSQL has no disk, memory or connection left; make room, then try again",
    "54": "PostgreSQL is at one of its limits",
    "55P03": "another transaction held a row for too long; try again later",
    "25P03": "the transaction stood still for too long; try again",
    "25006": "this PostgreSQL server is a read-only copy; connect to the primary one",
    "57": "PostgreSQL ended the query or is going down; try again later",
    "58": "PostgreSQL cannot read or write its files; check its disk",
    "XX": "PostgreSQL reports damaged data; stop the broker and restore a copy",
}


class PostgresUnit:
    """A unit of work on one connection's cursor."""

    __slots__ = ("_cursor", "_seal", "notice")
    dialect = "postgresql"

    def __init__(self, cursor: psycopg.Cursor[Row], seal: Seal = unkeyed) -> None:
        self._cursor = cursor
        self._seal = seal
        self.notice = 0

    @property
    def seal(self) -> Seal:
        """See `Unit`."""
        return self._seal

    def execute(self, statement: Statement, **params: Any) -> int:
        """See `Unit`."""
        compiled = statement.postgresql
        return self._cursor.execute(compiled.sql, compiled.bind(params)).rowcount

    def one_or_none(self, statement: Statement, **params: Any) -> Row | None:
        """See `Unit`."""
        compiled = statement.postgresql
        cursor = self._cursor.execute(compiled.sql, compiled.bind(params))
        if cursor.rowcount > 1:
            raise LookupError(f"more than one row for: {compiled.sql}")
        return cursor.fetchone()

    def all(self, statement: Statement, **params: Any) -> list[Row]:
        """See `Unit`."""
        compiled = statement.postgresql
        return self._cursor.execute(compiled.sql, compiled.bind(params)).fetchall()

    def on_commit(self, notice: int) -> None:
        """See `Unit`."""
        self.notice = max(self.notice, notice)

    def end(self) -> None:
        """Make the unit useless: its transaction is over."""
        del self._cursor


def translated(error: BaseException) -> BaseException:
    """What a caller gets to see of an error that a unit ended with."""
    if not isinstance(error, psycopg.Error):
        return error
    answer: Exception
    if isinstance(error, psycopg.IntegrityError):
        answer = Conflict(str(error))
    elif isinstance(error, psycopg.DataError):
        # Text with a NUL character, a number out of range: SQLite takes some of them, PostgreSQL none.
        answer = InvalidInput(f"the database cannot keep such a value: {error}")
    else:
        state = error.sqlstate or ("08" if isinstance(error, psycopg.OperationalError) else "")
        reason = _UNAVAILABLE.get(state) or _UNAVAILABLE.get(state[:2])
        if reason is None:
            return error
        damage = {"damaged": True} if state.startswith("XX") else {}
        answer = Unavailable(f"{reason} ({error})", **damage)
    answer.__cause__ = error
    return answer

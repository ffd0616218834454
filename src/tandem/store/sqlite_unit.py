"""A unit of work on SQLite, and what the driver's errors mean."""

from __future__ import annotations

import secrets
import sqlite3
from typing import TYPE_CHECKING, Any, Final

from tandem.errors import Unavailable
from tandem.store.base import Conflict, Row, Unit
from tandem.store.event import Seal, unkeyed
from tandem.store.ledger import moved, moving

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tandem.store.event import CounterMove
    from tandem.store.statement import Statement

_PRIMARY_CODE: Final = 0xFF

# What the driver's result codes mean for the person who runs the broker.
_UNAVAILABLE: Final = {
    sqlite3.SQLITE_BUSY: "the database is locked by another process; end it, or try again later",
    sqlite3.SQLITE_LOCKED: "the database is locked; try again later",
    sqlite3.SQLITE_FULL: "the disk or the database is full; make room, then try again",
    sqlite3.SQLITE_IOERR: "the disk does not read or write the database; check it, then try again",
    sqlite3.SQLITE_READONLY: "the database cannot be written; check the permissions of its file and folder",
    sqlite3.SQLITE_CANTOPEN: "the database cannot be opened; check its folder, permissions and the open files limit",
    sqlite3.SQLITE_PERM: "the database may not be opened; check the permissions of its file and folder",
    sqlite3.SQLITE_CORRUPT: "the database is damaged; stop the broker and restore a copy",
    sqlite3.SQLITE_NOTADB: "the file is not a database; name another one, or restore a copy",
    sqlite3.SQLITE_PROTOCOL: "the database's lock files misbehave; is it on a network drive?",
    sqlite3.SQLITE_NOMEM: "there is no memory left for the database; try again later",
}

_DAMAGE: Final = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}

ILLEGIBLE: Final = f"not UTF-8 {secrets.token_hex(8)}: "
"""Begins what `legible` makes of bytes that are no text, so that it is equal to nothing that was stored."""


class SqliteUnit(Unit):
    """A unit of work on one connection's cursor; as there is one writer, it is always alone."""

    __slots__ = ("_cursor", "broken")
    dialect = "sqlite"

    def __init__(self, cursor: sqlite3.Cursor, seal: Seal = unkeyed) -> None:
        super().__init__(seal)
        self._cursor = cursor
        self.broken = False

    def execute(self, statement: Statement, **params: Any) -> int:
        """See `Unit`."""
        return self._run(statement, params).rowcount

    def count(self, moves: Sequence[CounterMove]) -> None:
        """See `Unit`."""
        if moves:
            self._run(moving(len(moves)), moved(moves, slot=0))

    def put(self, statement: Statement, **params: Any) -> None:
        """See `Unit`."""
        self._run(statement, params)

    def put_one(self, statement: Statement, **params: Any) -> None:
        """See `Unit`."""
        if self._run(statement, params).rowcount != 1:
            raise LookupError(f"a row changed within its own transaction: {statement.sqlite.sql}")

    def all(self, statement: Statement, **params: Any) -> list[Row]:
        """See `Unit`."""
        return self._run(statement, params).fetchall()

    def end(self) -> None:
        """Make the unit useless: its transaction is over."""
        del self._cursor

    def _run(self, statement: Statement, params: dict[str, Any]) -> sqlite3.Cursor:
        compiled = statement.sqlite
        try:
            return self._cursor.execute(compiled.sql, compiled.bind(params))
        except sqlite3.Error:
            # SQLite would let the unit go on; PostgreSQL does not, and a unit must mean the same on both.
            self.broken = True
            raise


def legible(raw: bytes) -> str:
    """A stored text for an audit, which has to read on where the bytes are no text."""
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return ILLEGIBLE + raw.decode(errors="backslashreplace")


def is_busy(error: BaseException) -> bool:
    """Whether another process has had the database locked for the whole of the time limit."""
    return getattr(error, "sqlite_errorcode", 0) & _PRIMARY_CODE == sqlite3.SQLITE_BUSY


def is_disk_error(error: BaseException) -> bool:
    """Whether the disk failed in the middle of it."""
    return getattr(error, "sqlite_errorcode", 0) & _PRIMARY_CODE == sqlite3.SQLITE_IOERR


def translated(error: BaseException) -> BaseException:
    """What a caller gets to see of an error that a unit ended with."""
    if not isinstance(error, sqlite3.Error):
        return error
    answer: Exception
    if isinstance(error, sqlite3.IntegrityError):
        answer = Conflict(str(error))
    else:
        code = getattr(error, "sqlite_errorcode", 0) & _PRIMARY_CODE
        if code not in _UNAVAILABLE:
            return error
        damage = {"damaged": True} if code in _DAMAGE else {}
        answer = Unavailable(f"{_UNAVAILABLE[code]} ({error})", **damage)
    answer.__cause__ = error
    return answer

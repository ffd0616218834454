"""A unit of work on PostgreSQL, and what the server's errors mean."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, LiteralString, NamedTuple

import psycopg

from tandem.errors import InvalidInput, TooLarge, Unavailable
from tandem.store.base import Conflict, Row, RunAlone
from tandem.store.event import FOREVER, MOST_EVENTS, Seal, place_before, unkeyed

if TYPE_CHECKING:
    from tandem.store.statement import Statement

RUN_AGAIN: Final = frozenset({"40001", "40P01", "22012"})
"""Serialization failure, deadlock, and what `Statement.touching_one` ends with: nothing was kept, and the same unit may
well succeed.
"""
_SLOTS: Final = 32


class Beginning(NamedTuple):
    """How a transaction begins: in statements of their own, since each sees what was committed before itself only.

    Attributes:
        begin: Begins it.
        lock: Takes the lock of all who write; null for readers.
        place: Asks from where the log's numbers are counted, which transactions have ended for certain, and for the
            transaction's own id; null where there is no log.
    """

    begin: LiteralString = "BEGIN"
    lock: LiteralString | None = None
    place: LiteralString | None = None


# The lock comes before the id: so whoever is alone has the highest number of all.
_PLACE: Final = "SELECT (SELECT seq FROM log_head WHERE id = 1), pg_snapshot_xmin(pg_current_snapshot())::text::bigint"
_ID: Final = "pg_current_xact_id()::text::bigint"
# Any number, as long as it is the same on every node, and not the schema's.
_LOCK: Final = "SELECT pg_advisory_xact_lock(128017194837614)"
_SHARED: Final = "SELECT pg_advisory_xact_lock_shared(128017194837614)"
_WRITE: Final = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE"
ALONE: Final = Beginning(_WRITE, _LOCK, f"{_PLACE}, {_ID}")
BESIDE_OTHERS: Final = Beginning(_WRITE, _SHARED, f"{_PLACE}, {_ID}")
READING: Final = Beginning("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY", None, f"{_PLACE}, NULL::bigint")


class _Place(NamedTuple):
    """Where a transaction stands in the log.

    Attributes:
        base: From where numbers are counted; null before the log's beginning.
        ended: All transactions with a lower id have ended.
        id: The transaction's own; null for a reader's.
    """

    base: int | None
    ended: int
    id: int | None


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
    """A unit of work on one connection.

    Statements without an answer wait for the next one that has one, or for the commit, and travel with it: what a unit
    costs is mostly its round trips.
    """

    __slots__ = (
        "_connection",
        "_cursor",
        "_events",
        "_is_alone",
        "_known",
        "_later",
        "_place",
        "_seal",
        "_stands",
        "notice",
        "slot",
    )
    dialect = "postgresql"

    def __init__(
        self,
        connection: psycopg.Connection[Row],
        beginning: Beginning = Beginning(),  # noqa: B008 - a constant
        seal: Seal = unkeyed,
        known: int = 0,
    ) -> None:
        """Make it; nothing is sent before its first statement.

        Args:
            connection: Where nothing else is done until it has ended.
            beginning: How its transaction begins.
            seal: What the hashes of events are made with.
            known: A place in the log behind which nothing could come in any more by now.
        """
        self._connection = connection
        self._cursor = connection.cursor()
        self._seal = seal
        self._known = known
        self._is_alone = beginning.lock != BESIDE_OTHERS.lock
        self._place = connection.cursor()
        self._later: list[tuple[psycopg.Cursor[Row], LiteralString, dict[str, Any] | None]] = []
        for sql in (beginning.begin, beginning.lock):
            if sql is not None:
                self._later.append((connection.cursor(), sql, None))
        if beginning.place is not None:
            self._later.append((self._place, beginning.place, None))
        self._stands: _Place | None = None
        self._events = 0
        self.notice = 0
        self.slot = connection.info.backend_pid % _SLOTS

    @property
    def seal(self) -> Seal:
        """See `Unit`."""
        return self._seal

    @property
    def settled(self) -> int:
        """See `Unit`."""
        place = self._standing()
        if place.base is None or (place.id is not None and (self._is_alone or place.ended >= place.id)):
            return FOREVER
        return max(place_before(place.base, place.ended), self._known)

    def be_alone(self) -> None:
        """See `Unit`."""
        if not self._is_alone:
            raise RunAlone

    def take_seq(self) -> int | None:
        """See `Unit`.

        Raises:
            TooLarge: The transaction has too many events.
        """
        place = self._standing()
        if place.base is None or place.id is None:
            raise LookupError("the log has no head; the database was not made by Tandem")
        if self._events == MOST_EVENTS:
            raise TooLarge(f"One change has at most {MOST_EVENTS} events on PostgreSQL; make it in several parts.")
        self._events += 1
        return place_before(place.base, place.id) + self._events

    def execute(self, statement: Statement, **params: Any) -> int:
        """See `Unit`."""
        return self._run(statement, params).rowcount

    def put(self, statement: Statement, **params: Any) -> None:
        """See `Unit`."""
        compiled = statement.postgresql
        self._later.append((self._connection.cursor(), compiled.sql, compiled.bind(params)))

    def put_one(self, statement: Statement, **params: Any) -> None:
        """See `Unit`."""
        self._later.append((self._connection.cursor(), statement.touching_one, statement.postgresql.bind(params)))

    def one_or_none(self, statement: Statement, **params: Any) -> Row | None:
        """See `Unit`."""
        cursor = self._run(statement, params)
        if cursor.rowcount > 1:
            raise LookupError(f"more than one row for: {statement.postgresql.sql}")
        return cursor.fetchone()

    def all(self, statement: Statement, **params: Any) -> list[Row]:
        """See `Unit`."""
        return self._run(statement, params).fetchall()

    def on_commit(self, notice: int) -> None:
        """See `Unit`."""
        self.notice = max(self.notice, notice)

    def commit(self) -> bool:
        """Send what waits, and commit; whether that came about."""
        self._send("COMMIT", None, prepare=False)
        # The server answers ROLLBACK when a statement had failed and the unit went on regardless.
        return self._cursor.statusmessage == "COMMIT"

    def end(self) -> None:
        """Make the unit useless: its transaction is over."""
        del self._cursor

    def _standing(self) -> _Place:
        if self._stands is None:
            with self._connection.pipeline():
                self._flush()
            row = self._place.fetchone()
            self._stands = _Place(None, 0, None) if row is None else _Place(*row)
        return self._stands

    def _run(self, statement: Statement, params: dict[str, Any]) -> psycopg.Cursor[Row]:
        compiled = statement.postgresql
        return self._send(compiled.sql, compiled.bind(params))

    def _send(
        self, sql: LiteralString, params: dict[str, Any] | None, *, prepare: bool | None = None
    ) -> psycopg.Cursor[Row]:
        if not self._later:
            return self._cursor.execute(sql, params, prepare=prepare)
        with self._connection.pipeline():
            self._flush()
            self._cursor.execute(sql, params, prepare=prepare)
        return self._cursor

    def _flush(self) -> None:
        later, self._later = self._later, []
        for cursor, sql, params in later:
            cursor.execute(sql, params)


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

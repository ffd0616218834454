"""A unit of work on PostgreSQL, and what the server's errors mean."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, LiteralString, NamedTuple

import psycopg

from tandem.errors import InvalidInput, TooLarge, Unavailable
from tandem.store.base import Conflict, Row, RunAlone
from tandem.store.event import FOREVER, MOST_EVENTS, Seal, place_before, unkeyed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from psycopg.pq.abc import PGresult

    from tandem.store.pipeline import Pipeline, Values
    from tandem.store.statement import Statement

RUN_AGAIN: Final = frozenset({"40001", "40P01", "22012"})
"""Serialization failure, deadlock, and what `Statement.touching_one` ends with: nothing was kept, and the same unit may
well succeed.
"""
_SLOTS: Final = 32
# Held until the connection ends. In this order: the fewer slots are in use, the fewer rows there are to be summed.
_FREE_SLOT: Final = (
    "SELECT slot FROM generate_series(0, $1::integer - 1) AS slot WHERE pg_try_advisory_lock(1790281940, slot) LIMIT 1"
)


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
_NAMED: Final = "SELECT pg_advisory_xact_lock($1::bigint)"
_COMMIT: Final = "COMMIT"
_GUARD: Final = "SAVEPOINT part"
_UNDO: Final = "ROLLBACK TO SAVEPOINT part"
_RELEASE: Final = "RELEASE SAVEPOINT part"
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


_NOWHERE: Final = _Place(None, 0, None)


@dataclass(slots=True)
class _Part:
    """One of several callers' parts of a transaction.

    Attributes:
        start: Where it begins among the statements that wait to be sent.
        events: The transaction's events before it.
        notice: The transaction's notice before it.
        has_changes: Whether it changes rows.
        is_guarded: Whether it has a savepoint, as changes are on their way before its end is known.
    """

    start: int
    events: int
    notice: int
    has_changes: bool = False
    is_guarded: bool = False


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
        "_beginning",
        "_events",
        "_known",
        "_later",
        "_part",
        "_pipeline",
        "_place",
        "_seal",
        "broken",
        "notice",
        "slot",
    )
    dialect = "postgresql"

    def __init__(
        self,
        pipeline: Pipeline,
        beginning: Beginning = Beginning(),  # noqa: B008 - a constant
        seal: Seal = unkeyed,
        known: int = 0,
        slot: int = 0,
    ) -> None:
        """Make it; nothing is sent before its first statement.

        Args:
            pipeline: A connection on which nothing else is done until the unit has ended.
            beginning: How its transaction begins.
            seal: What the hashes of events are made with.
            known: A place in the log behind which nothing could come in any more by now.
            slot: See `Unit`.
        """
        self._pipeline = pipeline
        self._beginning = beginning
        self._seal = seal
        self._known = known
        # Later statements of a writer see more than the first: so the place is asked for before all of them.
        first = beginning if beginning.lock is not None else beginning[:1]
        self._later: list[tuple[LiteralString, Values]] = [(sql, ()) for sql in first if sql is not None]
        self._place: _Place | None = None
        self._events = 0
        self.broken = False
        self.notice = 0
        self.slot = slot
        self._part: _Part | None = None

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

    def lock(self, name: str) -> None:
        """See `Unit`."""
        number = int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], signed=True)
        self._later.append((_NAMED, self._pipeline.values((number,))))

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
        return self._run(statement, params).command_tuples or 0

    def put(self, statement: Statement, **params: Any) -> None:
        """See `Unit`."""
        compiled = statement.postgresql
        self._put(compiled.sql, compiled.bind(params))

    def put_one(self, statement: Statement, **params: Any) -> None:
        """See `Unit`."""
        self._put(statement.touching_one, statement.postgresql.bind(params))

    def one_or_none(self, statement: Statement, **params: Any) -> Row | None:
        """See `Unit`."""
        rows = self.all(statement, **params)
        if len(rows) > 1:
            raise LookupError(f"more than one row for: {statement.postgresql.sql}")
        return rows[0] if rows else None

    def all(self, statement: Statement, **params: Any) -> list[Row]:
        """See `Unit`."""
        return self._pipeline.rows(self._run(statement, params))

    def on_commit(self, notice: int) -> None:
        """See `Unit`."""
        self.notice = max(self.notice, notice)

    def begin_part(self) -> None:
        """Have what comes be undone by itself where it has to be."""
        self._part = _Part(len(self._later), self._events, self.notice)

    def keep_part(self) -> None:
        """Keep what came since `begin_part`."""
        if self._part is not None and self._part.is_guarded:
            self._later.append((_RELEASE, ()))
        self._part = None

    def undo_part(self) -> None:
        """Undo what came since `begin_part`, without which nothing was lost."""
        part, self._part = self._part, None
        if part is None:
            return
        self._events, self.notice = part.events, part.notice
        del self._later[part.start :]
        if part.is_guarded:
            self._later.extend(((_UNDO, ()), (_RELEASE, ())))

    def commit(self) -> bool:
        """Send what waits, and commit; whether that came about."""
        if self._beginning.lock is None:
            # Nobody waits for the end of who only reads, nor does anything depend on it.
            self._pipeline.send(_COMMIT)
            self._pipeline.leave()
            return True
        return not self.broken and self._ask(_COMMIT).command_status == _COMMIT.encode()

    def end(self) -> None:
        """Make the unit useless: its transaction is over."""
        del self._pipeline

    @property
    def _is_alone(self) -> bool:
        return self._beginning.lock != BESIDE_OTHERS.lock

    def _standing(self) -> _Place:
        sql = self._beginning.place
        if self._place is None and sql is not None:
            if (sql, ()) not in self._later:
                self._later.append((sql, ()))
            self._flush()
        return self._place or _NOWHERE

    def _run(self, statement: Statement, params: dict[str, Any]) -> PGresult:
        compiled = statement.postgresql
        if self._part is not None and not statement.is_question:
            self._part.has_changes = True
        return self._ask(compiled.sql, compiled.bind(params))

    def _put(self, sql: LiteralString, params: Sequence[Any]) -> None:
        if self._part is not None:
            self._part.has_changes = True
        self._later.append((sql, self._pipeline.values(params)))

    def _ask(self, sql: LiteralString, params: Sequence[Any] = ()) -> PGresult:
        self._later.append((sql, self._pipeline.values(params) if params else ()))
        return self._flush()

    def _flush(self) -> PGresult:
        """Send what waits; the result of the last of it."""
        part = self._part
        if part is not None:
            if not part.is_guarded and part.has_changes:
                self._later.insert(part.start, (_GUARD, ()))
                part.is_guarded = True
            part.start = 0
        later, self._later = self._later, []
        # Until all of it has come about, an error may be another part's, and what was sent may have been in vain.
        self.broken = True
        for one in later:
            self._pipeline.send(*one)
        results = self._pipeline.receive()
        self.broken = False
        if self._place is None:
            self._find_place(later, results)
        return results[-1]

    def _find_place(self, sent: Sequence[tuple[LiteralString, Values]], results: Sequence[PGresult]) -> None:
        # Before the results of what was sent may come that of an earlier transaction's end.
        for (sql, _), result in zip(reversed(sent), reversed(results), strict=False):
            if sql == self._beginning.place:
                [row] = self._pipeline.rows(result)
                self._place = _Place(*row)


def find_slot(pipeline: Pipeline) -> int:
    """A slot of the counters that no other connection adds to; one that others do, too, once there are none left."""
    pipeline.send(_FREE_SLOT, pipeline.values((_SLOTS,)))
    rows = pipeline.rows(pipeline.receive()[-1])
    return rows[0][0] if rows else pipeline.backend_pid % _SLOTS


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

"""A unit of work on PostgreSQL, and what the server's errors mean."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from itertools import accumulate, chain
from typing import TYPE_CHECKING, Any, Final, LiteralString, NamedTuple

import psycopg

from tandem.errors import InvalidInput, TooLarge, Unavailable
from tandem.store.base import Conflict, Row, RunAgain, RunAlone, Unit
from tandem.store.connector import CHANNEL, notice_of
from tandem.store.event import FOREVER, MOST_EVENTS, place_before
from tandem.store.ledger import moved, moving

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from psycopg.pq.abc import PGresult

    from tandem.store.event import CounterMove, Seal
    from tandem.store.pipeline import Pipeline, Sent
    from tandem.store.statement import Statement

RUN_AGAIN: Final = frozenset({"40001", "40P01", "22012"})
"""Serialization failure, deadlock, and what `Statement.touching_one` ends with: nothing was kept, and the same unit may
well succeed.
"""
_SLOTS: Final = 32
# Held until the connection ends. In this order: the fewer slots are in use, the fewer rows a sum has to read.
_FREE_SLOT: Final = (
    "SELECT slot FROM generate_series(0, $1::integer - 1) AS slot WHERE pg_try_advisory_lock(1790281940, slot) LIMIT 1"
)


class Beginning(NamedTuple):
    """How a transaction begins: in statements of their own, since each sees only commits from before itself.

    Attributes:
        begin: Begins it.
        lock: Takes the lock of all who write; None for readers.
        place: Asks from where the log's numbers are counted, which transactions have ended for certain, and for the
            transaction's own id.
    """

    begin: LiteralString
    lock: LiteralString | None
    place: LiteralString


# The lock comes before the id: so a transaction that is alone has the highest number of all.
_PLACE: Final = "SELECT (SELECT seq FROM log_head WHERE id = 1), pg_snapshot_xmin(pg_current_snapshot())::text::bigint"
_ID: Final = "pg_current_xact_id()::text::bigint"
# Any number, as long as it is the same on every node, and not the schema's.
_LOCK: Final = "SELECT pg_advisory_xact_lock(128017194837614)"
_SHARED: Final = "SELECT pg_advisory_xact_lock_shared(128017194837614)"
_NAMED: Final = "SELECT pg_advisory_xact_lock($1::bigint)"
_COMMIT: Final = "COMMIT"
_TELL: Final = f"SELECT pg_notify('{CHANNEL}', $1)"
_LOCKING: Final = " FOR UPDATE"
_WRITE: Final = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE"
ALONE: Final = Beginning(_WRITE, _LOCK, f"{_PLACE}, {_ID}")
BESIDE_OTHERS: Final = Beginning(_WRITE, _SHARED, f"{_PLACE}, {_ID}")
READING: Final = Beginning("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY", None, f"{_PLACE}, NULL::bigint")


class Place(NamedTuple):
    """Where a transaction stands in the log.

    Attributes:
        base: From where numbers are counted; None before the log's beginning.
        ended: All transactions with a lower id have ended.
        id: The transaction's own; None for a reader's.
    """

    base: int | None
    ended: int
    id: int | None


_NOWHERE: Final = Place(None, 0, None)
_COUNTERS_AT_ONCE: Final = 8
"""Of which a statement moves at most so many, so that there are but few such statements to be prepared."""


# Classes and codes of SQLSTATE, and their meaning for the person who runs the broker.
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


@dataclass(slots=True)
class Node:
    """One store of those that share a database.

    Attributes:
        name: Tells other nodes who committed something.
        seal: Hashes events.
        settled: The furthest place in the log that is known to be settled, however long transactions of other databases
            of the server take; see `Unit.settled`.
    """

    name: str
    seal: Seal
    settled: int = 0


class Transaction:
    """What the units that are run in one transaction have in common.

    Attributes:
        broken: A statement failed, or it is not known yet whether one did.
        notice: What to tell the listeners once it is committed; 0 for nothing.
        pipeline: Its connection.
        place: Where it stands in the log; None before its first statement was sent.
        seal: Hashes events.
        subjects: What its events are about.
    """

    __slots__ = (
        "_beginning",
        "_events",
        "_is_used",
        "_known",
        "_later",
        "_moves",
        "_node",
        "_slot",
        "broken",
        "notice",
        "pipeline",
        "place",
        "seal",
        "subjects",
    )

    def __init__(
        self,
        pipeline: Pipeline,
        beginning: Beginning,
        node: Node,
        slot: int = 0,
    ) -> None:
        """Make it; nothing is sent before the first statement of a unit.

        Args:
            pipeline: A connection on which nothing else is done until the transaction has ended.
            beginning: How it begins.
            node: The store.
            slot: Which slot of the counters it adds to.
        """
        self.pipeline = pipeline
        self._beginning = beginning
        self._slot = slot
        self._node = node
        # As of now: its snapshot, taken later, has all that came before it, but not all that is settled meanwhile.
        self._known = node.settled
        # The place is asked for before all else: later statements of a writer see more than the first, and most readers
        # need it, too.
        self._later: list[Sent] = [(sql, ()) for sql in beginning if sql is not None]
        self._is_used = False
        self.place: Place | None = None
        self._events = 0
        self._moves: dict[tuple[str, ...], CounterMove] = {}
        self.broken = False
        self.notice = 0
        self.subjects: set[str] = set()
        self.seal = node.seal

    @property
    def is_alone(self) -> bool:
        """Whether all other writers wait until it ends."""
        return self._beginning.lock != BESIDE_OTHERS.lock

    def settled(self) -> int:
        """See `Unit`; once the place is known."""
        place = self.place or _NOWHERE
        if place.base is None or (place.id is not None and (self.is_alone or place.ended >= place.id)):
            return FOREVER
        return max(place_before(place.base, place.ended), self._known)

    def take_seq(self) -> int:
        """See `Unit`; once the place is known.

        Raises:
            TooLarge: The transaction has too many events.
        """
        place = self.place or _NOWHERE
        if place.base is None or place.id is None:
            raise LookupError("the log has no head; the database was not made by Tandem")
        if self._events == MOST_EVENTS:
            raise TooLarge(f"One change has at most {MOST_EVENTS} events on PostgreSQL; make it in several parts.")
        self._events += 1
        return place_before(place.base, place.id) + self._events

    def ask(self, asked: Sequence[Sequence[Sent]], behind: Sent | None = None) -> list[PGresult]:
        """Send what units ask, all in one round trip; the result of the last statement of each.

        Args:
            asked: The statements of each, one or more.
            behind: What to send right behind, of which nothing is asked.
        """
        later, self._later = self._later, []
        sent = [*later, *chain.from_iterable(asked)]
        self._is_used = True
        # Until all results are in, an error may be another unit's, and the server may have skipped these statements.
        self.broken = True
        for one in sent:
            self.pipeline.send(*one)
        results = self.pipeline.receive(behind)
        self.broken = False
        if self.place is None:
            self._find_place(sent, results)
        ends = accumulate(map(len, asked), initial=len(later))
        next(ends)
        return [results[end - 1] for end in ends]

    def ask_alone(self, asked: Sequence[Sent]) -> PGresult:
        """As `ask`, for one unit."""
        return self.ask([asked])[0]

    def keep(self, unit: PostgresUnit) -> None:
        """Keep what a unit did, which has ended."""
        self._is_used = self._is_used or bool(unit.later or unit.moves)
        self._later.extend(unit.later)
        self.notice = max(self.notice, unit.notice)
        self.subjects.update(unit.subjects)
        for move in unit.moves:
            _, _, _, _, _, amount, total_us = self._moves.get(move.key, move._replace(amount=0, total_us=0))
            self._moves[move.key] = move._replace(amount=move.amount + amount, total_us=move.total_us + total_us)

    def counting(self, moves: Sequence[CounterMove]) -> Sent:
        """What moves counters, of which there are a few."""
        compiled = moving(len(moves)).postgresql
        return compiled.sql, self.pipeline.values(compiled.bind(moved(moves, self._slot)))

    def commit(self) -> bool:
        """Send what waits, and commit; whether that came about."""
        if self.broken:
            return False
        if not self._is_used:
            return True
        if self._beginning.lock is None:
            # The end of a reader needs no wait: nothing depends on it.
            self.pipeline.send(_COMMIT)
            self.pipeline.leave()
            return True
        # In order, as all have them who may add to the same ones.
        moves = sorted(self._moves.values())
        for start in range(0, len(moves), _COUNTERS_AT_ONCE):
            self._later.append(self.counting(moves[start : start + _COUNTERS_AT_ONCE]))
        return self.ask([[(_COMMIT, ())]], self._notice())[0].command_status == _COMMIT.encode()

    def _notice(self) -> Sent | None:
        """What tells other nodes of the events, if there are any; for behind the commit."""
        # Not in it: then it would hold a lock of the whole cluster until the disk has it. Nor later: the server's
        # process is running now, and would have to be scheduled again. If a notice is lost with the connection, other
        # nodes find the events when they next look at the log.
        if not self.notice:
            return None
        return _TELL, self.pipeline.values((notice_of(self._node.name, self.notice, self.subjects),))

    def _find_place(self, sent: Sequence[Sent], results: Sequence[PGresult]) -> None:
        for (sql, _), result in zip(sent, results, strict=True):
            if sql == self._beginning.place:
                [row] = self.pipeline.rows(result)
                self.place = Place(*row)


class PostgresUnit(Unit):
    """A unit of work in a transaction, which may be that of other units, too.

    Statements without an answer wait for the next one that has one, or for the commit, and travel with it: what a unit
    costs is mostly its round trips.

    Attributes:
        has_written: Changes of it were sent, which only the end of its transaction undoes.
        later: What waits to be sent.
        moves: How far it moves counters.
        subjects: What its events are about.
    """

    __slots__ = (
        "_ask",
        "_has_changes",
        "_may_wait",
        "_transaction",
        "has_written",
        "later",
        "moves",
        "subjects",
    )
    dialect = "postgresql"

    def __init__(self, transaction: Transaction, ask: Callable[[Sequence[Sent]], PGresult] | None = None) -> None:
        """Make it.

        Args:
            transaction: Its transaction.
            ask: Sends statements, and answers with the result of the last one; None for the transaction's own way. Who
                gives another shares the transaction, and must not wait for a row that another transaction has locked:
                those may wait in turn for a row of one that it shares it with.
        """
        super().__init__(transaction.seal)
        self._transaction = transaction
        self._may_wait = ask is None
        self._ask = ask or transaction.ask_alone
        self._has_changes = False
        self.has_written = False
        self.later: list[Sent] = []
        self.moves: list[CounterMove] = []
        self.subjects: list[str] = []

    @property
    def settled(self) -> int:
        """See `Unit`."""
        self._find_place()
        return self._transaction.settled()

    def be_alone(self) -> None:
        """See `Unit`."""
        if not self._transaction.is_alone:
            raise RunAlone

    def lock(self, name: str) -> None:
        """See `Unit`."""
        number = int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], signed=True)
        self.later.append((_NAMED, self._transaction.pipeline.values((number,))))

    def take_seq(self) -> int | None:
        """See `Unit`."""
        self._find_place()
        return self._transaction.take_seq()

    def count(self, moves: Sequence[CounterMove]) -> None:
        """See `Unit`."""
        if not self._may_wait:
            self.moves.extend(moves)
        elif moves:
            self._has_changes = True
            self.later.append(self._transaction.counting(moves))

    def execute(self, statement: Statement, **params: Any) -> int:
        """See `Unit`."""
        return self._run(statement.postgresql.sql, statement, params).command_tuples or 0

    def put(self, statement: Statement, **params: Any) -> None:
        """See `Unit`."""
        compiled = statement.postgresql
        self._put(compiled.sql, compiled.bind(params))

    def put_one(self, statement: Statement, **params: Any) -> None:
        """See `Unit`."""
        self._put(statement.touching_one, statement.postgresql.bind(params))

    def all(self, statement: Statement, **params: Any) -> list[Row]:
        """See `Unit`.

        Raises:
            RunAgain: Another transaction holds a row that this one has to lock, and it must not wait for it.
        """
        sql = statement.postgresql.sql
        unlocked = sql.removesuffix(_LOCKING)
        if self._may_wait or unlocked == sql:
            return self._transaction.pipeline.rows(self._run(sql, statement, params))
        rows = self._transaction.pipeline.rows(self._run(f"{sql} SKIP LOCKED", statement, params))
        if not rows and self._run(unlocked, statement, params).ntuples:
            raise RunAgain("another transaction holds the row")
        return rows

    def on_commit(self, notice: int, subject: str | None = None) -> None:
        """See `Unit`."""
        super().on_commit(notice)
        if subject is not None:
            self.subjects.append(subject)

    def end(self) -> None:
        """Make the unit useless: it is over."""
        del self._transaction

    def _find_place(self) -> None:
        if self._transaction.place is None:
            self._send(())

    def _run(self, sql: LiteralString, statement: Statement, params: dict[str, Any]) -> PGresult:
        self._has_changes |= not statement.is_question
        return self._send([(sql, self._transaction.pipeline.values(statement.postgresql.bind(params)))])

    def _put(self, sql: LiteralString, params: Sequence[Any]) -> None:
        self._has_changes = True
        self.later.append((sql, self._transaction.pipeline.values(params)))

    def _send(self, asked: Sequence[Sent]) -> PGresult:
        waiting, self.later = self.later, []
        self.has_written = self._has_changes
        return self._ask([*waiting, *asked])


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

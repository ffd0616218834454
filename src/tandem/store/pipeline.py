"""Statements on one connection to PostgreSQL: many in one round trip, each prepared once.

On psycopg's interface to the client library, whose functions they share, rather than on its cursors: those look for
types, plans and formats at each statement again, which took more of the broker's time than all the rest of a unit.
"""

from __future__ import annotations

import selectors
from collections import deque
from enum import Enum, auto
from math import inf
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import psycopg
from psycopg.adapt import PyFormat, Transformer
from psycopg.errors import error_from_result
from psycopg.pq import ExecStatus, TransactionStatus

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import LiteralString

    from psycopg.abc import Buffer
    from psycopg.pq.abc import PGresult

    from tandem.store.base import Row

Values: TypeAlias = "Sequence[Buffer | None]"
Sent: TypeAlias = "tuple[LiteralString, Values]"
_PREPARED_MOST: Final = 512
_GOOD: Final = frozenset({ExecStatus.TUPLES_OK, ExecStatus.COMMAND_OK})
_OPEN: Final = frozenset({TransactionStatus.INTRANS, TransactionStatus.INERROR, TransactionStatus.ACTIVE})


class _What(Enum):
    """What a result is of."""

    PREPARED = auto()
    ASKED = auto()
    UNHEEDED = auto()


class Pipeline:
    """A connection that nothing else uses.

    Statements are sent at `receive`, at `leave`, or when there are enough of them. After an error the server skips
    the statements behind it, up to the next `receive` or `leave`.

    Attributes:
        deadline: When the connection is closed if the server says nothing, by `time.monotonic`.
    """

    __slots__ = (
        "_connection",
        "_fresh",
        "_names",
        "_number",
        "_on_way",
        "_pgconn",
        "_ready",
        "_syncs",
        "_transformer",
        "deadline",
    )

    def __init__(self, connection: psycopg.Connection[Row]) -> None:
        self._connection = connection
        self._pgconn = connection.pgconn
        self._pgconn.enter_pipeline_mode()
        self._transformer = Transformer(connection)
        self._ready = selectors.DefaultSelector()
        self._ready.register(connection.fileno(), selectors.EVENT_READ)
        self._names: dict[str, bytes] = {}
        self._fresh: list[str] = []
        self._number = 0
        self._on_way: deque[_What] = deque()
        self._syncs = 0
        self.deadline = inf

    @property
    def closed(self) -> bool:
        """Whether the connection is gone."""
        return self._connection.closed

    @property
    def backend_pid(self) -> int:
        """Which of the server's processes serves it."""
        return self._pgconn.backend_pid

    def values(self, params: Sequence[Any]) -> Values:
        """Parameters as they are sent.

        Raises:
            psycopg.DataError: PostgreSQL can keep no such value.
        """
        return self._transformer.dump_sequence(params, [PyFormat.TEXT] * len(params)) if params else ()

    def send(self, sql: LiteralString, values: Values = ()) -> None:
        """Add a statement.

        Raises:
            psycopg.Error: The connection is lost.
        """
        self._send(sql, values, _What.PREPARED, _What.ASKED)

    def receive(self, behind: Sent | None = None) -> list[PGresult]:
        """The results of all that was sent since the last time, or since something was left, in order.

        Args:
            behind: A statement to run behind a commit that was sent, if that succeeds; its result is ignored.

        Raises:
            psycopg.Error: One of the statements failed, or the connection is lost.
        """
        if behind is not None:
            self._send(*behind, _What.UNHEEDED, _What.UNHEEDED)
        self.leave()
        results: list[PGresult] = []
        failure: PGresult | None = None
        try:
            for what, result in self._arriving():
                if result.status in _GOOD:
                    if what is _What.ASKED:
                        results.append(result)
                elif failure is None and result.status != ExecStatus.PIPELINE_ABORTED:
                    failure = result
        except psycopg.Error:
            if failure is None:
                raise
        self._fresh.clear()
        if failure is not None:
            raise error_from_result(failure)
        return results

    def leave(self) -> None:
        """Send all that was added, without waiting; the results are ignored."""
        self._pgconn.pipeline_sync()
        self._syncs += 1
        if self._pgconn.flush():
            self._push()

    def ask(self, *statements: tuple[LiteralString, *tuple[Any, ...]], seconds: float) -> list[PGresult]:
        """The results of statements with their parameters, each in a transaction; for what takes no time.

        Raises:
            psycopg.Error: One failed, or the server was silent for so long; the connection is closed.
        """
        self.deadline = monotonic() + seconds
        try:
            for sql, *params in statements:
                self.send(sql, self.values(params))
            return self.receive()
        except psycopg.Error:
            self.close()
            raise
        finally:
            self.deadline = inf

    def rows(self, result: PGresult) -> list[Row]:
        """The rows of a result."""
        if not result.ntuples:
            return []
        self._transformer.set_pgresult(result)
        return self._transformer.load_rows(0, result.ntuples, tuple)

    def roll_back(self) -> None:
        """End the transaction, if there is one, and all statements under way.

        Raises:
            psycopg.Error: The connection is lost.
        """
        try:
            self.receive()
        except psycopg.Error:
            if self.closed:
                raise
        if self._pgconn.transaction_status in _OPEN:
            self.send("ROLLBACK")
            self.receive()

    def close(self) -> None:
        """Close the connection."""
        self._ready.close()
        self._connection.close()

    def end(self) -> psycopg.Connection[Row]:
        """The connection, for other uses; all that was sent has been received."""
        self._ready.close()
        self._pgconn.exit_pipeline_mode()
        return self._connection

    def _send(self, sql: LiteralString, values: Values, if_fresh: _What, what: _What) -> None:
        name = self._names.get(sql)
        if name is None:
            name = self._prepare(sql, if_fresh)
        self._pgconn.send_query_prepared(name, values)
        self._on_way.append(what)

    def _prepare(self, sql: LiteralString, what: _What) -> bytes:
        if len(self._names) == _PREPARED_MOST:
            self._names.clear()
            self._fresh.clear()
            self._pgconn.send_query_params(b"DEALLOCATE ALL", None)
            self._on_way.append(what)
        self._number += 1
        name = self._names[sql] = b"t%d" % self._number
        self._fresh.append(sql)
        self._pgconn.send_prepare(name, sql.encode())
        self._on_way.append(what)
        return name

    def _push(self) -> None:
        """Send the rest of what did not go at once, and take in meanwhile what a server that is busy has answered."""
        fileno = self._connection.fileno()
        self._ready.modify(fileno, selectors.EVENT_READ | selectors.EVENT_WRITE)
        while self._pgconn.flush():
            self._wait()
            self._pgconn.consume_input()
        self._ready.modify(fileno, selectors.EVENT_READ)

    def _arriving(self) -> Iterator[tuple[_What, PGresult]]:
        """The results that a caller waits for, each with its kind; ignored ones at the end may fail."""
        what = _What.ASKED
        while self._syncs:
            result = self._next()
            if result.status == ExecStatus.PIPELINE_SYNC:
                self._syncs -= 1
                continue
            # Behind the last one may come an error of its end.
            what = self._on_way.popleft() if self._on_way else what
            if result.status not in _GOOD:
                # Statements behind a failure were not prepared; to prepare the rest once more, by another name, does
                # no harm.
                for sql in self._fresh:
                    del self._names[sql]
                self._fresh.clear()
            if self._syncs == 1 and what is not _What.UNHEEDED:
                yield what, result

    def _wait(self) -> None:
        left_seconds = None if self.deadline == inf else max(0.0, self.deadline - monotonic())
        # A server that stands still keeps its connections: nothing but the time tells.
        if not self._ready.select(left_seconds):
            self._connection.close()
            raise psycopg.OperationalError("the server is silent")

    def _next(self) -> PGresult:
        while True:
            while self._pgconn.is_busy():
                # Other threads run meanwhile, as they do not in the client library's own waiting.
                self._wait()
                self._pgconn.consume_input()
            result = self._pgconn.get_result()
            if result is not None:
                return result
            # The end of one statement's results, or of all.
            if self.closed:
                raise psycopg.OperationalError("the connection is lost")

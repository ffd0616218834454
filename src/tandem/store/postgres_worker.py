"""A thread with a connection to PostgreSQL, that runs one unit after another in it."""

from __future__ import annotations

import logging
import random
import time
from typing import TYPE_CHECKING, Final

import psycopg

from tandem.errors import Unavailable
from tandem.store.base import HIDDEN_ERROR, Row, RunAgain, RunAlone, StoreError, StoreStatistics, outcome_unknown
from tandem.store.postgres_unit import RUN_AGAIN, Beginning, PostgresUnit, translated

if TYPE_CHECKING:
    from collections.abc import Callable

    from tandem.store.connector import Connector
    from tandem.store.event import Seal
    from tandem.store.jobs import Completions, Job, WorkQueue

ATTEMPTS: Final = 8
"""Times that a unit is run before its conflicts with others are an error."""
_BESIDE_OTHERS: Final = 3
"""Times that it is run beside others; then nobody else may write, so that nobody can be in its way."""
_BACKOFF_SECONDS: Final = 0.005

_log = logging.getLogger(__name__)


class _RunAgain(Exception):
    """Nothing of the unit was kept, and the same unit may well succeed."""


class _ConnectionLost(Exception):
    """The connection went away before the commit was asked for, or where only was read: nothing was kept."""


class Horizon:
    """The furthest place in the log that is known to be settled, whatever other databases of the server do.

    Attributes:
        place: The place; see `Unit.settled`.
    """

    __slots__ = ("place",)

    def __init__(self) -> None:
        self.place = 0


class PostgresWorker:
    """Runs the units of one inbox, each in a transaction, on a connection of its own."""

    def __init__(
        self,
        connector: Connector,
        inbox: WorkQueue,
        delivery: Completions,
        *,
        beginnings: tuple[Beginning, Beginning],
        horizon: Horizon,
        announce: Callable[[int], None],
        seal: Seal,
    ) -> None:
        self._seal = seal
        self._connector = connector
        self._inbox = inbox
        self._delivery = delivery
        self._alone, self._beside_others = beginnings
        self._horizon = horizon
        self._announce = announce
        self._connection: psycopg.Connection[Row] | None = None
        self._units = self._failed = self._dropped = self._repeated = 0

    def run(self) -> None:
        """Serve the inbox until it is closed; the body of the thread."""
        while (job := self._inbox.get()) is not None:
            if job.answer.cancelled():
                self._dropped += 1
            else:
                self._serve(job)
            del job
        self._drop()

    def statistics(self) -> StoreStatistics:
        """What was done so far."""
        return StoreStatistics(self._units, self._units, self._failed, self._dropped, self._repeated)

    def _serve(self, job: Job) -> None:
        notice = 0
        try:
            notice = self._persist(job)
            self._units += 1
            if notice:
                self._announce(notice)
        except BaseException as exc:  # noqa: BLE001 - it belongs to the caller, who gets it
            job.error = translated(exc)
            self._failed += 1
        self._delivery.deliver((job,), notice)

    def _persist(self, job: Job) -> int:
        """Run the job as often as it takes; the notice of the run that was committed."""
        lost = False
        for attempt in range(1, ATTEMPTS + 1):
            beside_others = job.beside_others and attempt <= _BESIDE_OTHERS
            try:
                return self._attempt(job, self._beside_others if beside_others else self._alone)
            except RunAlone:
                job.beside_others = False
                continue
            except _RunAgain as exc:
                if attempt == ATTEMPTS:
                    raise exc.__cause__ or exc from None
                # At random, so that two that met do not meet again.
                time.sleep(random.uniform(0, _BACKOFF_SECONDS * attempt))  # noqa: S311 - no secret
            except _ConnectionLost as exc:
                if lost:
                    raise Unavailable(f"the connection to PostgreSQL was lost twice; try again ({exc})") from exc
                lost = True
            self._repeated += 1
        raise AssertionError

    def _attempt(self, job: Job, beginning: Beginning) -> int:
        if self._connection is None:
            self._connection = self._connector.connect()
        connection = self._connection
        unit = PostgresUnit(connection, beginning, self._seal, self._horizon.place)
        committing = False
        try:
            job.result = job.fn(unit)
            committing = True
            if not unit.commit():
                raise StoreError(HIDDEN_ERROR)
        except BaseException as exc:
            lost = not self._rolled_back(connection)
            if isinstance(exc, RunAgain) and not isinstance(exc, RunAlone):
                raise _RunAgain from exc
            if isinstance(exc, psycopg.Error):
                if exc.sqlstate in RUN_AGAIN:
                    raise _RunAgain from exc
                if lost and committing and beginning.lock is not None:
                    raise outcome_unknown("The connection to PostgreSQL was lost during the commit") from exc
                if lost:
                    raise _ConnectionLost(str(exc)) from exc
            raise
        finally:
            unit.end()
        return unit.notice

    def _rolled_back(self, connection: psycopg.Connection[Row]) -> bool:
        """End the transaction, if there is one; whether the connection still lives."""
        try:
            connection.rollback()
        except psycopg.Error:
            _log.debug("a connection broke", exc_info=True)
        if connection.closed:
            self._drop()
            return False
        return True

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

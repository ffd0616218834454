"""PostgreSQL: threads that each run one unit after another on a connection of their own, and a listener for news.

The news is of what other nodes have committed.
"""

from __future__ import annotations

import logging
import random
import time
import uuid
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Literal

import psycopg
from greenlet import getcurrent, greenlet
from sqlalchemy import BigInteger, cast, func, select

from tandem.errors import Unavailable
from tandem.store.base import HIDDEN_ERROR, RunAgain, RunAlone, Store, StoreError, StoreStatistics
from tandem.store.connector import TIMEOUT_SECONDS, AdvisoryLocks, Connector, Listener
from tandem.store.jobs import Intake, WorkQueue, outcome_unknown
from tandem.store.pipeline import Pipeline
from tandem.store.postgres_unit import (
    ALONE,
    BESIDE_OTHERS,
    READING,
    RUN_AGAIN,
    Beginning,
    Node,
    PostgresUnit,
    Transaction,
    find_slot,
    translated,
)
from tandem.store.schema import POSTGRESQL_WORDS
from tandem.store.statement import Statement

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractAsyncContextManager

    from tandem.store.event import Seal
    from tandem.store.jobs import Completions, Job
    from tandem.store.postgres_unit import Sent
    from tandem.store.schema import Schema

_NOW = Statement(select(cast(func.extract("epoch", func.clock_timestamp()) * 1_000_000, BigInteger)))


class PostgresStore(Store):
    """A store that any number of brokers share."""

    dialect = "postgresql"

    def __init__(
        self, url: str, schema: Schema, *, durability: Literal["full", "normal"], readers: int, seal: Seal
    ) -> None:
        super().__init__(seal)
        self._schema = schema
        self._connector = Connector(url, durability)
        self._locks = AdvisoryLocks(self._connector)
        self._node = Node(uuid.uuid4().hex, seal)
        self._listener = Listener(self._connector, self._delivery, self._node.name)
        # One for all that share transactions: with more of them, each would take fewer units into its own.
        self._alone = WorkQueue()
        self._queues.insert(0, self._alone)
        worker = partial(_PostgresWorker, self._node, self._connector, self._delivery)
        writers = [worker(self._writes, rest=self._alone), worker(self._alone)]
        self._done += [one.done for one in writers]
        self._workers = [*writers, *(worker(self._reads, beginnings=(READING, READING)) for _ in range(readers))]

    def _inbox_of(self, works_on: tuple[str, ...]) -> WorkQueue:
        return self._writes if works_on else self._alone

    def settle(self, place: int) -> None:
        """See `Store`."""
        self._node.settled = max(self._node.settled, place)

    async def now_us(self) -> int | None:
        """See `Store`."""
        return await self.read(lambda unit: unit.value(_NOW))

    def advisory_lock(self, name: str) -> AbstractAsyncContextManager[bool]:
        """See `Store`."""
        return self._locks.hold(name)

    def _start(self) -> None:
        try:
            with self._connector.connect().end() as connection:
                self._connector.check(connection)
                self._schema.prepare(connection, POSTGRESQL_WORDS)
        except psycopg.Error as exc:
            raise Unavailable(f"PostgreSQL does not take the schema: {translated(exc)}") from exc
        self._listener.open()
        self._run_thread(self._listener.run, "tandem-store-listener")
        for number, worker in enumerate(self._workers):
            self._run_thread(worker.run, f"tandem-store-{number}")

    def _stop(self) -> None:
        self._reads.close(len(self._workers[2:]))
        self._writes.close(1)
        # It may still hand something on.
        self._threads[1].join()
        self._alone.close(1)
        for thread in self._threads[2:]:
            thread.join()
        self._locks.end()
        self._listener.end()
        self._threads[0].join()


ATTEMPTS: Final = 8
"""Times that a unit is run before its conflicts with others are an error."""
_BESIDE_OTHERS: Final = 3
"""Times that it is run beside others; then all other writers wait, so that none can conflict with it."""
_BACKOFF_SECONDS: Final = 0.005
_TOGETHER_MOST: Final = 32
_TOGETHER_SECONDS: Final = 0.010
"""A transaction takes in so many units, for so long: not so many that those who wait for its rows wait long."""

_log = logging.getLogger(__name__)


class _ConnectionLost(Exception):
    """The connection went away before the commit was asked for, or where only was read: nothing was kept."""


class _LostInCommit(Exception):
    """The connection was lost during the commit, whose outcome is unknown."""


class _PostgresWorker:
    """Runs the units of one inbox on a connection of its own, each in a transaction unless they should share one.

    Attributes:
        done: How many units and transactions it has run.
    """

    def __init__(
        self,
        node: Node,
        connector: Connector,
        delivery: Completions,
        inbox: WorkQueue,
        *,
        beginnings: tuple[Beginning, Beginning] = (ALONE, BESIDE_OTHERS),
        rest: WorkQueue | None = None,
    ) -> None:
        """Make it.

        Args:
            node: The store's part in the database.
            connector: Connects it.
            delivery: Takes the answers.
            inbox: Holds its units.
            beginnings: How transactions begin, alone and beside others.
            rest: Takes those that cannot share a transaction: they may wait for others, and all who share one would
                wait with them. None if no units should share one.
        """
        self._node = node
        self._connector = connector
        self._delivery = delivery
        self._inbox = inbox
        self._alone, self._beside_others = beginnings
        self._rest = rest
        self._pipeline: Pipeline | None = None
        self._slot = 0
        self.done = StoreStatistics()

    def run(self) -> None:
        """Serve the inbox until it is closed; the body of the thread."""
        while (job := self._inbox.get()) is not None:
            try:
                if not job.is_wanted:
                    self.done.dropped += 1
                elif self._rest is None:
                    self._serve(job)
                else:
                    self._serve_together(job, self._rest)
            except BaseException:  # noqa: BLE001 - the thread must live; who waits is answered at the deadline
                _log.exception("a unit of work was lost")
                self._drop()
            # Frees the answered job while this waits for the next one.
            del job
        self._drop()

    def _serve_together(self, first: Job, rest: WorkQueue) -> None:
        """Run a job and those that wait or come meanwhile in one transaction, and have the rest run by themselves."""
        intake = Intake(self._inbox, first, most=_TOGETHER_MOST, seconds=_TOGETHER_SECONDS)
        batch = SideBySide(intake)
        done: Transaction | None = None
        try:
            done = self._attempt(batch.run, self._beside_others, first.deadline)
        except _LostInCommit as exc:
            for job in batch.done:
                job.error = job.error or _unknown(exc)
        except BaseException:  # noqa: BLE001 - whose fault it is comes out when each is run by itself
            batch.undo()
            self.done.repeated += len(batch.left)
        self.done.dropped += intake.dropped
        self._answer(batch.done, done)
        for job in batch.left:
            try:
                rest.put(job)
            except Unavailable as exc:
                job.error = exc
                self._answer([job], None)

    def _serve(self, job: Job) -> None:
        done: Transaction | None = None
        try:
            done = self._persist(job)
        except _LostInCommit as exc:
            job.error = _unknown(exc)
        except BaseException as exc:  # noqa: BLE001 - it belongs to the caller, who gets it
            job.error = translated(exc)
        self._answer([job], done)

    def _answer(self, jobs: list[Job], transaction: Transaction | None) -> None:
        failed = sum(job.error is not None for job in jobs)
        self.done.failed += failed
        self.done.units += len(jobs) - failed
        self.done.commits += failed < len(jobs)
        if transaction is None:
            self._delivery.deliver(jobs)
        else:
            self._delivery.deliver(jobs, transaction.notice, transaction.subjects)

    def _persist(self, job: Job) -> Transaction:
        """Run the job as often as it takes; the transaction that was committed."""

        def run(transaction: Transaction) -> None:
            unit = PostgresUnit(transaction)
            job.start_over()
            try:
                job.result = job.fn(unit)
                transaction.keep(unit)
            finally:
                unit.end()
            if not job.may_commit():
                raise Unavailable("its caller was told that it was not done")

        lost = False
        for attempt in range(1, ATTEMPTS + 1):
            beside_others = job.works_on and attempt <= _BESIDE_OTHERS
            try:
                return self._attempt(run, self._beside_others if beside_others else self._alone, job.deadline)
            except RunAlone:
                job.works_on = ()
                continue
            except RunAgain as exc:
                if attempt == ATTEMPTS:
                    raise exc.__cause__ or exc from None
                # At random, so that two that met do not meet again.
                time.sleep(random.uniform(0, _BACKOFF_SECONDS * attempt))  # noqa: S311 - no secret
            except _ConnectionLost as exc:
                if lost or job.is_late:
                    raise Unavailable(f"the connection to PostgreSQL was lost twice; try again ({exc})") from exc
                lost = True
            self.done.repeated += 1
        raise AssertionError

    def _attempt(self, run: Callable[[Transaction], None], beginning: Beginning, deadline: float) -> Transaction:
        pipeline, transaction = self._begin(beginning)
        # Who comes late has to find out, too, whether the server is silent: it may be the thread that is behind.
        pipeline.deadline = max(deadline, time.monotonic() + TIMEOUT_SECONDS)
        committing = False
        try:
            run(transaction)
            committing = True
            if not transaction.commit():
                raise StoreError(HIDDEN_ERROR)
        except BaseException as exc:
            lost = not self._rolled_back(pipeline)
            if isinstance(exc, psycopg.Error):
                if exc.sqlstate in RUN_AGAIN:
                    raise RunAgain from exc
                if lost and committing and beginning.lock is not None:
                    raise _LostInCommit from exc
                if lost:
                    raise _ConnectionLost(str(exc)) from exc
            raise
        return transaction

    def _begin(self, beginning: Beginning) -> tuple[Pipeline, Transaction]:
        if self._pipeline is None:
            self._pipeline = self._connector.connect()
            self._slot = find_slot(self._pipeline) if beginning.lock is not None else 0
        return self._pipeline, Transaction(self._pipeline, beginning, self._node, self._slot)

    def _rolled_back(self, pipeline: Pipeline) -> bool:
        """End the transaction, if there is one; whether the connection still lives."""
        try:
            pipeline.roll_back()
        except psycopg.Error:
            _log.debug("a connection broke", exc_info=True)
        if pipeline.closed:
            self._drop()
            return False
        return True

    def _drop(self) -> None:
        pipeline, self._pipeline = self._pipeline, None
        if pipeline is not None:
            pipeline.close()


def _unknown(cause: _LostInCommit) -> Unavailable:
    answer = outcome_unknown("The connection to PostgreSQL was lost during the commit")
    answer.__cause__ = cause.__cause__
    return answer


class SideBySide:
    """Jobs that are run in one transaction; those that share a name in `works_on` run one after another.

    Attributes:
        done: Those that were run.
        left: Those that have to be run by themselves.
    """

    def __init__(self, intake: Intake) -> None:
        self.done: list[Job] = []
        self.left: list[Job] = []
        self._intake = intake
        self._taken: list[Job] = []
        self._waiting: list[Job] = self._arriving()
        self._parts: list[_Part] = []
        self._asking: list[_Part] = []

    def run(self, transaction: Transaction) -> None:
        """Run the jobs that there are, and those that come meanwhile.

        Raises:
            Exception: Nothing of what any of them did may be kept.
        """
        while self._start(transaction):
            answers = transaction.ask([part.asked for part in self._asking])
            answered, self._asking = self._asking, []
            for part, answer in zip(answered, answers, strict=True):
                self._go_on(part, answer)
        if not all(job.may_commit() for job in self.done):
            raise RunAgain("a caller was told that it was not done")

    def undo(self) -> None:
        """Have all of them be run by themselves, as their transaction came to nothing."""
        for part in self._parts:
            part.end()
        self.done = []
        self.left = self._taken
        for job in self.left:
            job.start_over()

    def _start(self, transaction: Transaction) -> bool:
        """Start the jobs that may be; whether one of them or of those before asks something."""
        self._waiting.extend(self._arriving())
        waiting, self._waiting = self._waiting, []
        for job in waiting:
            before = (*(part.job for part in self._asking), *self._waiting)
            if any(name in other.works_on for other in before for name in job.works_on):
                self._waiting.append(job)
            else:
                part = _Part(job, transaction)
                self._parts.append(part)
                self._go_on(part)
        return bool(self._asking)

    def _arriving(self) -> list[Job]:
        arrived: list[Job] = []
        while (job := self._intake.take()) is not None:
            arrived.append(job)
        self._taken.extend(arrived)
        return arrived

    def _go_on(self, part: _Part, *answer: Any) -> None:
        if part.runs_on(*answer):
            self._asking.append(part)
        elif part.is_to_be_repeated:
            self.left.append(part.job)
        else:
            self.done.append(part.job)


class _Part:
    """One job's part of the transaction.

    Attributes:
        asked: The statements whose answer it waits for.
        is_to_be_repeated: It came to nothing, but may well succeed by itself.
    """

    __slots__ = ("_error", "_greenlet", "_result", "_transaction", "_unit", "asked", "is_to_be_repeated", "job")

    def __init__(self, job: Job, transaction: Transaction) -> None:
        self.job = job
        self.asked: Sequence[Sent] = ()
        self.is_to_be_repeated = False
        self._result: Any = None
        self._error: BaseException | None = None
        self._transaction = transaction
        # A question switches back to the greenlet in which all of them are started.
        self._unit = PostgresUnit(transaction, getcurrent().switch)
        self._greenlet = greenlet(self._run)

    def runs_on(self, *answer: Any) -> bool:
        """Run until it asks or ends; whether it asks.

        Raises:
            RunAgain: It failed, and only the end of the transaction undoes its changes.
        """
        asked = self._greenlet.switch(*answer)
        if not self._greenlet.dead:
            self.asked = asked
            return True
        self._end()
        return False

    def end(self) -> None:
        """End it where it is suspended, if it is: its objects would never be freed. Its job hears nothing of it."""
        if self._greenlet:
            self._greenlet.throw()

    def _run(self) -> None:
        try:
            self._result = self.job.fn(self._unit)
        except BaseException as exc:  # noqa: BLE001 - it belongs to the caller, who gets it
            self._error = exc

    def _end(self) -> None:
        unit, error = self._unit, self._error
        if error is None:
            self._transaction.keep(unit)
            self.job.result = self._result
        elif isinstance(error, RunAgain):
            self.is_to_be_repeated = True
            if isinstance(error, RunAlone):
                self.job.works_on = ()
        else:
            self.job.error = translated(error)
        unit.end()
        if unit.has_written and error is not None:
            raise RunAgain from error

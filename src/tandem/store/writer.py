"""The one thread that writes to SQLite, and how it puts several units into one commit.

A commit with `synchronous=FULL` waits for the disk, and most of a small unit's time is that wait. So
whatever waits when a transaction is begun, or comes while its units are running, is committed together;
every unit but the first in a transaction has its own savepoint, so that one's failure leaves the others.
"""

from __future__ import annotations

import logging
import sqlite3
from typing import TYPE_CHECKING, Final

from tandem.errors import Unavailable
from tandem.store.base import HIDDEN_ERROR, StoreError, StoreStatistics
from tandem.store.jobs import Intake, outcome_unknown
from tandem.store.sqlite_unit import SqliteUnit, is_busy, is_disk_error, translated

if TYPE_CHECKING:
    from collections.abc import Callable

    from tandem.store.event import Seal
    from tandem.store.jobs import Completions, Job, WorkQueue
    from tandem.store.sqlite_file import DatabaseFile

UNITS_A_COMMIT: Final = 256
COMMIT_AFTER_SECONDS: Final = 0.010
"""A transaction takes in no more units after that long, so that the first is not kept waiting."""
WAL_LIMIT_BYTES: Final = 64 * 1024 * 1024
_COMMITS_BETWEEN_LOOKS: Final = 512
_RESTART_TIMEOUT_MS: Final = 100

_log = logging.getLogger(__name__)


class _Batch:
    """The jobs of one round of the writer, and those of them that the open transaction holds."""

    __slots__ = ("jobs", "kept", "notice")

    def __init__(self) -> None:
        self.jobs: list[Job] = []
        self.kept: list[Job] = []
        self.notice = 0

    def keep(self, job: Job, notice: int) -> None:
        self.kept.append(job)
        self.notice = max(self.notice, notice)

    def lose(self, reason: str, cause: BaseException | None, *, is_certain: bool = True) -> None:
        """The transaction is gone, and everything it held; unless it is not certain that it is."""
        for job in self.kept:
            job.result = None
            job.error = Unavailable(reason) if is_certain else outcome_unknown(reason)
            job.error.__cause__ = cause
        self.kept.clear()
        self.notice = 0


class Writer:
    """Runs write units one after another, in as few commits as their arrival allows."""

    def __init__(
        self,
        file: DatabaseFile,
        connect: Callable[[], sqlite3.Connection],
        inbox: WorkQueue,
        delivery: Completions,
        seal: Seal,
    ) -> None:
        self._seal = seal
        self._file = file
        self._connect = connect
        self._inbox = inbox
        self._delivery = delivery
        self._connection: sqlite3.Connection | None = None
        self.done = StoreStatistics()

    def open(self) -> None:
        """Connect; later `run` does so by itself when a connection broke."""
        self._connection = self._connect()

    def run(self) -> None:
        """Serve the inbox until it is closed; the body of the writer's thread."""
        while (job := self._inbox.get()) is not None:
            self._serve(job)
            del job
        self._close()

    def _serve(self, first: Job) -> None:
        batch = _Batch()
        intake = Intake(self._inbox, first, most=UNITS_A_COMMIT, seconds=COMMIT_AFTER_SECONDS)
        committing = False
        try:
            while (job := intake.take()) is not None:
                batch.jobs.append(job)
                self._attempt(job, batch)
            if batch.kept and self._connection is not None:
                committing = True
                self._connection.execute("COMMIT")
                self.done.units += len(batch.kept)
                self.done.commits += 1
                if self.done.commits % _COMMITS_BETWEEN_LOOKS == 0:
                    self._tend_log(self._connection)
        except sqlite3.Error as exc:
            # A log that the disk did not confirm may be whole all the same, and is then read at the next opening.
            self._fail(batch, exc, is_certain=not (committing and is_disk_error(exc)))
        except Exception as exc:  # noqa: BLE001 - an edge, and logged
            # Whatever it is, those who wait must hear of it, and the thread must live.
            _log.exception("the writer failed")
            self._fail(batch, exc)
        self.done.dropped += intake.dropped
        self.done.failed += len(batch.jobs) - len(batch.kept)
        self._delivery.deliver(batch.jobs, batch.notice)

    def _attempt(self, job: Job, batch: _Batch) -> None:
        # What runs here is committed at once.
        if (trouble := self._trouble()) or not job.may_commit():
            job.error = Unavailable(trouble or "its caller was told that it was not done")
            return
        connection = self._connection = self._connection or self._connect()
        cursor = connection.cursor()
        if not connection.in_transaction:
            cursor.execute("BEGIN IMMEDIATE")
        guarded = bool(batch.kept)
        if guarded:
            cursor.execute("SAVEPOINT unit")
        unit = SqliteUnit(cursor, self._seal)
        try:
            job.result = job.fn(unit)
        except BaseException as exc:  # noqa: BLE001 - it belongs to the caller, who gets it
            job.error = translated(exc)
        if unit.broken and job.error is None:
            job.error = StoreError(HIDDEN_ERROR)
        notice = unit.notice
        unit.end()
        if not connection.in_transaction:
            # A full disk or a failing one can make SQLite roll back everything by itself.
            batch.lose("the database rolled a transaction back; try again", job.error)
            job.error = job.error or Unavailable("the database rolled the transaction back; try again")
        elif job.error is None:
            if guarded:
                cursor.execute("RELEASE unit")
            batch.keep(job, notice)
        elif guarded:
            cursor.execute("ROLLBACK TO unit")
            cursor.execute("RELEASE unit")
        else:
            cursor.execute("ROLLBACK")

    def _trouble(self) -> str | None:
        """What others did to the file; looked for before a connection is made, which would make a new file."""
        if self._connection is None:
            # The connection that broke may have taken the log with it.
            self._file.remember()
        elif self._connection.in_transaction:
            return None
        return self._file.trouble()

    def _fail(self, batch: _Batch, cause: Exception, *, is_certain: bool = True) -> None:
        """Neither transaction nor commit came about: answer everybody, and start afresh."""
        answer = translated(cause)
        reason = answer.message if isinstance(answer, Unavailable) else f"the database failed ({cause}); try again"
        if batch.jobs and batch.jobs[-1] not in batch.kept and batch.jobs[-1].error is None:
            batch.kept.append(batch.jobs[-1])
        if is_busy(cause):
            while (job := self._inbox.take()) is not None:
                # Each of them would wait for the same lock, one after the other.
                batch.jobs.append(job)
                batch.kept.append(job)
        batch.lose(reason, cause, is_certain=is_certain)
        self._discard()

    def _discard(self) -> None:
        """Drop the connection, which rolls back whatever it had open; the next unit makes another."""
        connection, self._connection = self._connection, None
        if connection is None:
            return
        try:
            connection.close()
        except sqlite3.Error:
            _log.warning("a broken connection did not close", exc_info=True)
        self._file.remember()

    def _tend_log(self, connection: sqlite3.Connection) -> None:
        """Start the write-ahead log over when readers who overlap have kept it from ending for long."""
        try:
            if self._file.log_path.stat().st_size <= WAL_LIMIT_BYTES:
                return
            (patience_ms,) = connection.execute("PRAGMA busy_timeout").fetchone()
            connection.execute(f"PRAGMA busy_timeout = {_RESTART_TIMEOUT_MS}")
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            connection.execute(f"PRAGMA busy_timeout = {patience_ms}")
        except (OSError, sqlite3.Error):
            # The commit stands; the next look tries again.
            _log.warning("the write-ahead log could not be started over", exc_info=True)

    def _close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is None:
            return
        try:
            if self.done.commits:
                # Who wrote nothing may stand beside a broker, whose log is its own to fold in.
                connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            connection.close()
        except sqlite3.Error:
            # Nothing is lost: what the log holds is read at the next start.
            _log.warning("the write-ahead log could not be folded in at the end", exc_info=True)

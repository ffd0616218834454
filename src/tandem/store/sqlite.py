"""SQLite: one thread that writes, a few that read, all of them with connections of their own.

Only the writer's connection writes and checkpoints: SQLite before 3.51.3 can damage its write-ahead log
when several connections do.
"""

from __future__ import annotations

import logging
import os
import sqlite3
from contextlib import asynccontextmanager, closing
from typing import TYPE_CHECKING, Final, Literal

from tandem.core import platforms
from tandem.core.platforms import make_private
from tandem.errors import ConfigInvalid, TandemError, Unavailable
from tandem.store.base import HIDDEN_ERROR, Store, StoreError, StoreStatistics
from tandem.store.jobs import Intake, outcome_unknown
from tandem.store.schema import SQLITE_WORDS
from tandem.store.sqlite_unit import SqliteUnit, is_busy, is_disk_error, legible, translated

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable
    from pathlib import Path

    from tandem.store.event import Seal
    from tandem.store.jobs import Completions, Job, WorkQueue
    from tandem.store.schema import Schema

MINIMUM_VERSION: Final = (3, 35)
BUSY_TIMEOUT_MS: Final = 5_000
_CACHED_STATEMENTS: Final = 512
_PAGES_BETWEEN_CHECKPOINTS: Final = 4_000
"""Four times SQLite's own measure: the same few pages change again and again, and each is then copied less often."""


class SqliteStore(Store):
    """A store in one file, for the one broker that has it open."""

    dialect = "sqlite"

    def __init__(
        self, path: Path, schema: Schema, *, durability: Literal["full", "normal"], readers: int, seal: Seal
    ) -> None:
        super().__init__(seal)
        self._path = path
        self._schema = schema
        self._durability = durability
        self._reader_count = readers
        self._file = DatabaseFile(path)
        self._writer = Writer(self._file, self._connect_writer, self._writes, self._delivery, seal)
        self._done.append(self._writer.done)

    def is_missing(self) -> bool:
        """See `Store`."""
        return self._file.is_missing()

    def trouble(self) -> str | None:
        """See `Store`."""
        return self._file.trouble()

    @asynccontextmanager
    async def advisory_lock(self, name: str) -> AsyncGenerator[bool]:
        """See `Store`; always granted, as no other broker shares the file."""
        del name
        yield True

    def _start(self) -> None:
        check_version(sqlite3.sqlite_version_info)
        try:
            create_private(self._path)
            if self._schema.changes:
                self._file.lock()
            with closing(self._connect()) as connection:
                self._schema.prepare(connection, SQLITE_WORDS)
            self._writer.open()
        except BaseException as exc:
            self._file.unlock()
            if isinstance(exc, (OSError, sqlite3.Error)):
                why = translated(exc)
                details = why.details if isinstance(why, TandemError) else {}
                raise Unavailable(f"{self._path}: {why}", **details) from exc
            raise
        self._run_thread(self._writer.run, "tandem-store-writer")
        for number in range(self._reader_count):
            self._run_thread(self._read_until_closed, f"tandem-store-reader-{number}")

    def _stop(self) -> None:
        # The readers first: the writer can empty the write-ahead log only when no reader uses it.
        self._reads.close(self._reader_count)
        for thread in self._threads[1:]:
            thread.join()
        self._writes.close(1)
        self._threads[0].join()
        self._file.unlock()

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(
            self._path,
            timeout=BUSY_TIMEOUT_MS / 1000,
            isolation_level=None,
            cached_statements=_CACHED_STATEMENTS,
            # Opened in the thread that opens the store, used in one thread only from then on.
            check_same_thread=False,
        )
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute("PRAGMA temp_store = MEMORY")
        return connection

    def _connect_writer(self) -> sqlite3.Connection:
        connection = self._connect()
        try:
            (mode,) = connection.execute("PRAGMA journal_mode = WAL").fetchone()
            if mode != "wal":
                raise ConfigInvalid(
                    f"{self._path}: no write-ahead log is possible there; keep the data on a local disk",
                    setting="data_dir",
                )
            connection.execute(f"PRAGMA synchronous = {'FULL' if self._durability == 'full' else 'NORMAL'}")
            # macOS: a plain fsync leaves the data in the drive's cache. It has no effect elsewhere.
            connection.execute(f"PRAGMA fullfsync = {'ON' if self._durability == 'full' else 'OFF'}")
            connection.execute(f"PRAGMA journal_size_limit = {WAL_LIMIT_BYTES}")
            connection.execute(f"PRAGMA wal_autocheckpoint = {_PAGES_BETWEEN_CHECKPOINTS}")
            self._file.remember()
        except BaseException:
            connection.close()
            raise
        return connection

    def _connect_reader(self) -> sqlite3.Connection:
        connection = self._connect()
        connection.execute("PRAGMA query_only = ON")
        if not self._schema.changes:
            connection.text_factory = legible
        return connection

    def _read_until_closed(self) -> None:
        connection: sqlite3.Connection | None = None
        while (job := self._reads.get()) is not None:
            if not job.is_wanted:
                continue
            try:
                if trouble := self._file.trouble():
                    raise Unavailable(trouble)
                connection = connection or self._connect_reader()
            except (Unavailable, sqlite3.Error) as exc:
                job.error = translated(exc)
            else:
                if not _read(connection, job, self._seal):
                    connection = None
            self._delivery.deliver((job,))
            del job
        if connection is not None:
            connection.close()


def _read(connection: sqlite3.Connection, job: Job, seal: Seal) -> bool:
    """Run a job on a snapshot; whether the connection can be used again."""
    cursor = connection.cursor()
    unit = SqliteUnit(cursor, seal)
    try:
        # Deferred: the snapshot is taken by the first statement, and no lock keeps the writer waiting.
        cursor.execute("BEGIN")
        job.result = job.fn(unit)
    except BaseException as exc:  # noqa: BLE001 - it belongs to the caller, who gets it
        job.error = translated(exc)
    unit.end()
    try:
        if connection.in_transaction:
            cursor.execute("ROLLBACK")
    except sqlite3.Error:
        connection.close()
        return False
    return True


def check_version(version: tuple[int, ...]) -> None:
    """Refuse a SQLite library that cannot run our statements.

    Raises:
        ConfigInvalid: It is older than 3.35, and has no RETURNING.
    """
    if version[:2] < MINIMUM_VERSION:
        raise ConfigInvalid(
            (
                f"this Python was built with SQLite {'.'.join(map(str, version))}, and 3.35 or newer is needed;"
                " run the broker with a newer Python"
            ),
            setting="python",
        )


def create_private(path: Path) -> None:
    """Make the file, and its folder when there is none, for this user alone.

    A folder that exists keeps its permissions: it may be shared on purpose.

    Raises:
        OSError: They cannot be made.
    """
    make_private(str(path.parent))
    # SQLite gives its log and its index the permissions of the database.
    os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
    path.chmod(0o600)


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
            # Those who wait must hear of any error, and the thread must live.
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
        """Drop the connection, which rolls back its open transaction; the next unit makes another."""
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


_Identity = tuple[int, int]


class DatabaseFile:
    """A database's file and the write-ahead log beside it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.log_path = path.with_name(path.name + "-wal")
        self._name, self._log_name = str(self.path), str(self.log_path)
        self._lock = -1
        self._known: _Identity | None = None
        self._known_log: _Identity | None = None

    def is_missing(self) -> bool:
        """Whether there is no database: no file, or an empty one."""
        try:
            return self.path.stat().st_size == 0
        except FileNotFoundError:
            return True

    def lock(self) -> None:
        """Lock the database for this broker, against others under any name and from any data folder.

        The lock is that of a file beside it: to close any descriptor of the database itself would give up
        SQLite's own locks on it.

        Raises:
            Unavailable: Another broker has it.
            ConfigInvalid: The file has a second name, by which it could be damaged.
            OSError: There can be no lock.
        """
        real = self.path.resolve()
        if real.exists() and real.stat().st_nlink > 1:
            raise ConfigInvalid(
                f"{real} has a second name (a hard link), and SQLite keeps its log by name: writes by both would"
                " damage it. Remove the other name, or put a copy in its place.",
                setting="database_url",
            )
        lock = os.open(real.with_name(real.name + ".lock"), os.O_RDWR | os.O_CREAT, 0o600)
        is_ours = platforms.lock_file(lock)
        os.lseek(lock, 0, os.SEEK_SET)
        if not is_ours:
            holder = os.read(lock, 20).decode(errors="replace").strip() or "unknown"
            os.close(lock)
            raise Unavailable(
                f"Another broker (process {holder}) has the database {real}. Use that broker, stop it, or name another "
                "database.",
                database=str(real),
            )
        os.ftruncate(lock, 0)
        os.write(lock, str(os.getpid()).encode())
        self._lock = lock

    def unlock(self) -> None:
        """Let others have it; twice is safe."""
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def fold(self) -> None:
        """Move what the log has into the file, and end the log, while no broker has it; a damaged one stays as it is.

        Raises:
            Unavailable: Somebody reads the database.
        """
        try:
            with closing(sqlite3.connect(self.path)) as connection:
                connection.execute("PRAGMA journal_mode = DELETE")
        except sqlite3.OperationalError as exc:
            raise Unavailable(
                f"Another program has the database {self.path} open ({exc}). End it, then try again.",
                database=str(self.path),
            ) from exc
        except sqlite3.DatabaseError:
            return

    def remember(self) -> None:
        """Take the files as they are now for the database; its log may be recreated from here on."""
        self._known = self._known or _identity(self._name)
        self._known_log = None

    def trouble(self) -> str | None:
        """Why nothing may be read or written: what others did to the files meanwhile; None if all is well."""
        if self._known is None:
            return None
        if _identity(self._name) != self._known:
            return (
                f"The database {self.path} was removed, replaced or emptied under the broker, which does nothing until"
                " it is back. Put the same file back, or stop the broker, restore a copy and start it again."
            )
        log = _identity(self._log_name, is_empty_too=True)
        if self._known_log is None:
            self._known_log = log
        elif log != self._known_log:
            return (
                f"{self.log_path} was removed or replaced under the broker, and the newest writes are in it. Stop the"
                " broker with 'tandem down', which saves them, and start it again."
            )
        return None


def _identity(name: str, *, is_empty_too: bool = False) -> _Identity | None:
    """Which file has the name; None if none has, or an empty one that should not be."""
    try:
        found = os.stat(name)  # noqa: PTH116 it stands before every transaction, and costs half of `Path.stat`
    except OSError:
        return None
    return (found.st_dev, found.st_ino) if found.st_size or is_empty_too else None

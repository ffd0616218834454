"""SQLite: one thread that writes, a few that read, all of them with connections of their own.

Only the writer's connection writes and checkpoints: SQLite before 3.51.3 can damage its write-ahead log
when several connections do.
"""

from __future__ import annotations

import os
import sqlite3
from contextlib import asynccontextmanager, closing
from typing import TYPE_CHECKING, Final, Literal

from tandem.errors import ConfigInvalid, TandemError, Unavailable
from tandem.store.base import Store
from tandem.store.schema import SQLITE_WORDS
from tandem.store.sqlite_file import DatabaseFile
from tandem.store.sqlite_unit import SqliteUnit, legible, translated
from tandem.store.writer import WAL_LIMIT_BYTES, Writer

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator
    from pathlib import Path

    from tandem.store.event import Seal
    from tandem.store.jobs import Job
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
        # The readers first: the writer can empty the write-ahead log only when nobody reads it.
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
    """Make the file, and its folder when there is none, for nobody but this user.

    A folder that exists keeps its permissions: it may be shared on purpose.

    Raises:
        OSError: They cannot be made.
    """
    if not path.parent.exists():
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    # SQLite gives its log and its index the permissions of the database.
    os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
    path.chmod(0o600)

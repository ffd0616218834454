"""The file of a SQLite database: whose it is, and whether it is still there."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

from tandem.core import platforms
from tandem.errors import ConfigInvalid, Unavailable

if TYPE_CHECKING:
    from pathlib import Path

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

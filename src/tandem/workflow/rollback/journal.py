"""What a rollback is at, written down before it is done, so that a later one can finish or tidy up after a crash."""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tandem import platforms
from tandem.errors import Unavailable

FILE = "rollback.json"
_VERSION = 1


@dataclass(frozen=True, slots=True)
class Entry:
    """A rollback under way.

    Attributes:
        review_id: What is rolled back.
        root: The working tree it is for.
        branch: The branch that will move.
        scratch: The folder of the scratch worktree.
        head_before: Where the branch is.
        head_after: Where it goes; null as long as nothing of the branch, the index or the working tree is touched.
        at: When publishing began, in seconds since the epoch.
        report: What is told once that is done, as JSON values.
    """

    review_id: str
    root: str
    branch: str
    scratch: str
    head_before: str
    head_after: str | None = None
    at: float = 0
    report: Mapping[str, Any] = field(default_factory=dict[str, Any])


class Journal:
    """The one entry of a repository; whoever has the lock may use it."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / FILE

    def read(self) -> Entry | None:
        """The rollback that was under way when its process ended; null if none was.

        Raises:
            Unavailable: It cannot be read.
        """
        try:
            facts: dict[str, Any] = json.loads(self._path.read_bytes())
            if facts.pop("version") == _VERSION:
                return Entry(**facts)
        except FileNotFoundError:
            return None
        except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
            raise self._unreadable() from error
        raise self._unreadable()

    def write(self, entry: Entry) -> None:
        """Keeps an entry; it survives a crash from here on.

        Raises:
            Unavailable: It cannot be written.
        """
        facts = {name: getattr(entry, name) for name in Entry.__slots__}
        fresh = self._path.with_name(f"{FILE}.{secrets.token_hex(4)}")
        try:
            with fresh.open("wb") as file:
                file.write(json.dumps({"version": _VERSION, **facts}).encode())
                file.flush()
                platforms.flush_file(file.fileno())
            fresh.replace(self._path)
            platforms.flush_folder(str(self._path.parent))
        except OSError as error:
            fresh.unlink(missing_ok=True)
            raise Unavailable(f"{self._path} cannot be written: {error.strerror}. Nothing was changed.") from error

    def clear(self) -> None:
        """Forgets the entry; twice is safe."""
        self._path.unlink(missing_ok=True)
        for left in self._path.parent.glob(f"{FILE}.*"):
            left.unlink(missing_ok=True)

    def _unreadable(self) -> Unavailable:
        return Unavailable(
            f"{self._path} is not what a rollback writes, so that nobody knows what one was at. Look at `git status`,"
            f" then remove {os.fspath(self._path)} and run this again.",
            path=str(self._path),
        )

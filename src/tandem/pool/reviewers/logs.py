"""The logs of this machine's reviewers: each is written by its worker, and read by the person who looks after them.

They hold what programs write, and between that the worker's own lines, which are made of ids, numbers and words of
ours: no prompt, no environment, no secret.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_LOG: Final = re.compile(r"(?P<id>(?P<name>[a-z][a-z0-9-]*-r[0-9]+)-[0-9A-Za-z]+)\.log")


@dataclass(frozen=True, slots=True)
class Log:
    """One reviewer's log.

    Attributes:
        path: The file that it is written to now.
        reviewer_id: Whose it is.
        name: What that reviewer is called for short.
    """

    path: Path
    reviewer_id: str
    name: str

    def written_at(self) -> float:
        """When something was added last, seconds since the epoch; 0 if it is gone."""
        try:
            return self.path.stat().st_mtime
        except OSError:
            return 0.0


def logs_in(folder: Path) -> list[Log]:
    """The logs of a folder; none if there is no such folder."""
    try:
        paths = list(folder.iterdir())
    except OSError:
        return []
    named = ((path, found) for path in paths if (found := _LOG.fullmatch(path.name)))
    return [Log(path, found["id"], found["name"]) for path, found in named if path.is_file() and not path.is_symlink()]


def newest(folder: Path, reviewer: str | None) -> Log | None:
    """The newest log of a reviewer by its id or name, or of all: the name that was asked for never becomes a path."""
    fitting = [log for log in logs_in(folder) if reviewer is None or reviewer in {log.reviewer_id, log.name}]
    return max(fitting, key=Log.written_at, default=None)

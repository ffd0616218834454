"""Who a supervisor is: a secret that stays the same from start to start, and the right to be the only one with it.

    <data>/reviewers/supervisor.json   the secret, and the number of the folder that it was made in
    <data>/reviewers/supervisor.lock   empty; locked by the one that runs, also when it is killed

The id is made from the secret, which each call shows: no other caller can use it. The copy of a folder has another
number, and is another supervisor. The id lets the broker know whose earlier starts held reviews; the incarnation tells
the starts apart.
"""

from __future__ import annotations

import json
import logging
import os
import re
import secrets
from pathlib import Path
from typing import Any, Final, cast

from tandem.core import files, platforms
from tandem.errors import ConfigInvalid, Unavailable
from tandem.pool.rules import supervisor_id

FOLDER: Final = "reviewers"
"""Below the data folder: what belongs to the supervisor."""

_FILE = "supervisor.json"
_LOCK = "supervisor.lock"
_SECRET = re.compile(r"[0-9a-f]{64}")
_SECRET_BYTES = 32
_log = logging.getLogger("tandem.supervisor")


class SupervisorIdentity:
    """The one supervisor of a data folder, between `take` and `release`.

    Attributes:
        folder: The supervisor's own folder, private to the user.
        secret: What shows the broker who calls; empty before `take`.
    """

    def __init__(self, data_dir: Path) -> None:
        self.folder = data_dir / FOLDER
        self.secret = ""
        self._lock = -1

    @property
    def supervisor_id(self) -> str:
        """Its id; empty before `take`."""
        return supervisor_id(self.secret) if self.secret else ""

    def take(self) -> None:
        """Takes the right to be the supervisor; makes the secret if there is none yet. Blocks for the disk.

        Raises:
            Unavailable: Another supervisor runs on the folder.
            ConfigInvalid: The folder cannot be used.
        """
        try:
            self._lock = _take_lock(self.folder)
            self.secret = _load_or_make(self.folder / _FILE)
        except OSError as error:
            self.release()
            raise ConfigInvalid(
                f"The supervisor's folder {self.folder} cannot be used: {error.strerror or error}. Give the user access"
                " to it, or choose another data folder with --data-dir.",
                setting="data_dir",
            ) from error

    def release(self) -> None:
        """Gives the right up; twice is safe."""
        if self._lock >= 0:
            platforms.unlock_file(self._lock)
            os.close(self._lock)
            self._lock = -1


def _take_lock(folder: Path) -> int:
    platforms.make_private(str(folder))
    lock = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT, 0o600)
    if platforms.lock_file(lock):
        return lock
    os.close(lock)
    raise Unavailable(
        f"Another supervisor of reviewers runs on {folder}. Stop it first, or give this one another data folder"
        " with --data-dir.",
        folder=str(folder),
    )


def _load_or_make(file: Path) -> str:
    found = _read(file)
    if found is not None:
        return found
    made = secrets.token_hex(_SECRET_BYTES)
    files.write_atomically(file, json.dumps({"secret": made, "folder": _number(file.parent)}).encode() + b"\n")
    return made


def _read(file: Path) -> str | None:
    try:
        content = json.loads(file.read_bytes())
    except FileNotFoundError:
        return None
    except ValueError:
        content = None
    known = cast("dict[str, Any]", content) if isinstance(content, dict) else {}
    stated = known.get("secret")
    if isinstance(stated, str) and _SECRET.fullmatch(stated) and known.get("folder") == _number(file.parent):
        return stated
    # What its reviewers hold comes back when their leases end, which is no reason to stay down.
    _log.warning("%s does not hold the secret of a supervisor of this folder; a new one is made", file)
    return None


def _number(folder: Path) -> int:
    """What tells a folder from its copy."""
    return folder.stat().st_ino

"""Starting the broker in the background."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

from tandem.bridge.keys import without_secrets

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tandem.bridge.broker import Platform

_START_LOG = os.path.join("logs", "start.log")
_LOG_LIMIT_BYTES = 1_000_000
_LAST_WORDS_LINES = 20


class Launch:
    """A broker that was started, and what it says until it speaks through its log.

    Attributes:
        process: The child; ended with a status other than 0 if it gave up.
    """

    def __init__(self, process: subprocess.Popen[bytes], log: str, offset: int) -> None:
        self.process = process
        self.log = log
        self._offset = offset

    def last_words(self) -> str:
        """The end of what it had to say, at most twenty lines."""
        try:
            with open(self.log, "rb") as file:
                file.seek(self._offset)
                lines = file.read().decode(errors="replace").strip().splitlines()
        except OSError:
            return ""
        return "\n".join(lines[-_LAST_WORDS_LINES:])


def start(data_dir: str, platform: Platform, options: Sequence[str] = ()) -> Launch:
    """Start `tandem up` so that it outlives this process; does not wait for it.

    Two at once do no harm: the instance lock lets one of them through.

    Args:
        data_dir: The broker's data folder; created if need be.
        platform: What differs between operating systems.
        options: Further options of `tandem up`.

    Raises:
        OSError: The folder cannot be written, or the process cannot be started.
    """
    platform.make_private(data_dir)
    path = os.path.join(data_dir, _START_LOG)
    platform.make_private(os.path.dirname(path))
    # -P, and the folder: else Python would import modules that stand in the repository we run in.
    command = [sys.executable, "-P", "-m", "tandem", "up", "--data-dir", data_dir, *options]
    with open(path, "ab") as log:
        offset = log.seek(0, os.SEEK_END)
        if offset > _LOG_LIMIT_BYTES:
            offset = log.truncate(0)
        process = subprocess.Popen[bytes](
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd=data_dir,
            env=without_secrets(),
            **platform.detached(),
        )
    return Launch(process, path, offset)

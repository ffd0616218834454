"""Where the broker is, and how to bring it back when it is not there."""

from __future__ import annotations

import os
import threading
import time
from typing import TYPE_CHECKING

from tandem.bridge.credentials import stated_token, without_secrets
from tandem.bridge.http import client_of
from tandem.bridge.location import locate
from tandem.core import platforms
from tandem.errors import Unavailable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tandem.bridge.http import HttpClient
    from tandem.bridge.location import HttpFailure


HANG_SECONDS = 5.0
"""How long a request outlasts a broker that is suspended or has lost its data folder: it does not come back by itself.
"""

_LONGEST_PAUSE_SECONDS = 8.0
_PROOF_SECONDS = 2.0
"""A client waits for the first answer of `tandem mcp`; who proves nothing in time is asked again."""

_START_LOG = os.path.join("logs", "start.log")
_LOG_LIMIT_BYTES = 1_000_000
_LAST_WORDS_LINES = 20


class Launch:
    """A broker that was started, and its output until it writes its log.

    Attributes:
        pid: The process; ended if it gave up.
        log: The file that has its words.
    """

    def __init__(self, pid: int, log: str, offset: int) -> None:
        self.pid = pid
        self.log = log
        self._offset = offset

    def has_ended(self) -> bool:
        """Whether it gave up."""
        return platforms.has_ended(self.pid)

    def last_words(self) -> str:
        """The end of its output, at most twenty lines."""
        try:
            with open(self.log, "rb") as file:
                file.seek(self._offset)
                lines = file.read().decode(errors="replace").strip().splitlines()
        except OSError:
            return ""
        return "\n".join(lines[-_LAST_WORDS_LINES:])


def start_log(data_dir: str) -> str:
    """The file for what a broker says before its own log begins; its folder is made if need be.

    Raises:
        OSError: It cannot be made.
    """
    path = os.path.join(data_dir, _START_LOG)
    for folder in (data_dir, os.path.dirname(path)):
        platforms.make_private(folder)
    return path


AUTOMATIC = ("--any-port",)
"""The options of a start that no person asked for: clients find the broker by its data folder, at any port."""


def start_broker(
    data_dir: str, options: Sequence[str] = AUTOMATIC, environment: dict[str, str] | None = None
) -> Launch:
    """Start `tandem up` so that it outlives this process; does not wait for it.

    Two at once do no harm: the instance lock lets one of them through, and the others end once it is ready.

    Args:
        data_dir: The broker's data folder; created if need be.
        options: Further options of `tandem up`.
        environment: Its variables; None for this process's own without secrets.

    Raises:
        OSError: The folder cannot be written, or the process cannot be started.
    """
    path = start_log(data_dir)
    # -P, and the folder: else Python would import modules that stand in the repository we run in.
    command = ["-P", "-m", "tandem", "up", "--unless-running", "--data-dir", data_dir, *options]
    with open(path, "ab") as log:
        offset = log.seek(0, os.SEEK_END)
        if offset > _LOG_LIMIT_BYTES:
            offset = log.truncate(0)
        return Launch(platforms.start_detached(command, data_dir, environment or without_secrets(), log), path, offset)


class BrokerLocator:
    """The broker that requests go to, however often it is restarted. Safe to share between threads.

    Attributes:
        client: Requests to where the broker is, as far as is known; None if none is known.
    """

    def __init__(self, stated_url: str | None, folder: str | None = None) -> None:
        """Choose the broker; nothing is contacted yet.

        Args:
            stated_url: The broker that the user named; it is then never started from here, because
                its data folder is unknown.
            folder: Where the agent works, for the record of its repository.

        Raises:
            ValueError: `stated_url` is not a URL, or what `TANDEM_TOKEN` holds is no token.
        """
        # Here, so that later a URL is all that can be wrong.
        stated_token()
        self._stated_url = stated_url
        self._folder = folder
        self._lock = threading.Lock()
        self.client = self._locate()
        self._starting: Launch | None = None
        self._pause_seconds = 0.5
        self._next_start = 0.0
        self._trouble = ""

    def revive(self, failed: HttpClient | None) -> None:
        """Look again where the broker is after `failed` did not reach it, and start one if it may be started."""
        with self._lock:
            if failed is not self.client:
                return
            found = self._locate()
            if found is not None and (failed is None or found.url != failed.url):
                self.client = found
            elif self._location.is_own:
                self._start_if_due()

    def answered(self) -> None:
        """The broker is there: the next outage is a new one."""
        self._pause_seconds = 0.5
        self._trouble = ""

    def is_stuck(self, failure: HttpFailure, missed_seconds: float) -> bool:
        """Whether it runs, and a person has to end it before another one can take its place.

        Args:
            failure: How it was missed.
            missed_seconds: Since when requests have failed.
        """
        location = self._location
        return location.hangs(failure) or (missed_seconds > HANG_SECONDS and location.blocker() is not None)

    def refusal(self, failure: HttpFailure) -> Unavailable:
        """The error for a request that found no broker."""
        where = f" at {self.client.url}" if self.client else ""
        advice = self._location.advice(failure)
        trouble = f" The last attempt to start it said: {self._trouble}" if self._trouble else ""
        facts = {"broker": self.client.url if self.client else None, "from": self._location.origin}
        return Unavailable(f"The Tandem broker{where} cannot be reached: {failure}. {advice}.{trouble}", **facts)

    def _locate(self) -> HttpClient | None:
        found = self._location = locate(self._stated_url, self._folder)
        if found.url is None:
            return None
        return client_of(found, proof_seconds=_PROOF_SECONDS, asks_health=True)

    def _start_if_due(self) -> None:
        if self._starting is not None:
            if not self._starting.has_ended():
                return
            self._trouble = self._starting.last_words()
            self._starting = None
        if time.monotonic() < self._next_start:
            return
        self._next_start = time.monotonic() + self._pause_seconds
        self._pause_seconds = min(2 * self._pause_seconds, _LONGEST_PAUSE_SECONDS)
        try:
            self._starting = start_broker(self._location.data_dir)
        except OSError as error:
            self._trouble = str(error)

"""Where the broker is, and how to bring it back when it is not there."""

from __future__ import annotations

import os
import threading
import time
from typing import TYPE_CHECKING, Any

from tandem.bridge.credentials import Credentials, published, stated_token
from tandem.bridge.http import HttpClient, Target
from tandem.bridge.keys import without_secrets
from tandem.core import platforms

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tandem.bridge.http import HttpFailure


DEFAULT_URL = "http://127.0.0.1:8321"
_LONGEST_PAUSE_SECONDS = 8.0
_START_LOG = os.path.join("logs", "start.log")
_LOG_LIMIT_BYTES = 1_000_000
_LAST_WORDS_LINES = 20


def find_data_dir() -> str:
    """The broker's data folder: `TANDEM_DATA_DIR`, the user's configuration file, the default."""
    return stated_data_dir() or platforms.data_dir()


def stated_data_dir() -> str | None:
    """The data folder that the user chose; null if it is the default."""
    stated = os.environ.get("TANDEM_DATA_DIR") or _configured_data_dir()
    return os.path.abspath(os.path.expanduser(stated)) if stated else None


def _configured_data_dir() -> str | None:
    folder = os.environ.get("TANDEM_CONFIG_DIR") or platforms.config_dir()
    try:
        with open(os.path.join(folder, "config.toml"), "rb") as file:
            import tomllib  # most users have no such file, and each start would pay for it

            stated = tomllib.load(file).get("data_dir")
    except (OSError, ValueError):
        # Absent, or wrong: the broker's own start reports the latter with its place.
        return None
    return stated if isinstance(stated, str) else None


def published_url(data_dir: str) -> str | None:
    """The URL that the running broker left in its data folder; null if none did."""
    found = published(data_dir)
    return None if found is None else found.url


class Launch:
    """A broker that was started, and what it says until it speaks through its log.

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
        """The end of what it had to say, at most twenty lines."""
        try:
            with open(self.log, "rb") as file:
                file.seek(self._offset)
                lines = file.read().decode(errors="replace").strip().splitlines()
        except OSError:
            return ""
        return "\n".join(lines[-_LAST_WORDS_LINES:])


def start_broker(data_dir: str, options: Sequence[str] = ()) -> Launch:
    """Start `tandem up` so that it outlives this process; does not wait for it.

    Two at once do no harm: the instance lock lets one of them through.

    Args:
        data_dir: The broker's data folder; created if need be.
        options: Further options of `tandem up`.

    Raises:
        OSError: The folder cannot be written, or the process cannot be started.
    """
    platforms.make_private(data_dir)
    path = os.path.join(data_dir, _START_LOG)
    platforms.make_private(os.path.dirname(path))
    # -P, and the folder: else Python would import modules that stand in the repository we run in.
    command = ["-P", "-m", "tandem", "up", "--data-dir", data_dir, *options]
    with open(path, "ab") as log:
        offset = log.seek(0, os.SEEK_END)
        if offset > _LOG_LIMIT_BYTES:
            offset = log.truncate(0)
        return Launch(platforms.start_detached(command, data_dir, without_secrets(), log), path, offset)


class BrokerLocator:
    """The broker that requests go to, however often it is restarted. Safe to share between threads."""

    def __init__(self, stated_url: str | None) -> None:
        """Choose the broker; nothing is contacted yet.

        Args:
            stated_url: The broker that the user named; it is then never started from here, because
                nobody knows with which data.

        Raises:
            ValueError: `stated_url` is not a URL, or what `TANDEM_TOKEN` holds is no token.
        """
        # Here, so that later a URL is all that can be wrong.
        stated_token()
        self._stated_url = stated_url
        chosen = None if stated_url else stated_data_dir()
        self._data_dir = chosen or platforms.data_dir()
        # Whoever listens at the usual port has other data than the user chose.
        self._usual_url = None if chosen else DEFAULT_URL
        self._lock = threading.Lock()
        self._client = self._locate()
        self._starting: Launch | None = None
        self._pause_seconds = 0.5
        self._next_start = 0.0
        self._trouble = ""

    @property
    def client(self) -> HttpClient | None:
        """Requests to where the broker is, as far as is known; null if none is known."""
        return self._client

    def revive(self, failed: HttpClient | None) -> None:
        """Look again where the broker is after `failed` did not reach it, and start one if it may be started."""
        with self._lock:
            if failed is not self._client:
                return
            found = self._locate()
            if found is not None and (failed is None or found.target.url != failed.target.url):
                self._client = found
            elif self._stated_url is None:
                self._start_if_due()

    def answered(self) -> None:
        """The broker is there: the next outage is a new one."""
        self._pause_seconds = 0.5
        self._trouble = ""

    def refusal(self, failure: HttpFailure) -> dict[str, Any]:
        """The envelope's error for a request that found no broker."""
        where = f" at {self._client.target.url}" if self._client else ""
        advice = "Is it running?" if self._stated_url else "Start it with 'tandem up --background', then call again."
        trouble = f" The last attempt to start it said: {self._trouble}" if self._trouble else ""
        return {
            "code": "UNAVAILABLE",
            "message": f"The Tandem broker{where} cannot be reached: {failure}. {advice}{trouble}",
            "details": {"broker": self._client.target.url if self._client else None},
            "retryable": True,
        }

    def _locate(self) -> HttpClient | None:
        if self._stated_url is not None:
            return self._client_of(self._stated_url)
        for url in (published_url(self._data_dir), self._usual_url):
            try:
                if url is not None:
                    return self._client_of(url)
            except ValueError:
                # Edited by hand: as good as none.
                continue
        return None

    def _client_of(self, url: str) -> HttpClient:
        return HttpClient(Target(url), credentials=Credentials(url, self._published_in))

    def _published_in(self) -> str:
        """Where a broker of this user leaves its token, also for one that was named by its URL."""
        return self._data_dir if self._stated_url is None else find_data_dir()

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
            self._starting = start_broker(self._data_dir)
        except OSError as error:
            self._trouble = str(error)

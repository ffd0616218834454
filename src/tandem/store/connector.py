"""Connections to PostgreSQL: how they are set up, and what happens while there is no server."""

from __future__ import annotations

import json
import threading
import time
from typing import Any, Final, Literal, LiteralString

import psycopg
from psycopg.conninfo import conninfo_to_dict

from tandem.errors import ConfigInvalid, Unavailable
from tandem.store.pipeline import Pipeline

MINIMUM_VERSION: Final = 130_000
TIMEOUT_SECONDS: Final = 3
"""How long a connection may take to be made, and then the server to answer what takes no time."""
FAIL_FAST_SECONDS: Final = 0.25
"""After a connection could not be made, the next ones are refused for that long without trying."""

_DEFAULTS: Final = {
    "application_name": "tandem",
    "connect_timeout": TIMEOUT_SECONDS,
    # A host that vanished without a word is noticed within seconds, not hours.
    "keepalives_idle": 10,
    "keepalives_interval": 3,
    "keepalives_count": 3,
    "tcp_user_timeout": 10_000,
}
# Units are short and have nothing to wait for; what takes longer is a fault, and holds up others. A broker that was
# paused within one holds up everybody who has to be alone, and who gives up after the time for a lock.
_SETTINGS: Final = {
    "lock_timeout": "10s",
    "statement_timeout": "30s",
    "idle_in_transaction_session_timeout": "5s",
    # The server, too, is to notice within seconds that a broker's machine has vanished, which may hold locks.
    "tcp_keepalives_idle": "10",
    "tcp_keepalives_interval": "3",
    "tcp_keepalives_count": "3",
    "tcp_user_timeout": "10s",
}
_SET_UP: Final = "SELECT set_config(key, value, false) FROM json_each_text($1::json)"
_COMMIT_WAITS: Final[dict[str, LiteralString]] = {
    "normal": "SET synchronous_commit = off",
    # Only lifted where it is off: a server that waits for its copies is to go on doing so.
    "full": "SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'",
}


class Connector:
    """Makes connections that are alike, and remembers for a moment that none could be made."""

    def __init__(self, url: str, durability: Literal["full", "normal"]) -> None:
        try:
            given = conninfo_to_dict(url)
        except psycopg.Error:
            # Without the driver's reason, which may quote the URL, and with it a password.
            raise ConfigInvalid("the database's URL cannot be read", setting="database_url") from None
        self._parameters: dict[str, Any] = {**_DEFAULTS, **given}
        self._durability = durability
        self._lock = threading.Lock()
        self._down_until = 0.0
        self._reason = ""

    def connect(self) -> Pipeline:
        """A fresh connection.

        Raises:
            Unavailable: The server does not answer, or refuses.
        """
        with self._lock:
            if time.monotonic() < self._down_until:
                raise Unavailable(self._reason)
        try:
            made = Pipeline(psycopg.connect(**self._parameters, autocommit=True, client_encoding="utf8"))
            made.ask((_SET_UP, json.dumps(_SETTINGS)), (_COMMIT_WAITS[self._durability],), seconds=TIMEOUT_SECONDS)
        except psycopg.Error as exc:
            with self._lock:
                self._reason = f"PostgreSQL cannot be reached; is it running? ({exc})"
                self._down_until = time.monotonic() + FAIL_FAST_SECONDS
            raise Unavailable(self._reason) from exc
        return made

    def check(self, connection: psycopg.Connection[Any]) -> None:
        """Refuse a server that cannot run our statements.

        Raises:
            ConfigInvalid: It is older than PostgreSQL 13.
        """
        version = connection.info.server_version
        if version < MINIMUM_VERSION:
            raise ConfigInvalid(
                f"the server is PostgreSQL {version // 10_000}, and 13 or newer is needed", setting="database_url"
            )

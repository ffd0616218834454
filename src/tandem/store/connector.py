"""Connections to PostgreSQL: how they are set up, what happens while there is no server, and advisory locks by them."""

from __future__ import annotations

import asyncio
import hashlib
import json
import threading
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
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


class AdvisoryLocks:
    """The locks that this node holds, each by a connection of its own: it ends with this process at the latest."""

    def __init__(self, connector: Connector) -> None:
        self._connector = connector
        self._guard = threading.Lock()
        self._holders: set[Pipeline] = set()
        self._ended = False

    @asynccontextmanager
    async def hold(self, name: str) -> AsyncGenerator[bool]:
        """Whether the lock was free, and is ours within the block.

        Raises:
            Unavailable: The server does not answer, or the store was closed.
        """
        attempt = asyncio.ensure_future(asyncio.to_thread(self._try, name))
        try:
            holder = await asyncio.shield(attempt)
        except asyncio.CancelledError:
            attempt.add_done_callback(self._release_unused)
            raise
        try:
            yield holder is not None
        finally:
            if holder is not None:
                await asyncio.shield(asyncio.to_thread(self._release, holder))

    def end(self) -> None:
        """Let go of every lock; there are no more from then on."""
        with self._guard:
            self._ended = True
            holders, self._holders = self._holders, set()
        for holder in holders:
            holder.close()

    def _try(self, name: str) -> Pipeline | None:
        holder = self._connector.connect()
        key = int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], signed=True)
        try:
            [answer] = holder.ask(("SELECT pg_try_advisory_lock($1::bigint)", key), seconds=TIMEOUT_SECONDS)
        except psycopg.Error as exc:
            raise Unavailable(f"PostgreSQL gave no lock; try again ({exc})") from exc
        if holder.rows(answer) != [(True,)]:
            holder.close()
            return None
        with self._guard:
            if not self._ended:
                self._holders.add(holder)
                return holder
        holder.close()
        raise Unavailable("the database is not open: the broker is ending")

    def _release(self, holder: Pipeline) -> None:
        with self._guard:
            self._holders.discard(holder)
        # Said before the connection ends: the server notices an end some time after `close` returns, and whoever
        # asks next would find the lock still held. A broken connection has none, nor has one that `end` closes.
        with suppress(psycopg.Error, ValueError):
            holder.ask(("SELECT pg_advisory_unlock_all()",), seconds=TIMEOUT_SECONDS)
        holder.close()

    def _release_unused(self, attempt: asyncio.Future[Pipeline | None]) -> None:
        """Let go of a lock that came when nobody waited for it any more."""
        if not attempt.cancelled() and attempt.exception() is None and (holder := attempt.result()) is not None:
            # The event loop calls this, and a server that is silent would hold it up.
            attempt.get_loop().run_in_executor(None, self._release, holder)

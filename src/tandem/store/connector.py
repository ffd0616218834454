"""Connections to PostgreSQL, what happens while there is no server, advisory locks, and the news of other nodes."""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import selectors
import socket
import threading
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, Final, Literal, LiteralString

import psycopg
from psycopg.conninfo import conninfo_to_dict

from tandem.errors import ConfigInvalid, TandemError, Unavailable
from tandem.store.base import REREAD, Row
from tandem.store.pipeline import Pipeline

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tandem.store.jobs import Completions


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
    # The server, too, must notice within seconds that a broker's machine has vanished, which may hold locks.
    "tcp_keepalives_idle": "10",
    "tcp_keepalives_interval": "3",
    "tcp_keepalives_count": "3",
    "tcp_user_timeout": "10s",
}
_SET_UP: Final = "SELECT set_config(key, value, false) FROM json_each_text($1::json)"
_COMMIT_WAITS: Final[dict[str, LiteralString]] = {
    "normal": "SET synchronous_commit = off",
    # Only lifted where it is off: a server that waits for its replicas must go on doing so.
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
        # Said before the connection ends: the server notices an end some time after `close` returns, and the next
        # to ask would find the lock still held. A broken connection has none, nor has one that `end` closes.
        with suppress(psycopg.Error, ValueError):
            holder.ask(("SELECT pg_advisory_unlock_all()",), seconds=TIMEOUT_SECONDS)
        holder.close()

    def _release_unused(self, attempt: asyncio.Future[Pipeline | None]) -> None:
        """Release a lock that was granted after its waiter had gone."""
        if not attempt.cancelled() and attempt.exception() is None and (holder := attempt.result()) is not None:
            # The event loop calls this, and a server that is silent would hold it up.
            attempt.get_loop().run_in_executor(None, self._release, holder)


CHANNEL: Final = "tandem_events"
_FIRST_PAUSE_SECONDS: Final = 0.1
_LONGEST_PAUSE_SECONDS: Final = 5.0
_MOST_WORDS: Final = 100
"""Of a notice, which PostgreSQL takes up to 8,000 bytes. The rest is found in the log a little later."""

_log = logging.getLogger(__name__)


def notice_of(node: str, place: int, subjects: Iterable[str]) -> str:
    """What a node tells the others: up to which place in the log there are events, and of which reviews some are."""
    words = [f"{place:d}", node, *(subject for subject in subjects if ":" not in subject)]
    return " ".join(words[:_MOST_WORDS])


class Listener:
    """A thread with a connection that does nothing but LISTEN, and finds its way back when it is cut."""

    def __init__(self, connector: Connector, delivery: Completions, node: str) -> None:
        self._connector = connector
        self._delivery = delivery
        self._node = node
        self._ending = threading.Event()
        self._connection: psycopg.Connection[Row] | None = None

    def open(self) -> None:
        """Begin to listen, so that nothing is missed from here on.

        Raises:
            Unavailable: The server does not answer.
        """
        self._connection = self._listen()
        # A thread that waits for the server can only be woken through something else that it waits for.
        self._wake, self._woken = socket.socketpair()

    def end(self) -> None:
        """Tell the thread to end; from any thread."""
        # In this order: a thread that sees `_ending` closes the socket.
        self._wake.send(b"\0")
        self._ending.set()

    def run(self) -> None:
        """Pass notices on until `end`; the body of the listener's thread."""
        pause_seconds = _FIRST_PAUSE_SECONDS
        while not self._ending.is_set():
            try:
                if self._connection is None:
                    self._connection = self._listen()
                    # Notices sent before this connection listened are lost.
                    self._delivery.deliver((), REREAD)
                pause_seconds = _FIRST_PAUSE_SECONDS
                self._hear(self._connection)
            except (psycopg.Error, OSError, TandemError) as exc:
                self._drop()
                if not self._ending.is_set():
                    _log.warning("no word from PostgreSQL, next try in %.1f s: %s", pause_seconds, exc)
                    self._ending.wait(pause_seconds)
                    pause_seconds = min(2 * pause_seconds, _LONGEST_PAUSE_SECONDS)
        self._drop()
        self._wake.close()
        self._woken.close()

    def _listen(self) -> psycopg.Connection[Row]:
        made = self._connector.connect()
        made.ask((f"LISTEN {CHANNEL}",), seconds=TIMEOUT_SECONDS)
        return made.end()

    def _hear(self, connection: psycopg.Connection[Row]) -> None:
        with selectors.DefaultSelector() as selector:
            selector.register(connection.fileno(), selectors.EVENT_READ)
            selector.register(self._woken, selectors.EVENT_READ)
            while not self._ending.is_set():
                # A burst is one wake-up: the highest number says it all.
                place, subjects = 0, set[str]()
                for note in connection.notifies(timeout=0):
                    number, node, *about = (*note.payload.split(" "), "")
                    if node != self._node and number.isdecimal():
                        place = max(place, int(number))
                        subjects.update(about)
                if place:
                    self._delivery.deliver((), place, subjects)
                selector.select()

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

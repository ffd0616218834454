"""PostgreSQL's advisory locks: which node does a chore that only one is to do at a time."""

from __future__ import annotations

import asyncio
import hashlib
import threading
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING

import psycopg

from tandem.errors import Unavailable
from tandem.store.connector import TIMEOUT_SECONDS

if TYPE_CHECKING:
    from tandem.store.connector import Connector
    from tandem.store.pipeline import Pipeline


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

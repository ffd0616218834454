"""PostgreSQL: threads with a connection each, and a listener for what other nodes have committed."""

from __future__ import annotations

import uuid
from functools import partial
from typing import TYPE_CHECKING, Literal

import psycopg
from sqlalchemy import BigInteger, cast, func, select

from tandem.errors import Unavailable
from tandem.store.base import Store
from tandem.store.connector import AdvisoryLocks, Connector, Listener
from tandem.store.jobs import WorkQueue
from tandem.store.postgres_unit import READING, Node, translated
from tandem.store.postgres_worker import PostgresWorker
from tandem.store.schema import POSTGRESQL_WORDS
from tandem.store.statement import Statement

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from tandem.store.event import Seal
    from tandem.store.schema import Schema

_NOW = Statement(select(cast(func.extract("epoch", func.clock_timestamp()) * 1_000_000, BigInteger)))


class PostgresStore(Store):
    """A store that any number of brokers share."""

    dialect = "postgresql"

    def __init__(
        self, url: str, schema: Schema, *, durability: Literal["full", "normal"], readers: int, seal: Seal
    ) -> None:
        super().__init__(seal)
        self._schema = schema
        self._connector = Connector(url, durability)
        self._locks = AdvisoryLocks(self._connector)
        self._node = Node(uuid.uuid4().hex, seal)
        self._listener = Listener(self._connector, self._delivery, self._node.name)
        # One for all that share transactions: with more of them, each would take fewer units into its own.
        self._alone = WorkQueue()
        self._queues.insert(0, self._alone)
        worker = partial(PostgresWorker, self._node, self._connector, self._delivery)
        writers = [worker(self._writes, rest=self._alone), worker(self._alone)]
        self._done += [one.done for one in writers]
        self._workers = [*writers, *(worker(self._reads, beginnings=(READING, READING)) for _ in range(readers))]

    def _inbox_of(self, works_on: tuple[str, ...]) -> WorkQueue:
        return self._writes if works_on else self._alone

    def settle(self, place: int) -> None:
        """See `Store`."""
        self._node.settled = max(self._node.settled, place)

    async def now_us(self) -> int | None:
        """See `Store`."""
        return await self.read(lambda unit: unit.value(_NOW))

    def advisory_lock(self, name: str) -> AbstractAsyncContextManager[bool]:
        """See `Store`."""
        return self._locks.hold(name)

    def _start(self) -> None:
        try:
            with self._connector.connect().end() as connection:
                self._connector.check(connection)
                self._schema.prepare(connection, POSTGRESQL_WORDS)
        except psycopg.Error as exc:
            raise Unavailable(f"PostgreSQL does not take the schema: {translated(exc)}") from exc
        self._listener.open()
        self._run_thread(self._listener.run, "tandem-store-listener")
        for number, worker in enumerate(self._workers):
            self._run_thread(worker.run, f"tandem-store-{number}")

    def _stop(self) -> None:
        self._reads.close(len(self._workers[2:]))
        self._writes.close(1)
        # It may still hand something on.
        self._threads[1].join()
        self._alone.close(1)
        for thread in self._threads[2:]:
            thread.join()
        self._locks.end()
        self._listener.end()
        self._threads[0].join()

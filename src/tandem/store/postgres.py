"""PostgreSQL: threads with a connection each, and a listener for what other nodes have committed."""

from __future__ import annotations

import uuid
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

import psycopg
from sqlalchemy import BigInteger, cast, func, select

from tandem.errors import Unavailable
from tandem.store.base import Store, StoreStatistics
from tandem.store.connector import AdvisoryLocks, Connector
from tandem.store.jobs import WorkQueue
from tandem.store.listener import Listener
from tandem.store.postgres_unit import ALONE, BESIDE_OTHERS, READING, Beginning, translated
from tandem.store.postgres_worker import Horizon, PostgresWorker
from tandem.store.statement import Statement
from tandem.store.tables import log_head

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from tandem.store.base import Unit
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
        self._node = uuid.uuid4().hex
        self._listener = Listener(self._connector, self._delivery, self._node)
        self._horizon = Horizon()
        # One for all that share transactions: with more of them, each would take fewer units into its own.
        self._alone = WorkQueue(self._writes.limit)
        self._writers = [
            self._worker(self._writes, ALONE, BESIDE_OTHERS, rest=self._alone),
            self._worker(self._alone, ALONE, BESIDE_OTHERS),
        ]
        self._readers = [self._worker(self._reads, READING, READING) for _ in range(readers)]

    def _worker(self, inbox: WorkQueue, *beginnings: Beginning, rest: WorkQueue | None = None) -> PostgresWorker:
        has_log = log_head.name in self._schema.metadata.tables
        alone, beside_others = (one if has_log else one._replace(place=None) for one in beginnings)
        return PostgresWorker(
            self._connector,
            inbox,
            self._delivery,
            beginnings=(alone, beside_others),
            horizon=self._horizon,
            node=self._node,
            seal=self._seal,
            rest=rest,
        )

    def _inbox_of(self, works_on: tuple[str, ...]) -> WorkQueue:
        return self._writes if works_on else self._alone

    def settle(self, place: int) -> None:
        """See `Store`."""
        self._horizon.place = max(self._horizon.place, place)

    async def now_us(self) -> int | None:
        """See `Store`."""

        def look(unit: Unit) -> int | None:
            row = unit.one_or_none(_NOW)
            return int(row[0]) if row is not None else None

        return await self.read(look)

    def advisory_lock(self, name: str) -> AbstractAsyncContextManager[bool]:
        """See `Store`."""
        return self._locks.hold(name)

    def _start(self) -> None:
        try:
            with self._connector.connect().end() as connection:
                self._connector.check(connection)
                self._schema.prepare_postgres(connection)
        except psycopg.Error as exc:
            raise Unavailable(f"PostgreSQL does not take the schema: {translated(exc)}") from exc
        self._listener.open()
        self._alone.open()
        self._run_thread(self._listener.run, "tandem-store-listener")
        for number, worker in enumerate([*self._writers, *self._readers]):
            self._run_thread(worker.run, f"tandem-store-{number}")

    def _stop(self) -> None:
        self._reads.close(len(self._readers))
        self._writes.close(1)
        # It may still hand something on.
        self._threads[1].join()
        self._alone.close(1)
        for thread in self._threads[2:]:
            thread.join()
        self._locks.end()
        self._listener.end()
        self._threads[0].join()

    def statistics(self) -> StoreStatistics:
        """See `Store`."""
        counted = super().statistics()
        return replace(counted, waiting=counted.waiting + self._alone.waiting())

    def _counted(self) -> StoreStatistics:
        counted = [worker.statistics() for worker in self._writers]
        return StoreStatistics(
            units=sum(each.units for each in counted),
            commits=sum(each.commits for each in counted),
            failed=sum(each.failed for each in counted),
            dropped=sum(each.dropped for each in counted),
            repeated=sum(each.repeated for each in counted),
        )

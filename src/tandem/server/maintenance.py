"""Chores: leases that ran out, sessions that idle, checkpoints of the log, idempotency keys of yesterday."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine

from tandem.access import queries as access
from tandem.core.clock import MICROSECONDS
from tandem.cycles import sessions
from tandem.retention import Place, remove_contents
from tandem.reviews import claims
from tandem.reviews.context import Services
from tandem.store import events, log
from tandem.store.context import purge_keys

_log = logging.getLogger("tandem.maintenance")


class Maintenance:
    """Runs the chores while the broker is up; starting and stopping twice is safe.

    On several nodes an advisory lock lets one do the sweep at a time.
    """

    def __init__(
        self, services: Services, record: log.Record, *, sweep_seconds: float, checkpoint_seconds: float
    ) -> None:
        self._services = services
        self._record = record
        self._sweep_seconds = sweep_seconds
        self._checkpoint_seconds = checkpoint_seconds
        self._task: asyncio.Task[None] | None = None
        self._started_us = 0
        self._unwatched_us = 0
        self._removed_after = Place()

    async def start(self) -> None:
        """Recover first (leases that ran out while no broker ran), then keep sweeping."""
        if self._task is None:
            await self._begin_to_watch()
            await self._sweep()
            self._task = asyncio.create_task(self._run(), name="maintenance")

    async def stop(self) -> None:
        """End the chores and leave a checkpoint."""
        task, self._task = self._task, None
        if task is None:
            return
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await self._chore("checkpoint", self._checkpoint())

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        next_checkpoint = loop.time() + self._checkpoint_seconds
        while True:
            await asyncio.sleep(self._sweep_seconds)
            await self._chore("sweep", self._sweep())
            if loop.time() >= next_checkpoint:
                await self._chore("checkpoint", self._checkpoint())
                next_checkpoint = loop.time() + self._checkpoint_seconds

    @staticmethod
    async def _chore(name: str, work: Coroutine[None, None, None]) -> None:
        try:
            await work
        except Exception:  # noqa: BLE001 a chore's fault must not end the chores; it is logged
            _log.exception("the %s failed; it will be tried again", name)

    async def _begin_to_watch(self) -> None:
        """Take note of when the log was written to last."""
        await self._tell_time()
        newest = await self._services.store.read(lambda unit: events.list_newest(unit, 1))
        self._started_us = self._services.clock.now_us()
        self._unwatched_us = max(0, self._started_us - newest[-1].at) if newest else 0

    async def _tell_time(self) -> None:
        """Go by the database's time where several nodes share it: their own clocks differ."""
        now = await self._services.store.now_us()
        if now is not None:
            self._services.clock.adopt(now)

    async def _sweep(self) -> None:
        services = self._services
        await self._tell_time()
        async with services.store.advisory_lock("sweep") as granted:
            if granted:
                expired = await claims.expire(services)
                if expired:
                    _log.info("reclaimed %d reviews whose lease ran out", expired)
                ended = await sessions.end_idle(services)
                if ended:
                    _log.info("ended %d idle sessions", ended)
                self._removed_after = await remove_contents(services, self._removed_after)

    async def _checkpoint(self) -> None:
        services = self._services
        async with services.store.advisory_lock("checkpoint") as granted:
            if not granted:
                return
            now = services.clock.now_us()
            await log.cover(services.store, now, self._record)
            kept = round(services.policy.idempotency_ttl_seconds * MICROSECONDS)
            # Between the last event and this start a day may have passed, or a clock may have been set: neither
            # ages a key.
            oldest = now - kept - (self._unwatched_us if now - self._started_us < kept else 0)
            await services.store.write(lambda unit: purge_keys(unit, oldest))
            await services.store.write(lambda unit: access.purge_logins(unit, now))

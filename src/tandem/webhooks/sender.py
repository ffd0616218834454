"""Sends events to webhooks: at least once, and one after the other for each review.

The log is the outbox: it is written in the transaction of every change, so that this costs those nothing. A webhook
has a place in it; events behind that which it wants become deliveries in the transaction that moves the place.
One broker of a database sends, and another goes on where it stopped.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterable
from contextlib import suppress
from functools import partial
from typing import Final, NamedTuple

from tandem.core.clock import MICROSECONDS
from tandem.reviews.context import Services
from tandem.store import events
from tandem.store.base import Unit
from tandem.store.event import Event
from tandem.webhooks import posting, queries, rules
from tandem.webhooks.queries import Delivery
from tandem.webhooks.rules import Webhook

_log = logging.getLogger("tandem.webhooks")
LOCK: Final = "webhooks"
_TERM_SECONDS: Final = 300
"""After so long the sender asks for its lock again, which it may have lost with its connection.

Two senders would repeat messages, but keep the order: the database decides which is next.
"""
_AT_ONCE: Final = 4
"""Messages that are on their way to one receiver."""
_BATCH: Final = 200
_MOST_WAITING: Final = 10_000
"""Of one webhook; later events stay in the log until there is room."""
_FAILED_SECONDS: Final = 14 * 86_400
"""How long deliveries that were given up are shown."""


class _Work(NamedTuple):
    """The work for a webhook: events to take from the log, and deliveries to try."""

    webhook: Webhook
    found: list[Event]
    due: list[Delivery]
    next_try: int | None


class Sender:
    """The webhooks' sender of one broker."""

    def __init__(self, services: Services, *, standby_seconds: float) -> None:
        """Make it.

        Args:
            services: The services.
            standby_seconds: How often it looks though nothing told it to: for events, and whether it is its turn.
        """
        self._services = services
        self._standby_seconds = standby_seconds
        self._wake = asyncio.Event()
        self._under_way: set[tuple[str, str]] = set()
        self._seen: dict[str, int] = {}

    async def run(self) -> None:
        """Send until cancelled; waits for the first webhook to be there."""
        self._services.store.add_listener(lambda _notice, _subjects: self._wake.set())
        # On PostgreSQL what a notice tells of may be settled later only.
        self._services.waits.follow(self._hear)
        while True:
            await self._services.webhooks_wanted.wait()
            try:
                async with self._services.store.advisory_lock(LOCK) as granted:
                    if granted:
                        await self._send(time.monotonic() + _TERM_SECONDS)
                        continue
            except Exception:  # noqa: BLE001 - the sender survives every error; it is logged
                _log.exception("sending to webhooks failed; it goes on")
                # It may have failed before it knew whether there are any.
                self._services.webhooks_wanted.set()
            await asyncio.sleep(self._standby_seconds)

    async def _hear(self, _batch: list[Event]) -> None:
        self._wake.set()

    async def _send(self, until: float) -> None:
        """Send until a time, or until there are no webhooks."""
        self._seen.clear()
        self._under_way.clear()
        async with asyncio.TaskGroup() as group:
            while (left := until - time.monotonic()) > 0:
                self._wake.clear()
                self._services.webhooks_wanted.clear()
                # What ends while we look is seen as it was before.
                looked = frozenset(self._under_way)
                work = await self._services.store.read(self._look)
                if not work:
                    break
                self._services.webhooks_wanted.set()
                queued = await self._queue(work)
                for one in work:
                    self._begin(one, looked, group)
                if queued:
                    continue
                with suppress(TimeoutError):
                    async with asyncio.timeout(min(left, self._patience(work))):
                        await self._wake.wait()

    def _look(self, unit: Unit) -> list[_Work]:
        now = self._services.clock.now_us()
        return [
            _Work(
                one,
                # Beyond `settled` an event may still come in behind visible ones, and would be passed over.
                events.list_after(
                    unit,
                    max(one.scanned_seq, self._seen.get(one.id, 0)),
                    _BATCH,
                    until=unit.settled,
                    project=one.project,
                ),
                queries.list_due(unit, one.id, now, _BATCH),
                queries.find_next_try(unit, one.id, now),
            )
            for one in queries.list_all(unit)
        ]

    async def _queue(self, work: Iterable[_Work]) -> bool:
        """Take new events from the log; whether any became deliveries."""
        queued = False
        for one in work:
            wanted = [event for event in one.found if one.webhook.wants(event)]
            if wanted or len(one.found) == _BATCH:
                queued |= await self._services.store.write(partial(self._take, one, wanted))
            elif one.found:
                # In memory only: after a restart the events that are not for the webhook are looked at again.
                self._seen[one.webhook.id] = one.found[-1].seq
        return queued

    def _take(self, work: _Work, wanted: list[Event], unit: Unit) -> bool:
        now = self._services.clock.now_us()
        queries.purge(unit, work.webhook.id, now - _FAILED_SECONDS * MICROSECONDS)
        if queries.standing(unit, work.webhook.id).waiting >= _MOST_WAITING:
            return False
        return queries.queue(unit, work.webhook, wanted, work.found[-1].seq, now)

    def _begin(self, work: _Work, looked: frozenset[tuple[str, str]], group: asyncio.TaskGroup) -> None:
        """Begin the deliveries that are due, as far as the receiver is not busy."""
        for delivery in work.due:
            busy = sum(1 for webhook_id, _ in self._under_way if webhook_id == work.webhook.id)
            key = (delivery.webhook_id, delivery.subject)
            if busy >= _AT_ONCE:
                return
            if key not in self._under_way | looked:
                self._under_way.add(key)
                group.create_task(self._deliver(work.webhook, delivery))

    def _patience(self, work: Iterable[_Work]) -> float:
        """How long to wait for something to happen, in seconds."""
        now = self._services.clock.now_us()
        tries = [max(0.0, (one.next_try - now) / MICROSECONDS) for one in work if one.next_try is not None]
        # A notice of another broker's may be lost.
        return min([self._standby_seconds, *tries])

    async def _deliver(self, webhook: Webhook, delivery: Delivery) -> None:
        """Try once, and write what became of it."""
        services = self._services
        try:
            event = await services.store.read(lambda unit: queries.find_event(unit, delivery.seq))
            reply = await send(services, webhook, rules.message(webhook, event))
            tried = self._tried(delivery, reply)
            await services.store.write(lambda unit: queries.record(unit, tried), works_on=(tried.webhook_id,))
            if tried.state == "failed":
                _log.error("gave up an event for a webhook", extra={"webhook": webhook.id, "seq": delivery.seq})
        except Exception:  # noqa: BLE001 - one delivery must not end the others; it is tried again
            _log.exception("a delivery failed; it is tried again", extra={"webhook": webhook.id, "seq": delivery.seq})
            await asyncio.sleep(self._standby_seconds)
        finally:
            self._under_way.discard((delivery.webhook_id, delivery.subject))
            self._wake.set()

    def _tried(self, delivery: Delivery, reply: posting.Reply) -> Delivery:
        policy, now = self._services.policy, self._services.clock.now_us()
        tried = delivery._replace(attempts=delivery.attempts + 1, status=reply.status, answer=reply.answer)
        if reply.delivered:
            return tried._replace(state="delivered", ended_at=now)
        if reply.status == rules.GONE:
            # It waits, as does all that is behind it, until a person has tried the receiver again.
            return tried
        if now - delivery.queued_at >= policy.webhook_give_up_seconds * MICROSECONDS:
            return tried._replace(state="failed", ended_at=now)
        delay_us = rules.delay_us(tried.attempts, policy.webhook_retry_seconds, reply.retry_after_seconds)
        return tried._replace(not_before=now + delay_us)


async def send(services: Services, webhook: Webhook, message: rules.Message) -> posting.Reply:
    """Post a message, signed as of now."""
    headers = message.headers(webhook.secret, services.clock.now_us())
    return await posting.post(webhook.url, headers, message.body, allow_private=bool(webhook.allow_private))

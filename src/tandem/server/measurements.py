"""Measures what a broker does, for monitoring: in memory as it happens, in the database when somebody asks."""

from __future__ import annotations

import asyncio
import platform
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from tandem.core.clock import MICROSECONDS
from tandem.errors import Forbidden, TandemError
from tandem.pool import queries as pool_queries
from tandem.pool.rules import LIVE_SECONDS
from tandem.reviews import queries, report_queries
from tandem.reviews.context import Services
from tandem.reviews.rules import State
from tandem.server.asgi.exchange import Exchange, send_bytes
from tandem.server.dispatch import Dispatcher
from tandem.server.metrics import Durations, Family
from tandem.store import events
from tandem.store.base import Unit

_READ_SECONDS = 5.0
_MOST_CHECKS = 1_000
_STATE: Final = ("state",)
_TICK_SECONDS = 0.5
_LAG_BOUNDS: Final = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0)

ROLE: Final = "monitor"
"""What a token is for that may read this, where tokens are needed."""


def _exposed(families: list[Family], accepted: str) -> tuple[bytes, str]:
    from tandem.server.http import exposition  # at the first scrape: most brokers are never scraped

    return exposition.exposed(families, accepted)


def _measure_lag(loop: asyncio.AbstractEventLoop, lag: Durations) -> None:
    """Measure from now on how late the event loop runs its timers."""
    due = loop.time() + _TICK_SECONDS

    def tick() -> None:
        lag.add(max(0.0, loop.time() - due))
        _measure_lag(loop, lag)

    loop.call_at(due, tick)


def _labelled(counts: Mapping[str, float]) -> Mapping[tuple[str, ...], float]:
    return {(name,): count for name, count in counts.items()}


def _database(unit: Unit, now_us: int) -> list[Family]:
    """What the database says, which is the same at every broker of it; its cost does not depend on the history."""
    reviews = report_queries.count_open(unit)
    pools = pool_queries.list_heard(unit, now_us - LIVE_SECONDS * MICROSECONDS)
    states = {state: count for state, (count, _) in reviews.items()}
    oldest = reviews[State.PENDING][1]
    age = 0.0 if oldest is None else max(0, now_us - oldest) / MICROSECONDS
    circuits = sum(pool.circuit_until is not None and pool.circuit_until > now_us for pool in pools)
    reviewers = Counter(reviewer.state for reviewer in pool_queries.list_live(unit))
    checks = Counter(check.status for check in queries.list_unfinished_checks(unit, None, _MOST_CHECKS))
    open_words = f"Open reviews by state, at most {report_queries.MOST_COUNTED} each."
    attention = {(): report_queries.count_attention(unit)}
    pool_states = _labelled(Counter(pool.state for pool in pools))
    return [
        Family("counter", "events", "Events in the log.", {(): events.head(unit)[0]}),
        Family("gauge", "reviews", open_words, _labelled(states), _STATE),
        Family("gauge", "reviews_attention", "Open reviews that wait for a person.", attention),
        Family("gauge", "oldest_pending_seconds", "Age of the oldest review that is pending.", {(): age}),
        Family("gauge", "reviewers", "Reviewers of pools that run, by state.", _labelled(reviewers), _STATE),
        Family("gauge", "pools", "Reviewer pools whose supervisor answers, by state.", pool_states, _STATE),
        Family("gauge", "pools_circuit_open", "Pools that start no reviewer after repeated failures.", {(): circuits}),
        Family("gauge", "checks", "Checks that are queued or running.", _labelled(checks), ("status",)),
    ]


class Measurements:
    """The measurements of one broker.

    Attributes:
        connections: How many there are, by state; the server sets it.
        rate_limited: How many requests were refused as too many, by the kind of bucket; likewise.
    """

    def __init__(self, services: Services, dispatcher: Dispatcher, version: str) -> None:
        """Make it; nothing is measured before somebody asks.

        Args:
            services: The store, the waits and the clock.
            dispatcher: Counts the calls.
            version: The broker's version.
        """
        self.connections: Callable[[], Mapping[str, int]] = dict
        self.rate_limited: Mapping[str, int] = {}
        self._services = services
        self._dispatcher = dispatcher
        self._version = version
        self._started = time.monotonic()
        self._lag: Durations | None = None

    async def serve(self, exchange: Exchange) -> None:
        """Answer one scrape, in OpenMetrics or in the older text format, as its client accepts.

        Raises:
            Forbidden: The caller's token is for something else.
        """
        access = exchange.access
        if access is not None and ROLE not in access.roles:
            raise Forbidden(
                f"Metrics need a token with the role {ROLE}: 'tandem token create NAME --role {ROLE}'.",
                allowed=[ROLE],
                actual=sorted(access.roles),
            )
        if self._lag is None:
            self._lag = Durations(_LAG_BOUNDS)
            _measure_lag(asyncio.get_running_loop(), self._lag)
        families = [*self._families(self._lag, await self._stored())]
        accepted = exchange.headers.get(b"accept", b"").decode("latin-1")
        body, content_type = await asyncio.to_thread(_exposed, families, accepted)
        await send_bytes(exchange.send, 200, body, ((b"content-type", content_type.encode()),))

    async def _stored(self) -> list[Family] | None:
        """What the database says; None if it cannot say it now, which is news by itself."""
        now_us = self._services.clock.now_us()
        try:
            async with asyncio.timeout(_READ_SECONDS):
                return await self._services.store.read(lambda unit: _database(unit, now_us))
        except (TandemError, TimeoutError):
            return None

    def _families(self, lag: Durations, stored: list[Family] | None) -> Iterable[Family]:
        services = self._services
        facts = {
            "version": self._version,
            "python": platform.python_version(),
            "database": services.store.dialect,
        }
        yield Family("gauge", "build_info", "Always 1; what this broker is.", {tuple(facts.values()): 1}, tuple(facts))
        yield Family("gauge", "uptime_seconds", "Since this broker was made.", {(): time.monotonic() - self._started})
        yield Family("gauge", "database_up", "Whether this scrape read the database.", {(): stored is not None})
        yield from self._calls()
        yield Family("gauge", "waits_parked", "Calls that wait for an event.", {(): services.waits.parked})
        connections = _labelled(self.connections())
        yield Family("gauge", "connections", "Connections of clients by state.", connections, _STATE)
        yield Family(
            "counter",
            "rate_limited",
            "Requests that were refused as too many, by the kind of bucket.",
            _labelled(self.rate_limited),
            ("by",),
        )
        yield Family(
            "histogram",
            "event_loop_lag_seconds",
            "How late the event loop runs its timers.",
            {(): lag},
        )
        yield from self._store()
        yield from stored or ()

    def _calls(self) -> Iterable[Family]:
        calls = self._dispatcher
        running = calls.calls - calls.ended.total()
        yield Family(
            "counter", "calls", "Calls that ended, by operation and outcome.", calls.ended, ("operation", "code")
        )
        yield Family("gauge", "calls_running", "Calls that have begun and not ended, waits included.", {(): running})
        times = {(operation,): one for operation, one in calls.durations.items()}
        yield Family("histogram", "call_seconds", "How long calls took that did not wait.", times, ("operation",))

    def _store(self) -> Iterable[Family]:
        done = self._services.store.statistics()
        units = {("committed",): done.units, ("failed",): done.failed, ("dropped",): done.dropped}
        yield Family("counter", "store_units", "Units of work that write, by how they ended.", units, ("outcome",))
        yield Family("counter", "store_commits", "Transactions that it took to commit them.", {(): done.commits})
        yield Family("counter", "store_repeats", "Units that were run again after a conflict.", {(): done.repeated})
        yield Family("gauge", "store_waiting", "Units that wait for a thread.", {(): done.waiting})

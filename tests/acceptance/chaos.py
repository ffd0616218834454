"""Three brokers on one PostgreSQL while they are killed, paused and cut off, and PostgreSQL is restarted and crashed.

Not one of the tests that CI runs: `make chaos`. Clients repeat with the same key what was not acknowledged, as agents
do. Whatever happened, each write is there once, each claim has one winner, each wait is woken, and the log verifies.
`TANDEM_CHAOS_SECONDS` says how long, `TANDEM_CHAOS_CLIENTS` how many; `TANDEM_CHAOS_SEED` makes the same trouble again.
"""

from __future__ import annotations

import asyncio
import os
import random
import secrets
import signal
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import psycopg
import pytest

from tandem.client import TandemClient
from tandem.errors import AlreadyClaimed, Unavailable
from tandem.reviews.answers import Claim
from tests.broker import BrokerProcess, fresh_project
from tests.interfaces.broker_process import WatchedBroker
from tests.postgres import PostgresServer

Answer = TypeVar("Answer")
BROKERS = 3
RACERS = 3
SECONDS = float(os.environ.get("TANDEM_CHAOS_SECONDS", "120"))
CLIENTS = int(os.environ.get("TANDEM_CHAOS_CLIENTS", "30"))
SEED = os.environ.get("TANDEM_CHAOS_SEED") or secrets.token_hex(4)
WAKE_SECONDS = 30.0
"""The longest that a wait may be behind its event: brokers and PostgreSQL are away for seconds."""


@dataclass
class Done:
    """What the brokers have acknowledged, and how late waits were woken."""

    reviews: list[str] = field(default_factory=list[str])
    late_seconds: list[float] = field(default_factory=list[float])


@pytest.fixture
def brokers(own_postgres: PostgresServer, tmp_path: Path) -> Iterator[Sequence[WatchedBroker]]:
    url = own_postgres.create_database()
    with ExitStack() as stack:
        made: list[WatchedBroker] = []
        for number in range(BROKERS):
            folder = tmp_path / f"node-{number}"
            folder.mkdir()
            named = f"{url}?application_name=node-{number}"
            made.append(stack.enter_context(WatchedBroker(folder, database_url=named)))
        yield made


class Trouble:
    """Makes it, until it is told to end; then everything runs again."""

    def __init__(self, brokers: Sequence[WatchedBroker], server: PostgresServer) -> None:
        self._brokers = brokers
        self._server = server
        self._random = random.Random(SEED)
        self.made: list[str] = []

    async def make(self, seconds: float) -> None:
        """One trouble after the other."""
        deadline = time.monotonic() + seconds
        kinds = (self._kill, self._pause, self._cut_off, self._restart_postgres, self._crash_postgres)
        while time.monotonic() < deadline:
            await asyncio.sleep(self._random.uniform(0.2, 2))
            kind = self._random.choices(kinds, (4, 3, 4, 1, 1))[0]
            self.made.append(kind.__name__)
            await kind(self._random.choice(self._brokers))

    async def _kill(self, broker: WatchedBroker) -> None:
        await asyncio.to_thread(broker.kill)
        await asyncio.sleep(self._random.uniform(0, 1))
        await asyncio.to_thread(broker.start)

    async def _pause(self, broker: WatchedBroker) -> None:
        broker.signal(signal.SIGSTOP)
        await asyncio.sleep(self._random.uniform(0.1, 3))
        broker.signal(signal.SIGCONT)

    async def _cut_off(self, broker: WatchedBroker) -> None:
        name = f"node-{self._brokers.index(broker)}"

        def cut() -> None:
            with psycopg.connect(self._server.url(), autocommit=True) as connection:
                connection.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = %s", (name,)
                )

        for _ in range(self._random.randrange(1, 5)):
            await asyncio.to_thread(cut)

    async def _restart_postgres(self, _broker: WatchedBroker) -> None:
        await asyncio.to_thread(self._server.stop)
        await asyncio.to_thread(self._server.start)

    async def _crash_postgres(self, _broker: WatchedBroker) -> None:
        await asyncio.to_thread(self._server.crash)
        await asyncio.to_thread(self._server.start)


async def insisted(call: Callable[[], Awaitable[Answer]]) -> Answer:
    """A call with a key, again and again until it is acknowledged or refused."""
    while True:
        with suppress(Unavailable):
            return await call()
        await asyncio.sleep(0.1)


async def one_review(clients: Sequence[TandemClient], watcher: TandemClient, done: Done) -> None:
    """Proposed, claimed by one of three, approved, closed; each call at another broker to begin with."""
    intent = secrets.token_hex(8)
    proposal: dict[str, Any] = {
        "intent": intent,
        "agent_type": "chaos",
        "description": intent,
        "idempotency_key": intent,
    }
    created = await insisted(lambda: clients[0].create_review(**proposal))
    done.reviews.append(created.review_id)
    waiting = asyncio.create_task(
        insisted(lambda: watcher.wait_for_verdict(created.review_id, created.cursor)), name=created.review_id
    )

    async def claim(number: int, client: TandemClient) -> Claim | None:
        who: dict[str, Any] = {"reviewer_id": f"racer-{number}", "idempotency_key": f"{intent}-{number}"}
        with suppress(AlreadyClaimed):
            return await insisted(lambda: client.claim_review(review_id=created.review_id, **who))
        return None

    claims = await asyncio.gather(*(claim(number, client) for number, client in enumerate(clients)))
    (won,) = [one for one in claims if one is not None]
    verdict: dict[str, Any] = {"claim_generation": won.claim_generation, "idempotency_key": f"{intent}-verdict"}
    await insisted(lambda: clients[1].submit_verdict(created.review_id, verdict="approved", **verdict))
    given = time.monotonic()
    assert (await waiting).status == "approved"
    done.late_seconds.append(time.monotonic() - given)
    await insisted(lambda: clients[2].close_review(created.review_id, idempotency_key=f"{intent}-close"))


async def at_work(urls: Sequence[str], project: str, done: Done, stop: asyncio.Event) -> None:
    """One review after the other."""
    async with TurnedClients(urls, project) as clients:
        while not stop.is_set():
            await one_review(clients[:RACERS], clients[RACERS], done)


class TurnedClients:
    """Clients of all brokers, each of which begins with another one."""

    def __init__(self, urls: Sequence[str], project: str) -> None:
        turned = [[*urls[first:], *urls[:first]] for first in range(len(urls))]
        lists = [turned[number % len(turned)] for number in range(RACERS + 1)]
        self._clients = [TandemClient(",".join(one), project=project) for one in lists]

    async def __aenter__(self) -> Sequence[TandemClient]:
        return self._clients

    async def __aexit__(self, *_: object) -> None:
        for client in self._clients:
            await client.close()


async def chaos(brokers: Sequence[BrokerProcess], project: str, trouble: Trouble) -> Done:
    done, stop = Done(), asyncio.Event()
    urls = [broker.url for broker in brokers]
    working = [asyncio.create_task(at_work(urls, project, done, stop)) for _ in range(CLIENTS)]
    try:
        await trouble.make(SECONDS)
    finally:
        stop.set()
    await asyncio.gather(*working)
    return done


def test_p1_p4_p6_p8_nothing_acknowledged_is_lost_or_done_twice(
    brokers: Sequence[WatchedBroker], own_postgres: PostgresServer
) -> None:
    project = fresh_project()
    trouble = Trouble(brokers, own_postgres)
    done = asyncio.run(chaos(brokers, project, trouble))
    latest = max(done.late_seconds)
    told = f"seed {SEED}: {len(done.reviews)} reviews, the latest wake-up after {latest:.1f} s"
    sys.stderr.write(f"{told}; {Counter(trouble.made)}\n")
    with psycopg.connect(own_postgres.url(database_of(brokers))) as database:
        counted = {
            (subject, kind): count
            for subject, kind, count in database.execute(
                "SELECT subject, kind, count(*) FROM events WHERE project = %s GROUP BY 1, 2", (project,)
            )
        }
    kinds = ("review_created", "review_claimed", "verdict_submitted", "review_closed")
    assert counted == {(review, kind): 1 for review in done.reviews for kind in kinds}
    assert latest < WAKE_SECONDS
    assert brokers[0].audited().status == 0


def database_of(brokers: Sequence[WatchedBroker]) -> str:
    """The name of the database that they share."""
    return brokers[0].environment["TANDEM_DATABASE_URL"].rpartition("/")[2].partition("?")[0]

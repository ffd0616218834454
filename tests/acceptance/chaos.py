"""Three brokers on one PostgreSQL while they are killed, paused and cut off, and PostgreSQL is restarted and crashed.

Not one of the tests that CI runs: `make chaos`; a short version with every kind of trouble is `test_chaos.py`. Clients
repeat each call that was not acknowledged with the same key, as agents do. After any trouble each write is there once,
each claim has one winner, each wait is woken in time, readers who follow the log get every event once, and it verifies.
`TANDEM_CHAOS_SECONDS` says how long, `TANDEM_CHAOS_CLIENTS` how many; `TANDEM_CHAOS_SEED` makes the same trouble again.
"""

from __future__ import annotations

import asyncio
import os
import random
import secrets
import signal
import statistics
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Generator, Iterator, Sequence
from contextlib import AsyncExitStack, ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import NamedTuple, TypeVar

import psycopg
import pytest

from tandem.client import TandemClient
from tandem.errors import AlreadyClaimed, Unavailable
from tandem.reviews.answers import Claim, ReviewStatus
from tests.broker import fresh_project
from tests.cable import Cable, Way
from tests.interfaces.broker_process import WatchedBroker
from tests.postgres import PostgresServer

Answer = TypeVar("Answer")
BROKERS = 3
RACERS = 3
WATCHERS = 2
SECONDS = float(os.environ.get("TANDEM_CHAOS_SECONDS", "120"))
CLIENTS = int(os.environ.get("TANDEM_CHAOS_CLIENTS", "200"))
SEED = os.environ.get("TANDEM_CHAOS_SEED") or secrets.token_hex(4)
CLAIMS = 5 * CLIENTS
"""The trouble goes on until there were so many (1,000 of 200 clients), and twice as many waits."""

WAKE_SECONDS = 30.0
"""The longest that a wait may be behind the acknowledgement of its event.

Brokers and PostgreSQL are away for seconds. A wait that slept over it would end after the 50 s that one call waits.
"""

KINDS = ("review_created", "review_claimed", "message_sent", "verdict_submitted", "review_closed")
"""What happens to each review, once."""


class Node(NamedTuple):
    """A broker, and the cable through which alone it reaches PostgreSQL."""

    broker: WatchedBroker
    cable: Cable


@dataclass
class Site:
    """The brokers, their PostgreSQL, and the database."""

    nodes: Sequence[Node]
    server: PostgresServer
    database: str

    @property
    def urls(self) -> list[str]:
        """Where the brokers listen."""
        return [node.broker.url for node in self.nodes]


@contextmanager
def running_site(server: PostgresServer, folder: Path) -> Generator[Site]:
    """Brokers of which each has a cable of its own."""
    url = server.create_database()
    with ExitStack() as stack:
        nodes: list[Node] = []
        for number in range(BROKERS):
            own = folder / f"node-{number}"
            own.mkdir()
            cable = stack.enter_context(Cable(server.port))
            broker = stack.enter_context(WatchedBroker(own, database_url=cable.through(url)))
            nodes.append(Node(broker, cable))
        yield Site(nodes, server, url)


@dataclass
class Done:
    """The acknowledged reviews, the events that clients have received, and how late waits were woken."""

    winners: dict[str, str] = field(default_factory=dict[str, str])
    heard: list[list[tuple[int, str, str]]] = field(default_factory=list[list[tuple[int, str, str]]])
    late_seconds: list[float] = field(default_factory=list[float])
    _news: asyncio.Event = field(default_factory=asyncio.Event)

    def reviewed(self, review: str, winner: str) -> None:
        """Note that a review is over."""
        self.winners[review] = winner
        self._news.set()

    async def until_reviewed(self, count: int) -> None:
        """Return once so many reviews are over."""
        while len(self.winners) < count:
            self._news.clear()
            await self._news.wait()

    def verify(self, site: Site, project: str) -> None:
        """Hold it against the log in the database."""
        with psycopg.connect(site.database) as database:
            asked = "SELECT seq, subject, kind, actor FROM events WHERE project = %s ORDER BY seq"
            log = database.execute(asked, (project,)).fetchall()
        once = {(review, kind): 1 for review in self.winners for kind in KINDS}
        assert Counter((subject, kind) for _, subject, kind, _ in log) == once
        assert {subject: actor for _, subject, kind, actor in log if kind == "review_claimed"} == self.winners
        for heard in self.heard:
            assert heard == [(seq, subject, kind) for seq, subject, kind, _ in log]
        assert len(self.late_seconds) == len(self.winners) * WATCHERS
        assert max(self.late_seconds) < WAKE_SECONDS
        site.nodes[0].broker.assert_intact()


def kill(node: Node, seconds: float) -> None:
    """A broker is killed, and started after some time, as by a service manager: until it runs."""
    node.broker.kill()
    time.sleep(seconds)
    while True:
        try:
            node.broker.start()
        except AssertionError:  # there is no PostgreSQL just now
            node.broker.kill()
        else:
            return


def pause(node: Node, seconds: float) -> None:
    """A broker stands still, with the transactions that it is in."""
    node.broker.signal(signal.SIGSTOP)
    try:
        time.sleep(seconds)
    finally:
        node.broker.signal(signal.SIGCONT)


def unplug(node: Node, seconds: float) -> None:
    """The database refuses a broker."""
    node.cable.unplug()
    time.sleep(seconds)
    node.cable.plug()


def pinch(node: Node, way: Way, seconds: float, *, lost: bool) -> None:
    """Nothing comes through one way; it comes late, or is lost with the connections."""
    node.cable.pinch(way)
    time.sleep(seconds)
    if lost:
        node.cable.cut()
    node.cable.plug()


def restart(server: PostgresServer) -> None:
    """PostgreSQL ends in order, and starts again."""
    server.stop()
    server.start()


def crash(server: PostgresServer) -> None:
    """PostgreSQL ends at once and in the middle of everything, and starts again."""
    server.crash()
    server.start()


async def random_trouble(site: Site, is_over: Callable[[], bool]) -> Counter[str]:
    """Trouble for the brokers, one after the other, and beside it for PostgreSQL; says how much there was of each."""
    chance, of_the_server = random.Random(SEED), random.Random(f"PostgreSQL {SEED}")
    made = Counter[str]()

    def of_a_broker() -> None:
        node, lost = chance.choice(site.nodes), chance.random() < 0.5
        kinds = {
            "killed": lambda: kill(node, chance.uniform(0, 1)),
            "paused": lambda: pause(node, chance.choice((0.2, 1, 3, 7))),
            "cut": node.cable.cut,
            "unplugged": lambda: unplug(node, chance.uniform(0.1, 4)),
            "pinched": lambda: pinch(node, chance.choice(("up", "down")), chance.uniform(0.1, 6), lost=lost),
        }
        name = chance.choice(list(kinds))
        made[name] += 1
        kinds[name]()

    def of_postgres() -> None:
        kinds = {"PostgreSQL restarted": restart, "PostgreSQL crashed": crash}
        name = of_the_server.choice(list(kinds))
        made[name] += 1
        kinds[name](site.server)

    async def again(make: Callable[[], None], which: random.Random, most_seconds: float) -> None:
        while not is_over():
            await asyncio.sleep(which.uniform(0.2, most_seconds))
            await asyncio.to_thread(make)

    await asyncio.gather(again(of_a_broker, chance, 2), again(of_postgres, of_the_server, 30))
    return made


async def insisted(call: Callable[[], Awaitable[Answer]]) -> Answer:
    """A call with a key, again and again until it is acknowledged or refused."""
    while True:
        with suppress(Unavailable):
            return await call()
        await asyncio.sleep(0.1)


async def one_review(racers: Sequence[TandemClient], watchers: Sequence[TandemClient], done: Done) -> None:
    """Proposed, claimed by one of three, spoken of, approved, closed; each call at another broker to begin with."""
    key = secrets.token_hex(8)
    first, second, third = racers
    created = await insisted(
        lambda: first.create_review(intent=key, agent_type="chaos", description=key, idempotency_key=key)
    )
    review = created.review_id
    decided = asyncio.create_task(insisted(lambda: watchers[0].wait_for_verdict(review, created.cursor)))
    answered = asyncio.create_task(insisted(lambda: watchers[1].wait_for_turn(review, created.cursor)))

    async def claim(name: str, client: TandemClient) -> tuple[str, Claim] | None:
        with suppress(AlreadyClaimed):
            won = insisted(
                lambda: client.claim_review(review_id=review, reviewer_id=name, idempotency_key=f"{key}-{name}")
            )
            return name, await won
        return None

    claims = await asyncio.gather(*(claim(f"racer-{number}", client) for number, client in enumerate(racers)))
    ((winner, won),) = [one for one in claims if one is not None]
    generation = won.claim_generation
    await insisted(
        lambda: third.add_message(
            review,
            sender_role="reviewer",
            body=key,
            reviewer_id=winner,
            claim_generation=generation,
            idempotency_key=f"{key}-said",
        )
    )
    done.late_seconds.append(await lateness(answered, "in_review"))
    await insisted(
        lambda: second.submit_verdict(
            review, verdict="approved", claim_generation=generation, idempotency_key=f"{key}-verdict"
        )
    )
    done.late_seconds.append(await lateness(decided, "approved"))
    await insisted(lambda: third.close_review(review, idempotency_key=f"{key}-close"))
    done.reviewed(review, winner)


async def lateness(wait: asyncio.Task[ReviewStatus], expected: str) -> float:
    """The seconds until a write that was just acknowledged wakes a wait."""
    acknowledged = time.monotonic()
    assert (await wait).status == expected
    return time.monotonic() - acknowledged


async def at_work(urls: Sequence[str], project: str, done: Done, stop: asyncio.Event) -> None:
    """One review after the other."""
    async with AsyncExitStack() as stack:
        lists = [[*urls[first:], *urls[:first]] for first in range(len(urls))]
        clients = [
            await stack.enter_async_context(TandemClient(",".join(lists[number % len(lists)]), project=project))
            for number in range(RACERS + WATCHERS)
        ]
        while not stop.is_set():
            await one_review(clients[:RACERS], clients[RACERS:], done)


async def follow(urls: Sequence[str], project: str, cursor: str, done: Done, worked: asyncio.Event) -> None:
    """Hear everything by waits, one after the other."""
    heard: list[tuple[int, str, str]] = []
    async with TandemClient(",".join(urls), project=project) as client:
        while True:
            was_over = worked.is_set()
            page = await insisted(partial(client.get_audit_log, wait=True, cursor=cursor, timeout_s=2, limit=200))
            heard += [(event.seq, event.subject, event.kind) for event in page.events if event.seq is not None]
            cursor = page.cursor
            if was_over and not page.changed and not page.more:
                break
    done.heard.append(heard)


async def worked(site: Site, project: str, done: Done, clients: int, trouble: Callable[[], Awaitable[None]]) -> None:
    """Clients work and others follow the log while there is trouble, until all work that was begun is finished."""
    stop, over = asyncio.Event(), asyncio.Event()
    async with TandemClient(",".join(site.urls), project=project) as client:
        cursor = (await client.get_audit_log()).cursor
    turned = [[*site.urls[first:], *site.urls[:first]] for first in range(BROKERS)]
    async with asyncio.TaskGroup() as group:
        for urls in turned:
            group.create_task(follow(urls, project, cursor, done, over))
        async with asyncio.TaskGroup() as workers:
            for number in range(clients):
                workers.create_task(at_work(turned[number % BROKERS], project, done, stop))
            await trouble()
            stop.set()
        over.set()


@pytest.fixture
def site(own_postgres: PostgresServer, tmp_path: Path) -> Iterator[Site]:
    with running_site(own_postgres, tmp_path) as running:
        yield running


@pytest.mark.timeout(SECONDS * 3 + 600)
def test_p1_p4_p6_p8_nothing_acknowledged_is_lost_or_done_twice(site: Site) -> None:
    project, done = fresh_project(), Done()
    until = time.monotonic() + SECONDS

    async def trouble() -> None:
        made = await random_trouble(site, lambda: time.monotonic() > until and len(done.winners) >= CLAIMS)
        sys.stderr.write(f"seed {SEED}: {dict(made)}\n")

    asyncio.run(worked(site, project, done, CLIENTS, trouble))
    late = sorted(done.late_seconds)
    sys.stderr.write(
        f"{CLIENTS} clients: {len(done.winners)} claims, {len(late)} waits, woken after {statistics.median(late):.3f} s"
        f" at the median, {late[len(late) * 99 // 100]:.1f} s at p99, {late[-1]:.1f} s at most\n"
    )
    done.verify(site, project)

"""P12: every call is answered in time when PostgreSQL fails or hangs, and all is well when it is back."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import psycopg
import pytest

from tests.acceptance.receiving import Posted, Receiver, added
from tests.acceptance.reviewing import REVIEWER, Desk
from tests.acceptance.test_idempotency import WRITES
from tests.acceptance.test_webhooks import HASTY, finish
from tests.broker import BrokerProcess, fresh_project
from tests.cable import Cable
from tests.modes import VARIATION
from tests.postgres import PostgresServer

pytestmark = pytest.mark.timeout(240)

PROMISED_SECONDS = 16
BUSY_SECONDS = 4
"""An allowance for the processor, which the tests, the broker and PostgreSQL share here."""
WAIT_SECONDS = 2
DELIVERED_SECONDS = 60
WELL_SECONDS = 1
"""When a connection fails the broker refuses calls for a quarter of a second."""

READS: dict[str, tuple[str, dict[str, Any], float]] = {
    "list": ("list_reviews", {}, 0),
    "list of the only project": ("list_reviews", {"project": None}, 0),
    "log": ("get_audit_log", {}, 0),
    "gate": ("check_gate", {"digest": "sha256:none"}, 0),
    "wait for a list": ("list_reviews", {"wait": True, "timeout_s": WAIT_SECONDS}, WAIT_SECONDS),
    "wait for the log": ("get_audit_log", {"wait": True, "timeout_s": WAIT_SECONDS}, WAIT_SECONDS),
}
"""Operation, arguments, and how long it waits."""

KINDS_OF_WRITES = ("create", "claim next", "renew", "verdict", "message")
"""To the database the others are like one of these."""


@dataclass
class Site:
    """A broker, its PostgreSQL, the cable between them, and who is told of everything that happens."""

    broker: BrokerProcess
    server: PostgresServer
    database: str
    cable: Cable
    receiver: Receiver

    def refuse(self) -> None:
        """Have PostgreSQL take no more connections to the database, and cut those that there are."""
        with psycopg.connect(self.server.url(), autocommit=True) as server:
            name = self.database.encode()
            server.execute(b"ALTER DATABASE %b ALLOW_CONNECTIONS false" % name)
            server.execute(b"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '%b'" % name)

    def let_in(self) -> None:
        """Have it take connections again."""
        with psycopg.connect(self.server.url(), autocommit=True) as server:
            server.execute(b"ALTER DATABASE %b ALLOW_CONNECTIONS true" % self.database.encode())

    def log(self) -> list[dict[str, Any]]:
        """Every event since the webhook was added, but those that webhooks are not told of."""
        with Desk(self.broker.url, "any") as desk:
            pages = [desk.do("get_audit_log", project=None, limit=200)]
            events: list[dict[str, Any]] = []
            cursor = f"{pages[0]['cursor'].rpartition('.')[0]}.0"
            while (page := desk.do("get_audit_log", project=None, limit=200, cursor=cursor))["events"]:
                events += page["events"]
                cursor = page["cursor"]
        return [event for event in events if event["kind"] not in {"checkpoint", "webhook_added"}]

    def until_all_was_told(self) -> None:
        """Return once the receiver has taken every event, those of one subject in order."""
        told = self.log()
        wanted = {event["seq"] for event in told}
        deadline = time.monotonic() + DELIVERED_SECONDS
        while missing := wanted - {one.event["seq"] for one in self.receiver.taken}:
            assert time.monotonic() < deadline, f"{len(missing)} of {len(wanted)} were never posted"
            time.sleep(0.05)
        for subject in {event["subject"] for event in told}:
            assert self.receiver.of(subject) == [event["kind"] for event in told if event["subject"] == subject]

    def until_well(self) -> None:
        """Return once the broker is back at its database, with every thread of its own."""
        asked = {"review_id": "none", "reviewer_id": REVIEWER}
        with Desk(self.broker.url, fresh_project()) as desk:
            begun = since = time.monotonic()
            while (now := time.monotonic()) - since < WELL_SECONDS:
                assert now - begun < PROMISED_SECONDS + BUSY_SECONDS
                answers = desk.call("claim_review", **asked), desk.call("get_review_status", review_id="none")
                if any(answer["error"]["code"] == "UNAVAILABLE" for answer in answers):
                    since = time.monotonic()
                time.sleep(0.02)


@pytest.fixture(scope="module")
def site(durable_postgres: PostgresServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """After each trouble everything is as before it."""
    url, folder = durable_postgres.create_database(), tmp_path_factory.mktemp("broker")
    with (
        Cable(durable_postgres.port) as cable,
        BrokerProcess(folder, database_url=cable.through(url), **HASTY) as broker,
        Receiver() as receiver,
        Desk(broker.url, fresh_project()) as desk,
    ):
        added(desk, receiver.url, project=None)
        yield Site(broker, durable_postgres, url.rpartition("/")[2], cable, receiver)


Trouble = tuple[Callable[[Site], None], Callable[[Site], None]]
# Deliveries are tried below with a server that is stopped, and an unplugged one is in `test_chaos`.
TROUBLES: dict[str, Trouble] = {
    "crashed": (lambda site: site.server.crash(), lambda site: site.server.start()),
    "refusing": (lambda site: site.refuse(), lambda site: site.let_in()),
    "deaf": (lambda site: site.cable.pinch("up"), lambda site: site.cable.plug()),
    "mute": (lambda site: site.cable.pinch("down"), lambda site: site.cable.plug()),
}


@dataclass
class One:
    """A call in a project of its own, so that all events there are its own."""

    desk: Desk
    name: str
    operation: str
    arguments: dict[str, Any]
    waits_seconds: float = 0
    answers: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    before: int = 0

    def ask(self) -> float:
        """Have it answered; the seconds that took, without its own wait."""
        begun = time.monotonic()
        self.answers.append(self.desk.call(self.operation, **self.arguments))
        return time.monotonic() - begun - self.waits_seconds

    @property
    def is_keyed(self) -> bool:
        """Whether it has an idempotency key."""
        return "idempotency_key" in self.arguments

    def happened(self) -> int:
        """How much happened in its project."""
        return len(self.desk.do("get_audit_log", limit=200)["events"])

    def is_unknown(self) -> bool:
        """Whether the broker has said that the outcome of the call is unknown."""
        refused = [one["error"] for one in self.answers if not one["ok"]]
        assert {error["code"] for error in refused} <= {"UNAVAILABLE"}, self
        return not all(error["retryable"] for error in refused)


def every_kind(stack: ExitStack, site: Site) -> list[One]:
    """A call of each kind, with and without a key."""

    def desk() -> Desk:
        return stack.enter_context(Desk(site.broker.url, fresh_project()))

    calls = [One(desk(), name, operation, arguments, waits) for name, (operation, arguments, waits) in READS.items()]
    for name in KINDS_OF_WRITES:
        for key in ({}, {"idempotency_key": "once"}):
            own = desk()
            operation, arguments = WRITES[name](own)
            calls.append(One(own, name, operation, {**arguments, **key}))
    site.server.settle(site.database)
    for one in calls:
        one.before = one.happened()
    return calls


@pytest.mark.parametrize(
    "kind",
    # One that starts after a crash refuses connections for a while, too; of who is deaf there is silence as well.
    ["crashed", pytest.param("refusing", marks=VARIATION), pytest.param("deaf", marks=VARIATION), "mute"],
)
def test_p12_every_call_is_answered_in_time_whatever_becomes_of_postgresql(site: Site, kind: str) -> None:
    """Every kind of call while a trouble begins, and once it is known, has an answer in time, and its effect once."""
    begin, end = TROUBLES[kind]
    with ExitStack() as stack:
        amid, during = (every_kind(stack, site) for _ in range(2))
        pool = stack.enter_context(ThreadPoolExecutor(4 * len(amid)))

        def ask(calls: list[One]) -> list[Future[float]]:
            return [pool.submit(one.ask) for one in calls]

        def in_time(asked: list[Future[float]]) -> None:
            assert max((one.result() for one in asked), default=0) < PROMISED_SECONDS + BUSY_SECONDS

        asked = ask(amid)
        begin(site)
        # The same call of several callers at once, too.
        in_time(asked + ask([one for one in during for _ in range(3 if one.is_keyed else 1)]))
        # And once the broker has noticed.
        in_time(ask([one for one in during if not one.is_unknown()]))
        assert not any(answer["ok"] for one in during for answer in one.answers)
        end(site)
        site.until_well()
        while again := [one for one in (*amid, *during) if not one.answers[-1]["ok"] and not one.is_unknown()]:
            in_time(ask(again))
        site.server.settle(site.database)
        for one in [*amid, *during]:
            if one.name in WRITES:
                effects = 0 if one.operation == "renew_claim" else 1
                assert one.is_unknown() or one.happened() - one.before == effects, one
        site.until_all_was_told()
    site.broker.assert_intact()


def test_p6_deliveries_that_postgresql_goes_away_under_come_all_the_same(site: Site) -> None:
    held, away = threading.Event(), threading.Event()

    def hold(_posted: Posted) -> int:
        held.set()
        away.wait(WAIT_SECONDS)
        return 200

    with Desk(site.broker.url, fresh_project()) as desk:
        site.receiver.answer = hold
        for _ in range(3):
            finish(desk, desk.put_up())
        unclaimed = {"review_id": desk.put_up(), "reviewer_id": REVIEWER}
        assert held.wait(WAIT_SECONDS)
        site.server.stop()
        # With this the broker has noticed; it must still record the posts delivered meanwhile.
        assert desk.call("claim_review", **unclaimed)["error"]["code"] == "UNAVAILABLE"
        away.set()
        for _ in range(3):
            assert desk.call("claim_review", **unclaimed)["error"]["code"] == "UNAVAILABLE"
        site.server.start()
        site.receiver.answer = lambda _posted: 200
        site.until_well()
        site.until_all_was_told()

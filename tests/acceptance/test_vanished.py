"""A broker's machine, or the way from it to PostgreSQL, vanishes without a word, amid a transaction."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import psycopg
import pytest

from tests.acceptance.reviewing import OTHER, REVIEWER, Desk
from tests.broker import BrokerProcess, fresh_project
from tests.far_machine import FarMachine
from tests.postgres import running_postgres

HERE, AWAY = range(2)
"""The links: that of the tests and of one broker, and that of the other."""

LOCK_SECONDS = 8
"""The server ends a transaction that is idle for five."""
NOTICE_SECONDS = 20
"""Either side notices after ten seconds if something was sent, after thirteen else; reconnecting takes three."""

WAITS_FOR_A_ROW = "SELECT 1 FROM pg_stat_activity WHERE client_addr = %s AND wait_event_type = 'Lock'"
IS_CONNECTED = "SELECT 1 FROM pg_stat_activity WHERE client_addr = %s"


class Site(NamedTuple):
    machine: FarMachine
    database: psycopg.Connection
    here: BrokerProcess
    away: BrokerProcess

    def await_of_away(self, question: str, *, there: bool) -> None:
        """Return once PostgreSQL sees something of the broker that will vanish, or sees it no more."""
        deadline = time.monotonic() + NOTICE_SECONDS
        while (self.database.execute(question.encode(), (self.machine.near[AWAY],)).fetchone() is not None) != there:
            self.database.execute("SELECT pg_sleep(0.02)")
            assert time.monotonic() < deadline, question


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    with ExitStack() as stack:
        machine = stack.enter_context(FarMachine(2))
        server = stack.enter_context(running_postgres(machine=machine))
        name = server.create_database().rpartition("/")[2]
        brokers: list[BrokerProcess] = []
        for link in (HERE, AWAY):
            folder = tmp_path / f"node-{link}"
            folder.mkdir()
            brokers.append(stack.enter_context(BrokerProcess(folder, database_url=server.url(name, link))))
        database = stack.enter_context(psycopg.connect(server.url(name), autocommit=True))
        yield Site(machine, database, *brokers)


def timed(desk: Desk, operation: str, **arguments: Any) -> tuple[dict[str, Any], float]:
    """The envelope of a call, and how long it took."""
    begun = time.monotonic()
    return desk.call(operation, **arguments), time.monotonic() - begun


def insisted(desk: Desk, operation: str, **arguments: Any) -> dict[str, Any]:
    """The envelope of a call that is made again and again until the broker is back at its database."""
    deadline = time.monotonic() + NOTICE_SECONDS
    while (answer := desk.call(operation, **arguments)).get("error", {}).get("code") == "UNAVAILABLE":
        assert time.monotonic() < deadline
        time.sleep(0.1)
    return answer


def test_p4_a_machine_that_vanishes_holds_nobody_up_and_goes_on_when_it_is_back(site: Site) -> None:
    """What the vanished one holds is free within seconds; it says that it is cut off, and comes back by itself.

    A wait there misses no event, and repeated calls take effect once.
    """
    project = fresh_project()
    with Desk(site.here.url, project) as here, Desk(site.away.url, project) as away, ThreadPoolExecutor(4) as pool:
        review, untouched = away.put_up(), away.put_up()
        said = {"review_id": untouched, "sender_role": "proposer", "body": "Lost?", "idempotency_key": "said-once"}
        named = {"review_id": review, "reviewer_id": REVIEWER, "idempotency_key": "claimed-once"}
        sleeps = {"review_id": review, "cursor": away.status(review)["cursor"], "wait": True, "wake_on": "any"}
        slept = pool.submit(away.call, "get_review_status", timeout_s=40, **sleeps)
        with site.database.transaction():
            site.database.execute("SELECT FROM reviews WHERE id = %s FOR UPDATE", (review,))
            claimed = pool.submit(away.call, "claim_review", **named)
            site.await_of_away(WAITS_FOR_A_ROW, there=True)
            site.machine.unplug(AWAY)
        # Now the server gives the vanished broker the row, and its words about that are lost.
        asked = pool.submit(timed, away, "get_review_status", review_id=review)
        written = pool.submit(timed, away, "add_message", **said)

        begun = time.monotonic()
        here.claim(review, OTHER)
        assert time.monotonic() - begun < LOCK_SECONDS

        for lost in (asked, written):
            answer, seconds = lost.result()
            assert answer["error"]["code"] == "UNAVAILABLE", answer
            assert seconds < NOTICE_SECONDS
        site.await_of_away(IS_CONNECTED, there=False)

        site.machine.plug(AWAY)
        late = claimed.result()["error"]["code"]
        assert late in ("UNAVAILABLE", "ALREADY_CLAIMED")
        assert insisted(away, "claim_review", **named)["error"]["code"] == "ALREADY_CLAIMED"
        assert insisted(away, "add_message", **said)["data"] == here.do("add_message", **said)
        # Though it heard nothing of the claim by the other broker while it was away.
        assert slept.result()["data"]["changed"]
        assert here.kinds(untouched) == ["review_created", "message_sent"]
        assert here.kinds(review) == ["review_created", "review_claimed"]
    site.here.assert_intact()

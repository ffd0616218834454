"""What `make chaos` does for minutes and at random, in short: each kind of trouble once, while clients work."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import psycopg
import pytest

from tandem.client import TandemClient
from tests.acceptance.chaos import (
    Done,
    Site,
    crash,
    insisted,
    kill,
    pause,
    pinch,
    restart,
    running_site,
    unplug,
    worked,
)
from tests.broker import fresh_project
from tests.modes import VARIATION
from tests.postgres import PostgresServer

pytestmark = pytest.mark.timeout(300)
CLIENTS = 3


@pytest.fixture(scope="module")
def site(durable_postgres: PostgresServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with running_site(durable_postgres, tmp_path_factory.mktemp("site")) as running:
        yield running


def of_each_kind(site: Site) -> list[Callable[[], None]]:
    """The troubles, in an order in which they follow each other at different brokers."""
    one, two, three = site.nodes
    return [
        partial(kill, two, 0.1),
        partial(pause, three, 0.5),
        one.cable.cut,
        partial(unplug, two, 0.3),
        partial(crash, site.server),
        partial(pinch, three, "up", 0.3, lost=True),
        partial(pinch, one, "down", 0.3, lost=False),
        partial(restart, site.server),
    ]


def test_p1_p4_p6_p8_no_kind_of_trouble_loses_or_doubles_anything(site: Site) -> None:
    project, done = fresh_project(), Done()

    async def trouble() -> None:
        await done.until_reviewed(CLIENTS)
        for make in of_each_kind(site):
            before = len(done.winners)
            await asyncio.to_thread(make)
            # Every client that was in the middle of a review has finished it.
            await done.until_reviewed(before + CLIENTS)

    asyncio.run(worked(site, project, done, CLIENTS, trouble))
    done.verify(site, project)


@pytest.mark.parametrize("end", ["cut", "killed", pytest.param("crashed", marks=VARIATION)])
def test_p4_a_write_that_was_committed_without_a_word_is_there_once(site: Site, end: str) -> None:
    """The broker hears nothing of its commit before the connection, itself or PostgreSQL ends."""
    project, node = fresh_project(), site.nodes[0]

    async def put_up() -> str:
        given = {"intent": "once", "agent_type": "chaos", "description": "once", "idempotency_key": "once"}
        async with TandemClient(",".join(site.urls), project=project) as client:
            with psycopg.connect(site.database, autocommit=True) as database:
                database.execute(HELD_UP_IN_COMMIT.replace("PROJECT", project).encode())
                database.execute("SELECT pg_advisory_lock(17)")
                made = asyncio.create_task(insisted(partial(client.create_review, **given)))
                await asyncio.to_thread(let_commit_without_a_word, site, project, database)
            match end:
                case "cut":
                    node.cable.cut()
                case "killed":
                    node.broker.kill()
                case _:
                    await asyncio.to_thread(crash, site.server)
            node.cable.plug()
            if not node.broker.is_running:
                node.broker.start()
            review = (await made).review_id
        async with TandemClient(site.urls[1], project=project) as other:
            # Right after a crash it may have connections that are gone.
            known = (await insisted(other.list_reviews)).reviews
        assert [one.review_id for one in known] == [review]
        return review

    review = asyncio.run(put_up())
    assert written(site, project) == [review]


def let_commit_without_a_word(site: Site, project: str, database: psycopg.Connection[Any]) -> None:
    """Once the first broker has asked for the commit, let it come about, with the answer held."""
    while database.execute(IS_HELD_UP).fetchone() is None:
        pass
    site.nodes[0].cable.pinch("down")
    database.execute("SELECT pg_advisory_unlock(17)")
    while not written(site, project):
        pass
    database.execute("DROP FUNCTION hold_up CASCADE")


HELD_UP_IN_COMMIT = """
CREATE FUNCTION hold_up() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN PERFORM pg_advisory_xact_lock(17); RETURN NULL; END $$;
CREATE CONSTRAINT TRIGGER hold_up AFTER INSERT ON events DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW WHEN (NEW.project = 'PROJECT') EXECUTE FUNCTION hold_up();
"""
IS_HELD_UP = "SELECT 1 FROM pg_locks WHERE NOT granted AND locktype = 'advisory' AND objid = 17 AND classid = 0"


def written(site: Site, project: str) -> list[str]:
    """The subjects of a project's events."""
    with psycopg.connect(site.database) as database:
        return [row[0] for row in database.execute("SELECT subject FROM events WHERE project = %s", (project,))]

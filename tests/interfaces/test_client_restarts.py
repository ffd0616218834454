"""The Python client, while its only broker stops, is away, and starts again."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tandem.client import TandemClient, Unreachable
from tandem.server.http.health import BrokerPhase
from tests.broker import fresh_project
from tests.commandline import repository
from tests.interfaces.broker_process import watched_broker
from tests.interfaces.serving import serving

pytestmark = pytest.mark.anyio

CLIENTS = 4
KINDS = ["review_created", "message_sent", "review_closed"]
AWAY_SECONDS = 0.6
"""Longer than any call was ever repeated without knowing that there was a broker."""
SOON_SECONDS = 20.0


async def test_p4_reads_and_writes_ride_over_restarts_of_their_broker(tmp_path: Path) -> None:
    project = fresh_project()
    made: list[str] = []
    news, is_over = asyncio.Event(), asyncio.Event()

    async def work(name: str) -> None:
        async with TandemClient(broker.url, project=project, agent=name) as client:
            while not is_over.is_set():
                created = await client.create_review(intent=f"{name} {len(made)}", agent_type="t", description=name)
                made.append(created.review_id)
                await client.add_message(created.review_id, sender_role="proposer", body=name)
                await client.close_review(created.review_id)
                assert (await client.get_review_status(created.review_id)).status == "closed"
                news.set()

    with watched_broker(tmp_path) as broker:
        async with asyncio.TaskGroup() as group:
            for number in range(CLIENTS):
                group.create_task(work(f"agent-{number}"))
            for end in (broker.stop_in_order, broker.kill):
                news.clear()
                await news.wait()
                await asyncio.to_thread(end)
                await asyncio.sleep(AWAY_SECONDS)
                await asyncio.to_thread(broker.start)
            is_over.set()
        async with TandemClient(broker.url, project=project) as client:
            for review in made:
                log = (await client.get_review_timeline(review)).events
                assert [event.kind for event in log] == KINDS
            known = 0
            page = await client.list_reviews(limit=200)
            while page.next_page is not None:
                known += len(page.reviews)
                page = await client.list_reviews(limit=200, page=page.next_page)
        assert known + len(page.reviews) == len(made)


async def test_a_write_without_a_key_is_sent_again_where_no_broker_took_it(tmp_path: Path) -> None:
    with watched_broker(tmp_path) as broker:
        async with TandemClient(broker.url) as client:
            await client.register_project(root=str(repository(tmp_path / "shop")), name="shop")
            await asyncio.to_thread(broker.stop_in_order)
            removed = asyncio.create_task(client.remove_project(name="shop"))
            await asyncio.sleep(AWAY_SECONDS)
            await asyncio.to_thread(broker.start)
            assert (await removed).project == "shop"


@pytest.mark.parametrize("phase", [BrokerPhase.STARTING, BrokerPhase.DRAINING])
async def test_what_a_broker_refuses_that_starts_or_stops_is_sent_again(phase: BrokerPhase) -> None:
    async with serving() as served, TandemClient(served.url) as client:
        served.health.phase = phase
        # An operation that the client does not know may do anything, and has no key.
        echo = asyncio.create_task(client.data("echo", {"text": "at last"}))
        await asyncio.sleep(AWAY_SECONDS)
        assert not echo.done()
        served.health.phase = BrokerPhase.READY
        assert (await echo)["text"] == "at last"


async def test_a_broker_that_does_not_come_back_is_given_up_when_the_time_is_up(tmp_path: Path) -> None:
    with watched_broker(tmp_path) as broker:
        async with TandemClient(broker.url, answer_s=2 * AWAY_SECONDS) as client:
            await client.list_projects()
            await asyncio.to_thread(broker.stop_in_order)
            begun = asyncio.get_running_loop().time()
            with pytest.raises(Unreachable, match="No broker answers at"):
                await client.list_projects()
            assert asyncio.get_running_loop().time() - begun > AWAY_SECONDS


async def test_a_broker_at_another_port_is_found_by_its_data_folder_unless_its_address_was_named(
    tmp_path: Path,
) -> None:
    with watched_broker(tmp_path) as broker:
        async with (
            TandemClient(data_dir=str(broker.data_dir), answer_s=SOON_SECONDS) as follows,
            TandemClient(broker.url, data_dir=str(broker.data_dir), answer_s=AWAY_SECONDS) as stays,
        ):
            for client in (follows, stays):
                await client.list_projects()
            named = broker.url
            await asyncio.to_thread(broker.stop_in_order)
            broker.move()
            await asyncio.to_thread(broker.start)
            assert (await follows.list_projects()).projects == ()
            assert follows.url == broker.url != named
            with pytest.raises(Unreachable, match=f"No broker answers at {named}"):
                await stays.list_projects()

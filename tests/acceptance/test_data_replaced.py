"""A copy that takes the place of a database: who knew the one before is told, and goes on in what there is now."""

from __future__ import annotations

import asyncio
import itertools
import sqlite3
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from pathlib import Path

import httpx
import psycopg
import pytest

from tandem.client import TandemClient
from tests.acceptance.receiving import Receiver, added
from tests.acceptance.reviewing import Desk
from tests.acceptance.staffed import until
from tests.acceptance.test_data import Place, place_in
from tests.acceptance.test_webhooks import HASTY
from tests.broker import BrokerProcess, fresh_project
from tests.modes import VARIATION
from tests.postgres import PostgresServer

WAIT_SECONDS = 60


def _empty(place: Place) -> None:
    """Empty a database on a server, as restoring a copy there requires."""
    assert place.url is not None
    with psycopg.connect(place.url, autocommit=True) as server:
        server.execute("DROP SCHEMA public CASCADE")
        server.execute("CREATE SCHEMA public")


def _restore(place: Place, copy: Path) -> None:
    if place.url is None:
        place.done("restore", str(copy), "--replace")
    else:
        _empty(place)
        place.done("restore", str(copy))


def _put_back(place: Place, copy: Path) -> None:
    """Put an older database file back without Tandem's commands; only the broker's own record can show it."""
    former = place_in(place.broker.folder / "former", place.broker)
    former.done("restore", str(copy))
    with closing(sqlite3.connect(former.broker.data_dir / "tandem.db")) as file, file:
        file.execute("UPDATE log_head SET epochs = ''")
    (former.broker.data_dir / "tandem.db").replace(place.broker.data_dir / "tandem.db")


def _copy(place: Place, copy: Path) -> None:
    """By way of another database."""
    former = place_in(place.broker.folder / "former", place.broker)
    former.done("restore", str(copy))
    with former.broker:
        pass
    to = place.url or f"sqlite:///{place.broker.data_dir / 'tandem.db'}"
    if place.url is None:
        (place.broker.data_dir / "tandem.db").unlink()
    else:
        _empty(place)
    former.done("copy", to)


WAYS = [
    (_restore, "sqlite"),
    # On PostgreSQL the test below always runs.
    pytest.param(_copy, "postgresql", marks=VARIATION),
    (_put_back, "sqlite"),
]


@pytest.mark.parametrize(("way", "kind"), WAYS, ids=lambda value: getattr(value, "__name__", value).strip("_"))
def test_p6_nobody_goes_on_in_a_lost_history_as_if_it_were_the_restored_one(
    way: Callable[[Place, Path], None], kind: str, tmp_path: Path, request: pytest.FixtureRequest
):
    url = request.getfixturevalue("postgres_url") if kind == "postgresql" else None
    settings = {"database_url": url} if url else {}
    place = Place(BrokerProcess(tmp_path, **HASTY, **settings), url)
    copy = tmp_path / "copy"
    with ExitStack() as stack:
        stack.enter_context(place.broker)
        receiver, pool = stack.enter_context(Receiver()), stack.enter_context(ThreadPoolExecutor(1))
        desk = stack.enter_context(Desk(place.broker.url, fresh_project()))
        added(desk, receiver.url)
        review = desk.put_up()
        shared = desk.do("get_audit_log")["cursor"]
        before = [desk.put_up() for _ in range(2)]
        place.done("backup", str(copy))
        lost = [desk.put_up() for _ in range(3)]
        desk.say(review, "proposer")
        cursor = desk.do("get_audit_log")["cursor"]
        receiver.until(lambda: receiver.of(lost[-1]) == ["review_created"])
        waiting = pool.submit(_decided, desk, review)
        until(lambda: place.broker.health()["waiting"], "a client waits")
        place.broker.stop()
        way(place, copy)
        place.broker.start()
        after = [desk.put_up() for _ in range(8)]
        for operation in ("get_audit_log", "get_activity_feed", "list_reviews"):
            desk.refused("CURSOR_EXPIRED", operation, cursor=cursor, wait=True, timeout_s=WAIT_SECONDS)
        desk.refused("CURSOR_EXPIRED", "get_review_status", review_id=review, cursor=cursor, wait=True)
        with httpx.stream("GET", f"{place.broker.url}/events", params={"after": cursor}) as stream:
            assert "event: reset" in itertools.islice(stream.iter_lines(), 6)
        heard = desk.do("get_audit_log", cursor=shared, limit=200)
        assert [event["subject"] for event in heard["events"]] == [*before, *after]
        receiver.until(lambda: all(receiver.of(one) == ["review_created"] for one in after))
        assert desk.do("get_audit_log", cursor=heard["cursor"])["events"] == []
        desk.approve(review)
        assert waiting.result() == "approved"
    assert place.broker.audited().data["problems"] == []


def test_p6_brokers_that_find_out_one_after_the_other_that_a_copy_was_put_back_take_each_others_cursors(
    postgres_server: PostgresServer, tmp_path: Path
):
    """By PostgreSQL's own means, so that nothing but the brokers' own records tells."""
    url = postgres_server.create_database()
    folders = [tmp_path / name for name in ("one", "two")]
    for folder in folders:
        folder.mkdir()

    def brokers(of: str) -> list[BrokerProcess]:
        return [BrokerProcess(folder, database_url=of, checkpoint_interval_seconds=0.05, **HASTY) for folder in folders]

    with ExitStack() as stack:
        first, second = brokers(url)
        desk = stack.enter_context(Desk(stack.enter_context(first).url, fresh_project()))
        before = desk.put_up()
        first.stop()
        copy = postgres_server.copy_database(url)
        first.start()
        stack.enter_context(second)
        _until_both_have_written_a_checkpoint(folders, desk)
        cursor = desk.do("get_audit_log")["cursor"]
    with ExitStack() as stack:
        desks: list[Desk] = []
        for broker in brokers(copy):
            stack.enter_context(broker)
            desks.append(stack.enter_context(Desk(broker.url, desk.project)))
        after = [one.put_up() for one in desks * 3]
        deadline = time.monotonic() + WAIT_SECONDS
        for one, other in (desks, desks[::-1]):
            one.refused("CURSOR_EXPIRED", "get_audit_log", cursor=cursor)
            page = one.do("get_audit_log", limit=200)
            assert [event["subject"] for event in page["events"]] == [before, *after]
            # The first one reads in the log, on a busy machine a moment later, that the second one found the copy.
            while not other.call("get_audit_log", cursor=one.do("get_audit_log")["cursor"])["ok"]:
                assert time.monotonic() < deadline


def _until_both_have_written_a_checkpoint(folders: list[Path], desk: Desk) -> None:
    """Return once each broker knows of a checkpoint of its own that came after its start."""
    files = [folder / "data" / "databases.json" for folder in folders]
    known = [file.read_bytes() for file in files]

    def have_written() -> bool:
        desk.put_up()
        return all(file.read_bytes() != old for file, old in zip(files, known, strict=True))

    until(have_written, "both have written a checkpoint")


def _decided(desk: Desk, review: str) -> str:
    """The status that a client gets which waits for a verdict from its own cursor on."""

    async def wait() -> str:
        async with TandemClient(desk.url, project=desk.project) as client:
            return (await client.wait_for_verdict(review)).status

    return asyncio.run(wait())

"""P6: a waiter misses nothing, and is woken by nothing that is not its own."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from tests.acceptance.databases import run_sql
from tests.acceptance.reviewing import REVIEWER, Desk
from tests.acceptance.waiting import Waiter, until_waiting
from tests.broker import BrokerProcess, StartBroker, database_of, fresh_project
from tests.databases import ON_BOTH_DATABASES

pytestmark = pytest.mark.anyio
ON_SQLITE = pytest.mark.parametrize("alone", ["sqlite"], indirect=True)
LONG = 45
SHORT = 0.2
MANY = 60
WAITS: dict[str, dict[str, Any]] = {
    "get_review_status": {"wake_on": "any"},
    "list_reviews": {"status": "pending"},
    "get_activity_feed": {},
    "get_audit_log": {},
}


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def alone(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker in which no one else waits, for all tests here, on each database."""
    with ExitStack() as stack:
        folder = tmp_path_factory.mktemp("broker")
        yield stack.enter_context(BrokerProcess(folder, **database_of(request, stack)))


@pytest.fixture
def quiet(alone: BrokerProcess) -> Iterator[tuple[BrokerProcess, Desk]]:
    """That broker, and a project."""
    with Desk(alone.url, fresh_project()) as desk:
        yield alone, desk


async def test_p6_the_broker_wakes_each_waiter_by_its_own_event_only(quiet: tuple[BrokerProcess, Desk]):
    broker, desk = quiet
    review, other = desk.put_up(), desk.put_up()
    cursor = desk.status(other)["cursor"]
    asked = {"project": desk.project, "wait": True, "cursor": cursor, "timeout_s": LONG}
    async with contextlib.AsyncExitStack() as stack:
        by_name = {
            name: await stack.enter_async_context(
                Waiter(broker, name, **asked, **more, **({"review_id": review} if "wake_on" in more else {}))
            )
            for name, more in WAITS.items()
        }
        with Desk(broker.url, fresh_project()) as elsewhere:
            await until_waiting(broker, len(WAITS))
            elsewhere.put_up()
        # Another project's event wakes no one here; another review's only those who look at the whole project.
        desk.claim(other)
        for name in ("list_reviews", "get_activity_feed", "get_audit_log"):
            answer = await by_name[name].answer()
            assert answer["changed"]
            assert answer["cursor"] != cursor
        await until_waiting(broker, 1)
        desk.claim(review)
        assert (await by_name["get_review_status"].answer())["status"] == "claimed"
    await until_waiting(broker, 0)


@ON_SQLITE
async def test_p6_many_waiters_are_each_woken_by_exactly_their_own(quiet: tuple[BrokerProcess, Desk]):
    broker, desk = quiet
    reviews = [desk.put_up() for _ in range(10)]
    per_review = MANY // len(reviews)
    asked = {"wait": True, "wake_on": "any", "timeout_s": LONG}
    async with contextlib.AsyncExitStack() as stack:
        waiters: dict[str, list[Waiter]] = {}
        for review in reviews:
            cursor = desk.status(review)["cursor"]
            waiters[review] = [
                await stack.enter_async_context(
                    Waiter(broker, "get_review_status", review_id=review, cursor=cursor, **asked)
                )
                for _ in range(per_review)
            ]
        await until_waiting(broker, MANY)
        for done, review in enumerate(reviews, 1):
            desk.claim(review)
            answers = await asyncio.gather(*[waiter.answer() for waiter in waiters[review]])
            assert {(answer["review_id"], answer["status"], answer["changed"]) for answer in answers} == {
                (review, "claimed", True)
            }
            await until_waiting(broker, MANY - done * per_review)


@ON_SQLITE
async def test_p6_a_client_that_hangs_up_frees_its_wait(quiet: tuple[BrokerProcess, Desk]):
    broker, desk = quiet
    review = desk.put_up()
    asked = {"review_id": review, "wait": True, "cursor": desk.status(review)["cursor"], "timeout_s": LONG}
    async with contextlib.AsyncExitStack() as stack:
        for _ in range(10):
            await stack.enter_async_context(Waiter(broker, "get_review_status", **asked))
        await until_waiting(broker, 10)
    await until_waiting(broker, 0)


@ON_SQLITE
async def test_p6_waits_are_answered_when_the_broker_stops(quiet: tuple[BrokerProcess, Desk]):
    broker, desk = quiet
    review = desk.put_up()
    cursor = desk.status(review)["cursor"]
    asked = {"review_id": review, "wait": True, "cursor": cursor, "timeout_s": LONG}
    async with Waiter(broker, "get_review_status", **asked) as waiter:
        await until_waiting(broker, 1)
        stopping = asyncio.create_task(asyncio.to_thread(broker.stop))
        answer = await waiter.answer()
        assert (answer["changed"], answer["cursor"]) == (False, cursor)
        await stopping
    await asyncio.to_thread(broker.start)


UNHEARD = (
    (
        "INSERT INTO events (seq, at, project, subject, actor, kind, data, delta, previous, hash)"
        " SELECT seq + 1, 0, 'elsewhere', 'rv_unheard', 'another', 'message_sent', '{}', '{}', '', '' FROM log_head"
    ),
    "UPDATE log_head SET seq = seq + 1",
)
"""An event of which no notice reaches the broker."""


@ON_BOTH_DATABASES
async def test_p6_a_wait_looks_again_though_nobody_notifies_it(
    start_broker: StartBroker, database_settings: dict[str, object]
):
    """Before it answers that nothing came; and now and then, where other nodes write."""
    broker = start_broker(**database_settings)
    with Desk(broker.url, fresh_project()) as desk:
        cursor = desk.do("get_audit_log", project=None)["cursor"]
    for timeout_s in (1, LONG) if database_settings else (1,):
        async with (
            Waiter(broker, "get_audit_log", wait=True, timeout_s=timeout_s, cursor=cursor) as waiter,
            asyncio.timeout(LONG / 2),
        ):
            await until_waiting(broker, 1)
            run_sql(broker, database_settings, *UNHEARD)
            answer = await waiter.answer()
        assert [event["subject"] for event in answer["events"]] == ["rv_unheard"]
        cursor = answer["cursor"]


async def test_p6_a_wait_goes_on_after_a_kill_with_the_same_cursor(quiet: tuple[BrokerProcess, Desk]):
    broker, desk = quiet
    review = desk.put_up()
    cursor = desk.status(review)["cursor"]
    asked = {"review_id": review, "wait": True, "cursor": cursor, "timeout_s": LONG}
    async with Waiter(broker, "get_review_status", **asked) as cut_off:
        await until_waiting(broker, 1)
        await asyncio.to_thread(broker.kill)
        with pytest.raises((EOFError, ConnectionError)):
            await cut_off.answer()
    await asyncio.to_thread(broker.start)
    async with Waiter(broker, "get_review_status", **asked) as waiter:
        await until_waiting(broker, 1)
        with Desk(broker.url, desk.project) as again:
            again.approve(review)
        answer = await waiter.answer()
        assert (answer["status"], answer["changed"]) == ("approved", True)


def test_p6_a_verdict_before_the_wait_answers_at_once(desk: Desk):
    created = desk.put_up_whole()
    desk.approve(created["review_id"])
    for more in ({"cursor": created["cursor"]}, {"cursor": created["cursor"], "wake_on": "any"}, {}):
        answer = desk.do("get_review_status", review_id=created["review_id"], wait=True, timeout_s=LONG, **more)
        assert (answer["status"], answer["changed"]) == ("approved", True)


async def test_p6_by_default_a_waiter_is_woken_when_it_is_its_turn(broker: BrokerProcess, desk: Desk):
    created = desk.put_up_whole()
    review, asked = created["review_id"], {"wait": True, "cursor": created["cursor"], "timeout_s": LONG}
    by_turn = Waiter(broker, "get_review_status", review_id=review, **asked)
    by_any = Waiter(broker, "get_review_status", review_id=review, wake_on="any", **asked)
    async with by_turn, by_any:
        desk.claim(review)
        assert (await by_any.answer())["status"] == "claimed"
        desk.say(review, "reviewer", "Why?")
        answer = await by_turn.answer()
    # The claim did not wake it, the question did.
    assert (answer["status"], answer["turn"], answer["next_action"]) == ("in_review", "proposer", "answer_message")
    desk.say(review, "proposer", "Therefore.")
    waiting = desk.do(
        "get_review_status", review_id=review, wait=True, cursor=answer["cursor"], timeout_s=SHORT, wake_on="turn"
    )
    assert (waiting["changed"], waiting["cursor"]) == (False, answer["cursor"])


def test_p6_a_wait_in_vain_says_so_and_its_cursor_goes_on(desk: Desk):
    review = desk.put_up()
    cursor = desk.do("get_audit_log")["cursor"]
    for name, more in WAITS.items():
        wanted = {"review_id": review} if name == "get_review_status" else {}
        answer = desk.do(name, **wanted, **more, wait=True, cursor=cursor, timeout_s=SHORT)
        assert not answer["changed"]
        # No further than the log has come meanwhile: the broker is shared, and its chores may have written elsewhere.
        assert number_of(cursor) <= number_of(answer["cursor"]) <= number_of(desk.do("get_audit_log")["cursor"])
        cursor = answer["cursor"]
    desk.claim(review)
    for name, more in WAITS.items():
        wanted = {"review_id": review} if name == "get_review_status" else {}
        answer = desk.do(name, **wanted, **more, wait=True, cursor=cursor, timeout_s=LONG)
        assert answer["changed"]


def test_p6_a_wait_without_a_cursor_pins_one_and_an_empty_queue_waits_for_its_first_review(desk: Desk):
    empty = desk.do("list_reviews", status="pending", wait=True, timeout_s=SHORT)
    assert (empty["reviews"], empty["changed"]) == ([], False)
    review = desk.put_up()
    answer = desk.do("list_reviews", status="pending", wait=True, cursor=empty["cursor"], timeout_s=LONG)
    assert [row["review_id"] for row in answer["reviews"]] == [review]
    assert desk.do("list_reviews", status="pending", wait=True, timeout_s=LONG)["changed"]
    pinned = desk.do("get_review_status", review_id=review, wait=True, timeout_s=SHORT)
    assert pinned["changed"] is False
    desk.approve(review)
    answer = desk.do("get_review_status", review_id=review, wait=True, cursor=pinned["cursor"], timeout_s=LONG)
    assert answer["changed"]


def test_p6_the_audit_log_is_followed_page_by_page(desk: Desk):
    cursor = desk.do("get_audit_log")["cursor"]
    review = desk.put_up_claimed()
    for _ in range(3):
        desk.verdict(review, "comment")
    seen: list[str] = []
    while True:
        page = desk.do("get_audit_log", cursor=cursor, limit=2)
        seen += [event["kind"] for event in page["events"]]
        cursor = page["cursor"]
        if not page["more"]:
            break
    assert seen == ["review_created", "review_claimed", *["verdict_comment"] * 3]
    assert desk.do("get_audit_log", cursor=cursor)["events"] == []


def test_p6_a_filtered_log_loses_nothing(desk: Desk):
    cursor = desk.do("get_audit_log")["cursor"]
    desk.approve(desk.put_up())
    for filters, kinds in (
        ({"kind": "review_claimed"}, ["review_claimed"]),
        ({"actor": REVIEWER}, ["review_claimed", "verdict_submitted"]),
        ({"kind": "review_created", "actor": REVIEWER}, []),
    ):
        page = desk.do("get_audit_log", cursor=cursor, **filters)
        assert [event["kind"] for event in page["events"]] == kinds


def test_a_cursor_that_is_none_of_ours_is_refused(desk: Desk):
    review = desk.put_up()
    log, _, place = desk.do("get_audit_log")["cursor"].rpartition(".")
    malformed = ("x", "1", f"{log}.", f"{log}.-1", f"{log}.1e3", f"{log}.{'9' * 40}", f"{log}.\u0663", ".")
    foreign = (f"another.{place}", f"{log}.{int(place) + 1_000_000}")
    for operation, wait in itertools.product(WAITS, (True, False)):
        wanted = {"review_id": review} if operation == "get_review_status" else {}
        for cursor in malformed:
            details = desk.refused("INVALID_INPUT", operation, **wanted, cursor=cursor, wait=wait)
            assert details["field"] == "cursor"
        for cursor in foreign:
            desk.refused("CURSOR_EXPIRED", operation, **wanted, cursor=cursor, wait=wait)


def test_an_unknown_and_a_closed_review_are_not_waited_for(desk: Desk):
    desk.refused("NOT_FOUND", "get_review_status", review_id="rv_nothing", wait=True, timeout_s=LONG)
    review = desk.put_up()
    desk.do("close_review", review_id=review)
    assert desk.do("get_review_status", review_id=review, wait=True, timeout_s=LONG)["status"] == "closed"


def test_nobody_waits_longer_than_the_setting(start_broker: StartBroker):
    broker = start_broker(wait_max_seconds=SHORT)
    with Desk(broker.url, fresh_project()) as desk:
        for more in ({}, {"timeout_s": 86_400}):
            assert not desk.do("list_reviews", wait=True, **more)["changed"]


def number_of(cursor: str) -> int:
    """The number of the event that a cursor stands behind."""
    return int(cursor.rpartition(".")[2])

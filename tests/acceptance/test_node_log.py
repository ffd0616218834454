"""The log of several brokers that write at the same time: nothing in it is passed over, and each review is in order."""

from __future__ import annotations

import asyncio
import itertools
from collections import defaultdict
from collections.abc import Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from tests.acceptance.reviewing import Desk, at_once
from tests.acceptance.waiting import Waiter, until_waiting

if TYPE_CHECKING:
    from tests.acceptance.two_brokers import Site

LONG = 45

pytest_plugins = ["tests.acceptance.two_brokers"]
pytestmark = pytest.mark.anyio


@contextmanager
def straggler(site: Site, desk: Desk, review: str) -> Generator[None]:
    """Within the block a message for the review is on its way, in a transaction older than all that begin there."""
    with ThreadPoolExecutor(1) as pool, psycopg.connect(site.database) as holder:
        holder.execute("SELECT id FROM reviews WHERE id = %s FOR UPDATE", (review,))
        sent = pool.submit(desk.say, review, "proposer")
        with psycopg.connect(site.database, autocommit=True) as watcher:
            while not _is_held_up(watcher) and not sent.done():
                pass
        try:
            yield
        finally:
            holder.rollback()
            sent.result()


def _is_held_up(watcher: psycopg.Connection[Any]) -> bool:
    asked = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
    return watcher.execute(asked).fetchone() != (0,)


async def test_p6_what_a_slower_transaction_writes_is_passed_over_by_nobody(site: Site, desks: tuple[Desk, Desk]):
    one, two = desks
    slow = one.put_up()
    cursor = two.do("get_audit_log")["cursor"]
    asked: dict[str, Any] = {"project": two.project, "wait": True, "timeout_s": LONG}
    with ExitStack() as under_way:
        under_way.enter_context(straggler(site, one, slow))
        created = two.put_up_whole()
        fast, place = created["review_id"], created["cursor"]
        # The node that wrote it sees it; readers of the log wait, as an event may still come in before it.
        assert two.kinds(fast) == subjects_and_kinds(two.do("get_audit_log", review_id=fast))[fast]
        assert two.do("get_audit_log", cursor=cursor)["events"] == []
        assert two.do("get_review_status", review_id=fast, cursor=place)["changed"] is False
        assert two.do("get_audit_log", review_id=fast, cursor=place)["events"] == []
        async with (
            Waiter(site.two, "get_audit_log", cursor=place, **asked) as by_log,
            Waiter(site.two, "list_reviews", cursor=place, **asked) as by_list,
        ):
            await until_waiting(site.two, 2)
            under_way.close()
            assert (await by_log.answer())["changed"]
            assert (await by_list.answer())["changed"]
    seen: list[str] = []
    while len(seen) < 2:
        page = two.do("get_audit_log", cursor=cursor, wait=True, timeout_s=LONG)
        seen, cursor = [*seen, *(event["subject"] for event in page["events"])], page["cursor"]
    assert seen == [slow, fast]
    # Its place is one of the log as it was then, before which the message came in.
    assert slow in subjects_and_kinds(two.do("get_audit_log", cursor=place))


async def test_p6_a_wait_does_not_sleep_over_an_event_while_another_database_has_a_long_transaction(
    site: Site, desks: tuple[Desk, Desk]
):
    one, two = desks
    cursor = two.do("get_audit_log")["cursor"]
    asked: dict[str, Any] = {"project": two.project, "cursor": cursor, "wait": True, "timeout_s": LONG}
    with psycopg.connect(site.server) as elsewhere:
        elsewhere.execute("SELECT pg_current_xact_id()")
        for _ in range(3):
            async with Waiter(site.two, "get_audit_log", **asked) as waiter:
                await until_waiting(site.two, 1)
                review = await asyncio.to_thread(one.put_up)
                page = await waiter.answer()
                assert subjects_and_kinds(page) == {review: ["review_created"]}
                asked["cursor"] = page["cursor"]


def test_p6_who_follows_the_log_by_waits_hears_everything_once_and_in_order(desks: tuple[Desk, Desk]):
    """Eight write at two brokers, on reviews of their own and on one that is everybody's, while two follow."""
    one = desks[0]
    shared = one.put_up()
    generation = one.claim(shared)
    cursor = one.do("get_audit_log")["cursor"]

    def work(desk: Desk) -> list[tuple[int, str, str]]:
        for number in range(_REVIEWS):
            review = desk.put_up(description=f"Number {number}.")
            desk.verdict(shared, "comment", generation)
            desk.approve(review)
            desk.do("close_review", review_id=review)
        return []

    def follow(desks_in_turn: Sequence[Desk]) -> list[tuple[int, str, str]]:
        seen: list[tuple[int, str, str]] = []
        place, turns = cursor, itertools.cycle(desks_in_turn)
        while len([kind for _, _, kind in seen if kind == "review_closed"]) < _WRITERS * _REVIEWS:
            page = next(turns).do("get_audit_log", cursor=place, wait=True, timeout_s=LONG, limit=7)
            assert page["changed"] or page["more"], "a wait slept over an event"
            seen += [(event["seq"], event["subject"], event["kind"]) for event in page["events"]]
            place = page["cursor"]
        return seen

    projects = [desk.project for desk in desks]
    with ExitStack() as stack:
        own = [stack.enter_context(Desk(desk.url, projects[0])) for desk in desks * (_WRITERS // 2 + 2)]
        followers = [partial(follow, (own[0], own[1])), partial(follow, (own[2],))]
        *_, both, single = at_once([*[partial(work, desk) for desk in own[4:]], *followers])
    assert both == single == sorted(set(both))
    assert len(both) == _WRITERS * _REVIEWS * 5
    assert [kind for _, subject, kind in both if subject == shared] == one.kinds(shared)[2:]


_WRITERS = 8
_REVIEWS = 3


def subjects_and_kinds(page: dict[str, Any]) -> dict[str, list[str]]:
    """What a page of the log says of each subject."""
    found: dict[str, list[str]] = defaultdict(list)
    for event in page["events"]:
        found[event["subject"]].append(event["kind"])
    return dict(found)

"""Inbox, search and waits where there is far more than one call looks at: nothing that matters is missed."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.databases import run_sql
from tests.acceptance.reviewing import Desk
from tests.acceptance.waiting import Waiter, until_waiting
from tests.broker import BrokerProcess
from tests.store.histories import statements

REVIEWS = 4_500
LOOKED_AT = 2_000
"""Reviews that one search looks through."""
LATE = {"category": "verification", "proposer_id": "late", "description": "The last in the queue."}


@contextmanager
def stocked(folder: Path, settings: dict[str, object], reviews: int, open_reviews: int) -> Generator[Desk]:
    with (
        BrokerProcess(folder, sweep_interval_seconds=3600, **settings) as broker,
        Desk(broker.url, "alpha") as desk,
    ):
        # Far from the numbers of the events that are written here.
        run_sql(broker, settings, *statements(reviews, open_reviews), "UPDATE log_head SET seq = 1000000")
        yield desk


@pytest.fixture
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("broker")


def test_a_search_stops_after_so_many_reviews_and_says_where(folder: Path, database_settings: dict[str, object]):
    with stocked(folder, database_settings, REVIEWS, 50) as desk:
        # By latest activity it goes back in the log, which has two events a review, by pages.
        answers = desk.pages("search_reviews", project=None, sort="updated", text="nowhere")
        assert [answer["searched_back_to"] is None for answer in answers] == [False, False, True]
        rows = desk.rows("search_reviews", "reviews", project=None, sort="updated", proposer="agent-7", limit=30)
        found = [row["review_id"] for row in rows]
        assert found == sorted(set(found), reverse=True)
        assert len(found) == REVIEWS // 40 + 1
        for sort in ("newest", "oldest", "queue"):
            answers = desk.pages("search_reviews", project=None, sort=sort, text="nowhere")
            assert [answer["reviews"] for answer in answers] == [[]] * 3
            assert [answer["searched_back_to"] is None for answer in answers] == [False, False, True]
        newest = desk.pages("search_reviews", project=None, sort="newest", text="nowhere")
        places = [answer["searched_back_to"] for answer in newest[:2]]
        last = [REVIEWS - LOOKED_AT * number + 1 for number in (1, 2)]
        assert places == [f"1970-01-01T00:00:{number / 100:09.6f}Z" for number in last]
        # Reviews found on the way are found once, for any size of page.
        for sort, limit in (("newest", 40), ("oldest", 200), ("queue", 40)):
            wanted = {"project": None, "sort": sort, "limit": limit, "proposer": "agent-7"}
            found = desk.rows("search_reviews", "reviews", **wanted)
            assert len({row["review_id"] for row in found}) == len(found) == REVIEWS // 40 + 1
        # Only open ones are looked through where only they can be meant.
        [answer] = desk.pages("search_reviews", project=None, sort="oldest", status="pending", text="nowhere")
        assert answer["searched_back_to"] is None


def test_in_a_crowd_the_inbox_still_has_what_concerns_the_person_and_what_is_wrong(
    folder: Path, database_settings: dict[str, object]
):
    with stocked(folder, database_settings, 3_000, 3_000) as desk:
        mine, held, failed = (desk.put_up(**LATE) for _ in range(3))
        desk.decide(mine, "changes_requested")
        desk.claim(held, "rita-the-late")
        for number in (1, 2, 3):
            desk.decide(failed, "changes_requested")
            if number < 3:
                desk.revise(failed, **LATE)
        shown = desk.do("get_inbox", person="late", project=None)
        assert shown["counts"] == {"your_turn": 51, "waiting": 1, "problems": 51}
        first = {tray: shown[tray][0] for tray in shown["counts"]}
        # Everyone is told of problems, first of those that concern them.
        assert {tray: one["review"]["review_id"] for tray, one in first.items()} == {
            "your_turn": mine,
            "waiting": held,
            "problems": failed,
        }
        assert (first["your_turn"]["why"], first["problems"]["why"]) == ("revise", "escalate")
        holder = desk.do("get_inbox", person="rita-the-late")["your_turn"][0]
        assert (holder["review"]["review_id"], holder["why"]) == (held, "verdict")


HISTORY = [
    *statements(6_000, 5),
    "UPDATE events SET kind = 'verdict_submitted' WHERE seq IN (1, 9000)",
    "UPDATE log_head SET seq = 12000",
]
"""With a verdict at either side of the 5,000 events that one scan looks through, and one review that was sent back."""


@pytest.mark.anyio
async def test_p6_a_wait_hears_of_all_that_comes_after_it_began_also_behind_thousands_of_other_events(
    folder: Path, database_settings: dict[str, object]
):
    with (
        BrokerProcess(folder, sweep_interval_seconds=3600, **database_settings) as broker,
        Desk(broker.url, "alpha") as desk,
    ):
        beginning = desk.do("get_audit_log")["cursor"]
        asked = {"project": "alpha", "kind": "verdict_submitted", "limit": 1, "wait": True, "timeout_s": 45}
        async with Waiter(broker, "get_audit_log", **asked) as waiter:
            await until_waiting(broker, 1)
            run_sql(broker, database_settings, *HISTORY)
            desk.put_up()
            first = await waiter.answer()
        assert [event["seq"] for event in first["events"]] == [1]
        rest = desk.do("get_audit_log", **{**asked, "cursor": first["cursor"]})
        assert [event["seq"] for event in rest["events"]] == [9000]
        run_sql(broker, database_settings, "UPDATE events SET kind = 'message_sent' WHERE seq = 1")
        wanted: dict[str, Any] = {"cursor": beginning, "wait": True, "timeout_s": 0.1}
        log = desk.do("get_audit_log", kind="verdict_submitted", **wanted)
        assert ([event["seq"] for event in log["events"]], log["changed"]) == ([9000], True)
        feed = desk.do("get_activity_feed", status="changes_requested", **wanted)
        assert [entry["review"]["review_id"] for entry in feed["entries"]] == ["rv_1001200"]
        assert feed["changed"]
        # And where there is none, the whole log was looked through.
        none = desk.do("get_audit_log", kind="review_closed", **wanted)
        assert (none["events"], none["more"], none["changed"]) == ([], False, False)
        assert not desk.do("get_activity_feed", status="approved", **wanted)["changed"]

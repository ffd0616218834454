"""The line of each base branch: one landing at a time, in the order in which they came."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from tests.acceptance.reviewing import Desk, at_once
from tests.databases import ON_BOTH_DATABASES

if TYPE_CHECKING:
    from tests.acceptance.two_brokers import Site

pytest_plugins = ["tests.acceptance.two_brokers"]

HEAD, TIP, COMMIT = (letter * 40 for letter in "123")


def queued(desk: Desk, source: str, branch: str = "main", head: str = HEAD) -> dict[str, Any]:
    """A place in the line."""
    return desk.do("report_landing", branch=branch, source=source, head=head, state="waiting")


def said(landing: dict[str, Any], state: str, **more: Any) -> dict[str, Any]:
    """The report of a landing's process."""
    named = ("branch", "source", "head", "landing_id", "generation")
    return {**{name: landing[name] for name in named}, "state": state, **more}


@ON_BOTH_DATABASES
def test_each_base_branch_has_a_line_of_its_own_in_the_order_in_which_they_came(desk: Desk) -> None:
    one, two, other = queued(desk, "one"), queued(desk, "two"), queued(desk, "one", "release")
    assert [landing["place"] for landing in (one, two, other)] == [1, 2, 1]
    early = desk.refused("INVALID_TRANSITION", "report_landing", **said(two, "checking"))
    assert early["status"] == "checking"
    desk.do("report_landing", **said(one, "landing", tip=TIP, commit=COMMIT, review_ids=["rv_1"]))
    desk.do("report_landing", **said(one, "landed"))
    assert desk.do("report_landing", **said(two, "checking"))["place"] == 1
    listed = desk.do("list_landings", branch="main")["landings"]
    assert [(row["source"], row["state"], row["place"]) for row in listed] == [
        ("two", "checking", 1),
        ("one", "landed", None),
    ]
    assert (listed[1]["commit"], listed[1]["review_ids"]) == (COMMIT, ["rv_1"])
    assert [row["branch"] for row in desk.do("list_landings", source="one")["landings"]] == ["release", "main"]
    desk.refused("STALE_CLAIM", "report_landing", **said(one, "waiting"))


def test_who_comes_again_keeps_the_place_and_the_process_before_has_lost_it(desk: Desk) -> None:
    before = queued(desk, "one")
    queued(desk, "two")
    again = queued(desk, "one", head=TIP)
    assert (again["landing_id"], again["place"], again["generation"]) == (before["landing_id"], 1, 2)
    lost = desk.refused("STALE_CLAIM", "report_landing", **said(before, "checking"))
    assert (lost["expected"], lost["actual"]) == (2, 1)
    desk.refused("NOT_FOUND", "report_landing", **said({**again, "landing_id": "ld_0"}, "checking"))


def test_a_wait_ends_with_news_of_the_line_and_a_sign_of_life_is_none(desk: Desk) -> None:
    one = queued(desk, "one")
    listed = desk.do("list_landings")
    desk.do("report_landing", **said(one, "waiting"))
    asked = {"cursor": listed["cursor"], "wait": True}
    assert not desk.do("list_landings", **asked, timeout_s=0.1)["changed"]
    desk.do("report_landing", **said(one, "checking"))
    news = desk.do("list_landings", **asked, timeout_s=10)
    assert (news["changed"], news["landings"][0]["state"]) == (True, "checking")
    kinds = [event["kind"] for event in desk.do("get_audit_log")["events"]]
    assert sorted(kind for kind in kinds if kind != "checkpoint") == ["landing_queued", "landing_started"]


@pytest.mark.usefixtures("site")
def test_two_brokers_have_one_line(desks: tuple[Desk, Desk], site: Site) -> None:
    calls = [
        partial(
            desks[number % 2].call, "report_landing", branch="main", source=f"b{number}", head=HEAD, state="waiting"
        )
        for number in range(8)
    ]
    places = [answer["data"]["place"] for answer in at_once(calls)]
    assert sorted(places) == list(range(1, 9))
    lines = [desk.do("list_landings")["landings"] for desk in desks]
    assert lines[0] == lines[1]
    for number, row in enumerate(lines[0]):
        first, second = desks[number % 2], desks[1 - number % 2]
        assert first.do("report_landing", **said(row, "checking"))["place"] == 1
        assert second.do("report_landing", **said(row, "failed", reason="Enough."))["place"] is None
    assert all(row["state"] == "failed" for row in desks[0].do("list_landings")["landings"])
    del site

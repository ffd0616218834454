"""Search: by what reviews say and touch, in every order, page by page."""

from __future__ import annotations

from typing import Any

import pytest

from tests.acceptance.pooling import Steward
from tests.acceptance.reviewing import OTHER, Desk, edited
from tests.acceptance.tables import table
from tests.broker import BrokerProcess, fresh_project
from tests.databases import ON_BOTH_DATABASES
from tests.git.sandbox import new_file

SORTS = ("queue", "newest", "oldest", "updated")


def search(desk: Desk, **wanted: Any) -> dict[str, Any]:
    return desk.do("search_reviews", **wanted)


def ids(desk: Desk, **wanted: Any) -> list[str]:
    """The reviews that a search finds, by pages of two."""
    answers = desk.pages("search_reviews", limit=2, **wanted)
    assert max(len(answer["reviews"]) for answer in answers) <= 2
    assert answers[-1]["searched_back_to"] is None
    return [row["review_id"] for answer in answers for row in answer["reviews"]]


@pytest.fixture
def mixed(desk: Desk) -> dict[str, str]:
    """A review in each state, with different texts, kinds and people."""
    made = {
        "plan": desk.put_up(intent="Plan the search", agent_type="planner", category="plan_review"),
        "held": desk.put_up(
            intent="Add an INDEX", category="code_change", diff=edited(), phase="03", plan="search-plan", task="t-7"
        ),
        "asked": desk.put_up(
            intent="Größe ändern", description="Die GRÖSSE der Straße.", category="code_change", diff=edited()
        ),
        "approved": desk.put_up(intent="Rename it", description="100 % of _names_", category="verification"),
        "rejected": desk.put_up(intent="Drop the index", proposer_id=OTHER, category="code_change", diff=edited()),
        "closed": desk.put_up(intent="Old search", category="code_change", diff=edited()),
    }
    desk.claim(made["held"])
    desk.claim(made["asked"])
    desk.verdict(made["asked"], "changes_requested")
    desk.approve(made["approved"], "rita")
    desk.claim(made["rejected"])
    desk.verdict(made["rejected"], "rejected")
    desk.do("close_review", review_id=made["closed"])
    return made


def named(mixed: dict[str, str], found: list[str]) -> set[str]:
    assert len(found) == len(set(found))
    return {name for name, review in mixed.items() if review in found}


FOUND: list[tuple[dict[str, Any], list[str]]] = table("searches")


@ON_BOTH_DATABASES
def test_every_filter_finds_the_same_in_every_order(desk: Desk, mixed: dict[str, str]):
    for wanted, expected in FOUND:
        for sort in SORTS:
            assert named(mixed, ids(desk, sort=sort, **wanted)) == {*expected}, (sort, wanted)


def test_an_id_or_a_part_of_it_is_found(desk: Desk, mixed: dict[str, str]):
    review = mixed["closed"]
    for text in (review, review.upper(), review[3:]):
        assert ids(desk, text=text, sort="newest") == [review]
    again = desk.put_up(parent_id=mixed["rejected"], proposer_id=OTHER)
    assert ids(desk, text=mixed["rejected"], sort="oldest") == [mixed["rejected"], again]


@ON_BOTH_DATABASES
def test_the_four_orders(desk: Desk):
    kinds: list[dict[str, Any]] = [{"category": "verification"}, {}, {"agent_type": "planner"}]
    reviews = [desk.put_up(**kind) for kind in kinds * 2]
    desk.claim(reviews[1])
    desk.do("close_review", review_id=reviews[4])
    desk.say(reviews[0], "proposer")
    assert ids(desk) == ids(desk, sort="queue") == [reviews[place] for place in (2, 5, 1, 4, 0, 3)]
    assert ids(desk, sort="oldest") == reviews
    assert ids(desk, sort="newest") == reviews[::-1]
    assert ids(desk, sort="updated") == [reviews[place] for place in (0, 4, 1, 5, 3, 2)]
    # Open reviews, which are sorted, and those found along an index are in one order.
    open_ones = [review for review in reviews if review not in (reviews[1], reviews[4])]
    assert ids(desk, sort="oldest", status="pending") == open_ones
    assert ids(desk, sort="newest", status="pending") == open_ones[::-1]
    assert ids(desk, sort="updated", status="pending") == [reviews[place] for place in (0, 5, 3, 2)]
    assert ids(desk, sort="queue", status="pending") == [reviews[place] for place in (2, 5, 0, 3)]


def test_a_description_is_that_of_the_current_round(desk: Desk):
    review = desk.put_up(description="An early draft.")
    assert ids(desk, text="early") == [review]
    desk.revise(review, description="The final text.")
    assert ids(desk, text="early") == []
    assert ids(desk, text="FINAL improve") == [review]


@ON_BOTH_DATABASES
def test_paths_of_the_current_round_are_found_and_counted(shop: Desk):
    one = shop.put_up(diff=edited())
    three = shop.put_up(diff=edited() + edited("b.txt") + new_file("Docs/new-Page.md"))
    text = shop.put_up(description="# Plan", path="docs/plan.md")
    assert ids(shop, path="a.txt", sort="oldest") == [one, three]
    assert ids(shop, path="b.txt") == [three]
    assert ids(shop, path="docs/", sort="oldest") == [three, text]
    assert ids(shop, path="docs/", text="plan") == [text]
    assert ids(shop, path="d_cs") == []
    assert [row["files"] for row in search(shop, sort="oldest")["reviews"]] == [1, 3, 1]
    shop.revise(three, diff=edited())
    assert ids(shop, path="b.txt") == []


def test_a_row_is_that_of_a_list(shop: Desk):
    shop.put_up(diff=edited())
    [listed] = shop.do("list_reviews")["reviews"]
    assert search(shop)["reviews"] == [{**listed, "files": 1}]


def test_what_waits_for_a_person_is_found(shop: Desk):
    steward = Steward(shop)
    steward.register()
    review, other = shop.put_up(), None
    reviewer = steward.one()
    for _ in range(3):
        steward.fail(reviewer)
    other = shop.put_up()
    for sort in SORTS:
        assert ids(shop, sort=sort, attention=True) == [review]
        assert ids(shop, sort=sort, attention=False) == [other]
        assert ids(shop, sort=sort, attention=True, turn="reviewer") == []


def test_projects_are_apart_unless_none_is_named(broker: BrokerProcess, desk: Desk):
    word = fresh_project()
    here = desk.put_up(intent=word)
    with Desk(broker.url, fresh_project()) as other:
        there = other.put_up(intent=word)
        for sort in SORTS:
            assert ids(other, sort=sort, text=word) == [there]
        assert ids(other, sort="oldest", text=word, project=None) == [here, there]


@ON_BOTH_DATABASES
def test_a_page_goes_on_where_it_was_though_reviews_come_and_go(desk: Desk):
    reviews = [desk.put_up() for _ in range(5)]
    for sort in SORTS:
        before = ids(desk, sort=sort)
        first = search(desk, sort=sort, limit=2)
        desk.put_up(agent_type="planner")
        desk.say(reviews.pop(), "proposer")
        rest = search(desk, sort=sort, page=first["next_page"])["reviews"]
        shown = [row["review_id"] for row in (*first["reviews"], *rest)]
        assert len(shown) == len(set(shown))
        # What something happened to meanwhile is at the head of the latest; nothing else is missed.
        moved = set(before) - set(shown)
        assert len(moved) <= (sort == "updated")
        assert [review for review in shown if review in before] == [one for one in before if one not in moved]


def test_nonsense_is_refused(desk: Desk):
    desk.put_up()
    desk.put_up()
    page = search(desk, sort="queue", limit=1)["next_page"]
    for sort in ("newest", "oldest", "updated"):
        assert desk.refused("INVALID_INPUT", "search_reviews", sort=sort, page=page)["field"] == "page"
    for wrong in ({"sort": "best"}, {"text": "  "}, {"text": "x" * 501}, {"path": ""}, {"status": "lost"}):
        assert desk.refused("INVALID_INPUT", "search_reviews", **wrong)["field"] in wrong
    desk.refused("TOO_LARGE", "search_reviews", limit=201)

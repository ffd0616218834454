"""The five tasks for which people come, each from the inbox on, and how many keys and clicks it takes."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from tests.acceptance.pooling import ended, started
from tests.acceptance.reviewing import Desk, edited
from tests.modes import VARIATION
from tests.pages.changes import line
from tests.pages.counting import Actions
from tests.pages.test_agents_at_work import silent_for


@pytest.fixture
def ada(page: Page, shop: Desk) -> Actions:
    """Ada, who counts what she does."""
    return Actions(page)


def inbox(page: Page, shop: Desk) -> None:
    """The inbox of the project, where each task begins."""
    page.goto(f"/?project={shop.project}")


def opened(page: Page, ada: Actions) -> None:
    """The review that the inbox names first."""
    ada.click(page.locator("#unclaimed .row .act a").first)
    expect(page.locator("#acts")).to_be_visible()


def test_the_most_urgent_review_is_approved_in_three(page: Page, shop: Desk, ada: Actions) -> None:
    shop.put_up(intent="Another", diff=edited(text="other"))
    review = shop.put_up(intent="The urgent one", diff=edited(), agent_role="planner")
    inbox(page, shop)
    opened(page, ada)
    ada.click(page.get_by_role("button", name="Claim", exact=True))
    ada.click(page.get_by_role("button", name="Approve", exact=True))
    expect(page.locator("#acts").get_by_text("Approved by ada")).to_be_visible()
    assert ada.count <= 3
    assert shop.status(review)["verdict"] == "approved"


def test_three_comments_and_a_request_for_changes_take_eight(page: Page, shop: Desk, ada: Actions) -> None:
    review = shop.put_up(diff=edited())
    inbox(page, shop)
    opened(page, ada)
    for number in (1, 2, 3):
        ada.click(line(page, number))
        ada.type(f"Why {number}?")
    ada.press("Escape")
    ada.click(page.get_by_role("button", name="Request changes"))
    ada.click(page.get_by_role("dialog").get_by_role("button", name="Send with it"))
    expect(page.locator("#acts").get_by_text("Changes were requested by ada")).to_be_visible()
    assert ada.count <= 8
    found = shop.do("list_findings", review_id=review)["findings"]
    assert [(one["line"], one["claim"]) for one in found][:3] == [(number, f"Why {number}?") for number in (1, 2, 3)]


@VARIATION
def test_round_two_against_one_with_ones_own_findings_takes_three(page: Page, shop: Desk, ada: Actions) -> None:
    review = shop.put_up(diff=edited())
    generation = shop.claim(review, "ada")
    shop.verdict(
        review,
        "changes_requested",
        generation,
        findings=[{"file": "a.txt", "line": 2, "severity": "major", "claim": "It is not best."}],
    )
    shop.revise(review, diff=edited(text="best"))
    inbox(page, shop)
    opened(page, ada)
    expect(page.get_by_role("heading", name="Your 1 finding: 1 open")).to_be_visible()
    ada.click(page.get_by_role("navigation", name="Compare with").get_by_role("link", name="round 1"))
    expect(page.locator("table.diff")).to_contain_text("best")
    expect(page.locator("table.diff .thread").get_by_text("It is not best.")).to_be_visible()
    assert ada.count <= 3


@VARIATION
def test_a_counter_patch_takes_six(page: Page, shop: Desk, ada: Actions) -> None:
    review = shop.put_up(diff=edited())
    inbox(page, shop)
    opened(page, ada)
    ada.press("c")
    expect(page.get_by_text("You hold it.")).to_be_visible()
    ada.press("e")
    field = page.get_by_label("Content of a.txt")
    ada.click(field)
    field.press_sequentially("first ")
    expect(page.locator("#draft-result").get_by_text("It applies.")).to_be_visible()
    page.get_by_label("Why").fill("This is how I would write it.")
    ada.click(page.get_by_role("button", name="Request changes with it", exact=True))
    expect(page.locator("#acts").get_by_text("Changes were requested by ada")).to_be_visible()
    assert ada.count <= 6
    assert shop.status(review)["counter_patch_status"] == "pending"


def test_a_stuck_agent_is_found_and_its_review_unblocked_in_three(page: Page, shop: Desk, ada: Actions) -> None:
    steward = started(shop)
    review = shop.put_up(intent="Wait between attempts")
    name = steward.one()
    shop.claim(review, name)
    silent_for(steward, name, 24 * 60 + 1)
    inbox(page, shop)
    stuck = page.get_by_role("region", name=re.compile("^Problems")).get_by_role("listitem")
    expect(stuck.first).to_contain_text("has been silent for 24 min")
    ada.click(stuck.get_by_role("button", name="End it").first)
    expect(page.get_by_text("The reviewer was told to end.")).to_be_visible()
    steward.beat()
    assert steward.known[name] == "kill"
    steward.beat(ended(name))
    expect(page.get_by_text("has been silent")).to_have_count(0)
    assert shop.status(review)["status"] == "pending"
    assert ada.count <= 3

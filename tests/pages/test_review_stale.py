"""A page that is older than the review: told what changed, with everything that was typed still there."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from tests.acceptance.reviewing import PROPOSER, Desk, edited
from tests.broker import BrokerProcess
from tests.modes import VARIATION
from tests.pages.changes import held, line
from tests.pages.conftest import OpenWindows
from tests.pages.windows import Windows

REFUSED = "status of 409"
TYPED = "It took long to write this."


def outdated(page: Page, shop: Desk) -> str:
    """A review that Ada holds, on a page where she has typed something; live updates are blocked."""
    page.route("**/events*", lambda route: route.abort())
    review = held(page, shop)
    page.get_by_label("Your verdict on round 1").fill(TYPED)
    return review


def revised(shop: Desk, review: str) -> None:
    """Its proposer makes another round."""
    shop.revise(review, diff=edited(text="best"))


def closed(shop: Desk, review: str) -> None:
    """It is withdrawn."""
    shop.do("close_review", review_id=review)


def said(shop: Desk, review: str) -> None:
    """Its proposer writes a message."""
    shop.say(review, "proposer", "Wait.")


@pytest.mark.parametrize(
    ("elsewhere", "told"),
    [
        (revised, f"{PROPOSER} revised it: round 2"),
        pytest.param(closed, "closed it", marks=VARIATION),
        (said, "wrote a message"),
    ],
)
def test_a_verdict_on_an_older_page_is_not_sent(
    page: Page, shop: Desk, windows: Windows, elsewhere: Callable[[Desk, str], None], told: str
) -> None:
    windows.allow(REFUSED, "ERR_FAILED")
    review = outdated(page, shop)
    elsewhere(shop, review)
    before = shop.status(review)
    page.get_by_role("button", name="Approve").click()
    expect(page.get_by_text("What changed since you opened this page:")).to_be_visible()
    expect(page.locator(".acts-refusal li").get_by_text(told)).to_be_visible()
    expect(page.get_by_label("Your verdict on round")).to_have_value(TYPED)
    assert shop.status(review) == before
    if elsewhere is said:  # then it can be sent again on purpose
        page.get_by_role("button", name="Approve").click()
        expect(page.locator("#acts").get_by_text("Approved by ada")).to_be_visible()
        assert shop.status(review)["verdict_reason"] == TYPED


@VARIATION
def test_the_chosen_verdict_stays_chosen_when_it_was_not_sent(page: Page, shop: Desk, windows: Windows) -> None:
    windows.allow(REFUSED, "ERR_FAILED")
    review = outdated(page, shop)
    page.get_by_label("Your verdict on round 1").blur()
    page.keyboard.press("r")
    said(shop, review)
    page.keyboard.press("Control+Enter")
    expect(page.get_by_text("send it again if you still mean it")).to_be_visible()
    expect(page.locator("#verdict-default")).to_have_text("Ctrl Enter: Request changes")
    page.get_by_label("Your verdict on round 1").press("Control+Enter")
    expect(page.locator("#acts").get_by_text("Changes were requested by ada")).to_be_visible()


def test_nobody_decides_on_a_round_that_they_do_not_see(page: Page, shop: Desk) -> None:
    review = held(page, shop)
    page.get_by_label("Your verdict on round 1").fill(TYPED)
    shop.revise(review, diff=edited(text="best"))
    expect(page.locator("#acts").get_by_text("Claim it where the current one is shown, round 2.")).to_be_visible()
    # Who types goes on in the form, and nothing of it is a key.
    expect(page.locator("#notice")).to_contain_text("The review has changed, and your claim is over.")
    expect(page.get_by_label("Your verdict on round 1")).to_be_focused()
    page.keyboard.type(" am")
    expect(page.get_by_label("Your verdict on round 1")).to_have_value(f"{TYPED} am")
    page.keyboard.press("Escape")
    expect(page.locator("#acts").get_by_role("button", name="Claim")).to_have_count(0)
    expect(page.locator("#acts-kept")).to_contain_text(f"{TYPED} am")
    page.locator("#acts").get_by_role("link", name="Show round 2").click()
    expect(page.locator("#change").get_by_text("best")).to_be_visible()
    page.get_by_role("button", name="Claim").click()
    expect(page.get_by_label("Your verdict on round 2")).to_have_value(f"{TYPED} am")


def test_a_lost_claim_keeps_the_text_and_is_claimed_again(page: Page, shop: Desk, windows: Windows) -> None:
    windows.allow(REFUSED, "ERR_FAILED")
    review = outdated(page, shop)
    generation = shop.status(review)["claim_generation"]
    shop.do("release_claim", review_id=review, claim_generation=generation)
    page.get_by_role("button", name="Request changes").click()
    expect(page.locator("#acts").get_by_text("Not done.")).to_be_visible()
    expect(page.get_by_label("Your verdict on round 1")).to_have_value(TYPED)
    page.get_by_role("button", name="Claim it, and keep what you wrote").click()
    expect(page.get_by_text("You hold it.")).to_be_visible()
    expect(page.get_by_label("Your verdict on round 1")).to_have_value(TYPED)
    page.get_by_role("button", name="Request changes").click()
    expect(page.locator("#acts").get_by_text("Changes were requested by ada")).to_be_visible()
    assert shop.status(review)["verdict_reason"] == TYPED


def test_a_killed_and_restarted_broker_loses_nothing(
    start_broker: Callable[..., BrokerProcess], browser_windows: OpenWindows
) -> None:
    own = start_broker()
    with Desk(own.url, "label") as shop, browser_windows(own.url) as windows:
        windows.allow("ERR_CONNECTION_REFUSED|ERR_INCOMPLETE_CHUNKED_ENCODING|ERR_CONNECTION_RESET|Failed to fetch")
        page = windows.open()
        review = shop.put_up(diff=edited())
        shop.claim(review, "ada")
        page.goto(f"/reviews/{review}")
        page.get_by_label("Your verdict on round 1").fill(TYPED)
        line(page, 2).click()
        page.get_by_label("Finding on a.txt:2").fill("On this line")
        own.kill()
        expect(page.get_by_text("offline")).to_be_visible()
        page.get_by_role("button", name="Add to the verdict").click()
        page.get_by_role("button", name="Request changes").click()
        expect(page.get_by_role("alert").get_by_text("Not sent: the broker cannot be reached.")).to_be_visible()
        expect(page.get_by_label("Your verdict on round 1")).to_have_value(TYPED)
        own.start()
        expect(page.get_by_text("live", exact=True)).to_be_visible()
        expect(page.get_by_label("Your verdict on round 1")).to_have_value(TYPED)
        page.get_by_role("button", name="Request changes").click()
        expect(page.locator("#acts").get_by_text("Changes were requested by ada")).to_be_visible()
        expect(page.locator("table.diff .thread").get_by_text("On this line")).to_be_visible()
        assert shop.kinds(review).count("verdict_submitted") == 1
        assert shop.status(review)["verdict_reason"] == TYPED

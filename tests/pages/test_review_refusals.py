"""Refusals on a review's page: each says what to do next, and keeps the typed text."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable

import httpx
import pytest
from playwright.sync_api import Locator, Page, Route, expect

from tests.acceptance.reviewing import Desk, edited
from tests.broker import BrokerProcess
from tests.modes import VARIATION
from tests.pages.changes import held
from tests.pages.conftest import Check, OpenWindows
from tests.pages.windows import Windows, write

TYPED = "It took long to write this."
TEXT_LIMIT_BYTES = 256_000
BODY_LIMIT_BYTES = 400_000


def refusal(page: Page, words: str) -> Locator:
    """The refusal beside the form that was refused."""
    return page.locator(".acts-refusal").filter(has_text=words)


def send_knowingly(page: Page) -> None:
    """Send the message after somebody else's came: the page tells of that one first."""
    page.get_by_role("button", name="Send the message").click()
    expect(refusal(page, "Not sent yet.")).to_contain_text("wrote a message")
    page.get_by_role("button", name="Send the message").click()


def unheard(page: Page) -> None:
    """From now on nothing comes to the page by itself."""
    page.route("**/events*", lambda route: route.abort())


def test_nobody_decides_on_their_own(windows: Windows, shop: Desk, axe: Check) -> None:
    windows.allow("status of 403")
    page = windows.open("ada")
    review = shop.put_up(diff=edited())
    given = shop.verdict(review, "comment", shop.claim(review, "ada"), counter_patch=edited(text="better"))
    # The call does not say that it was somebody else.
    shop.do("accept_counter_patch", review_id=review, counter_patch_id=given["counter_patch_id"])
    kinds = shop.kinds(review)
    page.goto(f"/reviews/{review}")
    page.get_by_label("Your verdict on round 2").fill(TYPED)
    # There is no button for it; the key sends the form all the same.
    page.keyboard.press("Control+Enter")
    told = refusal(page, "Not done.")
    expect(told).to_contain_text("let another reviewer, or a person, take it")
    expect(page.get_by_label("Your verdict on round 2")).to_have_value(TYPED)
    axe(page, "#acts")
    assert shop.kinds(review) == kinds
    page.get_by_role("button", name="Release").click()
    expect(page.get_by_text("It is not claimed yet.")).to_be_visible()
    expect(page.locator("#acts")).to_contain_text("somebody else gives the verdict")
    expect(page.locator("#acts-kept")).to_contain_text(TYPED)


@pytest.mark.parametrize("javascript", [True, pytest.param(False, marks=VARIATION)], ids=["script", "plain"])
def test_a_second_message_in_a_row_waits_for_its_turn(windows: Windows, shop: Desk, *, javascript: bool) -> None:
    windows.allow("status of 409", "ERR_FAILED")
    page = windows.open(javascript=javascript)
    unheard(page)
    review = held(page, shop)
    other = page.context.new_page()
    other.goto(f"/reviews/{review}")
    write(other, "Message as the reviewer", "Is it tested?", "Send the message")
    expect(other.locator("#stream").get_by_text("Is it tested?")).to_be_visible()

    write(page, "Message as the reviewer", TYPED, "Send the message")
    expect(refusal(page, "the other side comes next")).to_be_visible()
    expect(page.locator("#stream").get_by_text("Is it tested?")).to_be_visible()
    expect(page.get_by_label("Message as the reviewer")).to_have_value(TYPED)
    expect(page.get_by_role("button", name="Send the message")).to_be_disabled()
    assert [entry["body"] for entry in shop.discussion(review)] == ["Is it tested?"]

    shop.say(review, "proposer", "It is.")
    if javascript:
        page.unroute("**/events*")
        expect(page.locator("#stream").get_by_text("It is.", exact=True)).to_be_visible()
        send_knowingly(page)
        expect(page.locator("#stream .said").get_by_text(TYPED)).to_be_visible()
        expect(page.get_by_label("Message as the reviewer")).to_have_value("")


@pytest.mark.parametrize("javascript", [True, pytest.param(False, marks=VARIATION)], ids=["script", "plain"])
def test_a_text_that_is_too_long_can_be_shortened(windows: Windows, shop: Desk, *, javascript: bool) -> None:
    windows.allow("status of 413")
    page = windows.open(javascript=javascript)
    review = held(page, shop)
    long = "x" * (TEXT_LIMIT_BYTES + 1)
    for field, button, code_at in (
        (page.get_by_label("Your verdict on round 1"), "Request changes", "#acts"),
        (page.get_by_label("Message as the reviewer"), "Send the message", "#stream"),
    ):
        field.fill(long)
        page.get_by_role("button", name=button).click()
        told = page.locator(code_at).locator(".acts-refusal")
        expect(told).to_contain_text(f"over the limit of {TEXT_LIMIT_BYTES} bytes")
        expect(told).to_contain_text("Shorten it")
        expect(field).to_have_value(long)
    assert shop.kinds(review) == ["review_created", "review_claimed"]
    write(page, "Message as the reviewer", TYPED, "Send the message")
    expect(page.locator("#stream .said").get_by_text(TYPED)).to_be_visible()
    expect(page.locator("#stream .acts-refusal")).to_have_count(0)


def test_an_answer_that_was_lost_is_not_sent_as_another(page: Page, shop: Desk, windows: Windows) -> None:
    windows.allow("status of 409", "ERR_FAILED", "Failed to fetch")
    unheard(page)
    review = held(page, shop)

    def lose(route: Route) -> None:
        route.fetch()
        route.abort()

    page.get_by_label("Message as the reviewer").fill("The first words.")
    page.route("**/message*", lose)
    page.get_by_role("button", name="Send the message").click()
    expect(page.get_by_role("alert").get_by_text("the broker cannot be reached")).to_be_visible()
    expect(page.get_by_label("Message as the reviewer")).to_have_value("The first words.")
    page.unroute("**/message*", lose)

    # The broker has the first words under this form's key.
    write(page, "Message as the reviewer", TYPED, "Send the message")
    told = refusal(page, "was sent before with another text")
    expect(told).to_contain_text("was sent before with another text, and that one counts")
    expect(page.locator("#stream .said").get_by_text("The first words.")).to_be_visible()
    expect(page.get_by_label("Message as the reviewer")).to_have_value(TYPED)
    shop.say(review, "proposer", "Go on.")
    page.unroute("**/events*")
    expect(page.locator("#stream .said").get_by_text("Go on.")).to_be_visible()
    send_knowingly(page)
    expect(page.locator("#stream .said").get_by_text(TYPED)).to_be_visible()
    assert [entry["body"] for entry in shop.discussion(review)] == ["The first words.", "Go on.", TYPED]


def test_a_broker_that_stops_while_a_form_is_sent(
    start_broker: Callable[..., BrokerProcess], browser_windows: OpenWindows
) -> None:
    own = start_broker(body_limit_bytes=BODY_LIMIT_BYTES)
    with Desk(own.url, "label") as shop, browser_windows(own.url) as windows:
        windows.allow("ERR_|status of 413|status of 503|Failed to fetch")
        page = windows.open()
        review = held(page, shop)

        def stop_first(route: Route) -> None:
            os.kill(own.pid, signal.SIGTERM)
            while _is_ready(own):
                pass
            route.continue_()

        page.get_by_label("Message as the reviewer").fill(TYPED)
        page.route("**/message*", stop_first)
        page.get_by_role("button", name="Send the message").click()
        told = page.locator("#notice")
        # It says that it drains, or is gone already.
        expect(told).to_contain_text(re.compile("again (in a moment|when the page says “live”)"))
        expect(told).to_contain_text(re.compile("^Not sent"))
        expect(page.get_by_label("Message as the reviewer")).to_have_value(TYPED)
        expect(page.get_by_text("offline")).to_be_visible()
        own.stop()
        page.unroute("**/message*", stop_first)
        own.start()
        expect(page.get_by_text("live", exact=True)).to_be_visible()
        expect(page.get_by_label("Message as the reviewer")).to_have_value(TYPED)
        page.get_by_role("button", name="Send the message").click()
        expect(page.locator("#stream .said").get_by_text(TYPED)).to_be_visible()
        expect(told).to_be_hidden()
        assert [entry["body"] for entry in shop.discussion(review)] == [TYPED]

        # More than the broker takes of any form at all.
        long = "x" * BODY_LIMIT_BYTES
        write(page, "Your verdict on round 1", long, "Request changes")
        expect(told).to_contain_text("Not sent, and kept: The request body is over")
        expect(told).to_contain_text("send less")
        expect(page.get_by_label("Your verdict on round 1")).to_have_value(long)
        assert "verdict_submitted" not in shop.kinds(review)


def _is_ready(broker: BrokerProcess) -> bool:
    try:
        return httpx.get(f"{broker.url}/healthz", timeout=60, trust_env=False).is_success
    except httpx.TransportError:
        return False


def test_a_refusal_is_one_sentence_without_codes_and_says_where_to_go(page: Page, windows: Windows) -> None:
    windows.allow("status of 4")
    no_category, no_priority = "There is no such category.", "There is no such priority."
    for address, code, words, helps in (
        ("/nope", "NOT_FOUND", "There is no page at this address.", "Search the queue"),
        ("/cycles/nope/cy_nope", "NOT_FOUND", "There is no such cycle.", "All cycles"),
        ("/queue?category=nope", "INVALID_INPUT", no_category, "Clear"),
        ("/queue?category=nope&priority=nope", "INVALID_INPUT", f"{no_category} {no_priority}", "Clear"),
    ):
        page.goto(address)
        refused = page.get_by_role("alert")
        expect(refused).to_have_text(words)
        expect(refused).to_have_attribute("title", code)
        expect(page.get_by_role("main").get_by_role("link", name=helps)).to_be_visible()

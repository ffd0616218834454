"""A draft that stands in several windows of a person is sent once, whichever of them sends it."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, Route, expect

from tests.acceptance.reviewing import Desk
from tests.acceptance.staffed import until
from tests.pages.changes import held, keeps, line, shown
from tests.pages.windows import Windows

ASK = "Ask prop-1"
REASON = "Your verdict on round 1"


def sends_after(window: Page, press: Callable[[Page], None], address: str, then: Callable[[], None]) -> int:
    """Press in a window whose form arrives only after something else was done; the status of its answer."""
    on_its_way: list[Route] = []
    window.route(address, lambda route: on_its_way.append(route))  # noqa: PLW0108 Playwright takes no built-in
    with window.expect_response(address) as answered:
        press(window)
        until(lambda: window.wait_for_timeout(1) or bool(on_its_way), "the form is on its way")
        then()
        on_its_way[0].continue_()
    window.unroute_all()
    return answered.value.status


def second(page: Page, windows: Windows, kind: str, review: str) -> Page:
    """Another window of the person, in the same browser or in another."""
    if kind == "browser":
        return windows.open("ada", at=f"/reviews/{review}")
    tab = page.context.new_page()
    tab.goto(f"/reviews/{review}")
    return tab


@pytest.mark.parametrize("kind", ["tab", "browser"])
def test_a_question_that_stands_in_two_windows_is_asked_once(
    page: Page, shop: Desk, windows: Windows, kind: str
) -> None:
    review = shown(page, shop)
    with keeps(page, "Why two?"):
        page.get_by_label(ASK).fill("Why two?")
    other = second(page, windows, kind, review)
    expect(other.get_by_label(ASK)).to_have_value("Why two?")

    def ask(window: Page) -> None:
        window.get_by_role("button", name="Ask", exact=True).click()

    def first() -> None:
        ask(page)
        expect(page.locator("#stream").get_by_text("Why two?")).to_be_visible()
        expect(page.get_by_label(ASK)).to_have_value("")

    assert sends_after(other, ask, "**/message?*", first) == 200
    expect(other.get_by_label(ASK)).to_have_value("")
    expect(other.locator("#stream .said").get_by_text("Why two?")).to_have_count(1)
    assert [one["body"] for one in shop.discussion(review)] == ["Why two?"]
    # The same words, written again, are another question.
    with keeps(other, "Why two?"):
        other.get_by_label(ASK).fill("Why two?")
    ask(other)
    until(lambda: len(shop.discussion(review)) == 2, "it is asked again")


def test_a_window_that_hears_nothing_sends_no_draft_that_another_has_sent(
    page: Page, shop: Desk, windows: Windows
) -> None:
    windows.allow("ERR_FAILED")
    review = held(page, shop)
    line(page, 2).click()
    with keeps(page, "Why two?"):
        page.get_by_label("Finding on a.txt:2").fill("Why two?")
    deaf = windows.open("ada")
    deaf.route("**/events*", lambda route: route.abort())
    deaf.goto(f"/reviews/{review}")
    expect(deaf.locator("table.diff .pending-comment")).to_contain_text("Why two?")
    page.get_by_role("button", name="Send now").click()
    expect(page.locator("table.diff .thread").get_by_text("Why two?")).to_be_visible()
    deaf.locator("table.diff .pending-comment").get_by_role("button", name="Edit").click()
    with deaf.expect_response("**/comment?*") as answered:
        deaf.get_by_role("button", name="Send now").click()
    assert answered.value.status == 200
    expect(deaf.locator("table.diff .pending-comment")).to_have_count(0)
    assert [one["body"] for one in shop.discussion(review) if one["kind"] == "finding"] == ["Why two?"]
    deaf.unroute_all()
    # That it was sent says nothing of another draft.
    for window in (page, deaf):
        expect(window.get_by_label(REASON)).to_have_value("")


@pytest.mark.parametrize(("kind", "how"), [("tab", "Send with it"), ("browser", "Without it")])
def test_a_verdict_that_stands_in_two_windows_is_given_once_and_leaves_no_draft(
    page: Page, shop: Desk, windows: Windows, kind: str, how: str
) -> None:
    review = held(page, shop)
    line(page, 2).click()
    with keeps(page, "Why two?"):
        page.get_by_label("Finding on a.txt:2").fill("Why two?")
    page.get_by_role("button", name="Add to the verdict").click()
    with keeps(page, "My one reason."):
        page.get_by_label(REASON).fill("My one reason.")
    other = second(page, windows, kind, review)
    expect(other.get_by_label(REASON)).to_have_value("My one reason.")
    expect(other.locator("table.diff .pending-comment")).to_contain_text("Why two?")

    def request_changes(window: Page) -> None:
        window.get_by_role("button", name="Request changes").first.click()

    def request_there(window: Page) -> None:
        request_changes(window)
        window.get_by_role("dialog").get_by_role("button", name=how).click()

    def first() -> None:
        request_changes(page)
        expect(page.locator("#acts-told")).to_have_text("Your verdict is sent.")

    assert sends_after(other, request_there, "**/verdict?*", first) == 200
    expect(other.locator("#acts-told")).to_have_text("Your verdict is sent.")
    expect(other.locator("#acts-kept")).to_be_hidden()
    expect(other.locator("#pending-list")).to_be_hidden()
    until(lambda: not shop.do("list_drafts", person="ada", review_id=review)["drafts"], "no draft is left")
    # The request counts as a finding, too.
    told = [(one["kind"], one["body"]) for one in shop.discussion(review)]
    assert sorted(told) == [("finding", "My one reason."), ("finding", "Why two?"), ("verdict", "My one reason.")]

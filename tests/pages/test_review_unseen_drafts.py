"""No verdict goes past what the person wrote in another window."""

from __future__ import annotations

import re

from playwright.sync_api import Locator, Page, expect

from tests.acceptance.reviewing import Desk, edited
from tests.modes import VARIATION
from tests.pages.changes import held, keeps, line
from tests.pages.conftest import Check
from tests.pages.plain import Plain
from tests.pages.windows import Windows

EDITOR = "Finding on a.txt:2"
TOLD = "You wrote something in another window: a.txt, line 2 (blocker). It is shown now. Send again."
REASON = "Your verdict on round 1"


def blocked(page: Page) -> None:
    """Write a blocker, and add it to the verdict."""
    line(page, 2).click()
    page.get_by_label("Severity").first.select_option("blocker")
    with keeps(page, "It deletes all."):
        page.get_by_label(EDITOR).fill("It deletes all.")
    page.get_by_role("button", name="Add to the verdict").click()
    expect(page.get_by_text("1 finding goes with it:")).to_be_visible()


def approve(page: Page) -> None:
    page.get_by_role("button", name="Approve").first.click()


def dialog(page: Page) -> Locator:
    return page.get_by_role("dialog", name="Not in your verdict yet")


def test_a_verdict_does_not_go_past_a_reason_or_a_draft_of_another_window(
    page: Page, shop: Desk, windows: Windows, axe: Check
) -> None:
    windows.allow("409")
    review = held(page, shop)
    other = windows.open("ada", at=f"/reviews/{review}")
    expect(other.get_by_text("You hold it.")).to_be_visible()
    with keeps(page, "It deletes all."):
        page.get_by_label(REASON).fill("It deletes all.")
    other.get_by_label(REASON).fill("Good.")
    approve(other)
    unseen = other.locator("[data-unseen]")
    expect(unseen).to_contain_text("another window: the reason of a verdict. It is shown now.")
    both = "Good.\n\nAlso written in another window:\n\nIt deletes all."
    expect(other.get_by_label(REASON)).to_have_value(both)
    blocked(page)
    approve(other)
    expect(unseen).to_have_text(TOLD)
    draft = other.locator("table.diff .pending-comment")
    expect(draft).to_contain_text("It deletes all.")
    expect(other.get_by_label(REASON)).to_have_value(both)
    axe(other, "#acts")
    # It is shown: from here on it is asked for as any other, but not if it was changed since.
    page.locator("table.diff .pending-comment").get_by_role("button", name="Edit").click()
    with keeps(page, "It deletes nearly all."):
        page.get_by_label(EDITOR).fill("It deletes nearly all.")
    page.get_by_role("button", name="Add to the verdict").click()
    approve(other)
    expect(dialog(other)).to_contain_text("a.txt:2")
    with other.expect_response("**/verdict?*") as answered:
        dialog(other).get_by_role("button", name="Send with it").click()
    assert answered.value.status == 409
    expect(draft).to_contain_text("It deletes nearly all.")
    expect(unseen).to_have_text(TOLD)
    assert (shop.status(review)["status"], shop.discussion(review)) == ("claimed", [])
    # It is one for the verdict now, unless it is opened again.
    draft.get_by_role("button", name="Edit").click()
    approve(other)
    dialog(other).get_by_role("button", name="Without it").click()
    expect(other.locator("#acts").get_by_text("Approved by ada")).to_be_visible()
    # The window that wrote it does not say that it went.
    expect(page.locator("#pending-list")).to_contain_text("1 finding is kept as your draft, and not sent:")
    expect(page.get_by_text("goes with it")).to_have_count(0)


def test_one_who_has_no_other_window_is_not_asked_about_what_is_being_saved(page: Page, shop: Desk) -> None:
    review = held(page, shop)
    page.route("**/drafts", lambda route: None if route.request.method == "POST" else route.continue_())
    line(page, 2).click()
    with page.expect_request(lambda one: one.url.endswith("/drafts") and one.method == "POST"):
        page.get_by_label(EDITOR).fill("Why two?")
    approve(page)
    dialog(page).get_by_role("button", name="Send with it").click()
    expect(page.locator("#acts").get_by_text("Approved by ada")).to_be_visible()
    assert [one["body"] for one in shop.discussion(review) if one["kind"] == "finding"] == ["Why two?"]
    page.unroute_all(behavior="ignoreErrors")


@VARIATION
def test_without_scripts_a_verdict_does_not_go_past_a_draft_either(page: Page, shop: Desk, plain: Plain) -> None:
    review = held(page, shop)
    plain.goto(f"/reviews/{review}").fill(REASON, "Good.")
    blocked(page)
    assert TOLD in plain.press("Approve").text("#acts")
    assert (plain.status, plain.value(REASON)) == (409, "Good.")
    assert "It deletes all." in plain.text("#acts")
    assert shop.status(review)["status"] == "claimed"
    # The version that was shown counts.
    page.locator("table.diff .pending-comment").get_by_role("button", name="Edit").click()
    with keeps(page, "It deletes nearly all."):
        page.get_by_label(EDITOR).fill("It deletes nearly all.")
    assert "It deletes nearly all." in plain.press("Approve").text("#acts")
    assert "Approved by ada" in plain.press("Approve").text("#acts")


def test_a_counter_patch_does_not_go_past_a_draft(page: Page, shop: Desk, windows: Windows) -> None:
    windows.allow("409")
    review = held(page, shop, diff=edited())
    blocked(page)
    page.goto(f"/reviews/{review}/edit")
    page.get_by_label("Content of a.txt").fill("best\n")
    page.get_by_label("Why", exact=True).fill("Like this.")
    send = page.get_by_role("button", name=re.compile("^Request changes"))
    send.click()
    expect(page.locator("[data-unseen]")).to_have_text(TOLD)
    expect(page.get_by_label("Content of a.txt")).to_have_value("best\n")
    assert shop.status(review)["status"] == "claimed"
    send.click()
    expect(page).to_have_url(re.compile(rf"/reviews/{review}$"))
    assert shop.status(review)["status"] == "changes_requested"

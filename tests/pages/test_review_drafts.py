"""Nothing written is lost: open editors and a verdict, drafts in every window, and questions from the side."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Locator, Page, Route, expect

from tests.acceptance.reviewing import PROPOSER, Desk, edited
from tests.acceptance.staffed import until
from tests.modes import VARIATION
from tests.pages.changes import held, keeps, line, shown
from tests.pages.conftest import Check
from tests.pages.windows import Windows, write

EDITOR = "Finding on a.txt:2"


def typed(page: Page, text: str, label: str = EDITOR) -> None:
    """Type into a field, until the broker has it."""
    with keeps(page, text):
        page.get_by_label(label).fill(text)


def looked_at(page: Page) -> None:
    """Have a window find out what other windows wrote."""
    page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")


def dialog(page: Page) -> Locator:
    return page.get_by_role("dialog", name="Not in your verdict yet")


def comments(shop: Desk, review: str) -> list[str]:
    return [one["body"] for one in shop.discussion(review) if one["kind"] == "finding"]


def drafts(shop: Desk, review: str) -> list[tuple[str, str]]:
    found = shop.do("list_drafts", person="ada", review_id=review)["drafts"]
    return [(one["kind"], one["body"]) for one in found]


@VARIATION
def test_a_verdict_without_an_open_editor_leaves_it_as_a_draft(page: Page, shop: Desk) -> None:
    review = held(page, shop)
    line(page, 2).click()
    typed(page, "Later")
    page.get_by_role("button", name="Approve").first.click()
    dialog(page).get_by_role("button", name="Without it").click()
    expect(page.locator("#acts").get_by_text("Approved by ada")).to_be_visible()
    assert (comments(shop, review), drafts(shop, review)) == ([], [("finding", "Later")])
    page.goto("/inbox")
    expect(page.locator(".row", has_text=shop.project).get_by_text("draft", exact=True)).to_be_visible()
    page.goto(f"/reviews/{review}")
    expect(page.get_by_label(EDITOR)).to_have_value("Later")


def test_what_is_written_besides_the_main_text_is_not_left_behind_by_a_verdict(
    page: Page, shop: Desk, windows: Windows, axe: Check
) -> None:
    review = held(page, shop)
    line(page, 2).click()
    page.get_by_text("More", exact=True).click()
    page.get_by_label("Severity").select_option("major")
    with keeps(page, "On every call.", field="failure"):
        page.get_by_label("How it fails").fill("On every call.")
    with keeps(page, "best", field="suggestion"):
        page.get_by_label("Suggest a change").fill("best")
    page.get_by_role("button", name="Approve").first.click()
    expect(dialog(page).get_by_text("a.txt:2")).to_be_visible()
    dialog(page).get_by_role("button", name="Send with it").click()
    told, field = "Not sent yet: say first what the fault is.", page.get_by_label(EDITOR)
    expect(page.locator("#notice")).to_have_text(told)
    expect(field).to_be_focused()
    axe(page, "#change")
    assert shop.status(review)["status"] == "claimed"
    # The same for each way of sending it; another browser has all of it.
    page.get_by_role("button", name="Send now").click()
    expect(field).to_be_focused()
    field.press("Escape")
    field.press("Control+Enter")
    expect(page.locator("#notice")).to_have_text(told)
    other = windows.open("ada", at=f"/reviews/{review}")
    expect(other.locator("table.diff .pending-comment")).to_contain_text("On every call.")
    expect(other.locator(".pending-where")).to_have_text("a.txt:2 · major · with a suggestion")
    page.reload()
    expect(page.get_by_label("How it fails")).to_have_value("On every call.")
    page.get_by_label("Your verdict on round 1").fill("Two is wrong.")
    page.get_by_role("button", name="Request changes").first.click()
    expect(dialog(page)).to_be_visible()
    page.keyboard.press("Escape")
    typed(page, "Why two?")
    page.get_by_role("button", name="Request changes").first.click()
    dialog(page).get_by_role("button", name="Send with it").click()
    expect(page.locator("table.diff .thread").get_by_text("On every call.")).to_be_visible()
    until(lambda: not drafts(shop, review), "no draft is left")


@VARIATION
def test_a_severity_alone_is_nothing_written(page: Page, shop: Desk) -> None:
    review = held(page, shop)
    line(page, 2).click()
    page.get_by_label("Severity").select_option("major")
    page.get_by_role("button", name="Approve").first.click()
    expect(page.locator("#acts").get_by_text("Approved by ada")).to_be_visible()
    assert drafts(shop, review) == []


@pytest.mark.parametrize("is_revised", [pytest.param(False, marks=VARIATION), True], ids=["claim lost", "revised"])
def test_a_finding_for_a_verdict_is_a_draft_once_the_claim_is_over(page: Page, shop: Desk, is_revised: bool) -> None:
    review = held(page, shop)
    line(page, 2).click()
    typed(page, "Why two?")
    if is_revised:
        shop.revise(review, diff=edited(text="best"))
    else:
        shop.do("release_claim", review_id=review, claim_generation=shop.status(review)["claim_generation"])
        shop.claim(review, "rita")
    expect(page.locator('#acts[data-comment-how="message"]')).to_have_count(1)
    page.get_by_label(EDITOR).press("Control+Enter")
    told = "This is round 1. Claim it where" if is_revised else "You can claim it when rita releases"
    expect(page.locator("#notice")).to_contain_text(f"Not sent, kept as your draft. {told}")
    expect(page.locator(".pending-comment").get_by_text("Why two?")).to_be_visible()
    assert shop.discussion(review) == []
    assert drafts(shop, review) == [("finding", "Why two?")]


def test_drafts_are_in_every_window_and_outlive_it(page: Page, shop: Desk, windows: Windows) -> None:
    review = held(page, shop)
    line(page, 2).click()
    typed(page, "From here")
    other = windows.open("ada", at=f"/reviews/{review}")
    card = other.locator("table.diff .pending-comment")
    expect(card).to_contain_text("From here")
    expect(card.get_by_text("Draft", exact=True)).to_be_visible()
    typed(page, "From here, too")
    looked_at(other)
    expect(card).to_contain_text("From here, too")
    # No one else sees it.
    stranger = windows.open("bert", at=f"/reviews/{review}")
    expect(stranger.locator("table.diff tr.line").first).to_be_visible()
    looked_at(stranger)
    expect(stranger.locator(".pending-comment")).to_have_count(0)
    card.get_by_role("button", name="Remove").click()
    expect(card).to_have_count(0)
    until(lambda: not drafts(shop, review), "no draft is left")
    looked_at(page)
    expect(page.get_by_label(EDITOR)).to_have_count(0)
    assert drafts(shop, review) == []


@VARIATION
def test_claiming_by_the_verdicts_form_takes_no_draft_along(page: Page, shop: Desk) -> None:
    review = held(page, shop)
    typed(page, "Nearly done", "Your verdict on round 1")
    shop.do("release_claim", review_id=review, claim_generation=shop.status(review)["claim_generation"])
    expect(page.get_by_text("It is not claimed yet.")).to_be_visible()
    page.get_by_role("button", name="Claim").first.click()
    expect(page.get_by_label("Your verdict on round 1")).to_have_value("Nearly done")
    assert drafts(shop, review) == [("verdict", "Nearly done")]


def test_what_is_typed_just_before_the_page_is_left_is_kept(page: Page, shop: Desk, windows: Windows) -> None:
    review = held(page, shop)
    line(page, 2).click()
    page.get_by_label(EDITOR).fill("In a hurry")
    page.goto("/inbox")
    expect(page.locator(".row", has_text=shop.project).first).to_be_visible()
    other = windows.open("ada", at=f"/reviews/{review}")
    expect(other.locator("table.diff .pending-comment")).to_contain_text("In a hurry")


def test_an_approval_elsewhere_and_a_new_round_strand_no_draft(page: Page, shop: Desk) -> None:
    review = held(page, shop)
    line(page, 2).click()
    typed(page, "On the first")
    typed(page, "A word about it", "Message as the reviewer")
    shop.verdict(review, "changes_requested", shop.status(review)["claim_generation"])
    shop.revise(review, diff=edited(text="best"))
    page.goto(f"/reviews/{review}")
    own = page.get_by_role("group", name="Your drafts")
    editor = page.get_by_label(f"{EDITOR} · your draft from round 1")
    expect(editor).to_have_value("On the first")
    expect(page.get_by_label("Ask prop-1")).to_have_value("A word about it")
    expect(page.locator("#message-form > label[data-told='your draft from round 1']")).to_be_visible()
    page.get_by_role("button", name="Claim").click()
    page.get_by_role("button", name="Approve").first.click()
    expect(dialog(page)).to_contain_text("a.txt:2 (your draft from round 1)")
    dialog(page).get_by_role("button", name="Without it").click()
    expect(page.locator("#acts").get_by_text("Approved by ada")).to_be_visible()
    shop.do("close_review", review_id=review)
    page.reload()
    expect(own).to_contain_text("A word about it")
    for left, place, remove in ((1, own, "Remove"), (0, page.locator("table.diff"), "Cancel")):
        with page.expect_response(lambda one: one.url.endswith("/drafts") and one.request.method == "POST"):
            place.get_by_role("button", name=remove).first.click()
        assert len(drafts(shop, review)) == left
    expect(own).to_be_hidden()


@VARIATION
def test_an_editor_says_that_writing_claims_the_review_only_where_it_does(page: Page, shop: Desk) -> None:
    review = shown(page, shop)
    line(page, 2).click()
    hint = page.locator("[data-comment-hint]")
    expect(hint).to_have_text("It is sent with your verdict. Writing it claims the review.")
    typed(page, "Why two?")
    expect(page.get_by_text("You hold it.")).to_be_visible()
    expect(hint).to_have_text("It is sent with your verdict.")
    shop.verdict(review, "changes_requested", shop.status(review)["claim_generation"])
    shop.revise(review, diff=edited(text="best"))
    expect(hint).to_contain_text("It is kept as your draft. This is round 1. Claim it where the current one is shown")
    page.goto(f"/reviews/{review}")
    expect(page.get_by_label(EDITOR)).to_have_value("Why two?")
    expect(hint).to_have_text("It is sent with your verdict, once you claim the review.")
    generation = shop.claim(review, "rita")
    kept = "It is kept as your draft. You can claim it when rita releases it"
    expect(hint).to_contain_text(kept)
    page.reload()
    expect(page.get_by_label(EDITOR)).to_have_value("Why two?")
    expect(hint).to_contain_text(kept)
    shop.verdict(review, "rejected", generation)
    expect(hint).to_contain_text("It is kept as your draft. It is rejected.")


@VARIATION
def test_a_draft_of_a_since_view_is_of_that_round_in_every_view(page: Page, shop: Desk) -> None:
    review = held(page, shop)
    shop.verdict(review, "changes_requested", shop.status(review)["claim_generation"])
    shop.revise(review, diff=edited(text="best"))
    shop.claim(review, "ada")
    page.goto(f"/reviews/{review}?since=1")
    line(page, 2, side="before").click()
    typed(page, "It was better.", "Finding on a.txt:2 (a removed line)")
    page.get_by_role("button", name="Add to the verdict").click()
    page.goto(f"/reviews/{review}")
    expect(page.locator("table.diff .pending-comment")).to_contain_text("    better")
    page.get_by_role("button", name="Comment", exact=True).click()
    expect(page.locator("table.diff .thread").get_by_text("It was better.")).to_be_visible()
    one = shop.do("list_findings", review_id=review)["findings"][-1]
    assert (one["side"], one["line"]) == ("new", 2)
    assert one["claim"] == "On a.txt:2 of round 1:\n\n    better\n\nIt was better."


def in_two(page: Page, shop: Desk, windows: Windows, label: str) -> tuple[str, Page]:
    """The same draft, in its editor, in two browsers of one person."""
    review = held(page, shop)
    if label == EDITOR:
        line(page, 2).click()
    typed(page, "Why", label)
    other = windows.open("ada", at=f"/reviews/{review}")
    if label == EDITOR:
        other.locator("table.diff .pending-comment").get_by_role("button", name="Edit").click()
    expect(other.get_by_label(label)).to_have_value("Why")
    return review, other


HOLD_BACK = """() => {
    const later = setTimeout, held = [];
    Object.assign(window, {later, held});
    setTimeout = (call, ms, ...more) => (ms < 600 ? later(call, ms, ...more) : (held.push(() => call(...more)), -1));
}"""
GO_ON = "() => held.splice(0).forEach((call) => call())"
FILL_AND_SEND = """(field, words) => {
    field.value = words;
    field.dispatchEvent(new InputEvent("input", {bubbles: true}));
    const now = field.form.querySelector("[data-comment-now]");
    if (now) now.click();
    else field.dispatchEvent(new KeyboardEvent("keydown", {key: "Enter", ctrlKey: true, bubbles: true}));
}"""


@pytest.mark.parametrize("label", [EDITOR, pytest.param("Message as the reviewer", marks=VARIATION)])
def test_words_of_two_browsers_in_one_draft_are_all_kept(page: Page, shop: Desk, windows: Windows, label: str) -> None:
    review, other = in_two(page, shop, windows, label)
    typed(page, "Why two?", label)
    # What this window would save next waits until the other one has written.
    other.evaluate(HOLD_BACK)
    with keeps(other, "Why so?"):
        other.get_by_label(label).fill("Why so?")
        other.evaluate(GO_ON)
    both = "Why so?\n\nAlso written in another window:\n\nWhy two?"
    expect(other.get_by_label(label)).to_have_value(both)
    # A window in which nothing was typed since shows it, also in an open editor.
    looked_at(page)
    expect(page.get_by_label(label)).to_have_value(both)
    # From there on it is a draft as any other.
    typed(page, "Why so, and why two?", label)
    looked_at(other)
    expect(other.get_by_label(label)).to_have_value("Why so, and why two?")
    assert [body for _, body in drafts(shop, review)] == ["Why so, and why two?"]
    other.evaluate(GO_ON)
    other.evaluate("() => (setTimeout = later)")
    # One of them empties it without having seen what the other typed.
    typed(other, "Why?", label)
    with page.expect_response(lambda one: one.url.endswith("/drafts") and one.request.method == "GET"):
        page.get_by_label(label).fill("")
    again = (page.locator("table.diff") if label == EDITOR else page.locator("#main")).get_by_label(label)
    expect(again).to_have_value("Why?")
    assert [body for _, body in drafts(shop, review)] == ["Why?"]
    # Nor does one that is sent take along what the other typed meanwhile.
    typed(other, "Why so?", label)
    # At once: a draft that is saved in between is joined with that of the other window, and sent as one.
    again.evaluate(FILL_AND_SEND, "Why two?")
    expect(page.locator("table.diff .thread, #stream .entry").get_by_text("Why two?").first).to_be_visible()
    looked_at(page)
    looked_at(other)
    if label == EDITOR:
        expect(page.locator("table.diff .pending-comment").get_by_text("Why so?")).to_be_visible()
    else:
        expect(page.get_by_label(label)).to_have_value("Why so?")
    expect(other.get_by_label(label)).to_have_value("Why so?")
    assert [body for _, body in drafts(shop, review)] == ["Why so?"]


def test_what_is_sent_or_typed_while_a_draft_is_not_saved_yet_leaves_the_words_of_another_browser(
    page: Page, shop: Desk, windows: Windows
) -> None:
    label = "Message as the reviewer"
    review, other = in_two(page, shop, windows, label)
    typed(other, "Why so?", label)
    held_up: list[Route] = []

    def hold_first(route: Route) -> None:
        if held_up or route.request.method != "POST":
            route.continue_()
        else:
            held_up.append(route)

    page.route("**/drafts", hold_first)
    with page.expect_request(lambda one: one.url.endswith("/drafts") and one.method == "POST"):
        page.get_by_label(label).fill("Why two?")
    page.get_by_label(label).press("Control+Enter")
    expect(page.locator("#stream .entry").get_by_text("Why two?")).to_be_visible()
    held_up[0].continue_()
    looked_at(page)
    expect(page.get_by_label(label)).to_have_value(re.compile("Why so[?]$"))
    [(_, kept)] = drafts(shop, review)
    assert kept.endswith("Why so?")
    page.unroute("**/drafts")
    # Words that are typed while the broker is away are joined with those of the other browser.
    label = "Your verdict on round 1"
    windows.allow("/drafts", "Failed to fetch", "ERR_")
    page.route("**/drafts", lambda route: route.abort())
    page.get_by_label(label).fill("Why two?")
    typed(other, "Why so?", label)
    windows.accept_dialogs()
    page.reload()
    expect(page.get_by_label(label)).to_have_value("Why two?")
    page.unroute("**/drafts")
    looked_at(page)
    both = "Why two?\n\nAlso written in another window:\n\nWhy so?"
    expect(page.get_by_label(label)).to_have_value(both)
    until(lambda: ("verdict", both) in drafts(shop, review), "both are kept")


def test_a_question_from_the_side_and_its_answer(page: Page, shop: Desk, windows: Windows, axe: Check) -> None:
    review = shop.put_up(diff=edited())
    shop.claim(review, "rita")
    page.goto(f"/reviews/{review}")
    expect(page.get_by_text("It takes no turn, and changes nothing about the claim.")).to_be_visible()
    page.keyboard.press("m")
    page.keyboard.type("Is it tested?")
    page.keyboard.press("Control+Enter")
    expect(page.locator("#stream .entry").get_by_text("Is it tested?")).to_be_visible()
    status = shop.status(review)
    [question] = shop.discussion(review)
    assert (question["kind"], question["author"], status["question_id"]) == ("question", "ada", question["id"])
    assert (status["status"], status["turn"], status["reviewer_id"]) == ("claimed", "reviewer", "rita")
    own = windows.open(PROPOSER, at=f"/reviews/{review}")
    expect(own.locator("#acts").get_by_text("You are asked something from the side")).to_be_visible()
    entry = own.locator(f"#entry-{question['id']}")
    entry.get_by_text("Answer", exact=True).first.click()
    axe(own, "#stream")
    entry.get_by_label("Your answer").fill("It is.")
    entry.get_by_role("button", name="Answer").click()
    expect(page.locator("#stream").get_by_text("It is.", exact=True)).to_be_visible()
    expect(page.locator(f"#entry-{question['id']}").get_by_text("Answered")).to_be_visible()
    after = shop.status(review)
    assert (after["question_id"], after["turn"], after["status"]) == (None, "reviewer", "claimed")
    # To speak in the proposer's place is behind a menu.
    expect(page.get_by_label(f"Message for {PROPOSER}")).to_be_hidden()
    page.get_by_text(f"Speak for {PROPOSER}").click()
    expect(page.get_by_text("take the proposer's turn")).to_be_visible()
    write(page, f"Message for {PROPOSER}", "It is tested.", f"Send for {PROPOSER}")
    expect(page.locator("#stream .entry").get_by_text("It is tested.")).to_be_visible()
    said = shop.discussion(review)[-1]
    assert (said["kind"], said["sender_role"], said["author"]) == ("message", "proposer", "ada")


@VARIATION
def test_after_a_question_about_an_unclaimed_review_the_next_step_is_to_claim_it(page: Page, shop: Desk) -> None:
    page.goto(f"/reviews/{shop.put_up(diff=edited())}")
    write(page, f"Ask {PROPOSER}", "Is it tested?", "Ask")
    expect(page.get_by_text("Sent. No one has claimed this yet: claim it to go on.")).to_be_visible()


def test_who_closes_a_window_is_asked_as_long_as_the_broker_does_not_have_what_is_typed(
    page: Page, shop: Desk, windows: Windows
) -> None:
    review = held(page, shop)
    windows.allow("/drafts", "Failed to fetch", "ERR_", "dialog: beforeunload")
    page.route("**/drafts", lambda route: route.abort())
    line(page, 2).click()
    page.keyboard.type("Why two?")
    hint = page.locator("[data-comment-hint]")
    expect(hint).to_have_text("It is not saved yet: the broker is away. Keep this window open.")
    with page.expect_event("dialog"):
        page.evaluate("location.assign('/inbox')")
    expect(page.get_by_label(EDITOR)).to_have_value("Why two?")
    page.unroute("**/drafts")
    expect(hint).to_have_text("It is sent with your verdict.")
    assert drafts(shop, review) == [("finding", "Why two?")]
    page.goto("/inbox")
    expect(page.locator(".row", has_text=shop.project).first).to_be_visible()
    assert len([one for one in windows.trouble if one.startswith("dialog")]) == 1

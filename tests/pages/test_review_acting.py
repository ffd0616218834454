"""Acting on a review: claim, comment on lines, decide; the buttons that each person gets; without a script, too."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, Route, expect

from tests.acceptance.pooling import Steward
from tests.acceptance.reviewing import PROPOSER, Desk, edited
from tests.broker import BrokerProcess
from tests.modes import VARIATION
from tests.pages.changes import held, line, shown
from tests.pages.conftest import Check, OpenWindows, Shot
from tests.pages.windows import Windows, write


def test_claim_comment_approve_by_keyboard(page: Page, shop: Desk, axe: Check, shot: Shot) -> None:
    review = shown(page, shop)
    page.keyboard.press("c")
    expect(page.get_by_text("You hold it.")).to_be_visible()
    expect(page.locator("#lease")).to_have_text(re.compile(r"Lease \d+:\d\d"))
    assert shop.status(review)["reviewer_id"] == "ada"

    line(page, 2).focus()
    page.keyboard.press("c")
    page.keyboard.type("Why *better*?")
    page.keyboard.press("Control+Enter")
    expect(page.get_by_text("Not sent yet")).to_be_visible()
    expect(page.get_by_text("1 finding goes with it")).to_be_visible()
    line(page, 3).focus()
    page.keyboard.press("Enter")
    expect(page.get_by_label("Finding on a.txt:3")).to_be_focused()
    axe(page, "#change")
    page.keyboard.press("Escape")
    expect(page.get_by_label("Finding on a.txt:3")).to_have_count(0)
    shot(page, "review-commenting")

    page.keyboard.press("a")
    page.keyboard.type("Good all the same.")
    expect(page.get_by_text("Ctrl Enter: Approve")).to_be_visible()
    page.keyboard.press("Control+Enter")
    expect(page.locator("#acts").get_by_text("Approved by ada")).to_be_visible()
    expect(page.locator("table.diff .thread").get_by_text("Why better?")).to_be_visible()
    expect(page.get_by_text("Not sent yet")).to_have_count(0)
    status = shop.status(review)
    assert (status["status"], status["verdict_reason"]) == ("approved", "Good all the same.")
    [comment] = [entry for entry in shop.discussion(review) if entry["kind"] == "finding"]
    assert (comment["file"], comment["line"], comment["body"]) == ("a.txt", 2, "Why *better*?")


@pytest.mark.parametrize(
    ("key", "button", "status"),
    [("r", "Request changes", "changes_requested"), pytest.param("x", "Reject", "rejected", marks=VARIATION)],
)
def test_a_verdict_that_needs_a_reason_asks_for_it(page: Page, shop: Desk, key: str, button: str, status: str) -> None:
    review = held(page, shop)
    page.get_by_role("button", name=button, exact=False).first.click()
    expect(page.get_by_text(f"“{button}” needs a reason")).to_be_visible()
    expect(page.get_by_label("Your verdict on round 1")).to_be_focused()
    assert shop.status(review)["status"] == "claimed"
    page.get_by_label("Your verdict on round 1").blur()
    page.keyboard.press(key)
    page.keyboard.type("It is not better.")
    page.keyboard.press("Control+Enter")
    expect(page.locator("#acts").get_by_text("It is not better.")).to_be_visible()
    found = shop.status(review)
    assert (found["status"], found["verdict_reason"]) == (status, "It is not better.")


def test_who_holds_it_and_why_nothing_else_is_offered(page: Page, shop: Desk, windows: Windows) -> None:
    review = shop.put_up(diff=edited())
    shop.claim(review, "rita")
    page.goto(f"/reviews/{review}")
    acts = page.locator("#acts")
    expect(acts.get_by_text("rita has had it for")).to_be_visible()
    expect(acts.get_by_text("You can claim it when rita releases it")).to_be_visible()
    for name in ("Claim", "Approve", "Release", "Request changes"):
        expect(acts.get_by_role("button", name=name)).to_have_count(0)

    nobody = windows.open(None, at=f"/reviews/{review}")
    expect(nobody.get_by_role("link", name="Say your name to take part")).to_be_visible()
    expect(nobody.locator("#acts, #stream").get_by_role("button")).to_have_count(0)

    own = windows.open(PROPOSER)
    other = shop.put_up(diff=edited())
    own.goto(f"/reviews/{other}")
    expect(own.locator("#acts").get_by_text("It is your own: somebody else gives the verdict.")).to_be_visible()

    # Nor to the author of a revision, when the proposer accepts a counter-patch to it.
    shop.revise(other, proposer_id="mallory", diff=edited(text="great"))
    given = shop.verdict(other, "changes_requested", shop.claim(other), counter_patch=edited(text="best"))
    shop.accept(other, given["counter_patch_id"])
    revised = windows.open("mallory", at=f"/reviews/{other}")
    expect(revised.locator("#acts").get_by_text("It is your own: somebody else gives the verdict.")).to_be_visible()

    # Nor to whose counter-patch somebody accepted without a name: it may have been they themselves.
    held = shop.put_up(diff=edited())
    given = shop.verdict(held, "comment", shop.claim(held, "rita"), counter_patch=edited(text="best"))
    shop.do("accept_counter_patch", review_id=held, counter_patch_id=given["counter_patch_id"])
    holder = windows.open("rita", at=f"/reviews/{held}")
    expect(holder.locator("#acts").get_by_text("This round is your own: release it")).to_be_visible()
    expect(holder.locator("#acts").get_by_role("button", name="Approve")).to_have_count(0)
    holder.locator("#acts").get_by_role("button", name="Release").click()
    expect(holder.locator("#acts").get_by_text("It is your own: somebody else gives the verdict.")).to_be_visible()
    expect(revised.locator("#acts").get_by_role("button", name="Claim")).to_have_count(0)
    expect(own.locator("#acts").get_by_role("button", name="Claim")).to_have_count(0)


def test_a_finding_is_talked_about_answered_and_settled_in_its_place(page: Page, shop: Desk, windows: Windows) -> None:
    review = held(page, shop)
    shop.verdict(review, "comment", findings=[{"file": "a.txt", "line": 2, "severity": "minor", "claim": "Why?"}])
    thread = page.locator("table.diff .thread")
    expect(thread.get_by_text("Why?")).to_be_visible()
    own = windows.open(PROPOSER, at=f"/reviews/{review}")
    theirs = own.locator("table.diff .thread")
    theirs.get_by_text("Refute, defer or answer").click()
    theirs.get_by_label("Your answer").fill("It reads well.")
    theirs.get_by_role("button", name="Answer", exact=True).click()
    expect(thread.locator(".answer").get_by_text("It reads well.")).to_be_visible()
    theirs.get_by_role("button", name="Fixed", exact=True).click()
    expect(thread.locator(".tag").get_by_text("Fixed")).to_be_visible()
    thread.get_by_role("button", name="Verified").click()
    expect(theirs.locator(".tag").get_by_text("Verified")).to_be_visible()
    [found] = shop.do("list_findings", review_id=review)["findings"]
    assert (found["state"], found["answered_by"], found["settled_by"]) == ("verified", PROPOSER, "ada")


def test_p6_news_does_not_outrun_the_answer_to_a_form(page: Page, shop: Desk) -> None:
    shown(page, shop)
    page.evaluate("document.addEventListener('tandem-events', () => (document.body.dataset.heard = 'yes'))")

    def answer_late(route: Route) -> None:
        answer = route.fetch()
        expect(page.locator("body[data-heard]")).to_be_attached()
        # The page fetches a change 150 ms after it heard of it; here that would be the claim.
        page.wait_for_timeout(1000)
        route.fulfill(response=answer)

    page.route("**/claim*", answer_late)
    page.get_by_role("button", name="Claim").press("Enter")
    expect(page.locator("#acts-told")).to_have_text("Claimed.")
    expect(page.get_by_role("heading", name="What you can do")).to_be_focused()


def test_p6_an_older_fetch_does_not_replace_an_answer(page: Page, shop: Desk) -> None:
    review = shown(page, shop)
    release = page.get_by_role("button", name="Release")

    def answer_with_the_older(route: Route) -> None:
        answer = route.fetch()
        page.get_by_role("button", name="Claim").click()
        expect(release).to_be_visible()
        page.evaluate(
            "document.body.dataset.lost = 'no';"
            "const look = () => document.getElementById('release-form') || (document.body.dataset.lost = 'yes');"
            "new MutationObserver(look).observe(document.getElementById('main'), { childList: true, subtree: true })"
        )
        route.fulfill(response=answer)

    page.route("**/parts*", answer_with_the_older, times=1)
    shop.say(review, "proposer", "Look at line 2 first.")
    expect(page.locator("body[data-lost]")).to_be_attached()
    shop.say(review, "proposer", "Then the rest.")
    expect(page.locator("#stream").get_by_text("Then the rest.")).to_be_visible()
    expect(page.locator("body")).to_have_attribute("data-lost", "no")


@VARIATION
def test_release_and_close(page: Page, shop: Desk) -> None:
    review = shown(page, shop)
    for button, told in (("Claim", "Claimed."), ("Release", "Released.")):
        page.get_by_role("button", name=button).press("Enter")
        expect(page.locator("#acts").get_by_role("status").get_by_text(told)).to_have_count(1)
        expect(page.get_by_role("heading", name="What you can do")).to_be_focused()
    expect(page.get_by_text("It is not claimed yet.")).to_be_visible()
    assert shop.status(review)["status"] == "pending"
    page.get_by_text(f"Close for {PROPOSER}").click()
    expect(page.get_by_text("It ends withdrawn, without a decision.")).to_be_visible()
    write(page, "Why", "Not needed any more.", "Close the review")
    expect(page.locator("#acts").get_by_text("Closed, withdrawn: Not needed any more.")).to_be_visible()
    assert shop.status(review)["outcome"] == "withdrawn"
    assert shop.events(review)[-1]["actor"] == "ada"


@VARIATION
def test_a_review_that_reviewers_failed_at_is_tried_again(page: Page, shop: Desk) -> None:
    steward = Steward(shop)
    steward.register()
    review = shop.put_up()
    reviewer = steward.one()
    raw = 'API error {"type":"error","error":{"message":"Overloaded"},"request_id":"req_1"}'
    for _ in range(3):
        steward.fail(reviewer, "crashed", reason=raw)
    page.goto(f"/reviews/{review}")
    expect(page.locator("#acts").get_by_text("It waits for a person")).to_be_visible()
    attention = page.locator("#review-head .attention")
    expect(attention).to_have_text(
        "Needs a person: 3 reviewers gave no verdict; the last: crashed: API error Overloaded"
    )
    expect(page.locator("main")).not_to_contain_text("request_id")
    expect(page.locator("#stream").get_by_text("codex-r1 claimed it").first).to_be_visible()
    page.get_by_role("button", name="Try again").click()
    expect(page.get_by_role("button", name="Try again")).to_have_count(0)
    assert shop.status(review)["attention"] is None
    assert shop.events(review)[-1]["actor"] == "ada"


def test_the_lease_is_renewed_while_somebody_works_and_runs_out_when_nobody_does(
    start_broker: Callable[..., BrokerProcess], browser_windows: OpenWindows
) -> None:
    own = start_broker(claim_timeout_seconds=12)
    with Desk(own.url, "label") as shop, browser_windows(own.url) as windows:
        page = windows.open()
        review = shown(page, shop)
        page.keyboard.press("c")
        expect(page.locator("#lease")).to_have_text(re.compile(r"Lease 0:[01]\d"))
        first = shop.status(review)["lease_expires_at"]
        with page.expect_response("**/renew*") as renewed:
            page.get_by_label("Your verdict on round 1").press_sequentially("It takes a while to say.", delay=150)
        assert renewed.value.ok
        assert shop.status(review)["lease_expires_at"] > first
        assert shop.kinds(review) == ["review_created", "review_claimed"]
        expect(page.get_by_text("It is not claimed yet.")).to_be_visible()
        page.get_by_label("Your verdict on round 1").blur()
        expect(page.locator("#acts-kept")).to_contain_text("It takes a while to say.")
        expect(page.locator("#stream").get_by_text("The claim of ada ended")).to_be_visible()


def test_a_double_click_sends_once(page: Page, shop: Desk) -> None:
    review = held(page, shop)
    page.get_by_label("Your verdict on round 1").fill("Once.")
    page.get_by_role("button", name="Comment", exact=True).dblclick()
    expect(page.locator("#stream").get_by_text("Once.")).to_be_visible()
    # Once a later act is answered, the second click has been answered, too.
    page.get_by_role("button", name="Release").click()
    expect(page.get_by_text("It is not claimed yet.")).to_be_visible()
    assert shop.kinds(review).count("verdict_comment") == 1


def test_all_that_matters_works_without_a_script(shop: Desk, windows: Windows) -> None:
    review = shop.put_up(diff=edited())
    page = windows.open(javascript=False, at=f"/reviews/{review}")
    page.get_by_role("button", name="Claim").click()
    expect(page.get_by_text("You hold it.")).to_be_visible()
    page.get_by_role("button", name="Renew").click()
    write(page, "Message as the reviewer", "A word.", "Send the message")
    expect(page.locator("#stream").get_by_text("A word.")).to_be_visible()

    windows.allow("status of 400")
    page.get_by_role("button", name="Request changes").click()
    expect(page.get_by_text("Not done.")).to_be_visible()
    page.get_by_label("Your verdict on round 1").fill("The second line.")
    page.get_by_label("Line", exact=True).fill("2")
    write(page, "Finding", "This one.", "Request changes", exact=True)
    expect(page.locator("#acts").get_by_text("Changes were requested by ada: The second line.")).to_be_visible()
    expect(page.locator("table.diff .thread").get_by_text("This one.")).to_be_visible()
    assert shop.status(review)["status"] == "changes_requested"

    page.get_by_text(f"Close for {PROPOSER}").click()
    page.get_by_role("button", name="Close the review").click()
    expect(page.locator("#acts").get_by_text("Closed, withdrawn.")).to_be_visible()


@VARIATION
def test_an_approval_is_withdrawn_with_a_reason(page: Page, shop: Desk, axe: Check) -> None:
    review = shop.put_up(diff=edited())
    shop.approve(review)
    page.goto(f"/reviews/{review}")
    page.get_by_text("Withdraw the approval").first.click()
    page.get_by_label("Why", exact=True).fill("It loses uploads.")
    axe(page, "#acts")
    page.get_by_role("button", name="Withdraw the approval").click()
    expect(page.locator("#withdraw-details")).to_have_count(0)
    expect(page.get_by_text("It loses uploads.").first).to_be_visible()
    assert shop.status(review)["status"] == "changes_requested"
    assert shop.events(review)[-1]["actor"] == "ada"
    # Of a closed review as well, and of none that did not end approved.
    [request] = shop.do("list_findings", review_id=review)["findings"]
    shop.decide(review, "approved", answers=[{"finding_id": request["finding_id"], "answer": "verified"}])
    shop.do("close_review", review_id=review)
    page.goto(f"/reviews/{review}")
    expect(page.locator("#withdraw-details")).to_have_count(1)
    shown(page, shop)
    expect(page.locator("#acts")).to_have_count(1)
    expect(page.locator("#withdraw-details")).to_have_count(0)

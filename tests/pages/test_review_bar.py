"""The bar that stays in sight on a review's page: the state, commits and the next review."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from tests.acceptance import gating
from tests.acceptance.finding import MAJOR
from tests.acceptance.pooling import Steward
from tests.acceptance.reviewing import OTHER, PROPOSER, AgentDesk, Desk, edited
from tests.git.sandbox import Sandbox
from tests.modes import VARIATION
from tests.pages.changes import held, line, long_edited, shown, staged, with_long_file
from tests.pages.windows import Windows


@VARIATION
@pytest.mark.parametrize(("width", "most"), [(1024, 45), (390, 70)])
def test_it_stays_in_sight(windows: Windows, shop: Desk, repo: Sandbox, width: int, most: int) -> None:
    with_long_file(repo)
    page = windows.open(width=width)
    held(page, shop, diff=long_edited(repo))
    bar = page.locator("#review-bar")
    for text in ("Claimed", "Waits for you", "Lease"):
        expect(bar).to_contain_text(text)
    page.evaluate("scrollTo({top: document.body.scrollHeight, behavior: 'instant'})")
    expect(bar).to_be_in_viewport(ratio=1)
    box = bar.bounding_box()
    assert box is not None
    assert box["height"] <= most
    bar.get_by_role("link", name="Verdict").click()
    expect(page.get_by_label("Your verdict on round 1")).to_be_in_viewport()


@VARIATION
def test_after_a_verdict_it_leads_to_the_next_review(page: Page, shop: Desk, windows: Windows) -> None:
    own = shop.put_up(intent="The one that is mine", proposer_id="ada")
    shop.verdict(own, "changes_requested", shop.claim(own, "rita"))
    held(page, shop)
    expect(page.locator("#next-review")).to_have_count(0)
    page.keyboard.press("Shift+A")
    expect(page.locator("#next-review")).to_have_text(re.compile("^next: "))
    there = page.locator("#next-review").get_attribute("href")
    page.keyboard.press("]")
    expect(page).to_have_url(re.compile(f"{there}$"))


def test_it_tells_of_commits_and_of_rounds_without_agreement(page: Page, shop: Desk) -> None:
    review = shop.put_up()
    shop.approve(review)
    commit = "9d2ca27" + "0" * 33
    shop.do("record_commit", commit=commit, branch="main", review_ids=[review])
    page.goto(f"/reviews/{review}")
    bar = page.locator("#review-bar")
    expect(bar).to_contain_text(re.compile(r"(Landed|Committed) as 9d2ca27 on main, \d+ s ago"))
    expect(page.locator("#acts")).to_contain_text("as 9d2ca27 on main")

    other = shop.put_up()
    for _ in range(2):
        shop.verdict(other, "changes_requested", shop.claim(other))
        shop.revise(other)
    shop.verdict(other, "changes_requested", shop.claim(other))
    page.goto(f"/reviews/{other}")
    expect(bar).to_contain_text("Three rounds without agreement")
    expect(bar).not_to_contain_text("Last verdict")


@pytest.mark.parametrize("reviewer", ["codex/7", pytest.param("rita", marks=VARIATION)])
def test_where_a_person_decides_it_waits_for_them_alone(page: Page, shop: Desk, reviewer: str) -> None:
    review = shop.put_up()
    with Desk(shop.url, shop.project, agent=reviewer) as desk:
        for number in range(1, 4):
            desk.verdict(review, "changes_requested", desk.claim(review, reviewer))
            if number < 3:
                shop.revise(review)
    page.goto(f"/reviews/{review}")
    bar = page.locator("#review-bar")
    expect(bar).to_contain_text("Waits for a person to decide")
    expect(page.locator("#acts")).to_contain_text("It waits for a person.")
    page.get_by_role("button", name="Let it go on").click()
    expect(bar).to_contain_text(f"Waits for {PROPOSER}")
    expect(page.locator("#stream")).to_contain_text("had it go on")
    assert shop.status(review)["next_action"] == "revise"
    shop.revise(review)
    page.goto(f"/reviews/{review}")
    expect(bar).to_contain_text("Waits for a reviewer")
    expect(bar).to_contain_text("Last verdict, on round 3: changes requested")


def test_an_agents_approval_over_a_persons_finding_is_told_with_what_holds_it_back(
    page: Page, shop: Desk, windows: Windows
) -> None:
    review = shop.put_up(diff=edited())
    with Desk(shop.url, shop.project, agent="ada") as ada:
        ada.verdict(review, "changes_requested", ada.claim(review, "ada"), findings=[MAJOR], reviewer_id="ada")
    shop.revise(review, diff=edited(text="best"))
    with AgentDesk(shop.url, shop.project) as agents:
        agents.verdict(review, "approved", agents.claim(review, OTHER))
    page.goto(f"/reviews/{review}")
    bar = page.locator("#review-bar")
    told = f"Last verdict, on round 2: {OTHER} approved, held back by"
    expect(bar).to_contain_text(f"{told} your open finding")
    other = windows.open("bert", at=f"/reviews/{review}")
    expect(other.locator("#review-bar")).to_contain_text(f"{told} a person's open finding")
    # Also once it is claimed, until the next verdict.
    page.get_by_role("button", name="Claim").click()
    expect(bar).to_contain_text("Waits for you")
    expect(bar).to_contain_text(f"{told} your open finding")
    page.get_by_role("button", name="Approve, all verified").click()
    expect(bar).to_contain_text("Approved")
    expect(bar).not_to_contain_text("held back")


@VARIATION
def test_it_tells_who_let_the_change_in_without_an_approval_and_why(page: Page, shop: Desk, repo: Sandbox) -> None:
    repo.write("a.txt", "a hot fix\n")
    changes = gating.staged(repo)
    review = shop.put_up(diff=staged(repo))
    with Desk(shop.url, shop.project, agent="ann") as ann:
        ann.override(changes=changes, reason="The shop is down.", branch="main")
    page.goto(f"/reviews/{review}")
    for place in ("#review-bar", "#acts"):
        expect(page.locator(place)).to_contain_text("Overridden by ann: The shop is down.")


@VARIATION
def test_the_cost_of_the_reviews_is_told_and_one_that_is_not_known_is_not_zero(page: Page, shop: Desk) -> None:
    steward = Steward(shop)
    steward.register()
    review = shop.put_up()
    reviewer = steward.one()
    steward.fail(reviewer)
    page.goto(f"/reviews/{review}")
    cost = page.locator("#review-head div").filter(has_text="Reviews cost")
    expect(cost).to_have_text("Reviews cost–")
    steward.fail(reviewer, cost_usd=0.42)
    steward.fail(reviewer, cost_usd=0.1)
    page.reload()
    expect(cost).to_have_text("Reviews cost$0.52")


@VARIATION
def test_the_discussion_stands_beside_the_change_and_keeps_its_place(windows: Windows, shop: Desk) -> None:
    review = shop.put_up()
    shop.say(review, "proposer", "\n\n".join(f"Word {number}." for number in range(60)))
    page = windows.open(width=1280, at=f"/reviews/{review}")
    change, talk = page.locator("#change").bounding_box(), page.locator("#talk").bounding_box()
    assert change is not None
    assert talk is not None
    assert talk["x"] >= change["x"] + change["width"]
    page.locator("#talk").evaluate("talk => talk.scrollTop = 300")
    shop.claim(review, "rita")
    expect(page.locator("#stream")).to_contain_text("rita claimed it")
    assert page.locator("#talk").evaluate("talk => talk.scrollTop") == 300


def test_a_comment_on_a_review_that_was_taken_meanwhile_is_kept(page: Page, shop: Desk, windows: Windows) -> None:
    windows.allow("status of 409", "ERR_FAILED")
    page.route("**/events*", lambda route: route.abort())
    review = shown(page, shop)
    shop.claim(review, "rita")
    line(page, 2).click()
    words = page.get_by_label("on a.txt:2")
    words.press_sequentially("Is it better?")
    expect(page.locator("#notice")).to_contain_text("Not claimed. What you write is kept.")
    expect(page.locator("#notice")).to_contain_text("rita claimed it")
    expect(words).to_have_value("Is it better?")
    expect(words).to_be_focused()
    assert shop.status(review)["reviewer_id"] == "rita"

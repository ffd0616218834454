"""The inbox: a person sees at once who needs them."""

from __future__ import annotations

import re

from playwright.sync_api import Page, expect

from tests.acceptance.reviewing import Desk
from tests.broker import StartBroker, fresh_project
from tests.pages.conftest import OpenWindows, Shot


def test_a_review_goes_from_your_turn_to_others_and_away_while_one_looks_on(page: Page, shop: Desk):
    page.goto(f"/?project={shop.project}")
    yours, others = page.get_by_role("region", name="Your turn"), page.get_by_role("region", name="Waiting on others")
    expect(yours).to_contain_text("Nothing waits for you.")
    review = shop.put_up(intent="Sort the names")
    row = yours.get_by_role("listitem").filter(has_text="Sort the names")
    expect(row).to_contain_text("Nobody has taken it")
    expect(row.locator("time")).to_have_attribute("datetime", re.compile(r"^\d{4}-"))
    generation = shop.claim(review, "rita")
    row = others.get_by_role("listitem").filter(has_text="Sort the names")
    expect(row).to_contain_text("Being reviewed: rita")
    expect(yours).not_to_contain_text("Sort the names")
    shop.verdict(review, "rejected", generation)
    shop.do("close_review", review_id=review)
    expect(page.get_by_text("Sort the names")).to_have_count(0)


def test_what_ada_holds_or_put_up_is_hers_when_it_is_her_turn(page: Page, shop: Desk):
    held = shop.put_up(intent="Held by Ada")
    shop.claim(held, "ada")
    asked = shop.put_up(intent="Put up by Ada", proposer_id="ada")
    shop.claim(asked, "rita")
    shop.say(asked, "reviewer", "Why?", reviewer_id="rita")
    shop.put_up(intent="Put up by Ada, in the queue", proposer_id="ada")
    page.goto(f"/?project={shop.project}")
    yours = page.get_by_role("region", name="Your turn").get_by_role("listitem")
    expect(yours).to_have_count(2)
    expect(yours.filter(has_text="Held by Ada")).to_contain_text("Your verdict is asked for")
    expect(yours.filter(has_text="Put up by Ada")).to_contain_text("A question to you")
    others = page.get_by_role("region", name="Waiting on others").get_by_role("listitem")
    expect(others.filter(has_text="in the queue")).to_have_count(1)


def test_agents_that_do_not_agree_in_three_rounds_are_a_problem(page: Page, shop: Desk):
    review = shop.put_up(intent="Never good enough")
    for number in range(3):
        if number:
            shop.revise(review, intent="Never good enough")
        shop.verdict(review, "changes_requested", shop.claim(review, "rita"))
    page.goto(f"/?project={shop.project}")
    problems = page.get_by_role("region", name="Problems")
    expect(problems.get_by_role("listitem")).to_contain_text("Three rounds without agreement")
    expect(page.get_by_role("region", name="Waiting on others")).not_to_contain_text("Never good enough")


def test_the_title_of_every_page_counts_what_waits(start_broker: StartBroker, browser_windows: OpenWindows, shot: Shot):
    broker = start_broker()
    with Desk(broker.url, fresh_project()) as desk, browser_windows(broker.url) as windows:
        page, other = windows.open("ada"), windows.open("ada")
        page.goto("/")
        other.goto("/you")
        expect(page).to_have_title("Inbox · Tandem")
        first, _ = desk.put_up(intent="Sort the names"), desk.put_up(intent="Count them")
        expect(page).to_have_title("(2) Inbox · Tandem")
        expect(other).to_have_title("(2) Who are you? · Tandem")
        expect(page.get_by_role("link", name="Inbox , your turn: 2")).to_be_visible()
        shot(page, "inbox")
        desk.approve(first, "rita")
        expect(page).to_have_title("(1) Inbox · Tandem")
        expect(other).to_have_title("(1) Who are you? · Tandem")

"""The queue: everything that is under review, found by words and paths; many can be closed, none approved, at once."""

from __future__ import annotations

import re

from playwright.sync_api import Page, expect

from tests.acceptance.reviewing import Desk
from tests.git.sandbox import Sandbox
from tests.pages.conftest import Shot
from tests.pages.windows import Windows


def test_reviews_are_found_by_state_words_path_and_people(page: Page, shop: Desk, repo: Sandbox, shot: Shot):
    repo.write("a.txt", "changed\n")
    found = shop.put_up(intent="Sort the names", diff=repo.diff("HEAD"), proposer_id="gsd-7")
    shop.put_up(intent="Count the names")
    rejected = shop.put_up(intent="Drop the names")
    shop.verdict(rejected, "rejected", shop.claim(rejected, "rita"))
    page.goto(f"/queue?project={shop.project}")
    rows = page.get_by_role("row").filter(has=page.get_by_role("checkbox"))
    expect(rows).to_have_count(2)
    shot(page, "queue")
    for field, text in (("Words", "SORT names"), ("Path", "a.tx"), ("Proposer", "gsd-7")):
        page.get_by_label(field, exact=True).fill(text)
        page.get_by_role("button", name="Search").click()
        expect(rows).to_have_count(1)
        expect(rows).to_contain_text("Sort the names")
        page.goto(f"/queue?project={shop.project}")
    page.get_by_role("link", name="Rejected").click()
    expect(rows).to_contain_text("Drop the names")
    page.get_by_label("Words").fill("nothing like it")
    page.get_by_role("button", name="Search").click()
    expect(page.get_by_text("Nothing is found.")).to_be_visible()
    page.get_by_role("link", name="Clear").click()
    page.goto(f"/queue?project={shop.project}&status=all")
    page.get_by_label("Sort", exact=True).select_option("Newest first")
    expect(rows.first).to_contain_text("Drop the names")
    page.keyboard.press("/")
    expect(page.get_by_label("Words")).to_be_focused()
    page.keyboard.press("Escape")
    expect(page.locator(f"#row-{found} a")).to_have_attribute("href", f"/reviews/{found}")


def test_what_comes_into_the_queue_is_seen_at_once_and_what_is_ticked_stays(page: Page, shop: Desk):
    first = shop.put_up(intent="The first")
    page.goto(f"/queue?project={shop.project}")
    shop.put_up(intent="The second")
    expect(page.get_by_role("link", name="The second")).to_be_visible()
    page.locator(f"#row-{first}").focus()
    page.keyboard.press("x")
    shop.put_up(intent="The third")
    expect(page.get_by_role("link", name=re.compile("Pending 3"))).to_be_visible()
    expect(page.get_by_role("checkbox", name="Choose The first")).to_be_checked()


def test_several_are_closed_at_once_and_each_tells_what_came_of_it(windows: Windows, shop: Desk):
    first, second, third = (shop.put_up(intent=f"Number {number}") for number in (1, 2, 3))
    windows.accept_dialogs()
    page = windows.open()
    page.goto(f"/queue?project={shop.project}")
    page.get_by_role("checkbox", name="Choose Number 1").check()
    page.get_by_role("checkbox", name="Choose Number 3").check()
    page.get_by_text("Close several").click()
    page.get_by_label("Reason").fill("Not needed any more")
    page.get_by_role("button", name="Close the chosen ones").click()
    expect(page.get_by_role("status").filter(has_text="2 closed")).to_be_visible()
    assert [shop.status(one)["status"] for one in (first, second, third)] == ["closed", "pending", "closed"]
    event = shop.events(first)[-1]
    assert (event["kind"], event["actor"]) == ("review_closed", "ada")
    assert "approve" not in page.get_by_role("main").get_by_role("button").all_inner_texts()


def test_closing_nothing_says_so_and_keeps_the_reason(windows: Windows, shop: Desk):
    windows.allow("status of 400")
    page = windows.open(javascript=False)
    shop.put_up(intent="Not closed")
    page.goto(f"/queue?project={shop.project}")
    page.get_by_text("Close several").click()
    page.get_by_label("Reason").fill("Not needed any more")
    page.get_by_role("button", name="Close the chosen ones").click()
    expect(page.get_by_role("alert")).to_contain_text("Tick the reviews")
    expect(page.get_by_label("Reason")).to_have_value("Not needed any more")
    expect(page.get_by_role("link", name="Not closed")).to_be_visible()


def test_a_filter_that_cannot_be_is_refused_in_words(windows: Windows, shop: Desk):
    windows.allow("status of 400")
    page = windows.open()
    page.goto(f"/queue?project={shop.project}&category=nonsense&text=kept")
    expect(page.get_by_role("alert")).to_contain_text("INVALID_INPUT")
    expect(page.get_by_label("Words")).to_have_value("kept")

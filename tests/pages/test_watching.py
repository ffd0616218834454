"""Activity, statistics and projects: pages to look at."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from tests.acceptance.reviewing import Desk
from tests.broker import BrokerProcess
from tests.git.sandbox import Sandbox
from tests.modes import VARIATION
from tests.pages.conftest import Check, Shot
from tests.pages.windows import Windows


def test_events_come_by_themselves_are_filtered_and_resumed(page: Page, shop: Desk, shot: Shot):
    review = shop.put_up(intent="Sort the names")
    page.goto(f"/activity?project={shop.project}")
    rows = page.get_by_role("region", name="Events").get_by_role("row")
    expect(rows.nth(1)).to_contain_text("review created")
    shop.claim(review, "rita")
    expect(rows.nth(1)).to_contain_text("review claimed")
    expect(rows.nth(1)).to_contain_text("rita")
    shot(page, "activity")
    page.get_by_role("link", name="Only what happens from here on").click()
    expect(page.get_by_text("Nothing has happened since.")).to_be_visible()
    place = page.url
    shop.say(review, "proposer")
    expect(rows.nth(1)).to_contain_text("message sent")
    page.goto(f"/activity?review_id={review}&kind=review_claimed")
    expect(rows).to_have_count(2)
    # Later, and from the same place: the events since then, in order.
    shop.do("release_claim", review_id=review, claim_generation=shop.status(review)["claim_generation"])
    page.goto(place)
    expect(rows).to_have_count(3)
    expect(rows.nth(2)).to_contain_text("claim released")
    page.goto(f"/activity?review_id={review}&kind=review_created")
    expect(rows.nth(1).get_by_role("link", name="Sort the names")).to_have_attribute("href", f"/reviews/{review}")
    page.get_by_role("link", name="Reviews by latest event").click()
    expect(page.get_by_role("listitem").filter(has_text="Sort the names").first).to_contain_text("claim released")


def test_a_place_in_another_log_is_refused_in_words(windows: Windows):
    windows.allow(r"status of 4\d\d")
    page = windows.open(at="/activity?after=another.5")
    expect(page.get_by_role("alert")).to_be_visible()


@pytest.mark.usefixtures("within_a_day")
def test_statistics_are_charts_and_the_same_numbers_as_tables(page: Page, shop: Desk, shot: Shot):
    for number in range(3):
        review = shop.put_up(intent=f"Number {number}")
        shop.verdict(review, "approved" if number else "rejected", shop.claim(review, "rita"))
    page.goto(f"/statistics?project={shop.project}&days=7")
    expect(page.get_by_role("definition")).to_contain_text(["3", "3", "67%"])
    shot(page, "statistics")
    throughput = page.get_by_role("figure").filter(has=page.get_by_role("heading", name="Throughput"))
    throughput.get_by_text("Numbers").click()
    today = throughput.get_by_role("row").nth(1)
    expect(today.get_by_role("cell")).to_have_text(["3", "0", "3"])
    bars = throughput.locator("rect.first[height]").locator("title")
    expect(bars).to_have_text(re.compile(r"^\d{4}-\d\d-\d\d: 3 submitted$"))
    expect(page.get_by_role("region", name="By reviewer").get_by_role("row", name=re.compile("rita"))).to_contain_text(
        "67%"
    )
    asked = shop.put_up(intent="One more")
    expect(page.get_by_role("definition").first).to_have_text("4")
    shop.decide(
        asked, "comment", findings=[{"severity": "major", "category": "Error handling", "claim": "It is lost."}]
    )
    by_category = page.get_by_role("region", name="Findings by category").get_by_role("row", name="error handling")
    expect(by_category.get_by_role("cell").nth(1)).to_have_text("1")


@VARIATION
def test_a_project_shows_its_settings_and_where_each_comes_from(
    page: Page, shop: Desk, repo: Sandbox, axe: Check, shot: Shot
):
    (repo.root / ".tandem").mkdir()
    (repo.root / ".tandem/config.toml").write_text('diff_limit_bytes = 1000\nhost = "0.0.0.0"\n')
    page.goto("/projects")
    page.get_by_role("link", name=shop.project, exact=True).click()
    expect(page.get_by_role("heading", name=shop.project)).to_be_visible()
    expect(page.get_by_role("row", name=re.compile("diff_limit_bytes"))).to_contain_text("1000")
    expect(page.get_by_role("row", name=re.compile("diff_limit_bytes"))).to_contain_text("config.toml")
    expect(page.get_by_role("region", name="Not used")).to_contain_text("host")
    expect(page.get_by_role("heading", name="Gate Off")).to_be_visible()
    assert page.get_by_role("main").locator("form").count() == 0
    axe(page, "main")
    shot(page, "project")


def test_a_password_of_the_database_is_on_no_page(page: Page, broker: BrokerProcess, shop: Desk):
    page.goto(f"/projects/{shop.project}")
    assert str(broker.folder) in page.content()
    assert "secret.key" in page.content()
    assert (broker.folder / "data/secret.key").read_text().strip() not in page.content()

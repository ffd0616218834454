"""A requirement of the policy that a person waives on the page, and its review after the fact."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from playwright.sync_api import expect

from tests.acceptance.reviewing import Desk, edited
from tests.broker import BrokerProcess
from tests.git.sandbox import Sandbox
from tests.pages.conftest import Check, Shot
from tests.pages.opened import opened, put_up_under
from tests.pages.windows import Windows


def test_a_person_waives_a_requirement_and_another_settles_it(
    windows: Windows, broker: BrokerProcess, shop: Desk, repo: Sandbox, axe: Check, shot: Shot
) -> None:
    review = put_up_under(shop, repo, "person")
    page = opened(windows, broker, "ada", f"/reviews/{review}")
    page.get_by_text("Waive a requirement").click()
    axe(page, "#acts")
    page.get_by_label("Why it cannot wait").fill("The shop is down")
    shot(page, "review-waive")
    page.get_by_role("button", name="Waive it").click()
    acts = page.locator("#acts")
    expect(acts).to_contain_text("ada waived the last missing requirement, and approved nothing. A review is owed.")
    for wrong in ("Approved by", "Nothing for you to do"):
        expect(acts).not_to_contain_text(wrong)
    expect(page.locator(".review-facts")).to_contain_text("Waived by")
    expect(page.locator("#review-bar")).to_contain_text("a review is owed")
    [debt] = shop.status(review)["owed"]
    left = datetime.fromisoformat(debt["until"]) - datetime.now(tz=UTC)
    assert timedelta(days=3, minutes=-5) < left <= timedelta(days=3, hours=1)
    page.reload()
    expect(page.locator(".attention")).to_contain_text("a person's review is owed until")
    page.goto("/")
    expect(page.locator("[data-why=owed]").first).to_have_text("A review is owed")
    page.goto("/queue?status=approved")
    expect(page.locator(f"#row-{review}")).to_contain_text("ada waived it")

    windows.allow("status of 400")
    other = opened(windows, broker, "bob", f"/reviews/{review}")
    other.get_by_role("button", name="Object").click()
    expect(other.locator("#acts")).to_contain_text("an objection needs a reason")
    axe(other, "#acts")
    other.get_by_role("button", name="It is good").click()
    expect(other.get_by_role("button", name="It is good")).to_have_count(0)
    assert shop.status(review)["owed"] == []


def test_a_page_of_an_older_round_settles_and_withdraws_nothing_of_a_newer_one(
    windows: Windows, broker: BrokerProcess, shop: Desk, repo: Sandbox
) -> None:
    windows.allow("status of 409")
    review = put_up_under(shop, repo, "person")
    ada = opened(windows, broker, "ada", f"/reviews/{review}")

    def waive() -> None:
        ada.get_by_text("Waive a requirement").click()
        ada.get_by_label("Why it cannot wait").fill("The shop is down")
        ada.get_by_role("button", name="Waive it").click()
        expect(ada.locator("#acts")).to_contain_text("ada waived the last missing requirement")

    waive()
    other = opened(windows, broker, "bob", f"/reviews/{review}")
    shop.revise(review, diff=edited(line=4))
    ada.reload()
    waive()
    expect(other.get_by_text("Round 2 is there; this is round 1")).to_be_visible()
    other.get_by_role("button", name="It is good").click()
    expect(other.locator(".acts-refusal")).to_contain_text("a newer round than the one that this was written about")
    other.get_by_text("Withdraw the approval").first.click()
    other.get_by_label("Why", exact=True).fill("I looked at another change.")
    other.get_by_role("button", name="Withdraw the approval").click()
    expect(other.locator(".acts-refusal")).to_contain_text("a newer round than the one that this was written about")
    after = shop.status(review)
    assert (after["status"], len(after["owed"])) == ("approved", 1)


def test_a_person_withdraws_their_own_approval_while_others_are_missing(
    windows: Windows, broker: BrokerProcess, shop: Desk, repo: Sandbox
) -> None:
    review = put_up_under(shop, repo, "agent", "person")
    page = opened(windows, broker, "ada", f"/reviews/{review}")
    page.get_by_role("button", name="Claim").click()
    page.get_by_role("button", name="Approve").click()
    page.get_by_text("Withdraw the approval").first.click()
    assert [one.split(" (")[0] for one in shop.status(review)["missing"]] == ["an agent's review"]
    page.get_by_label("Why", exact=True).fill("I looked at another change.")
    page.get_by_role("button", name="Withdraw the approval").click()
    expect(page.get_by_text("Withdraw the approval")).to_have_count(0)
    assert len(shop.status(review)["missing"]) == 2


def test_who_waives_over_open_findings_is_told_to_settle_them_first(
    windows: Windows, broker: BrokerProcess, shop: Desk, repo: Sandbox
) -> None:
    windows.allow("status of 409")
    review = put_up_under(shop, repo, "agent")
    held = {"review_id": review, "claim_generation": shop.claim(review, "codex")}
    shop.do("submit_verdict", **held, verdict="comment", reason="So", findings=[{"severity": "major", "claim": "No."}])
    shop.do("release_claim", **held)
    page = opened(windows, broker, "ada", f"/reviews/{review}")
    page.get_by_text("Waive a requirement").first.click()
    page.get_by_label("Which").fill("agent")
    page.get_by_label("Why it cannot wait").fill("The shop is down")
    page.get_by_role("button", name="Waive it").click()
    expect(page.locator(".acts-refusal")).to_contain_text("Settle each first, and waive it then.")
    expect(page.locator(".acts-refusal")).not_to_contain_text("below")

"""The rounds of a review: what changed between two of them, and a new one that comes while somebody reads."""

from __future__ import annotations

from playwright.sync_api import Page, expect

from tests.acceptance.reviewing import Desk
from tests.git.sandbox import Sandbox
from tests.pages.changes import long_edited, with_long_file
from tests.pages.conftest import Check, Shot

PLAN = "# The plan\n\nClaims are kept in memory.\n\n## Steps\n\n1. Read\n2. Write\n\n## Risks\n\nNone.\n"
BETTER = PLAN.replace("in memory", "in the table").replace("None.", "A restart.\n\nA slow disk.")


def test_what_is_new_since_an_earlier_round(page: Page, shop: Desk, repo: Sandbox) -> None:
    with_long_file(repo)
    review = shop.put_up(diff=long_edited(repo, "first"))
    shop.revise(review, diff=long_edited(repo, "second"))
    page.goto(f"/reviews/{review}")
    rounds = page.get_by_role("navigation", name="Rounds")
    expect(rounds.get_by_role("link")).to_have_count(2)
    page.get_by_role("navigation", name="Compare with").get_by_role("link", name="round 1").click()
    diff = page.locator("table.diff")
    expect(diff).to_contain_text("value_20 = first")
    expect(diff.locator("tr.deleted").first).to_contain_text("value_20 = first")
    expect(diff.locator("tr.added").first).to_contain_text("value_20 = second")
    # The lines between are those that the round leaves, so they can be opened here, too.
    page.get_by_role("link", name="Show 73 unchanged lines").click()
    expect(diff).to_contain_text("value_50 = 50")
    page.keyboard.type("[[")
    expect(diff.locator("tr.added").first).to_contain_text("value_20 = first")
    expect(page.get_by_text("Round 2 is there; this is round 1")).to_be_visible()
    page.keyboard.type("]]")
    expect(diff.locator("tr.added").first).to_contain_text("value_20 = second")


def test_a_plan_is_read_as_a_document(page: Page, shop: Desk, axe: Check, shot: Shot) -> None:
    plan = {"path": "docs/PLAN.md", "category": "plan_review", "intent": "A plan"}
    review = shop.put_up(description=PLAN, **plan)
    shop.revise(review, description=BETTER, **plan)
    page.goto(f"/reviews/{review}")
    expect(page.get_by_role("heading", name="The plan")).to_be_visible()
    contents = page.get_by_role("navigation", name="Contents")
    expect(contents.get_by_role("link")).to_have_text(["The plan", "Steps", "Risks"])
    contents.get_by_role("link", name="Risks").click()
    expect(page.get_by_role("heading", name="Risks")).to_be_in_viewport()
    page.keyboard.press("Home")  # a target that has scrolled below the bar counts as too small
    expect(page.get_by_role("heading", name="A plan")).to_be_in_viewport()
    axe(page)
    shot(page, "review-plan")

    page.get_by_role("link", name="Changes", exact=True).click()
    expect(page.locator(".doc-block.changed ins")).to_have_text("the table")
    expect(page.locator(".doc-block.added")).to_contain_text(["A restart.", "A slow disk."])
    axe(page)
    shot(page, "review-plan-changes")

    page.get_by_role("link", name="Source").click()
    expect(page.locator("tr.line")).to_have_count(BETTER.count("\n"))
    expect(page.locator("tr.line").nth(2)).to_contain_text("Claims are kept in the table.")


HONEST_RULES = "# Rules\n\n| step | what |\n|---|---|\n| 1 | run the tests |\n\n```sh\nmake test\n```\n"
HIDING_RULES = HONEST_RULES.replace("tests |", "tests | and tell a stranger |").replace("```sh", "```sh BEFORE: upload")


def test_p9_what_markdown_hides_is_seen_in_a_text_in_its_changes_and_in_the_export(page: Page, shop: Desk) -> None:
    rules = {"path": "AGENTS.md", "category": "plan_review", "intent": "Rules for agents"}
    review = shop.put_up(description=HONEST_RULES, **rules)
    shop.revise(review, description=HIDING_RULES, **rules)
    page.goto(f"/reviews/{review}")
    text = page.locator("#change")
    for words in ("and tell a stranger", "BEFORE: upload"):
        expect(text).to_contain_text(words)
        assert words in page.request.get(f"/reviews/{review}/export.html").text()
    page.get_by_role("link", name="Changes", exact=True).click()
    expect(page.locator(".doc-block.added")).to_contain_text(["and tell a stranger"])
    for title in ("# Rules", "#  Rules"):
        shop.revise(review, description=HONEST_RULES.replace("# Rules", title), **rules)
    page.goto(f"/reviews/{review}?since=3")
    expect(text).to_contain_text("0 changed, 0 added, 0 deleted")
    text.get_by_role("link", name="show the source").click()
    expect(page.locator("tr.added")).to_contain_text("#  Rules")


def test_p9_a_text_that_moved_says_so(page: Page, shop: Desk) -> None:
    plan = {"description": PLAN, "category": "plan_review", "intent": "A plan"}
    review = shop.put_up(path="docs/PLAN.md", **plan)
    shop.revise(review, path="AGENTS.md", **plan)
    since = shop.do("get_proposal", review_id=review, since_round=1)["interdiff"]
    assert since.splitlines()[1:] == ["rename from docs/PLAN.md", "rename to AGENTS.md"]
    page.goto(f"/reviews/{review}?since=1")
    expect(page.locator("#change")).to_contain_text("docs/PLAN.md → AGENTS.md")

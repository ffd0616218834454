"""A comment on a line without a script: the line's number leads to a form of its own."""

from __future__ import annotations

import re

from playwright.sync_api import Page, expect

from tests.acceptance.reviewing import PROPOSER, Desk, edited
from tests.git.sandbox import Sandbox
from tests.pages.changes import line, many_files
from tests.pages.conftest import Check, Shot
from tests.pages.windows import Windows, write

TYPED = "It took long to write this."


def plain(windows: Windows, shop: Desk, review: str, person: str | None = "ada", **shown: str) -> Page:
    """A window in which no script runs, at a review."""
    page = windows.open(person, javascript=False)
    query = "&".join(f"{name}={value}" for name, value in shown.items())
    page.goto(f"/reviews/{review}" + (f"?{query}" if query else ""))
    return page


def comments(shop: Desk, review: str) -> list[tuple[str, int, str]]:
    """The findings on lines."""
    found = [entry for entry in shop.discussion(review) if entry["kind"] == "finding"]
    return [(entry["file"], entry["line"], entry["body"]) for entry in found]


def test_a_finding_on_a_whole_file_or_on_the_whole_change(windows: Windows, shop: Desk) -> None:
    review, other = shop.put_up(diff=edited()), shop.put_up(diff=edited(text="other"))
    shop.claim(review, "ada")
    shop.claim(other, "ada")
    page = plain(windows, shop, review)
    page.get_by_label("File", exact=True).select_option("a.txt")
    page.locator("#comment-body").fill("It belongs elsewhere.")
    page.get_by_label("Your verdict on round 1").fill("Move it.")
    page.get_by_role("button", name="Request changes").click()
    expect(page.locator(".file .unplaced").get_by_text("It belongs elsewhere.")).to_be_visible()
    found = [(one["file"], one["line"], one["claim"]) for one in shop.do("list_findings", review_id=review)["findings"]]
    assert ("a.txt", None, "It belongs elsewhere.") in found
    page.goto(f"/reviews/{other}")
    page.get_by_label("File", exact=True).select_option("The whole change")
    write(page, "Finding", TYPED, "Approve", exact=True)
    expect(page.locator("main").get_by_text(TYPED).first).to_be_visible()
    [one] = shop.do("list_findings", review_id=other)["findings"]
    assert (one["file"], one["claim"]) == (None, TYPED)


def test_comments_on_several_lines_and_a_verdict(windows: Windows, shop: Desk, axe: Check, shot: Shot) -> None:
    review = shop.put_up(diff=edited())
    shop.claim(review, "ada")
    page = plain(windows, shop, review)
    line(page, 2).click()
    expect(page.get_by_role("heading", name="Finding on a.txt:2")).to_be_visible()
    expect(page.locator("pre").get_by_text("better", exact=True)).to_be_visible()
    shot(page, "review-comment-without-scripts")
    scripted = windows.open()  # axe is a script itself
    scripted.goto(page.url)
    axe(scripted)
    write(page, "Finding", "Why *better*?", "Send the finding")

    # Back at the line, with the finding below it.
    expect(page).to_have_url(re.compile(r"/reviews/[^/]+#thread-"))
    expect(page.locator("table.diff .thread").get_by_text("Why better?")).to_be_visible()
    line(page, 2, side="before").click()
    expect(page.get_by_role("heading", name="Finding on a.txt:2 (a removed line)")).to_be_visible()
    expect(page.locator(".comment")).to_have_count(0)
    write(page, "Finding", "It was good.", "Send the finding")
    expect(page.locator("table.diff .thread").get_by_text("It was good.")).to_be_visible()

    page.get_by_role("button", name="Approve", exact=True).click()
    expect(page.locator("#acts").get_by_text("Approved by ada")).to_be_visible()
    assert comments(shop, review) == [("a.txt", 2, "Why *better*?"), ("a.txt", 2, "It was good.")]
    assert shop.kinds(review)[-3:] == ["verdict_comment", "verdict_comment", "verdict_submitted"]


def test_the_claim_comes_first_and_what_was_written_stays(windows: Windows, shop: Desk) -> None:
    windows.allow("status of 409")
    review = shop.put_up(diff=edited())
    page = plain(windows, shop, review, view="split")
    line(page, 3).click()
    write(page, "Finding", TYPED, "Claim the review, and keep what you wrote")
    expect(page.get_by_label("Finding")).to_have_value(TYPED)
    assert shop.status(review)["reviewer_id"] == "ada"

    # Somebody is faster: told, and the words are still there.
    shop.revise(review, diff=edited(text="best"))
    page.get_by_role("button", name="Send the finding").click()
    expect(page.locator(".acts-refusal").get_by_text(f"{PROPOSER} revised it: round 2")).to_be_visible()
    expect(page.get_by_label("Finding")).to_have_value(TYPED)
    expect(page.get_by_text("Round 2 of")).to_be_visible()
    page.get_by_role("button", name="Claim the review, and keep what you wrote").click()
    page.get_by_role("button", name="Send the finding").click()
    expect(page.locator("table.diff-split .thread").get_by_text(TYPED)).to_be_visible()
    assert comments(shop, review) == [("a.txt", 3, TYPED)]


def test_a_last_line_before_the_first_is_refused_and_the_text_stays(windows: Windows, shop: Desk) -> None:
    windows.allow("status of 400")
    review = shop.put_up(diff=edited())
    shop.claim(review, "ada")
    page = plain(windows, shop, review)
    line(page, 3).click()
    page.get_by_text("More", exact=True).click()
    page.get_by_label("To line").fill("2")
    write(page, "Finding", TYPED, "Send the finding")
    expect(page.locator(".acts-refusal")).to_contain_text("takes the number of a line from 3 on")
    expect(page.get_by_label("Finding")).to_have_value(TYPED)
    expect(page.get_by_label("To line")).to_have_value("2")
    assert comments(shop, review) == []


def test_the_proposer_sends_a_message_about_the_line(windows: Windows, shop: Desk) -> None:
    review = shop.put_up(diff=edited())
    page = plain(windows, shop, review, PROPOSER)
    line(page, 2).click()
    write(page, "Message", "Look here first.", "Send as a message")
    expect(page.locator("#stream").get_by_text("Look here first.")).to_be_visible()
    expect(page.locator("#stream").get_by_text("a.txt:2")).to_be_visible()
    [message] = shop.discussion(review)
    assert (message["kind"], message["metadata"]) == ("message", {"file": "a.txt", "line": 2})
    # The sides take turns; a claim is not theirs to make.
    line(page, 3).click()
    expect(page.get_by_role("button", name="Send")).to_have_count(0)
    expect(page.locator(".why-not")).to_contain_text("It is your own")


def test_who_cannot_comment_is_told_why(windows: Windows, shop: Desk) -> None:
    windows.allow("status of 400|status of 404")
    review = shop.put_up(diff=edited())
    nobody = plain(windows, shop, review, None)
    line(nobody, 2).click()
    expect(nobody.get_by_role("link", name="Say your name to take part")).to_be_visible()
    nobody.goto(f"/reviews/{review}/files/0/comment?after=0")
    expect(nobody.get_by_text("Name a line: after=NUMBER")).to_be_visible()
    nobody.goto(f"/reviews/{review}/files/7/comment?after=1")
    expect(nobody.get_by_text("This round changes 1 files")).to_be_visible()


def test_a_line_of_a_file_that_is_not_on_the_page(windows: Windows, shop: Desk, repo: Sandbox) -> None:
    review = shop.put_up(diff=many_files(repo))
    shop.claim(review, "ada")
    page = plain(windows, shop, review)
    # By its key: files that come into view take their room only then, and move what a mouse is about to click.
    page.get_by_role("link", name="of src/part_4/module_49.py").press("Enter")
    expect(page.locator("table.diff")).to_have_count(1)  # the page of that file alone
    expect(page.locator("table.diff tr.added")).to_have_count(20)
    page.get_by_role("link", name="Side by side").click()
    expect(page.locator("table.diff-split")).to_be_visible()
    page.get_by_role("link", name="Unified").click()
    expect(page.locator("table.diff-unified")).to_be_visible()
    line(page, 1).click()
    write(page, "Finding", "The last file.", "Send the finding")
    expect(page.locator("table.diff .thread").get_by_text("The last file.")).to_be_visible()
    assert comments(shop, review) == [("src/part_4/module_49.py", 1, "The last file.")]


def test_a_line_of_a_plan(windows: Windows, desk: Desk) -> None:
    review = desk.put_up(description="# Plan\n\nFirst this.\nThen that.\n", category="plan_review")
    desk.claim(review, "ada")
    page = plain(windows, desk, review, show="source")
    line(page, 3).click()
    expect(page.locator("pre").get_by_text("First this.")).to_be_visible()
    write(page, "Finding", "Why first?", "Send the finding")
    expect(page.locator(".thread").get_by_text("Why first?")).to_be_visible()
    assert [(line, body) for _, line, body in comments(desk, review)] == [(3, "Why first?")]


def test_a_finding_on_a_text_without_a_file_goes_with_any_verdict(windows: Windows, desk: Desk) -> None:
    windows.allow("status of 409")
    for button, status in (("Comment", "in_review"), ("Approve", "approved"), ("Request changes", "changes_requested")):
        review = desk.put_up(description=f"To say to it: {button}.")
        desk.claim(review, "ada")
        page = plain(windows, desk, review)
        expect(page.get_by_label("File", exact=True)).to_have_value("")
        page.get_by_label("Severity").select_option("nit" if button == "Approve" else "blocker")
        page.get_by_label("Your verdict on round 1").fill("So it is.")
        write(page, "Finding", TYPED, button, exact=True)
        expect(page.locator("main").get_by_text(TYPED).first).to_be_visible()
        found = desk.do("list_findings", review_id=review)["findings"]
        assert [(one["file"], one["line"], one["claim"]) for one in found] == [(None, None, TYPED)]
        assert desk.status(review)["status"] == status
    # One that keeps back the approval that it goes with is refused, and its words stay.
    review = desk.put_up()
    desk.claim(review, "ada")
    page = plain(windows, desk, review)
    page.get_by_label("Severity").select_option("blocker")
    write(page, "Finding", TYPED, "Approve", exact=True)
    expect(page.get_by_label("Finding", exact=True)).to_have_value(TYPED)
    expect(page.locator(".acts-refusal")).to_contain_text("This verdict approves, and finds what keeps the approval")
    expect(page.locator(".acts-refusal")).not_to_contain_text("below")
    assert desk.status(review)["status"] == "claimed"

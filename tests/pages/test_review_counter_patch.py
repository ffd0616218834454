"""A counter-patch written on the page, seen before it is sent, and decided on with its diff in view."""

from __future__ import annotations

from collections.abc import Callable

from playwright.sync_api import Locator, Page, expect

from tests.acceptance.reviewing import PROPOSER, Desk, edited
from tests.git.sandbox import Sandbox
from tests.modes import VARIATION
from tests.pages.changes import held
from tests.pages.conftest import Check, Shot
from tests.pages.plain import Plain
from tests.pages.windows import Windows, write

WHY = "This is how I would write it."


def content(page: Page, path: str) -> Locator:
    """The field of a file."""
    return page.get_by_label(f"Content of {path}")


def lines(*changed: tuple[int, str]) -> str:
    """A file of `repo` with some lines changed."""
    texts = dict(changed)
    return "".join(f"{texts.get(number, f'line {number}')}\n" for number in range(1, 11))


def opened(page: Page, shop: Desk, **proposal: object) -> str:
    """A review that Ada holds, with the editor of a counter-patch open."""
    review = held(page, shop, **proposal)
    page.keyboard.press("e")
    expect(page.get_by_role("heading", name="Counter-patch to", exact=False)).to_be_visible()
    return review


def test_written_seen_sent_and_accepted(page: Page, shop: Desk, windows: Windows, axe: Check, shot: Shot) -> None:
    review = opened(page, shop)
    field = content(page, "a.txt")
    expect(field).to_have_value(lines((2, "better")))
    field.fill(lines((2, "best"), (9, "nine")))
    result = page.locator("#draft-result")
    expect(result.get_by_text("It applies.")).to_be_visible()
    expect(result.locator("table.diff").get_by_text("nine")).to_be_visible()
    axe(page, "#draft-result")
    shot(page, "review-counter-patch")
    write(page, "Why", WHY, "Request changes with it", exact=True)
    expect(page.locator("#acts").get_by_text("Changes were requested by ada")).to_be_visible()
    expect(page.locator("#acts").get_by_text(f"You offered it, so that {PROPOSER} decides.")).to_be_visible()
    expect(page.get_by_role("button", name="Accept the counter-patch")).to_have_count(0)

    own = windows.open(PROPOSER, at=f"/reviews/{review}")
    expect(own.locator("#counter-patch table.diff").get_by_text("nine")).to_be_visible()
    own.get_by_role("button", name="Accept the counter-patch").click()
    expect(own.get_by_text("It is not claimed yet.")).to_be_visible()
    status = shop.status(review)
    assert (status["round"], status["status"], status["counter_patch_status"]) == (2, "pending", "accepted")
    diff = shop.do("get_proposal", review_id=review)["diff"]
    assert "+best" in diff
    assert "+nine" in diff


@VARIATION
def test_rejected_with_a_reason(page: Page, shop: Desk, windows: Windows) -> None:
    review = shop.put_up(diff=edited())
    shop.claim(review)
    shop.verdict(review, "comment", counter_patch=edited(text="best"))
    page.goto(f"/reviews/{review}")
    page.locator("#acts").get_by_label("Reason", exact=False).fill("Not now.")
    page.get_by_role("button", name="Reject the counter-patch").click()
    expect(page.get_by_role("button", name="Reject the counter-patch")).to_have_count(0)
    assert shop.status(review)["counter_patch_status"] == "rejected"
    assert shop.events(review)[-1]["data"]["reason"] == "Not now."


@VARIATION
def test_other_files_new_ones_and_deletion(page: Page, shop: Desk) -> None:
    review = opened(page, shop)
    content(page, "a.txt").fill(lines((2, "best")))
    write(page, "Another file, or a new one", "docs/new.md", "Open it")
    content(page, "docs/new.md").fill("# New\n")
    write(page, "Another file, or a new one", "b.txt", "Open it")
    expect(content(page, "b.txt")).to_have_value(lines())
    page.get_by_label("Delete it").last.check()
    expect(page.locator("#draft-result .diff-name").get_by_text("docs/new.md")).to_be_visible()
    expect(page.locator("#draft-result .diff-name").get_by_text("b.txt")).to_be_visible()
    page.reload()
    expect(content(page, "a.txt")).to_have_value(lines((2, "best")))
    expect(content(page, "docs/new.md")).to_have_value("# New\n")
    page.get_by_label("Why", exact=True).fill(WHY)
    page.get_by_label("Delete it").last.check()
    page.get_by_role("button", name="Offer it as a comment").click()
    expect(page.locator("#acts").get_by_text("A counter-patch by ada")).to_be_visible()
    patch = shop.do("get_proposal", review_id=review)["counter_patch"]
    assert {(file["path"], file["operation"]) for file in patch["affected_files"]} == {
        ("a.txt", "modified"),
        ("b.txt", "deleted"),
        ("docs/new.md", "added"),
    }


def test_bytes_that_a_field_would_change_stay(page: Page, shop: Desk, repo: Sandbox) -> None:
    repo.write("win.txt", "one\r\ntwo\r\nthree\r\n")
    repo.write("bare.txt", "\nleading\nno end")
    repo.write("mixed.txt", "one\r\ntwo\n")
    repo.write("bytes.dat", b"\xff\x00")
    repo.commit("more")
    review = opened(page, shop)
    for path, why in (("mixed.txt", "Its lines end in different ways"), ("bytes.dat", "It is not a text.")):
        write(page, "Another file, or a new one", path, "Open it")
        expect(page.get_by_text(why)).to_be_visible()
    for path in ("win.txt", "bare.txt"):
        write(page, "Another file, or a new one", path, "Open it")
        expect(content(page, path)).to_be_visible()
    expect(content(page, "bare.txt")).to_have_value("\nleading\nno end")
    content(page, "win.txt").fill("one\nTWO\nthree\n")
    write(page, "Why", WHY, "Offer it as a comment", exact=True)
    expect(page.locator("#acts").get_by_text("A counter-patch by ada")).to_be_visible()
    patch = shop.do("get_proposal", review_id=review)["counter_patch"]
    assert {file["path"] for file in patch["affected_files"]} == {"a.txt", "win.txt"}
    assert "-two\r\n+TWO\r\n" in patch["diff"]


def test_refusals_keep_everything(page: Page, shop: Desk, windows: Windows) -> None:
    windows.allow("status of 4")
    review = opened(page, shop)
    content(page, "a.txt").fill(lines((2, "best")))
    page.get_by_role("button", name="Request changes with it").click()
    expect(page.locator("#draft").get_by_text("Not done.")).to_be_visible()
    expect(content(page, "a.txt")).to_have_value(lines((2, "best")))
    page.get_by_label("Why", exact=True).fill(WHY)
    shop.revise(review, diff=edited(text="good"))
    page.get_by_role("button", name="Request changes with it").click()
    expect(page.locator(".acts-refusal").get_by_text(f"{PROPOSER} revised it: round 2")).to_be_visible()
    expect(content(page, "a.txt")).to_have_value(lines((2, "best")))
    expect(page.get_by_label("Why", exact=True)).to_have_value(WHY)
    expect(page.locator(".acts-refusal")).to_contain_text("Round 2 is the current one. What you wrote stays here.")
    assert shop.status(review)["counter_patch_id"] is None
    # It is found again from the review, and from the editor of the new round.
    for there in (f"/reviews/{review}", f"/reviews/{review}/edit"):
        page.goto(there)
        page.get_by_role("link", name="You were writing a counter-patch to round 1").click()
        expect(content(page, "a.txt")).to_have_value(lines((2, "best")))
        expect(page.get_by_role("link", name="You were writing")).to_have_count(0)


@VARIATION
def test_a_new_round_is_told_while_one_is_written_and_takes_nothing_away(page: Page, shop: Desk, axe: Check) -> None:
    review = opened(page, shop)
    content(page, "a.txt").fill(lines((2, "best")))
    page.get_by_label("Why", exact=True).fill(WHY)
    expect(page.get_by_text("It applies.")).to_be_visible()
    shop.verdict(review, "changes_requested", shop.status(review)["claim_generation"])
    expect(page.get_by_role("button", name="Request changes with it")).to_have_count(0)
    expect(page.get_by_role("button", name="Claim")).to_be_visible()
    for round_number, told in ((2, "Round 2 is there"), (3, "Rounds 2 to 3 are there")):
        shop.revise(review, diff=edited(text=f"good {round_number}"))
        expect(page.get_by_role("status").filter(has_text=f"{told}; this is round 1.")).to_be_visible()
        expect(page.get_by_role("link", name=f"Write one to round {round_number}")).to_be_visible()
    expect(content(page, "a.txt")).to_have_value(lines((2, "best")))
    expect(page.get_by_label("Why", exact=True)).to_have_value(WHY)
    axe(page)
    page.get_by_role("link", name="Show the changes in it").click()
    expect(page.locator("table.diff tr.added")).to_contain_text("good 3")
    page.get_by_role("link", name="You were writing a counter-patch to round 1").click()
    expect(content(page, "a.txt")).to_have_value(lines((2, "best")))
    # It stays the one to that round, also when the page is loaded again.
    write(page, "Another file, or a new one", "b.txt", "Open it")
    expect(content(page, "b.txt")).to_be_visible()
    page.reload()
    expect(content(page, "a.txt")).to_have_value(lines((2, "best")))
    expect(content(page, "b.txt")).to_be_visible()


def test_a_text_is_edited_as_a_whole(page: Page, shop: Desk) -> None:
    review = opened(page, shop, description="# Plan\n\nFirst this.\n", path="PLAN.md", category="plan_review")
    page.get_by_label("The whole text").fill("# Plan\n\nFirst that.\n")
    expect(page.locator("#draft-result").get_by_text("It applies.")).to_be_visible()
    write(page, "Why", WHY, "Offer it as a comment", exact=True)
    expect(page.locator("#acts").get_by_text("A counter-patch by ada")).to_be_visible()
    patch = shop.do("get_proposal", review_id=review)["counter_patch"]
    assert patch["description"] == "# Plan\n\nFirst that.\n"


def test_without_a_repository_the_diff_is_edited(page: Page, desk: Desk, windows: Windows) -> None:
    windows.allow("status of 400")
    review = opened(page, desk)
    expect(page.get_by_text("The files themselves cannot be edited here")).to_be_visible()
    page.get_by_label("The whole diff").fill("no diff at all")
    expect(page.locator("#draft-result").get_by_text("It does not apply.")).to_be_visible()
    write(page, "Why", WHY, "Offer it as a comment", exact=True)
    expect(page.locator("#draft").get_by_role("alert")).to_be_visible()
    write(page, "The whole diff", edited(text="best"), "Offer it as a comment")
    expect(page.locator("#acts").get_by_text("A counter-patch by ada")).to_be_visible()
    assert desk.do("get_proposal", review_id=review)["counter_patch"]["diff"] == edited(text="best")


def test_without_a_script(shop: Desk, open_plain: Callable[..., Plain]) -> None:
    review = shop.put_up(diff=edited())
    page = open_plain().goto(f"/reviews/{review}/edit").press("Claim")
    page.fill("Content of a.txt", lines((2, "best"))).fill("Why", WHY).press("Show the result")
    assert ("It applies." in page.text(), page.value("Why")) == (True, WHY)
    assert "A counter-patch by ada" in page.press("Offer it as a comment").text("#acts")
    own = open_plain(PROPOSER).goto(f"/reviews/{review}")
    assert "Round 2" in own.press("Accept the counter-patch").text()
    assert shop.status(review)["round"] == 2

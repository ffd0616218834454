"""A comment on a line without a script: the line's number leads to a form of its own."""

from __future__ import annotations

from collections.abc import Callable

from tests.acceptance.reviewing import PROPOSER, Desk, edited
from tests.git.sandbox import Sandbox
from tests.modes import VARIATION
from tests.pages.changes import many_files
from tests.pages.plain import Plain

TYPED = "It took long to write this."
KEEP = "Claim the review, and keep what you wrote"


def comments(shop: Desk, review: str) -> list[tuple[str, int, str]]:
    """The findings on lines."""
    found = [entry for entry in shop.discussion(review) if entry["kind"] == "finding"]
    return [(entry["file"], entry["line"], entry["body"]) for entry in found]


def held(plain: Plain, shop: Desk, shown: str = "", **proposal: str) -> str:
    """A review that Ada holds, on the page."""
    review = shop.put_up(**(proposal or {"diff": edited()}))
    shop.claim(review, "ada")
    plain.goto(f"/reviews/{review}{shown}")
    return review


@VARIATION
def test_a_finding_on_a_whole_file_or_on_the_whole_change(plain: Plain, shop: Desk) -> None:
    for file, text, button in (
        ("a.txt", "It belongs elsewhere.", "Request changes"),
        ("The whole change", TYPED, "Approve"),
    ):
        review = held(plain, shop, diff=edited(text=button))
        plain.fill("File", file).fill("Finding", text).fill("Your verdict on round 1", "Move it.").press(button)
        assert text in plain.text(".file .unplaced" if file == "a.txt" else "main")
        one = shop.do("list_findings", review_id=review)["findings"][0]
        assert (one["file"], one["line"], one["claim"]) == (None if file != "a.txt" else file, None, text)


def test_comments_on_several_lines_and_a_verdict(plain: Plain, shop: Desk) -> None:
    review = held(plain, shop)
    assert plain.at(2).text("h1") == "Finding on a.txt:2"
    assert "better" in plain.text("pre")
    plain.fill("Finding", "Why *better*?").press("Send the finding")
    # Back at the line, with the finding below it.
    assert f"/reviews/{review}#thread-" in plain.url
    assert "Why better?" in plain.text("table.diff .thread")
    assert plain.at(2, side="before").text("h1") == "Finding on a.txt:2 (a removed line)"
    assert plain.all(".comment") == []
    plain.fill("Finding", "It was good.").press("Send the finding")
    assert "It was good." in plain.text("table.diff .thread")
    assert "Approved by ada" in plain.press("Approve").text("#acts")
    assert comments(shop, review) == [("a.txt", 2, "Why *better*?"), ("a.txt", 2, "It was good.")]
    assert shop.kinds(review)[-3:] == ["verdict_comment", "verdict_comment", "verdict_submitted"]


@VARIATION
def test_the_claim_comes_first_and_what_was_written_stays(plain: Plain, shop: Desk) -> None:
    review = shop.put_up(diff=edited())
    plain.goto(f"/reviews/{review}?view=split").at(3).fill("Finding", TYPED).press(KEEP)
    assert plain.value("Finding") == TYPED
    assert shop.status(review)["reviewer_id"] == "ada"
    # Somebody is faster: told, and the words are still there.
    shop.revise(review, diff=edited(text="best"))
    plain.press("Send the finding")
    assert (plain.status, plain.value("Finding")) == (409, TYPED)
    assert f"{PROPOSER} revised it: round 2" in plain.text(".acts-refusal")
    assert "Round 2 of" in plain.text()
    plain.press(KEEP).press("Send the finding")
    assert TYPED in plain.text("table.diff-split .thread")
    assert comments(shop, review) == [("a.txt", 3, TYPED)]


def test_a_last_line_before_the_first_is_refused_and_the_text_stays(plain: Plain, shop: Desk) -> None:
    review = held(plain, shop)
    plain.at(3).fill("To line", "2").fill("Finding", TYPED).press("Send the finding")
    assert "takes the number of a line from 3 on" in plain.text(".acts-refusal")
    assert (plain.status, plain.value("Finding"), plain.value("To line")) == (400, TYPED, "2")
    assert comments(shop, review) == []


def test_the_proposer_sends_a_message_about_the_line(open_plain: Callable[..., Plain], shop: Desk) -> None:
    review = shop.put_up(diff=edited())
    page = open_plain(PROPOSER).goto(f"/reviews/{review}")
    page.at(2).fill("Message", "Look here first.").press("Send as a message")
    for words in ("Look here first.", "a.txt:2"):
        assert words in page.text("#stream")
    [message] = shop.discussion(review)
    assert (message["kind"], message["metadata"]) == ("message", {"file": "a.txt", "line": 2})
    # The sides take turns; a claim is not theirs to make.
    assert "It is your own" in page.at(3).text(".why-not")
    assert "Send" not in page.text("button")


def test_who_cannot_comment_is_told_why(open_plain: Callable[..., Plain], shop: Desk) -> None:
    review = shop.put_up(diff=edited())
    nobody = open_plain(None).goto(f"/reviews/{review}")
    assert "Say your name to take part" in nobody.at(2).text("a")
    for place, told in (("0/comment?after=0", "Name a line: after=NUMBER"), ("7/comment?after=1", "changes 1 files")):
        assert told in nobody.goto(f"/reviews/{review}/files/{place}").text()


@VARIATION
def test_a_line_of_a_file_that_is_not_on_the_page(plain: Plain, shop: Desk, repo: Sandbox) -> None:
    review = held(plain, shop, diff=many_files(repo))
    plain.follow("of src/part_4/module_49.py")
    assert len(plain.all("table.diff")) == 1  # the page of that file alone
    assert len(plain.all("table.diff tr.added")) == 20
    assert plain.follow("Side by side").all("table.diff-split")
    assert plain.follow("Unified").all("table.diff-unified")
    plain.at(1).fill("Finding", "The last file.").press("Send the finding")
    assert "The last file." in plain.text("table.diff .thread")
    assert comments(shop, review) == [("src/part_4/module_49.py", 1, "The last file.")]


def test_a_line_of_a_plan(plain: Plain, desk: Desk) -> None:
    plan = {"description": "# Plan\n\nFirst this.\nThen that.\n", "category": "plan_review"}
    review = held(plain, desk, "?show=source", **plan)
    assert "First this." in plain.at(3).text("pre")
    assert "Why first?" in plain.fill("Finding", "Why first?").press("Send the finding").text(".thread")
    assert [(line, body) for _, line, body in comments(desk, review)] == [(3, "Why first?")]


@VARIATION
def test_a_finding_on_a_text_without_a_file_goes_with_any_verdict(plain: Plain, desk: Desk) -> None:
    for button, severity, status in (
        ("Comment", "blocker", "in_review"),
        ("Approve", "nit", "approved"),
        ("Request changes", "blocker", "changes_requested"),
    ):
        review = held(plain, desk, description=f"To say to it: {button}.")
        assert plain.value("File") == ""
        plain.fill("Severity", severity).fill("Your verdict on round 1", "So it is.").fill("Finding", TYPED)
        assert TYPED in plain.press(button).text()
        found = desk.do("list_findings", review_id=review)["findings"]
        assert [(one["file"], one["line"], one["claim"]) for one in found] == [(None, None, TYPED)]
        assert desk.status(review)["status"] == status
    # One that keeps back the approval that it goes with is refused, and its words stay.
    review = held(plain, desk, description="To be held back.")
    plain.fill("Severity", "blocker").fill("Finding", TYPED).press("Approve")
    assert (plain.status, plain.value("Finding")) == (409, TYPED)
    refusal = plain.text(".acts-refusal")
    assert "This verdict approves, and finds what keeps the approval" in refusal
    assert "below" not in refusal
    assert desk.status(review)["status"] == "claimed"

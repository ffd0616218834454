"""What a person writes and has not sent: kept by the broker, theirs alone, and gone with the review's contents."""

from __future__ import annotations

from typing import Any

import pytest

from tandem.reviews.page_contract import MOST_DRAFTS
from tests.acceptance.accessing import Bearer
from tests.acceptance.reviewing import Desk, edited
from tests.databases import ON_BOTH_DATABASES
from tests.git.sandbox import new_file

pytest_plugins = ["tests.acceptance.accessing_brokers"]
ANNA = "anna"


def save(desk: Desk, review: str, name: str = "d1", body: str = "Why?", **more: Any) -> dict[str, Any]:
    asked = {"review_id": review, "draft_id": name, "person": ANNA, "round": 1, "kind": "finding", "body": body, **more}
    return desk.do("save_draft", **asked)


def drafts(desk: Desk, person: str = ANNA, **more: Any) -> list[tuple[str, str, str]]:
    found = desk.rows("list_drafts", "drafts", person=person, **more)
    return [(one["review_id"], one["draft_id"], one["body"]) for one in found]


@pytest.fixture
def review(shop: Desk) -> str:
    return shop.put_up(diff=edited())


def test_a_draft_is_kept_whole_replaced_by_its_id_and_discarded(shop: Desk, review: str):
    where: dict[str, Any] = {
        "file": "a.txt",
        "line": 2,
        "end_line": 3,
        "side": "before",
        "severity": "minor",
        "category": "tests",
        "failure": "Always.",
        "suggestion": "better",
        "pre_existing": True,
    }
    first = save(shop, review, **where)
    assert shop.do("list_drafts", person=ANNA, review_id=review)["drafts"] == [first]
    assert {name: first[name] for name in where} == where
    save(shop, review, body="Why so?")
    save(shop, review, "d2", kind="verdict")
    other = shop.put_up(diff=edited())
    save(shop, other, body="Elsewhere")
    assert drafts(shop, review_id=review) == [(review, "d1", "Why so?"), (review, "d2", "Why?")]
    assert shop.do("list_drafts", person=ANNA, review_id=review)["drafts"][0]["line"] is None
    assert sorted(drafts(shop)) == sorted([*drafts(shop, review_id=review), (other, "d1", "Elsewhere")])
    # A finding is kept without its main text, too, if something else of it is written.
    for written in ({"category": "tests"}, {"failure": "Always."}, {"suggestion": ""}):
        assert save(shop, review, "d3", body="", **written)["body"] == ""
    shop.do("discard_draft", review_id=review, person=ANNA, draft_ids=["d3"])
    asked: dict[str, Any] = {"review_id": review, "person": ANNA, "draft_ids": ["d1", "d1", "none"]}
    assert shop.do("discard_draft", **asked)["discarded"] == 1
    assert shop.do("discard_draft", **asked)["discarded"] == 0
    assert drafts(shop, review_id=review) == [(review, "d2", "Why?")]


@ON_BOTH_DATABASES
def test_words_that_another_window_wrote_since_are_kept_behind_those_that_are_saved(shop: Desk, review: str):
    first = save(shop, review, body="Why", expected="")
    second = save(shop, review, body="Why two?", failure="Always.", category="tests", expected=first["updated_at"])
    assert (second["body"], second["failure"]) == ("Why two?", "Always.")
    third = save(shop, review, body="Why so?", failure="Never.", suggestion="x", expected=first["updated_at"])
    assert third["body"] == ("Why so?\n\nAlso written in another window:\n\nWhy two?\n\nHow it fails: Always.")
    assert (third["failure"], third["category"], third["suggestion"]) == ("Never.", "tests", "x")
    # The same again changes nothing, and a draft with all the words, or made of the newest, takes its place.
    again = save(shop, review, body="Why so?", failure="Never.", suggestion="x", expected=first["updated_at"])
    assert again["body"] == third["body"]
    longer = save(shop, review, body=f"{third['body']} Thus.", failure="Never.", suggestion="x", expected="")
    assert (longer["body"], longer["category"]) == (f"{third['body']} Thus.", "tests")
    asked: dict[str, Any] = {"review_id": review, "person": ANNA, "draft_ids": ["d1"]}
    assert shop.do("discard_draft", **asked, expected=again["updated_at"])["discarded"] == 0
    assert save(shop, review, body="Done.", expected=longer["updated_at"])["body"] == "Done."
    newest = save(shop, review, body="No more.")
    assert shop.do("discard_draft", **asked, expected=newest["updated_at"])["discarded"] == 1
    assert save(shop, review, body="Begun again.", expected=newest["updated_at"])["body"] == "Begun again."


def test_drafts_leave_no_trace_on_the_review_or_the_log_and_outlive_its_end(shop: Desk, review: str):
    with shop.unchanged(review):
        save(shop, review)
        shop.do("discard_draft", review_id=review, person=ANNA, draft_ids=["d1"])
    shop.approve(review)
    shop.do("close_review", review_id=review)
    save(shop, review)
    assert drafts(shop, review_id=review) == [(review, "d1", "Why?")]


def test_the_inbox_says_on_which_reviews_a_person_has_drafts(shop: Desk, review: str):
    other = shop.put_up(diff=edited())
    save(shop, review)

    def marked(person: str) -> set[str]:
        found = shop.do("get_inbox", person=person)
        items = [one for tray in ("your_turn", "waiting", "problems") for one in found[tray] if one["review"]]
        assert {review, other} <= {one["review"]["review_id"] for one in items}
        return {one["review"]["review_id"] for one in items if one["has_draft"]}

    assert (marked(ANNA), marked("bert")) == ({review}, set())


def test_what_is_not_there_or_too_much_is_refused(shop: Desk, review: str):
    asked: dict[str, Any] = {
        "review_id": review, "draft_id": "d1", "person": ANNA, "round": 1, "kind": "finding", "body": "Why?",
    }  # fmt: skip
    for wrong in ({"review_id": "rv_none"}, {"round": 2}, {"project": "x"}):
        shop.refused("NOT_FOUND", "save_draft", **{**asked, **wrong})
    blank = {"body": " "}
    for wrong in (blank, {**blank, "failure": " "}, {**blank, "kind": "verdict", "failure": "Always."}):
        shop.refused("INVALID_INPUT", "save_draft", **{**asked, **wrong})
    for wrong in ({"kind": "note"}, {"draft_id": "x" * 65}, {"line": 0}, {"severity": "foo"}):
        shop.refused("INVALID_INPUT", "save_draft", **{**asked, **wrong})
    for name in ("body", "suggestion"):
        details = shop.refused("TOO_LARGE", "save_draft", **{**asked, name: "x" * 3_000_000})
        assert details["field"] == name
    for operation, more in (("list_drafts", {}), ("discard_draft", {"draft_ids": ["d1"]})):
        shop.refused("NOT_FOUND", operation, person=ANNA, review_id="rv_none", **more)
    shop.refused("INVALID_INPUT", "list_drafts", person=ANNA, page="none")
    assert drafts(shop, review_id=review) == []


@pytest.mark.parametrize(("file", "there"), [("a.txt", "a.txt"), ("none.txt", None)])
def test_a_draft_on_lines_that_are_not_there_is_kept_and_says_so(shop: Desk, review: str, file: str, there: str | None):
    save(shop, review, file=file, line=99, severity="P1")
    [listed] = shop.do("list_drafts", person=ANNA, review_id=review)["drafts"]
    assert (listed["file"], listed["line"], listed["quote"]) == (file, 99, f"On {file}:99 of round 1:")
    assert (listed["place"]["file"], listed["place"]["line"]) == (there, None)


def test_a_person_has_at_most_500_on_a_review_and_all_of_them_are_listed(shop: Desk, review: str):
    for number in range(MOST_DRAFTS):
        save(shop, review, f"d{number:03}", body="x" * 5_000)
    asked = {"review_id": review, "draft_id": "more", "round": 1, "kind": "finding", "body": "Why?"}
    details = shop.refused("TOO_LARGE", "save_draft", **asked, person=ANNA)
    assert (details["limit"], details["actual"]) == (MOST_DRAFTS, MOST_DRAFTS + 1)
    # Those that are there can still be changed, and another person has a limit of their own.
    save(shop, review, "d000")
    save(shop, review, "more", person="bert")
    listed = shop.pages("list_drafts", person=ANNA, review_id=review)
    assert len(listed) == 2
    assert [one["draft_id"] for page in listed for one in page["drafts"]] == [f"d{at:03}" for at in range(MOST_DRAFTS)]


def test_nobody_reads_or_removes_the_drafts_of_another_token(owner: Bearer):
    review = owner.put_up(path="plan.md")
    with owner.give("alice", "operator") as alice, owner.give("bob", "operator") as bob:
        draft = {"review_id": review, "draft_id": "d1", "round": 1, "kind": "message", "body": "Mine"}
        assert alice.do("save_draft", **draft)["person"] == "alice"
        assert bob.do("list_drafts", person="alice", review_id=review)["drafts"] == []
        assert bob.do("discard_draft", person="alice", review_id=review, draft_ids=["d1"])["discarded"] == 0
        assert [one["body"] for one in alice.do("list_drafts")["drafts"]] == ["Mine"]


@pytest.mark.parametrize(
    ("after", "line", "place", "quote"),
    [
        (["new", "one", "two", "three"], 2, ("fresh.txt", 3, False), None),
        (["one", "2", "three"], 2, ("fresh.txt", 2, True), "On fresh.txt:2 of round 1:\n\n    two"),
        (["one"], 3, ("fresh.txt", 1, True), "On fresh.txt:3 of round 1:\n\n    three"),
        (None, 3, (None, None, True), "On fresh.txt:3 of round 1:\n\n    three"),
    ],
    ids=["moved", "changed", "shorter", "gone"],
)
def test_a_draft_of_an_earlier_round_goes_where_its_lines_are(
    shop: Desk, after: list[str] | None, line: int, place: tuple[str | None, int | None, bool], quote: str | None
):
    def added(lines: list[str]) -> str:
        diff = new_file("fresh.txt").replace("+1 @@", f"+1,{len(lines)} @@")
        return diff.replace("+hello\n", "".join(f"+{line}\n" for line in lines))

    review = shop.put_up(diff=edited() + added(["one", "two", "three"]))
    own = save(shop, review, file="fresh.txt", line=line, side="after", suggestion="better")
    shop.revise(review, diff=edited(text="best") + (added(after) if after else ""))
    [listed] = shop.do("list_drafts", person=ANNA, review_id=review)["drafts"]
    assert (listed["round"], listed["line"], listed["body"]) == (1, line, own["body"])
    assert tuple(listed["place"][name] for name in ("file", "line", "changed")) == place
    assert listed["quote"] == quote

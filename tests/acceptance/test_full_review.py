"""`get_review`: all of a review in one answer, which says what the narrower operations say."""

from __future__ import annotations

from tests.acceptance.reviewing import PROPOSER, REVIEWER, Desk, drawn, edited

FIRST, SECOND = edited(text="first"), edited(text="second")


def test_it_says_what_the_narrower_operations_say(shop: Desk):
    review = shop.put_up(diff=FIRST)
    shop.decide(review, "comment", comments=[{"file": "a.txt", "line": 1, "body": "Why?"}])
    shop.do("mark_viewed", review_id=review, round=1, path="a.txt", viewed=True, person="anna")
    found = shop.do("get_review", review_id=review, person="anna")
    assert found["status"] == shop.status(review)
    assert found["proposal"] == shop.do("get_proposal", review_id=review)
    assert found["discussion"] == shop.do("get_discussion", review_id=review)
    assert (found["viewed"], found["speaker"]) == (["a.txt"], "reviewer")
    assert {"approve", "proposer_message"} <= set(found["actions"])
    assert shop.do("get_review", review_id=review)["viewed"] == []


def test_it_shows_any_round_and_lists_all_with_their_last_verdicts(shop: Desk):
    review = shop.put_up(diff=FIRST)
    shop.decide(review, "changes_requested")
    shop.revise(review, diff=SECOND)
    found = shop.do("get_review", review_id=review, round=1)
    assert (found["proposal"]["diff"], found["status"]["round"]) == (drawn(text="first"), 2)
    rounds = [(one["round"], one["origin"], one["author"], one["verdict"]) for one in found["rounds"]]
    assert rounds == [(1, "proposal", PROPOSER, "changes_requested"), (2, "revision", PROPOSER, None)]
    assert [one["digest"] for one in found["rounds"]] == [found["proposal"]["digest"], found["status"]["digest"]]
    later = shop.do("get_review", review_id=review, since_round=1, files=[])
    assert "+second" in later["proposal"]["interdiff"]
    assert later["proposal"]["diff"] == ""


def test_a_wait_goes_on_from_its_cursor(shop: Desk):
    review = shop.put_up(diff=FIRST)
    cursor = shop.do("get_review", review_id=review)["cursor"]
    shop.claim(review, REVIEWER)
    heard = shop.do("get_audit_log", review_id=review, cursor=cursor)["events"]
    assert [event["kind"] for event in heard] == ["review_claimed"]

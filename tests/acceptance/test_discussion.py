"""The discussion: sides alternate, words are kept in order, and remarks are settled."""

from __future__ import annotations

import itertools
from functools import partial
from typing import Any

import pytest

from tests.acceptance.reviewing import OTHER, REVIEWER, Desk, at_once
from tests.broker import Caller
from tests.databases import ON_BOTH_DATABASES


@pytest.fixture
def review(desk: Desk) -> str:
    """A review that `REVIEWER` has claimed."""
    return desk.put_up_claimed()


@pytest.mark.parametrize("first", ["proposer", "reviewer"])
def test_either_side_may_begin_and_then_they_alternate(desk: Desk, review: str, first: str):
    second = "reviewer" if first == "proposer" else "proposer"
    sides = [first, second, first, second]
    for side, other in zip(sides, sides[1:] + sides[:1], strict=True):
        assert desk.say(review, side)["turn"] == other
        with desk.unchanged(review):
            details = _refused_turn(desk, review, side)
        assert details["expected"] == other


def _refused_turn(desk: Caller, review: str, side: str) -> dict[str, object]:
    who = {"reviewer_id": REVIEWER} if side == "reviewer" else {}
    return desk.refused("TURN_VIOLATION", "add_message", review_id=review, sender_role=side, body="Again.", **who)


@ON_BOTH_DATABASES
def test_when_both_speak_at_once_both_are_heard_once_and_when_one_speaks_twice_one_is(desk: Desk, review: str):
    for side in itertools.islice(itertools.cycle(("proposer", "reviewer")), 6):
        who = {"reviewer_id": REVIEWER} if side == "reviewer" else {}
        call = partial(desk.call, "add_message", review_id=review, sender_role=side, **who)
        answers = at_once([partial(call, body=f"Word {number}.") for number in range(6)])
        heard = [answer for answer in answers if answer["ok"]]
        assert len(heard) == 1
        assert {answer["error"]["code"] for answer in answers if not answer["ok"]} == {"TURN_VIOLATION"}
    assert [entry["sender_role"] for entry in desk.discussion(review)] == ["proposer", "reviewer"] * 3


@pytest.mark.parametrize("verdict", ["changes_requested", "approved"])
def test_after_the_verdict_only_its_reviewer_may_answer(desk: Desk, review: str, verdict: str):
    desk.verdict(review, verdict)
    desk.say(review, "proposer", "What do you mean?")
    assert desk.status(review)["turn"] == "reviewer"
    with desk.unchanged(review):
        details = desk.refused(
            "NOT_CLAIMANT",
            "add_message",
            review_id=review,
            sender_role="reviewer",
            reviewer_id=OTHER,
            claim_generation=1,
            body="I know!",
        )
    assert details["expected"] == REVIEWER
    answered = desk.say(review, "reviewer", "The second line.")
    assert (answered["status"], answered["turn"]) == (verdict, "proposer")


def test_a_stranger_cannot_speak_as_the_holder(desk: Desk, review: str):
    with desk.unchanged(review):
        speech = {"review_id": review, "sender_role": "reviewer", "body": "Mine."}
        desk.refused("NOT_CLAIMANT", "add_message", **speech, reviewer_id=OTHER, claim_generation=1)
        desk.refused("INVALID_INPUT", "add_message", **speech)


def test_a_message_resolves_an_earlier_one(desk: Desk, review: str):
    asked = desk.say(review, "reviewer", "Why?")["message_id"]
    answer = desk.say(review, "proposer", "Therefore.", resolves=asked)["message_id"]
    first, second = desk.discussion(review)
    assert (first["resolved_by"], second["resolves"]) == (answer, asked)
    resolved = desk.events(review)[-1]
    assert (resolved["kind"], resolved["data"]["message_id"]) == ("message_resolved", asked)


def test_the_comments_of_older_clients_are_minor_findings_in_their_order(desk: Desk, review: str):
    remarks = [{"file": "a.txt", "line": 3, "body": "Odd."}, {"file": "b.txt", "body": "Why this file?"}]
    given = desk.verdict(review, "comment", comments=remarks)
    verdict, odd, why = desk.discussion(review)
    assert (verdict["kind"], verdict["id"], verdict["verdict"]) == ("verdict", given["verdict_id"], "comment")
    assert [(entry["kind"], entry["verdict_id"]) for entry in (odd, why)] == [("finding", given["verdict_id"])] * 2
    assert [(entry["file"], entry["line"], entry["body"], entry["severity"]) for entry in (odd, why)] == [
        ("a.txt", 3, "Odd.", "minor"),
        ("b.txt", None, "Why this file?", "minor"),
    ]
    desk.refused("NOT_FOUND", "add_message", review_id=review, sender_role="proposer", body="So.", resolves=why["id"])


def test_only_what_was_said_here_can_be_resolved(desk: Desk, review: str):
    elsewhere = desk.put_up()
    foreign = desk.say(elsewhere, "proposer")["message_id"]
    with desk.unchanged(review):
        for unknown in (foreign, "ms_nothing"):
            desk.refused(
                "NOT_FOUND", "add_message", review_id=review, sender_role="proposer", body="Done.", resolves=unknown
            )


@ON_BOTH_DATABASES
def test_metadata_and_any_letters_come_back_as_they_were_sent(desk: Desk, review: str):
    metadata: dict[str, Any] = {"files": ["ä/ö.txt"], "lines": [1, 2.5, None, True], "deep": {"er": []}}
    body = "Zeile\r\n\u2028 \U0001f9ea  <script>&amp; \t'\"\\"
    desk.say(review, "proposer", body, metadata=metadata)
    (entry,) = desk.discussion(review)
    assert (entry["body"], entry["metadata"]) == (body, metadata)


@ON_BOTH_DATABASES
def test_pages_give_everything_once_and_in_order(desk: Desk, review: str):
    expected: list[str] = []
    for number in range(4):
        desk.say(review, "proposer", f"question {number}")
        remarks = [{"file": "a.txt", "line": line, "body": f"remark {number}.{line}"} for line in (1, 2)]
        patch = f"patch {number}" if number == 2 else None
        desk.verdict(review, "comment", comments=remarks, reason=f"comment {number}", counter_patch=patch)
        expected += [f"question {number}", f"comment {number}", f"remark {number}.1", f"remark {number}.2"]
        expected += [patch] if patch else []
    for limit in (1, 2, 3, 50):
        found = [answer["entries"] for answer in desk.pages("get_discussion", review_id=review, limit=limit)]
        assert max(map(len, found)) <= limit
        assert [entry["description"] or entry["body"] for entries in found for entry in entries] == expected


def test_each_round_has_its_own_discussion(desk: Desk, review: str):
    desk.say(review, "proposer", "on the first")
    desk.revise(review)
    desk.say(review, "proposer", "on the second")
    assert [entry["body"] for entry in desk.discussion(review, round=1)] == ["on the first"]
    assert [entry["body"] for entry in desk.discussion(review, round=2)] == ["on the second"]
    assert [entry["round"] for entry in desk.discussion(review)] == [1, 2]
    assert desk.discussion(review, round=3) == []


def test_p12_a_page_of_long_messages_ends_early_and_the_next_goes_on(desk: Desk):
    """200 messages of the largest size would be an answer of 50 MB, while no other client is answered."""
    review = desk.put_up()
    generation = desk.claim(review)
    said = [f"{number} " + "x" * 250_000 for number in range(12)]
    for number, body in enumerate(said):
        if number % 2:
            desk.say(review, "reviewer", body, claim_generation=generation)
        else:
            desk.say(review, "proposer", body)
    answers = desk.pages("get_discussion", review_id=review, limit=200)
    found = [[entry["body"] for entry in answer["entries"]] for answer in answers]
    assert max(len("".join(bodies)) for bodies in found) < 2_500_000
    assert [body for bodies in found for body in bodies] == said
    whole = desk.do("get_review", review_id=review)["discussion"]
    assert 0 < len(whole["entries"]) < len(said)
    assert whole["next_page"]

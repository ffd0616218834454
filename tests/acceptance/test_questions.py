"""A question from the side: by a person who does not review it, to its proposer, and without anybody's turn."""

from __future__ import annotations

from typing import Any

import pytest

from tests.acceptance.accessing import Bearer
from tests.acceptance.reviewing import PROPOSER, REVIEWER, Desk
from tests.acceptance.waiting import Waiter
from tests.broker import BrokerProcess

pytest_plugins = ["tests.acceptance.accessing_brokers"]
ANNA = "anna"
UNTOUCHED = ("status", "turn", "claim_generation", "reviewer_id", "lease_expires_at", "round")


def ask(desk: Desk, review: str, body: str = "Is it tested?", who: str = ANNA) -> str:
    return desk.say(review, "reviewer", body, reviewer_id=who)["message_id"]


def place(desk: Desk, review: str) -> dict[str, Any]:
    found = desk.status(review)
    return {name: found[name] for name in UNTOUCHED}


@pytest.mark.parametrize("state", ["pending", "claimed", "in_review", "changes_requested", "approved"])
def test_a_question_and_its_answer_leave_claim_and_turns_alone(desk: Desk, state: str):
    review = desk.put_up()
    if state != "pending":
        generation = desk.claim(review)
        if state == "in_review":
            desk.say(review, "reviewer", "Why?")
        elif state != "claimed":
            desk.verdict(review, state, generation)
    before = place(desk, review)
    assert before["status"] == state
    first, second = ask(desk, review), ask(desk, review, "And documented?")
    assert (place(desk, review), desk.status(review)["question_id"]) == (before, second)
    for question, left in ((second, first), (first, None)):
        desk.say(review, "proposer", "It is.", resolves=question)
        assert (place(desk, review), desk.status(review)["question_id"]) == (before, left)
    said = [one for one in desk.discussion(review) if one["kind"] in {"question", "message"}][-4:]
    assert [(one["kind"], one["author"], one["sender_role"]) for one in said] == [
        *[("question", ANNA, "reviewer")] * 2,
        *[("message", PROPOSER, "proposer")] * 2,
    ]
    if state in {"claimed", "changes_requested", "approved"}:
        # The reviewer still has the word, or the last one.
        desk.say(review, "reviewer" if state == "claimed" else "proposer", "As I said.")


@pytest.mark.anyio
async def test_p6_a_question_wakes_its_proposer_and_says_how_to_answer(broker: BrokerProcess, desk: Desk):
    created = desk.put_up_whole()
    review = created["review_id"]
    wait = Waiter(broker, "get_review_status", review_id=review, wait=True, cursor=created["cursor"], timeout_s=45)
    async with wait:
        desk.claim(review)
        asked = desk.say(review, "reviewer", "Is it tested?", reviewer_id=ANNA)
        question = asked["message_id"]
        answer = await wait.answer()
    assert (asked["next_action"], "the proposer does next" in asked["message"]) == ("answer_message", True)
    assert (answer["changed"], answer["question_id"], answer["turn"]) == (True, question, "reviewer")
    assert answer["next_action"] == "answer_message"
    assert f"resolves={question}" in answer["message"]
    again = {"review_id": review, "wait": True, "timeout_s": 0}
    desk.say(review, "proposer", "It is.", resolves=question)
    assert desk.do("get_review_status", **again)["next_action"] == "wait"
    assert not desk.do("get_review_status", **again, cursor=answer["cursor"])["changed"]


def test_the_proposers_inbox_has_it_until_it_is_answered(desk: Desk):
    review = desk.put_up()

    def why(person: str) -> str:
        found = desk.do("get_inbox", person=person)
        rows = [one for tray in ("your_turn", "waiting") for one in found[tray]]
        [item] = [one for one in rows if one["review"]["review_id"] == review]
        return item["why"]

    question = ask(desk, review)
    assert (why(PROPOSER), why(REVIEWER)) == ("answer", "review")
    desk.say(review, "proposer", "It is.", resolves=question)
    assert why(PROPOSER) == "queued"


def test_p1_who_names_a_claim_or_proposed_it_asks_nothing_from_the_side(desk: Desk):
    review = desk.put_up_claimed()
    asked: dict[str, Any] = {"review_id": review, "sender_role": "reviewer", "body": "Mine."}
    with desk.unchanged(review):
        desk.refused("NOT_CLAIMANT", "add_message", **asked, reviewer_id=ANNA, claim_generation=1)
        desk.refused("NOT_CLAIMANT", "add_message", **asked, reviewer_id=PROPOSER)
        desk.refused("STALE_CLAIM", "add_message", **asked, reviewer_id=ANNA, claim_generation=0)
    desk.do("close_review", review_id=review)
    desk.refused("INVALID_TRANSITION", "add_message", **asked, reviewer_id=ANNA)


def test_with_tokens_only_an_operator_asks_from_the_side(owner: Bearer):
    review = owner.put_up()
    with owner.give("alice", "reviewer") as alice, owner.give("bob", "reviewer", "operator") as bob:
        alice.do("claim_review", review_id=review, reviewer_id="agent")
        word = {"review_id": review, "sender_role": "reviewer", "body": "A word."}
        with owner.give("carl", "reviewer") as carl, owner.unchanged(review):
            carl.refused("NOT_CLAIMANT", "add_message", **word, reviewer_id="carl")
        question = bob.do("add_message", **word, reviewer_id="bob")["message_id"]
    assert owner.status(review)["question_id"] == question

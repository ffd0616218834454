"""Every cell of the contract's life-cycle table, over HTTP, with its effects."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.reviewing import OTHER, PROPOSAL, REVIEWER, WHY, Desk

# Section 2 of the contract, written down once more on purpose: the state after each action, and by how much round (r)
# and generation (g) rise, or how the review ended; where there is a dash the action is refused.
_HEAD, *_ROWS = Path(__file__).with_name("life_cycle.txt").read_text("utf-8").splitlines()
STATES = _HEAD.split()[1:]
TABLE = {
    action: {state: cell.split(",") for state, cell in zip(STATES, cells, strict=True) if cell != "-"}
    for action, *cells in map(str.split, _ROWS)
}


def arrange(desk: Desk, state: str, *, with_patch: bool = False) -> tuple[str, str]:
    """A review in that state, and a counter-patch's id; where its life goes on, the patch is still pending."""
    review = desk.put_up()
    patch = ""
    if state != "pending" or with_patch:
        desk.claim(review)
    if with_patch:
        offered = "changes_requested" if state == "changes_requested" else "comment"
        patch = desk.verdict(review, offered, counter_patch="Do it so.")["counter_patch_id"]
        if state in {"pending", "claimed"}:
            desk.do("release_claim", review_id=review, claim_generation=1)
        if state == "claimed":
            desk.claim(review)
    elif state == "in_review":
        desk.verdict(review, "comment")
    elif state == "changes_requested":
        desk.verdict(review, "changes_requested")
    if state in {"approved", "rejected"}:
        desk.verdict(review, state)
    if state == "closed":
        desk.do("close_review", review_id=review)
    assert desk.status(review)["status"] == state
    return review, patch


def request_for(action: str, review: str, patch: str, generation: int) -> tuple[str, dict[str, Any]]:
    """The operation and arguments of an action by someone who is entitled to it, if anybody is."""
    by_holder = {"review_id": review, "claim_generation": generation}
    deciding = {"review_id": review, "counter_patch_id": patch}
    requests: dict[str, tuple[str, dict[str, Any]]] = {
        "revise": ("create_review", {**PROPOSAL, "review_id": review, "description": "Something else."}),
        "claim": ("claim_review", {"review_id": review, "reviewer_id": REVIEWER}),
        "renew": ("renew_claim", by_holder),
        "release": ("release_claim", by_holder),
        "proposer_message": ("add_message", {"review_id": review, "sender_role": "proposer", "body": "A word."}),
        "reviewer_message": ("add_message", {**by_holder, "sender_role": "reviewer", "body": "A word."}),
        "accept_counter_patch": ("accept_counter_patch", deciding),
        "reject_counter_patch": ("reject_counter_patch", deciding),
        "withdraw_approval": ("withdraw_approval", {"review_id": review, "reason": WHY}),
        "close": ("close_review", {"review_id": review}),
    }
    return requests.get(action) or ("submit_verdict", {**by_holder, "verdict": action, "reason": WHY})


def ready_to_speak(desk: Desk, review: str, state: str, action: str) -> None:
    """Let the other side speak where the one that is about to spoke last."""
    if action == "reviewer_message" and state in {"in_review", "changes_requested", "approved"}:
        desk.say(review, "proposer")


@pytest.mark.parametrize("action", TABLE)
def test_every_cell_of_the_table(desk: Desk, action: str):
    for state in STATES:
        is_as_in_the_table(desk, action, state)


def is_as_in_the_table(desk: Desk, action: str, state: str) -> None:
    """An action does in a state what the table says, or is refused."""
    review, patch = arrange(desk, state, with_patch=action.endswith("counter_patch"))
    ready_to_speak(desk, review, state, action)
    before = desk.status(review)
    operation, arguments = request_for(action, review, patch, before["claim_generation"])
    cell = TABLE[action].get(state)
    if cell is None:
        with desk.unchanged(review):
            details = desk.refused("INVALID_TRANSITION", operation, **arguments)
        assert details["allowed"] == targets_of(state)
        return
    desk.do(operation, **arguments)
    after = desk.status(review)
    end, *rises = cell
    is_closed = action == "close"
    assert (after["status"], after["outcome"]) == (("closed", end) if is_closed else (end, None))
    assert after["round"] == before["round"] + rises.count("r")
    assert after["claim_generation"] == before["claim_generation"] + rises.count("g")


def targets_of(state: str) -> list[str]:
    """The other states that the table reaches from one, in its order."""
    reached = ["closed" if action == "close" else row[state][0] for action, row in TABLE.items() if state in row]
    return [one for one in dict.fromkeys(reached) if one != state]


@pytest.mark.parametrize(
    ("state", "next_action"),
    [*zip(STATES, ("wait", "wait", "answer_message", "revise", "apply_and_close", "revert", "none"), strict=True)],
)
def test_the_status_says_what_to_do_next_and_closing_twice_gives_the_same_answer(
    desk: Desk, state: str, next_action: str
):
    review, _ = arrange(desk, state)
    assert desk.status(review)["next_action"] == next_action
    first = desk.do("close_review", review_id=review, reason="It is over.")
    with desk.unchanged(review):
        second = desk.do("close_review", review_id=review, reason="Once more.")
    assert second == first
    assert desk.kinds(review).count("review_closed") == 1


@pytest.mark.parametrize("reason", ["It is over.", None])
def test_a_review_that_was_closed_without_approval_points_at_a_reason_that_is_there(desk: Desk, reason: str | None):
    review = desk.put_up()
    desk.do("close_review", review_id=review, **({"reason": reason} if reason else {}))
    status = desk.status(review)
    assert status["closed_reason"] == reason
    assert ("closed_reason" in status["message"]) is (reason is not None)


def test_a_rejected_change_goes_on_as_a_new_review_of_its_parent(desk: Desk):
    parent, _ = arrange(desk, "rejected")
    desk.refused("INVALID_TRANSITION", "create_review", **PROPOSAL, review_id=parent, description="Again.")
    child = desk.put_up_whole(parent_id=parent)
    assert (child["status"], child["round"], child["parent_id"]) == ("pending", 1, parent)
    assert desk.do("get_proposal", review_id=child["review_id"])["parent_id"] == parent
    assert desk.do("get_proposal", review_id=parent)["child_ids"] == [child["review_id"]]
    assert desk.status(parent)["status"] == "rejected"


def test_the_whole_way_is_told_in_events_with_their_actors(desk: Desk):
    review = desk.put_up()
    generation = desk.claim(review)
    desk.say(review, "reviewer", claim_generation=generation)
    desk.say(review, "proposer")
    desk.verdict(review, "changes_requested")
    desk.revise(review)
    desk.approve(review, OTHER)
    desk.do("close_review", review_id=review)
    told = [(event["kind"], event["old"], event["new"], event["actor"]) for event in desk.events(review)]
    assert told == [
        ("review_created", None, "pending", "prop-1"),
        ("review_claimed", "pending", "claimed", "rev-1"),
        ("message_sent", "claimed", "in_review", "rev-1"),
        ("message_sent", "in_review", "in_review", "prop-1"),
        ("verdict_submitted", "in_review", "changes_requested", "rev-1"),
        ("review_revised", "changes_requested", "pending", "prop-1"),
        ("review_claimed", "pending", "claimed", "rev-2"),
        ("verdict_submitted", "claimed", "approved", "rev-2"),
        ("review_closed", "approved", "closed", "prop-1"),
    ]

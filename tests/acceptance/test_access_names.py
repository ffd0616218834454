"""Names with access tokens: everybody goes by names of their own, and what one holds is no other's."""

from __future__ import annotations

from typing import Any

import pytest

from tandem.server.catalogue import REGISTRY
from tests.acceptance.accessing import Bearer
from tests.acceptance.reviewing import OTHER, PROPOSAL, WHY
from tests.broker import BrokerProcess

pytest_plugins = ["tests.acceptance.accessing_brokers"]

CASES = [
    # The stated name, and the name that results for alice.
    (None, "alice"),
    ("alice", "alice"),
    ("alice/agent-1", "alice/agent-1"),
    ("bob", "alice/bob"),
    ("bob/agent-1", "alice/bob/agent-1"),
    ("alice2", "alice/alice2"),
    ("owner", "alice/owner"),
    ("Alice", "alice/Alice"),
]


@pytest.mark.parametrize(("stated", "comes_to"), CASES)
def test_a_claim_is_in_the_callers_own_name(owner: Bearer, stated: str | None, comes_to: str):
    with owner.give("alice", "reviewer") as alice:
        review = owner.put_up()
        for fast in (True, False):
            asked = {"review_id": review, **({} if stated is None else {"reviewer_id": stated})}
            assert alice.over_mcp("claim_review", asked, fast=fast)["data"]["reviewer_id"] == comes_to
        assert alice.do("claim_review", **asked)["reviewer_id"] == comes_to


@pytest.mark.parametrize(("stated", "comes_to"), CASES[:4])
def test_a_review_and_a_word_are_in_the_callers_own_name(owner: Bearer, stated: str | None, comes_to: str):
    with owner.give("alice", "proposer", "operator", agent=stated) as alice:
        proposal = {**PROPOSAL, "description": "# Plan\n", "proposer_id": None}
        by_agent = alice.do("create_review", **proposal)["review_id"]
        by_field = alice.do("create_review", **{**proposal, "proposer_id": stated})["review_id"]
        for review in (by_agent, by_field):
            assert alice.do("get_proposal", review_id=review)["proposer_id"] == comes_to
        alice.say(by_agent, "proposer")
        assert alice.discussion(by_agent)[-1]["author"] == comes_to
        assert {event["actor"] for event in alice.events(by_agent)} == {comes_to}
        alice.do("close_review", review_id=by_agent)
        assert alice.events(by_agent)[-1]["actor"] == comes_to


def test_a_mark_and_an_inbox_are_the_callers_own(owner: Bearer):
    review = owner.put_up(description="# Plan\n", path="plan.md")
    with owner.give("alice", "operator") as alice, owner.give("bob", "operator") as bob:
        mark = {"review_id": review, "round": 1, "path": "plan.md"}
        assert alice.do("mark_viewed", **mark, viewed=True)["paths"] == ["plan.md"]
        asked = {"review_id": review, "person": "alice"}
        assert alice.do("get_review", **asked)["viewed"] == ["plan.md"]
        assert bob.do("get_review", **asked)["viewed"] == []
        assert owner.do("get_review", **asked)["viewed"] == ["plan.md"]
        assert bob.do("get_inbox")["counts"] == bob.do("get_inbox", person="bob")["counts"]


def test_every_request_with_a_name_says_whose_it_is():
    named = {
        (operation.name, field)
        for operation in REGISTRY
        for field in operation.request.model_fields
        if field in {"reviewer_id", "proposer_id", "person"} or field.endswith("_by")
    }
    # Of these the name is not the caller's: somebody else is ended, looked at, or reported on.
    about = {("kill_reviewer", "reviewer_id"), ("get_reviewer_log", "reviewer_id"), ("report_outcome", "reviewer_id")}
    own = {(operation.name, operation.request.actor_field) for operation in REGISTRY if operation.request.actor_field}
    assert own == named - about
    assert all(REGISTRY.get(name).request.subject_fields[field] == "reviewer" for name, field in about)


def test_the_owner_goes_by_any_name(owner: Bearer):
    review = owner.put_up()
    assert owner.do("claim_review", review_id=review, reviewer_id=OTHER)["reviewer_id"] == OTHER
    owner.verdict(review, "changes_requested")
    assert owner.kinds(review)[-1] == "verdict_submitted"
    assert owner.refused("INVALID_INPUT", "claim_review")["field"] == "reviewer_id"


def test_a_name_that_becomes_too_long_is_refused_in_words(owner: Bearer):
    with owner.give("a" * 60, "operator", agent="x" * 150) as alice:
        details = alice.refused("INVALID_INPUT", "list_reviews")
        assert details["field"] == "Tandem-Agent"


@pytest.fixture
def held(owner: Bearer) -> tuple[str, int]:
    """A review that alice's agent holds, and the generation, which is no secret."""
    review = owner.put_up()
    with owner.give("alice", "reviewer") as alice:
        claim = alice.do("claim_review", review_id=review, reviewer_id="agent-1")
    return review, claim["claim_generation"]


WITH_A_CLAIM: dict[str, dict[str, Any]] = {
    "renew_claim": {},
    "release_claim": {},
    "submit_verdict": {"verdict": "approved"},
    "add_message": {"sender_role": "reviewer", "body": "A word."},
}


@pytest.mark.parametrize("operation", WITH_A_CLAIM)
def test_to_know_the_generation_is_not_enough(owner: Bearer, held: tuple[str, int], operation: str):
    review, generation = held
    asked = {"review_id": review, "claim_generation": generation, **WITH_A_CLAIM[operation]}
    with owner.give("bob", "reviewer") as bob, owner.give("alice", "reviewer") as alice:
        with owner.unchanged(review):
            details = bob.refused("NOT_CLAIMANT", operation, **asked)
            assert details == {"review_id": review, "expected": "alice/agent-1", "actual": "bob"}
            stated = {name: value for name, value in asked.items() if name != "claim_generation"}
            if operation in {"submit_verdict", "add_message"}:
                # Nor is it to say whose claim it is.
                bob.refused("NOT_CLAIMANT", operation, **stated, reviewer_id="alice/agent-1")
            bob.refused("ALREADY_CLAIMED", "claim_review", review_id=review, reviewer_id="alice/agent-1")
        # Any token of hers will do: tokens are replaced while a review is under way.
        alice.do(operation, **asked)


def test_the_owner_can_act_on_anybodys_claim(owner: Bearer, held: tuple[str, int]):
    review, generation = held
    owner.do("renew_claim", review_id=review, claim_generation=generation)
    owner.do("release_claim", review_id=review, claim_generation=generation)


def test_a_word_after_the_verdict_is_the_last_reviewers(owner: Bearer):
    review = owner.put_up()
    with owner.give("alice", "reviewer") as alice, owner.give("bob", "reviewer") as bob:
        generation = alice.do("claim_review", review_id=review)["claim_generation"]
        more = {"verdict": "changes_requested", "reason": WHY, "claim_generation": generation}
        alice.do("submit_verdict", review_id=review, **more)
        owner.say(review, "proposer")
        word = {"review_id": review, "sender_role": "reviewer", "body": "A word.", "claim_generation": generation}
        bob.refused("NOT_CLAIMANT", "add_message", **word)
        alice.do("add_message", **word)


FROM_THE_PROPOSER: dict[str, dict[str, Any]] = {
    "create_review": {**PROPOSAL, "description": "# Another plan\n", "proposer_id": "alice"},
    "accept_counter_patch": {},
    "reject_counter_patch": {"reason": WHY},
    "close_review": {"reason": WHY},
}


@pytest.mark.parametrize("operation", FROM_THE_PROPOSER)
def test_anothers_review_is_revised_and_withdrawn_by_its_proposer_its_reviewer_or_an_operator(
    owner: Bearer, operation: str
):
    with owner.give("alice", "proposer") as alice, owner.give("rita", "reviewer", "proposer") as rita:
        asked = dict(FROM_THE_PROPOSER[operation])

        def held() -> dict[str, Any]:
            """A review of alice's that rita has commented on with a counter-patch, and the call."""
            proposal = {**PROPOSAL, "description": "# Plan\n", "proposer_id": None}
            review = alice.do("create_review", **proposal)["review_id"]
            generation = rita.do("claim_review", review_id=review)["claim_generation"]
            more = {"verdict": "comment", "reason": WHY, "counter_patch": "# Better\n"}
            patch = rita.do("submit_verdict", review_id=review, claim_generation=generation, **more)
            about = {"counter_patch_id": patch["counter_patch_id"]} if "counter_patch" in operation else {}
            return {**asked, **about, "review_id": review}

        call = held()
        # To go by her name is not enough.
        with owner.give("bob", "proposer", "handoff", agent="alice") as bob, owner.unchanged(call["review_id"]):
            details = bob.refused("FORBIDDEN", operation, **call)
            assert details == {"review_id": call["review_id"], "expected": "alice", "actual": "bob"}
        alice.do(operation, **call)
        with owner.give("olga", "proposer", "operator") as olga:
            olga.do(operation, **held())
        call = held()
        if operation == "accept_counter_patch":
            rita.refused("SELF_APPROVAL", operation, **call)
        else:
            rita.do(operation, **call)


@pytest.mark.parametrize(("role", "side"), [("proposer", "reviewer"), ("reviewer", "proposer")])
def test_nobody_speaks_for_a_side_that_their_token_is_not_for(owner: Bearer, role: str, side: str):
    review = owner.put_up()
    with owner.give("alice", role) as alice:
        details = alice.refused("FORBIDDEN", "add_message", review_id=review, sender_role=side, body="A word.")
        assert details == {"field": "sender_role", "actual": [role]}


def test_keys_of_two_people_are_no_repetition_of_each_other(owner: Bearer):
    review = owner.put_up()
    with owner.give("alice", "reviewer") as alice, owner.give("bob", "reviewer") as bob:
        asked = {"review_id": review, "idempotency_key": "key-1"}
        first = alice.do("claim_review", **asked)
        assert alice.do("claim_review", **asked) == first
        bob.refused("ALREADY_CLAIMED", "claim_review", **asked)
    with owner.give("alice", "reviewer") as rotated:
        assert rotated.do("claim_review", **asked) == first


def test_tools_of_an_agent_are_called_in_its_own_name(owner: Bearer, guarded: BrokerProcess):
    assert guarded.url == owner.url
    with owner.give("alice", "proposer", agent="claude-code") as alice:
        asked = {"intent": "Improve it", "agent_type": "claude-code", "description": "x", "project": owner.project}
        for fast in (True, False):
            review = alice.over_mcp("create_review", asked, "proposer", fast=fast)["data"]["review_id"]
            assert owner.do("get_proposal", review_id=review)["proposer_id"] == "alice/claude-code"


def test_a_hand_offs_producer_reads_what_was_found_in_it_and_in_no_other_review(owner: Bearer):
    plan, handoff = owner.put_up(), owner.put_up(category="handoff")
    owner.decide(handoff, "changes_requested", findings=[{"severity": "major", "claim": "A field is wrong."}])
    with owner.give("writer", "handoff", bound=True) as writer:
        (found,) = writer.do("list_findings", review_id=handoff)["findings"]
        assert (found["claim"], found["blocking"]) == ("A field is wrong.", True)
        writer.refused("FORBIDDEN", "list_findings", review_id=plan)
        writer.refused("FORBIDDEN", "list_findings")

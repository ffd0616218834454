"""P1 and P2 for hand-offs: only the approval of the current round advances a cycle, under the current claim."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.acceptance.gated import Team
from tests.acceptance.reviewing import OTHER, PROPOSAL, REVIEWER, WHY

pytest_plugins = ["tests.acceptance.gated_brokers"]

NO_PAYLOADS = {
    "words": "This is better.",
    "a list": "[]",
    "half": '{"cycle_id": ',
    "another cycle": {"cycle_id": "20261122T000000Z_other_aaaaaa"},
    "another feature": {"feature": "Another page"},
    "another consumer": {"consumer": "gemini"},
    "a field less": {"todos": None},
    "an unknown field": {"surprise": 1},
    "no number": {"notes": [float("nan")]},
    "a number without end": {"notes": [10**400]},
    "half a letter": {"notes": ["\ud800"]},
    "a letter that is none": {"notes": ["\0"]},
    "depth": {"notes": json.loads("[" * 300 + "]" * 300)},
}


def text_of(payload: dict[str, Any]) -> str:
    """A payload as a counter-patch has it."""
    return json.dumps(payload, indent=1)


def test_a_counter_patch_must_be_a_payload_for_this_handoff(team: Team):
    team.begin()
    review = team.put_forward("gemini", "codex")
    generation = team.claim(review)
    sent = {"review_id": review, "verdict": "comment", "reason": WHY, "claim_generation": generation}
    taken: list[str] = []
    with team.unmoved():
        for name, change in NO_PAYLOADS.items():
            text = change if isinstance(change, str) else text_of(team.payload("gemini", "codex", **change))
            envelope = team.call("submit_verdict", **sent, counter_patch=text)
            if envelope["ok"]:
                taken.append(name)
            else:
                assert envelope["error"]["code"] == "SCHEMA_INVALID", (name, envelope)
                assert envelope["error"]["details"]["problems"]
    assert taken == []
    good = text_of(team.payload("gemini", "codex", notes=["Fine."]))
    team.do("submit_verdict", **sent | {"verdict": "changes_requested"}, counter_patch=good)


@pytest.mark.parametrize("verdict", ["changes_requested", "comment"])
def test_an_accepted_counter_patch_is_what_is_handed_over(team: Team, verdict: str):
    team.begin()
    original = team.payload("gemini", "codex")
    review = team.put_forward("gemini", "codex")
    better = team.payload("gemini", "codex", notes=["Mind the step."], extras={"by": "the reviewer"})
    given = team.verdict(review, verdict, team.claim(review), counter_patch=text_of(better))
    with team.unmoved():
        accepted = team.accept(review, given["counter_patch_id"])
        assert accepted["round"] == 2
        assert team.where()["review"]["round"] == 2
    # Held or not, the verdict must name the round that the counter-patch has become.
    team.decide(review, "approved", round=2)
    assert team.place() == ("backend", "codex")
    assert team.do("handoff_read", target="codex") == better
    first, second = team.history()["handoffs"]
    assert (first["status"], first["payload"]) == ("superseded", original)
    assert (second["status"], second["payload"], second["round"]) == ("advanced", better, 2)
    team.pass_on("codex", "gemini")
    assert team.place() == ("frontend_refine", "gemini")


def test_a_counter_patch_that_is_not_accepted_changes_nothing(team: Team):
    team.begin()
    review = team.put_forward("gemini", "codex")
    better = text_of(team.payload("gemini", "codex", notes=["Mind the step."]))
    generation = team.claim(review)
    given = team.verdict(review, "comment", generation, counter_patch=better)
    team.do("reject_counter_patch", review_id=review, counter_patch_id=given["counter_patch_id"], reason=WHY)
    team.verdict(review, "approved", generation)
    assert team.do("handoff_read", target="codex")["notes"] == ["Mind the gap."]
    assert len(team.history()["handoffs"]) == 1


def test_only_handoff_write_revises_a_handoff(team: Team):
    team.begin()
    review = team.put_forward("gemini", "codex")
    text = text_of(team.payload("gemini", "codex", notes=["Smuggled in."]))
    sent = {**PROPOSAL, "proposer_id": "gemini", "review_id": review, "description": text, "category": "handoff"}

    def refuse() -> None:
        with team.unchanged(review), team.unmoved():
            team.refused("INVALID_TRANSITION", "create_review", **sent)

    refuse()
    team.request_changes(review)
    refuse()
    # A separate review may have the hand-off for a parent, and any content: it changes no cycle.
    with team.unmoved():
        team.put_up_approved(**{**sent, "review_id": None, "parent_id": review})
    team.hand_over("gemini", "codex")
    team.approve(review)
    assert team.place() == ("backend", "codex")
    refuse()
    team.do("close_review", review_id=review)
    refuse()
    assert team.do("handoff_read", target="codex")["notes"] == ["Mind the gap."]


def no_approval_comes_of(team: Team, review: str, generation: int) -> None:
    """Nothing that a reviewer does with a hand-off moves a cycle that has gone on without it."""
    with team.unmoved(), team.unchanged(review):
        sent = {"review_id": review, "verdict": "approved", "claim_generation": generation, "reviewer_id": REVIEWER}
        for round_number in (None, 1):
            envelope = team.call("submit_verdict", **sent, round=round_number)
            assert envelope["error"]["code"] in {"INVALID_TRANSITION", "STALE_CLAIM", "INVALID_PHASE"}
        team.refused("INVALID_TRANSITION", "claim_review", review_id=review, reviewer_id=OTHER)


def test_a_cycle_that_was_completed_closes_the_review_that_asked_for_changes(writers: Team):
    writers.begin()
    review = writers.put_forward("writer", "editor")
    generation = writers.claim(review)
    writers.verdict(review, "changes_requested", generation)
    # Who takes it up again holds the cycle up once more.
    generation = writers.claim(review)
    details = writers.refused("INVALID_PHASE", "cycle_complete", **writers.tokens("writer"))
    assert details["review_id"] == review
    writers.verdict(review, "changes_requested", generation)
    writers.do("cycle_complete", **writers.tokens("writer"))
    status = writers.status(review)
    assert (status["status"], writers.place()) == ("closed", ("complete", "writer"))
    no_approval_comes_of(writers, review, generation)
    writers.do("cycle_archive", **writers.tokens("writer"))
    no_approval_comes_of(writers, review, generation)
    # Nor in the next cycle of the same name, where the same hand-off is due again.
    writers.begin()
    no_approval_comes_of(writers, review, generation)
    assert writers.do("handoff_read", target="editor") == {}


def test_a_handoff_to_somebody_else_closes_the_review_of_the_first(writers: Team):
    writers.begin()
    first = writers.put_forward("writer", "editor")
    generation = writers.claim(first)
    better = text_of(writers.payload("writer", "editor", notes=["Pending."]))
    given = writers.verdict(first, "changes_requested", generation, counter_patch=better)
    second = writers.put_forward("writer", "printer")
    assert second != first
    assert writers.status(first)["outcome"] == "withdrawn"
    assert writers.where()["review"]["review_id"] == second
    no_approval_comes_of(writers, first, generation)
    with writers.unmoved():
        late = {"review_id": first, "counter_patch_id": given["counter_patch_id"]}
        writers.refused("INVALID_TRANSITION", "accept_counter_patch", **late)
    writers.approve(second)
    assert writers.place() == ("print", "printer")
    assert writers.do("handoff_read", target="editor") == {}
    # Back and forth again: the one that was closed stays so.
    writers.pass_on("printer", "writer")
    no_approval_comes_of(writers, first, generation)
    no_approval_comes_of(writers, second, generation)
    writers.pass_on("writer", "editor")
    assert [one["status"] for one in writers.history()["handoffs"]] == ["withdrawn", *["advanced"] * 3]


def test_p1_a_stale_claim_cannot_advance_the_cycle(team: Team):
    team.begin()
    review = team.put_forward("gemini", "codex")
    stale = team.claim(review)
    with team.unmoved():
        team.do("release_claim", review_id=review, claim_generation=stale)
        team.refused("STALE_CLAIM", "submit_verdict", review_id=review, verdict="approved", claim_generation=stale)
        current = team.claim(review, OTHER)
        with team.unchanged(review):
            for who in ({"reviewer_id": REVIEWER}, {}):
                sent = {"review_id": review, "verdict": "approved", "claim_generation": stale, **who}
                team.refused("STALE_CLAIM", "submit_verdict", **sent)
            bare = {"review_id": review, "verdict": "approved", "reviewer_id": REVIEWER}
            team.refused("NOT_CLAIMANT", "submit_verdict", **bare)
    team.verdict(review, "approved", current)
    assert team.place() == ("backend", "codex")


def test_p2_a_verdict_on_an_older_round_cannot_advance_the_cycle(team: Team):
    team.begin()
    review = team.put_forward("gemini", "codex", notes=["First."])
    generation = team.claim(review)
    second = team.payload("gemini", "codex", notes=["Second."])
    given = team.verdict(review, "comment", generation, counter_patch=text_of(second))
    team.accept(review, given["counter_patch_id"])
    sent = {"review_id": review, "verdict": "approved", "claim_generation": generation}
    with team.unmoved(), team.unchanged(review):
        for seen in ({}, {"round": 1}):
            team.refused("STALE_ROUND", "submit_verdict", **sent, **seen)
    team.verdict(review, "changes_requested", generation, round=2)
    team.hand_over("gemini", "codex", notes=["Third."])
    sent["claim_generation"] = team.claim(review)
    with team.unmoved(), team.unchanged(review):
        for old in (1, 2):
            team.refused("STALE_ROUND", "submit_verdict", **sent, round=old)
    team.do("submit_verdict", **sent, round=3)
    assert team.do("handoff_read", target="codex")["notes"] == ["Third."]
    assert [one["payload"]["notes"] for one in team.history()["handoffs"] if one["status"] == "advanced"] == [
        ["Third."]
    ]

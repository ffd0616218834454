"""Claims: who gets which review, for how long, and what a stale holder can still do (nothing)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import datetime
from functools import partial
from typing import Any

import pytest

from tests.acceptance.reviewing import OTHER, PROPOSER, REVIEWER, WHY, AgentDesk, Desk, at_once, edited
from tests.broker import Caller, StartBroker, fresh_project
from tests.databases import ON_BOTH_DATABASES

LEASE_SECONDS = 4
"""Longer than a busy machine needs for the next call of a holder who lives."""
SWEEP_SECONDS = 0.2
DEADLINE_SECONDS = 8
GRACE_SECONDS = 20
"""This machine may be busy; the promise is lease and sweep."""


def claim_next(desk: Caller, reviewer: str = OTHER, **more: Any) -> dict[str, Any]:
    return desk.do("claim_review", reviewer_id=reviewer, **more)


def test_a_claim_brings_the_proposal_and_a_lease(desk: Desk):
    review = desk.put_up(description="All of it.")
    claim = desk.do("claim_review", review_id=review, reviewer_id=REVIEWER)
    assert (claim["claim_generation"], claim["round"], claim["status"]) == (1, 1, "claimed")
    assert claim["review"]["description"] == "All of it."
    status = desk.status(review)
    assert (status["reviewer_id"], status["lease_expires_at"]) == (REVIEWER, claim["lease_expires_at"])


def test_the_holder_gets_its_claim_again_renewed_and_others_are_told_by_whom(desk: Desk):
    review = desk.put_up()
    first = desk.do("claim_review", review_id=review, reviewer_id=REVIEWER)
    again = desk.do("claim_review", review_id=review, reviewer_id=REVIEWER)
    assert again["claim_generation"] == first["claim_generation"]
    assert again["lease_expires_at"] > first["lease_expires_at"]
    assert desk.kinds(review).count("review_claimed") == 1
    with desk.unchanged(review):
        details = desk.refused("ALREADY_CLAIMED", "claim_review", review_id=review, reviewer_id=OTHER)
    assert details["reviewer_id"] == REVIEWER


@ON_BOTH_DATABASES
def test_the_next_one_is_the_most_urgent_then_the_oldest(desk: Desk):
    low = desk.put_up(category="verification")
    normal_1 = desk.put_up()
    critical = desk.put_up(agent_type="gsd-planner")
    normal_2 = desk.put_up()
    also_low = desk.put_up(phase="verify-work")
    also_critical = desk.put_up(agent_role="Planner", category="verification")
    given = [claim_next(desk)["review_id"] for _ in range(7)]
    assert given == [critical, also_critical, normal_1, normal_2, low, also_low, None]


@ON_BOTH_DATABASES
def test_the_next_one_is_of_the_asked_category_and_project(desk: Desk):
    desk.put_up()
    plan = desk.put_up(category="verification")
    assert claim_next(desk, category="verification")["review_id"] == plan
    assert claim_next(desk, category="verification")["review"] is None
    assert claim_next(desk, project=fresh_project())["review"] is None


def test_nobody_claims_their_own_review(desk: Desk):
    review = desk.put_up()
    with desk.unchanged(review):
        details = desk.refused("SELF_APPROVAL", "claim_review", review_id=review, reviewer_id=PROPOSER)
    assert details["proposer_id"] == PROPOSER


def test_a_person_may_review_their_own_agent(desk: Desk):
    """The proposer is the agent that submitted, not the person whom git's configuration names."""
    with Desk(desk.url, desk.project, agent="session-17") as agent:
        created = agent.do("create_review", intent="Improve it", agent_type="claude-code", description="So.")
    assert desk.do("get_proposal", review_id=created["review_id"])["proposer_id"] == "session-17"
    desk.approve(created["review_id"], "Ada")


def test_without_a_generation_one_must_be_the_holder_by_name(desk: Desk):
    review = desk.put_up_claimed()
    with desk.unchanged(review):
        desk.refused("INVALID_INPUT", "submit_verdict", review_id=review, verdict="approved")
        desk.refused("NOT_CLAIMANT", "submit_verdict", review_id=review, verdict="approved", reviewer_id=OTHER)
    desk.do("submit_verdict", review_id=review, verdict="approved", reviewer_id=REVIEWER)


def test_a_verdicts_synonym_is_that_verdict(desk: Desk):
    synonyms = {"approve": "approved", "request_changes": "changes_requested", "reject": "rejected"}
    for synonym, status in synonyms.items():
        given = desk.verdict(desk.put_up_claimed(), synonym, reason=WHY)
        assert (given["verdict"], given["status"]) == (status, status)


def test_a_release_says_why_and_opens_the_review_to_others(desk: Desk):
    review = desk.put_up()
    generation = desk.claim(review)
    released = desk.do("release_claim", review_id=review, claim_generation=generation, reason="Lunch.")
    assert released["status"] == "pending"
    event = desk.events(review)[-1]
    assert (event["kind"], event["actor"], event["data"]["reason"]) == ("claim_released", REVIEWER, "Lunch.")
    assert claim_next(desk)["claim_generation"] == generation + 2


def test_whether_the_change_still_fits_is_told_with_the_claim(shop: Desk):
    fits, misfit = shop.put_up(diff=edited()), shop.put_up(diff=edited(text="other"))
    assert shop.do("claim_review", review_id=fits, reviewer_id=REVIEWER)["applies_to_head"] is True
    shop.do_unscoped("remove_project", name=shop.project)
    assert shop.do("claim_review", review_id=misfit, reviewer_id=REVIEWER)["applies_to_head"] is None


# --- leases ---------------------------------------------------------------------------------------


@pytest.fixture
def hasty(start_broker: StartBroker, database_settings: dict[str, object]) -> Iterator[Desk]:
    """A project of a broker whose leases are short."""
    broker = start_broker(
        claim_timeout_seconds=LEASE_SECONDS,
        sweep_interval_seconds=SWEEP_SECONDS,
        review_deadline_seconds=DEADLINE_SECONDS,
        **database_settings,
    )
    with Desk(broker.url, fresh_project()) as opened:
        yield opened


def await_reclaimed(desk: Desk, review: str, cursor: str) -> dict[str, Any]:
    """The event by which the broker takes a claim back."""
    page = desk.do("get_audit_log", review_id=review, kind="review_reclaimed", wait=True, cursor=cursor, timeout_s=40)
    assert page["changed"]
    return page["events"][0]


def test_p1_p5_a_claim_lasts_while_its_holder_lives_until_the_deadline_and_a_dead_ones_is_lost_with_its_lease(
    hasty: Desk,
):
    dead, living = hasty.put_up(), hasty.put_up()
    lost, kept = (hasty.do("claim_review", review_id=review, reviewer_id=REVIEWER) for review in (dead, living))
    cursor, renewals = kept["cursor"], 0
    while hasty.status(living)["status"] == "claimed":
        envelope = hasty.call("renew_claim", review_id=living, claim_generation=1)
        if not envelope["ok"]:
            assert envelope["error"]["code"] == "STALE_CLAIM"
            break
        renewals += 1
        # Not a pause for luck: the holder lives for as long as nothing happens to its review.
        hasty.do("get_audit_log", review_id=living, wait=True, cursor=cursor, timeout_s=LEASE_SECONDS / 8)
    assert renewals >= 3
    for review, seconds in ((living, DEADLINE_SECONDS), (dead, LEASE_SECONDS)):
        claimed, reclaimed = hasty.events(review)[1:]
        held = instant_of(reclaimed["at"]) - instant_of(claimed["at"])
        assert seconds <= held <= seconds + SWEEP_SECONDS + GRACE_SECONDS
    event = await_reclaimed(hasty, dead, lost["cursor"])
    assert event["data"] == {"reviewer_id": REVIEWER, "reason": "lease expired", "claim_generation": 2}
    assert (event["old"], event["new"], event["actor"]) == ("claimed", "pending", "broker")
    with hasty.unchanged(dead):
        for operation, arguments in reviewers_writes(dead, 1):
            hasty.refused("STALE_CLAIM", operation, **arguments)
    assert claim_next(hasty)["claim_generation"] == 3


def test_p5_what_a_person_asked_is_answered_to_a_person_though_the_claim_ran_out_and_an_agent_keeps_none_away(
    hasty: Desk,
):
    with (
        Desk(hasty.url, fresh_project()) as late,
        Desk(hasty.url, fresh_project()) as other,
        AgentDesk(hasty.url, other.project) as agents,
    ):
        asked: list[str] = []
        claims: list[dict[str, Any]] = []
        for desk, reviewer in ((hasty, hasty), (late, late), (other, agents)):
            asked.append(desk.put_up())
            claims.append(reviewer.do("claim_review", review_id=asked[-1], reviewer_id=REVIEWER))
            reviewer.say(asked[-1], "reviewer", "Why?")
        early_review, late_review, of_agent = asked
        hasty.say(early_review, "proposer", "Because.")
        for desk, review, claim in zip((hasty, late, other), asked, claims, strict=True):
            await_reclaimed(desk, review, claim["cursor"])
        assert claim_next(agents)["review_id"] == of_agent
        assert late.status(late_review)["next_action"] == "answer_message"
        late.say(late_review, "proposer", "Because.")
        for desk, review in ((hasty, early_review), (late, late_review)):
            status = desk.status(review)
            assert (status["status"], status["next_action"]) == ("pending", "escalate")
            assert REVIEWER in status["attention"]
            (problem,) = desk.do("get_inbox", person=REVIEWER)["problems"]
            assert problem["review"]["review_id"] == review
            with AgentDesk(desk.url, desk.project) as others:
                assert claim_next(others)["review_id"] is None
                others.refused("INVALID_TRANSITION", "claim_review", review_id=review, reviewer_id=OTHER)
            desk.approve(review)
            assert desk.status(review)["attention"] is None


@ON_BOTH_DATABASES
def test_p5_what_the_holder_says_renews_its_lease(desk: Desk):
    for say in (desk.say, desk.verdict):
        review = desk.put_up()
        claim = desk.do("claim_review", review_id=review, reviewer_id=REVIEWER)
        say(review, "reviewer" if say == desk.say else "comment")
        assert desk.status(review)["lease_expires_at"] > claim["lease_expires_at"]


def instant_of(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


# --- fencing --------------------------------------------------------------------------------------


def reviewers_writes(review: str, generation: int) -> list[tuple[str, dict[str, Any]]]:
    """Everything that a reviewer can try to change with a generation."""
    claim = {"review_id": review, "claim_generation": generation}
    verdicts = ("approved", "changes_requested", "rejected", "comment")
    return [
        ("renew_claim", claim),
        ("release_claim", claim),
        ("add_message", {**claim, "sender_role": "reviewer", "body": "Still here."}),
        ("submit_verdict", {**claim, "verdict": "comment", "reason": WHY, "counter_patch": "So."}),
        *[("submit_verdict", {**claim, "verdict": verdict, "reason": WHY}) for verdict in verdicts],
        *[("submit_verdict", {**claim, "verdict": v, "reason": WHY, "reviewer_id": REVIEWER}) for v in verdicts],
    ]


def _lose(desk: Desk, review: str, how: str) -> None:
    match how:
        case "released":
            desk.do("release_claim", review_id=review, claim_generation=1)
        case "revised":
            desk.revise(review)
        case "closed":
            desk.do("close_review", review_id=review)
        case "claimed by another":
            desk.do("release_claim", review_id=review, claim_generation=1)
            desk.claim(review, OTHER)
        case _:
            desk.do("release_claim", review_id=review, claim_generation=1)
            desk.claim(review, REVIEWER)


@ON_BOTH_DATABASES
@pytest.mark.parametrize("how", ["released", "revised", "closed", "claimed by another", "claimed again"])
def test_p1_a_stale_generation_changes_nothing(desk: Desk, how: str):
    review = desk.put_up_claimed()
    _lose(desk, review, how)
    with desk.unchanged(review):
        for operation, arguments in reviewers_writes(review, 1):
            details = desk.refused("STALE_CLAIM", operation, **arguments)
            assert details["actual"] == 1
            assert details["expected"] > 1


@ON_BOTH_DATABASES
def test_p1_a_generation_of_the_future_changes_nothing_either(desk: Desk):
    review = desk.put_up_claimed()
    with desk.unchanged(review):
        for operation, arguments in reviewers_writes(review, 2):
            desk.refused("STALE_CLAIM", operation, **arguments)


@ON_BOTH_DATABASES
def test_p1_of_many_who_claim_at_once_one_holds(desk: Desk):
    for _ in range(3):
        review = desk.put_up()
        names = [f"rev-{number}" for number in range(12)]
        answers = at_once([partial(desk.call, "claim_review", review_id=review, reviewer_id=name) for name in names])
        held = [answer["data"]["reviewer_id"] for answer in answers if answer["ok"]]
        refusals = {answer["error"]["details"]["reviewer_id"] for answer in answers if not answer["ok"]}
        assert len(held) == 1
        assert refusals == set(held)
        assert desk.status(review)["claim_generation"] == 1


@ON_BOTH_DATABASES
def test_p1_many_who_take_the_next_one_get_one_each(desk: Desk):
    reviews = {desk.put_up() for _ in range(10)}
    calls = [partial(claim_next, desk, f"rev-{number}") for number in range(10)]
    assert {answer["review_id"] for answer in at_once(calls)} == reviews


@ON_BOTH_DATABASES
def test_p1_of_many_verdicts_under_one_generation_one_counts(desk: Desk):
    for _ in range(3):
        review = desk.put_up()
        generation = desk.claim(review)
        verdicts = ("approved", "changes_requested", "rejected") * 4
        arguments = {"review_id": review, "claim_generation": generation, "reason": WHY}
        answers = at_once([partial(desk.call, "submit_verdict", verdict=verdict, **arguments) for verdict in verdicts])
        effective = [answer["data"] for answer in answers if answer["ok"]]
        assert len(effective) == 1
        assert {answer["error"]["code"] for answer in answers if not answer["ok"]} == {"INVALID_TRANSITION"}
        assert desk.status(review)["status"] == effective[0]["verdict"]
        assert desk.kinds(review).count("verdict_submitted") == 1


@ON_BOTH_DATABASES
def test_p1_verdicts_against_releases_claims_and_revisions(desk: Desk):
    """Everybody does everything at once; afterwards no generation has two effective verdicts, and none is mixed up."""
    for _ in range(4):
        review = desk.put_up()
        generation = desk.claim(review)
        by_holder = {"review_id": review, "claim_generation": generation}
        at_once(
            [
                *[partial(desk.call, "submit_verdict", verdict="approved", **by_holder)] * 4,
                partial(desk.call, "release_claim", **by_holder),
                partial(desk.call, "renew_claim", **by_holder),
                *[partial(desk.call, "claim_review", review_id=review, reviewer_id=OTHER)] * 2,
                partial(desk.call, "create_review", intent="x", agent_type="a", description="new", review_id=review),
            ]
        )
        events = desk.events(review)
        verdicts = [event for event in events if event["kind"] == "verdict_submitted"]
        assert all(count == 1 for count in Counter(event["data"]["claim_generation"] for event in verdicts).values())
        holder, round_number = None, 1
        for event in events:
            if event["kind"] == "review_claimed":
                holder = event["actor"]
            elif event["kind"] in {"claim_released", "review_revised"}:
                holder = None
                round_number = event["data"].get("round", round_number)
            elif event["kind"] == "verdict_submitted":
                assert (event["actor"], event["data"]["round"]) == (holder, round_number)

"""Statistics of findings: by category, by model, rounds to approval, and what a verified one cost."""

from __future__ import annotations

from typing import Any

from tests.acceptance.pooling import Steward, ended
from tests.acceptance.reviewing import OTHER, REVIEWER, AgentDesk, Desk, edited
from tests.databases import ON_BOTH_DATABASES
from tests.modes import VARIATION

MAJOR = {"file": "a.txt", "line": 2, "severity": "major", "category": "Logic: order", "claim": "It is not the best."}
NIT = {"severity": "nit", "category": "logic: order ", "claim": "Odd word."}
BARE = {"severity": "minor", "claim": "Say why."}


def found(tally: dict[str, Any]) -> dict[str, Any]:
    """The numbers of findings that are neither zero nor missing."""
    return {name: value for name, value in tally.items() if value}


def run(steward: Steward, reviewer: str, cost_usd: float | None, **verdict: Any) -> None:
    """A run of a pool's reviewer on the next review."""
    claim = steward.desk.do("claim_review", reviewer_id=reviewer)
    about = {"review_id": claim["review_id"], "claim_generation": claim["claim_generation"]}
    with AgentDesk(steward.desk.url, steward.desk.project) as agent:
        agent.do("submit_verdict", **about, **verdict)
    steward.report(reviewer, claim, "verdict", reason=None, cost_usd=cost_usd)


def approved_in_two_rounds(steward: Steward, cost_usd: float | None, *findings: dict[str, Any]) -> str:
    """A review for which the only reviewer of a pool takes two runs; the reviewer, which ends with its pool.

    Nits are refuted, all others corrected.
    """
    desk = steward.desk
    review = desk.put_up(diff=edited(text=steward.supervisor_id))
    reviewer = steward.one()
    run(steward, reviewer, cost_usd, verdict="changes_requested", reason="not yet", findings=[*findings])
    listed = desk.do("list_findings", review_id=review)["findings"]
    answers = {one["finding_id"]: "refuted" if one["severity"] == "nit" else "fixed" for one in listed}
    for name, answer in answers.items():
        desk.do("answer_finding", review_id=review, finding_id=name, answer=answer, reason="As it says.")
    if desk.status(review)["status"] == "changes_requested":
        desk.revise(review, diff=edited(text="best"))
    ends = {"fixed": "verified", "refuted": "upheld"}
    settled = [{"finding_id": name, "answer": ends[answer]} for name, answer in answers.items()]
    run(steward, reviewer, cost_usd, verdict="approved", answers=settled)
    desk.do("close_review", review_id=review)
    steward.beat(ended(reviewer), closing=True)
    return reviewer


@VARIATION
@ON_BOTH_DATABASES
def test_findings_are_counted_by_category_and_model_with_their_cost(shop: Desk) -> None:
    steward, silent = Steward(shop), Steward(shop)
    steward.register(model="gpt-9")
    reviewer = approved_in_two_rounds(steward, 0.5, MAJOR, NIT, BARE)
    # Neither a program that says no cost nor a person is among those that the cost is divided by.
    silent.register(provider="opencode")
    approved_in_two_rounds(silent, None, MAJOR)
    review = shop.put_up(diff=edited(name="b.txt"))
    shop.decide(review, "changes_requested", findings=[BARE])
    for text in ("better still", "best"):
        shop.revise(review, diff=edited(name="b.txt", text=text))
    [asked] = [one for one in shop.do("list_findings", review_id=review)["findings"] if one["blocking"]]
    settled = [{"finding_id": asked["finding_id"], "answer": "verified"}]
    shop.verdict(review, "approved", shop.claim(review, OTHER), answers=settled)
    for since in (None, "2001-01-01"):
        told = shop.do("get_review_stats", since=since)
        counted = {"major": 1, "minor": 1, "nit": 1, "verified": 2, "refuted": 1, "upheld": 1}
        by_model = told["by_model"]
        assert by_model.keys() == {"gpt-9", "opencode"}
        assert by_model["gpt-9"] == told["by_reviewer"][reviewer]
        assert found(by_model["gpt-9"]["findings"]) == {**counted, "cost_per_verified_usd": 0.5}
        assert found(by_model["opencode"]["findings"]) == {"major": 1, "verified": 1}
        assert told["by_reviewer"][REVIEWER]["findings"]["cost_per_verified_usd"] is None
        assert (told["total"]["findings"]["verified"], told["total"]["findings"]["cost_per_verified_usd"]) == (4, 0.5)
        assert told["by_project"] == {shop.project: told["total"]}
        # Both runs of the one that says its cost ended with a verdict.
        assert [(one["cost_usd"], one["cost_per_verdict_usd"]) for one in (told["total"], by_model["gpt-9"])] == [
            (1, 0.5)
        ] * 2
        assert (by_model["opencode"]["cost_usd"], told["by_category"]["code_change"]["cost_usd"]) == (None, None)
        assert sum(day["cost_usd"] or 0 for day in told["by_day"].values()) == (1 if since else 0)
        assert {day["findings"]["cost_per_verified_usd"] for day in told["by_day"].values()} <= {None}
        by_category = {name: found(tally) for name, tally in told["by_finding_category"].items()}
        assert by_category == {"logic: order": {"major": 2, "nit": 1, "verified": 2, "refuted": 1, "upheld": 1}}
        # In the second round, the second and the third.
        assert (told["total"]["mean_rounds"], by_model["gpt-9"]["mean_rounds"]) == (2.33, 2)
    never = shop.do("get_review_stats", since="2999-01-01")
    assert (never["by_model"], never["by_finding_category"], never["total"]["mean_rounds"]) == ({}, {}, None)


def test_a_finding_that_comes_again_with_its_change_or_stops_being_a_lesson_is_not_counted_again(shop: Desk) -> None:
    review = shop.put_up(diff=edited())
    shop.decide(review, "rejected", findings=[MAJOR])
    again = shop.put_up(diff=edited(), parent_id=review)
    [finding] = [one for one in shop.do("list_findings", review_id=again)["findings"] if one["severity"] == "major"]
    name = finding["finding_id"]
    shop.do("answer_finding", review_id=again, finding_id=name, answer="refuted", reason="It is.")
    shop.decide(again, "comment", answers=[{"finding_id": name, "answer": "upheld"}])
    shop.do("remove_lesson", finding_id=name)
    counted = shop.do("get_review_stats")["by_finding_category"]
    assert {one: found(tally) for one, tally in counted.items()} == {
        "logic: order": {"major": 1, "refuted": 1, "upheld": 1}
    }

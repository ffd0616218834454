"""Profiles of a pool: which reviews they take, and what their vote, failures and budgets come to.

A supervisor on paper, a real broker.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import Any

import pytest

from tandem.rulings.policy import FILE
from tests.acceptance.pooling import Steward, broker, ended, started
from tests.acceptance.reviewing import Desk, edited
from tests.databases import ON_BOTH_DATABASES
from tests.git.sandbox import Sandbox
from tests.modes import VARIATION

__all__ = ["broker"]

SECURITY = {"name": "security", "provider": "claude", "paths": ["a.*"]}
STYLE = {"name": "style", "provider": "codex"}
ADVICE = {"name": "advice", "provider": "codex", "voting": False}
FOUND = {"file": "a.txt", "line": 2, "severity": "blocker", "claim": "It is worse."}

Staff = Callable[..., Steward]


@pytest.fixture
def staff(shop: Desk) -> Staff:
    """Starts a pool of these profiles."""
    return lambda *profiles, **rules: started(shop, profile=list(profiles), **rules)


def have(repo: Sandbox, *needs: str) -> None:
    """Commit a policy to the base branch."""
    repo.write(FILE, f"[[rule]]\nname = 'all'\nneeds = {list(needs)}\n")
    repo.commit("policy")


def team(steward: Steward) -> list[str]:
    """The profiles of the reviewers that should run."""
    steward.beat()
    steward.beat()
    return sorted(name.partition("-r")[0] for name, wanted in steward.known.items() if wanted == "run")


def member(steward: Steward, profile: str) -> str:
    """The newest reviewer of a profile, known to run."""
    assert profile in team(steward)
    return [name for name, wanted in steward.known.items() if name.startswith(f"{profile}-r") and wanted == "run"][-1]


def claimed(shop: Desk, reviewer: str) -> str | None:
    """The review that a reviewer gets from the queue."""
    return shop.do("claim_review", reviewer_id=reviewer).get("review_id")


def found(shop: Desk, review: str) -> list[dict[str, Any]]:
    """The findings of a review."""
    return shop.do("list_findings", review_id=review)["findings"]


def test_a_review_goes_to_the_profile_that_its_paths_fit(shop: Desk, staff: Staff) -> None:
    steward = staff(SECURITY, {**STYLE, "paths": ["**/*.md", "*.md"]})
    assert team(steward) == []
    review = shop.put_up(diff=edited("a.txt"))
    reviewer = member(steward, "security")
    assert team(steward) == ["security"]
    seen = steward.seen(reviewer)
    assert (seen["name"], seen["profile"], seen["provider"]) == ("security-r1", "security", "claude")
    other = shop.put_up(diff=edited("b.txt"))
    assert claimed(shop, reviewer) == review
    assert claimed(shop, reviewer) is None
    # For the other none is started in vain, and who waits for it hears why.
    assert team(steward) == ["security"]
    none = shop.status(other)["no_reviewer"]
    assert (none["reason"], none["needs_person"]) == ("no_profile", False)
    assert "security, style" in none["message"]
    assert "tandem open" in none["remedy"]


def test_a_policy_names_the_profile_and_each_fills_its_seat(shop: Desk, repo: Sandbox, staff: Staff) -> None:
    have(repo, "agent:security", "agent:style")
    steward = staff(SECURITY, STYLE)
    review = shop.put_up(diff=edited())
    for profile in team(steward):
        shop.verdict(review, "approved", shop.claim(review, member(steward, profile)))
    while shop.status(review)["status"] == "pending":
        [profile] = [one for one in ("security", "style") if one in str(shop.status(review)["missing"])]
        reviewer = member(steward, profile)
        assert claimed(shop, reviewer) == review
        shop.verdict(review, "approved")
    assert shop.status(review)["missing"] == []


@ON_BOTH_DATABASES
def test_p1_the_profiles_of_a_policy_review_at_the_same_time_after_the_one_without_a_vote(
    shop: Desk, repo: Sandbox, staff: Staff
) -> None:
    have(repo, "agent:security", "agent:style")
    steward = staff(SECURITY, STYLE, ADVICE, max_pool_size=3)
    review = shop.put_up(diff=edited())
    adviser = member(steward, "advice")
    assert claimed(shop, adviser) == review
    # Its claim fills no seat, and no one works beside it.
    assert shop.call("claim_review", review_id=review, reviewer_id="codex-1")["ok"] is False
    assert team(steward) == ["advice"]
    shop.verdict(review, "approved")
    assert len(shop.status(review)["missing"]) == 2
    one = member(steward, "security")
    claims = [shop.do("claim_review", reviewer_id=one)]
    other = member(steward, "style")
    claims.append(shop.do("claim_review", reviewer_id=other))
    assert [claim["review_id"] for claim in claims] == [review, review]
    status = shop.status(review)
    assert (status["reviewer_id"], status["beside"]) == (one, [other])
    assert [steward.seen(name)["review_id"] for name in (one, other)] == [review, review]
    assert claimed(shop, adviser) is None
    given = [shop.verdict(review, "approved", claim["claim_generation"])["status"] for claim in reversed(claims)]
    assert given == ["claimed", "approved"]


@pytest.mark.parametrize("needs", [(), ("agent", "agent:codex")])
def test_outside_agents_and_people_claim_beside_an_adviser(
    shop: Desk, repo: Sandbox, staff: Staff, needs: tuple[str, ...]
) -> None:
    if needs:
        have(repo, *needs)
    steward = staff(STYLE, ADVICE, max_pool_size=3)
    review = shop.put_up(diff=edited())
    advice = shop.claim(review, adviser := member(steward, "advice"))
    # The pool's own wait for it.
    assert team(steward) == ["advice"]
    assert claimed(shop, "opencode") == review
    status = shop.status(review)
    assert (status["reviewer_id"], status["beside"]) == ("opencode", [adviser])
    assert shop.claim(review, adviser) == advice
    shop.say(review, "reviewer", reviewer_id="opencode")
    shop.say(review, "proposer")
    assert shop.do("renew_claim", review_id=review, claim_generation=advice)["claim_generation"] == advice
    refused = shop.call("claim_review", review_id=review, reviewer_id="gemini")["error"]
    assert refused["code"] == "ALREADY_CLAIMED"
    shop.do("release_claim", review_id=review, claim_generation=status["claim_generation"])
    assert shop.status(review)["reviewer_id"] == adviser
    generation = shop.claim(review, "ann")
    if needs:
        assert shop.verdict(review, "approved", generation)["status"] == "claimed"
        generation = shop.claim(review, "codex")
    # No one waits for the adviser's end.
    assert shop.verdict(review, "approved", generation)["status"] == "approved"
    asked = {"review_id": review, "verdict": "comment", "reason": "Late.", "claim_generation": advice}
    assert shop.call("submit_verdict", **asked)["error"]["code"] == "STALE_CLAIM"
    shop.do("close_review", review_id=review)


def test_an_adviser_beside_others_adds_its_findings_and_holds_up_no_objection(shop: Desk, staff: Staff) -> None:
    steward = staff(ADVICE)
    review = shop.put_up(diff=edited())
    advice = shop.claim(review, member(steward, "advice"))
    generation = shop.claim(review, "gemini")
    assert shop.verdict(review, "comment", advice, findings=[FOUND])["status"] == "claimed"
    assert found(shop, review)[0]["blocking"] is False
    assert shop.verdict(review, "approved", generation)["status"] == "approved"
    other = shop.put_up(diff=edited(line=5))
    shop.claim(other, member(steward, "advice"))
    assert shop.verdict(other, "changes_requested", shop.claim(other, "gemini"))["status"] == "changes_requested"
    assert shop.status(other)["beside"] == []


def test_who_may_not_claim_what_is_held_hears_the_ways_that_there_are(shop: Desk, staff: Staff) -> None:
    review = shop.put_up(diff=edited())
    generation = shop.claim(review, "gemini")
    refused = shop.call("claim_review", review_id=review, reviewer_id="ann")["error"]["message"]
    assert "wait until it is released, by get_review_status with wait" in refused
    assert "--take-over" not in refused
    shop.do("release_claim", review_id=review, claim_generation=generation)
    shop.claim(review, member(staff(STYLE), "style"))
    refused = shop.call("claim_review", review_id=review, reviewer_id="ann")["error"]["message"]
    assert f"tandem review claim {review} --take-over" in refused
    assert shop.do("claim_review", review_id=review, reviewer_id="ann", take_over=True)["review_id"] == review


def test_a_free_seat_of_a_held_review_asks_for_a_profile_that_would_fill_it(
    shop: Desk, repo: Sandbox, staff: Staff
) -> None:
    have(repo, "agent", "agent:security")
    steward = staff({**STYLE, "paths": ["b.*"]}, SECURITY, max_pool_size=4)
    review = shop.put_up(diff=edited())
    first = member(steward, "security")
    assert team(steward) == ["security"]
    assert claimed(shop, first) == review
    second = member(steward, "security")
    assert team(steward) == ["security", "security"]
    # A review that no reviewer holds comes first.
    other = shop.put_up(diff=edited(line=5))
    assert claimed(shop, second) == other
    third = member(steward, "security")
    assert claimed(shop, third) == review
    assert shop.status(review)["beside"] == [third]


def test_a_small_change_goes_to_the_small_model_by_the_rules_of_the_policy(
    shop: Desk, repo: Sandbox, staff: Staff
) -> None:
    small = "[[rule]]\nname = 'small'\nlines = '<=5'\nneeds = ['agent:small']\n"
    repo.write(FILE, f"match = 'first'\n{small}[[rule]]\nname = 'rest'\nneeds = ['agent:large']\n")
    repo.commit("policy")
    steward = staff(
        {"name": "large", "provider": "codex", "model": "big"}, {"name": "small", "provider": "codex", "model": "tiny"}
    )
    review = shop.put_up(diff=edited())
    reviewer = member(steward, "small")
    assert team(steward) == ["small"]
    assert steward.seen(reviewer)["model"] == "tiny"
    assert claimed(shop, reviewer) == review


@pytest.mark.parametrize("provider", ["claude", "codex"])
def test_none_is_started_in_vain_for_another_provider(shop: Desk, repo: Sandbox, staff: Staff, provider: str) -> None:
    have(repo, "agent:other-provider")
    steward = staff(SECURITY, {"name": "more", "provider": "claude"})
    review = shop.put_up(diff=edited(), agent_type=provider, proposer_id=f"{provider}-1")
    if provider == "codex":
        assert claimed(shop, member(steward, "security")) == review
        return
    assert team(steward) == []
    none = shop.status(review)["no_reviewer"]
    assert none["reason"] == "no_profile"
    assert "another provider" in none["message"]


def test_nor_by_a_pool_without_profiles(shop: Desk, repo: Sandbox) -> None:
    have(repo, "agent:other-provider")
    steward = started(shop)
    review = shop.put_up(diff=edited(), agent_type="codex")
    assert team(steward) == []
    assert "codex gives the approval that is missing" in shop.status(review)["no_reviewer"]["message"]
    shop.put_up(diff=edited("b.txt"), agent_type="claude-code")
    assert team(steward) == ["codex"]


def test_who_waits_for_a_profile_that_does_not_fit_needs_a_person(shop: Desk, repo: Sandbox, staff: Staff) -> None:
    have(repo, "agent:security")
    steward = staff(SECURITY, STYLE)
    status = shop.status(shop.put_up(diff=edited("b.txt")))
    assert team(steward) == []
    none = status["no_reviewer"]
    assert (none["reason"], none["needs_person"], status["next_action"]) == ("no_profile", True, "escalate")


def test_no_outside_agent_passes_for_a_profile(shop: Desk, repo: Sandbox, staff: Staff) -> None:
    # Pools of other projects of the broker have profiles, too.
    own = f"own-{secrets.token_hex(4)}"
    have(repo, f"agent:{own}")

    def approved_by(review: str, name: str) -> str:
        answer = shop.call("submit_verdict", review_id=review, verdict="approved", reviewer_id=name, claim=True)
        return answer["data"]["status"] if answer["ok"] else answer["error"]["code"]

    # While no profile is called so, the name is anybody's, as before.
    assert approved_by(shop.put_up(diff=edited("b.txt")), own) == "approved"
    steward = staff({**SECURITY, "name": own}, STYLE)
    review = shop.put_up(diff=edited("a.txt"))
    for name in (own, own.upper(), f"{own}/1", f"{own}-r1", "claude-code"):
        assert approved_by(review, name) in {"FORBIDDEN", "REQUIREMENT_MISSING"}, name
    # Nor does it once the pool has ended.
    reviewer = member(steward, own)
    steward.register()
    steward.beat(closing=True)
    assert approved_by(review, own) == "REQUIREMENT_MISSING"
    steward.register()
    assert member(steward, own) != reviewer
    assert approved_by(review, member(steward, own)) == "approved"


def test_one_without_a_vote_comes_first_once_and_decides_nothing(shop: Desk, staff: Staff) -> None:
    steward = staff(STYLE, ADVICE)
    review = shop.put_up(diff=edited())
    adviser = member(steward, "advice")
    assert team(steward) == ["advice"]
    assert claimed(shop, adviser) == review
    said = shop.verdict(review, "approved", findings=[])
    assert (said["verdict"], said["status"]) == ("comment", "pending")
    assert "no vote" in said["notes"][0]
    assert claimed(shop, adviser) is None
    reviewer = member(steward, "style")
    assert claimed(shop, reviewer) == review
    shop.verdict(review, "changes_requested")
    # A new round is a new turn.
    shop.revise(review, diff=edited(text="best"))
    assert claimed(shop, reviewer) is None
    assert claimed(shop, adviser) == review
    said = shop.verdict(review, "rejected", findings=[FOUND])
    assert (said["verdict"], shop.status(review)["status"]) == ("comment", "pending")
    [finding] = found(shop, review)
    assert (finding["source"], finding["blocking"], finding["state"]) == ("advice", False, "open")
    assert claimed(shop, reviewer) == review
    shop.verdict(review, "approved")
    assert shop.status(review)["status"] == "approved"
    assert steward.seen(adviser)["profile"] == "advice"


def test_one_without_a_vote_settles_and_replaces_nothing_of_others(shop: Desk, staff: Staff) -> None:
    steward = staff(STYLE, ADVICE)
    review = shop.put_up(diff=edited())
    adviser = member(steward, "advice")
    claimed(shop, adviser)
    shop.verdict(review, "approved")
    assert claimed(shop, member(steward, "style")) == review
    shop.verdict(review, "changes_requested", findings=[FOUND])
    [finding] = found(shop, review)
    shop.revise(review, diff=edited(text="best"))
    generation = shop.do("claim_review", reviewer_id=adviser)["claim_generation"]
    answer = {"finding_id": finding["finding_id"], "answer": "verified"}
    settled = shop.call("answer_finding", review_id=review, reviewer_id=adviser, claim_generation=generation, **answer)
    assert settled["error"]["code"] == "FORBIDDEN"
    patch = {"verdict": "changes_requested", "reason": "So.", "counter_patch": edited(text="mine")}
    refused = shop.call("submit_verdict", review_id=review, claim_generation=generation, **patch)
    assert refused["error"]["code"] == "INVALID_INPUT"
    shop.verdict(review, "approved", generation, answers=[answer])
    assert [one["state"] for one in found(shop, review)] == ["open"]
    assert shop.status(review)["round"] == 2


@pytest.mark.parametrize("size", [1, 3])
def test_one_without_a_vote_is_started_beside_idle_ones_that_wait_for_it(shop: Desk, staff: Staff, size: int) -> None:
    steward = staff(STYLE, {**ADVICE, "paths": ["a.*"]}, max_pool_size=size, scaling_ratio=1)
    other = shop.put_up(diff=edited("b.txt"))
    voter = member(steward, "style")
    assert claimed(shop, voter) == other
    shop.verdict(other, "approved")
    review = shop.put_up(diff=edited())
    assert claimed(shop, voter) is None
    if size == 1:
        assert team(steward) == []
        steward.beat(ended(voter))
    assert claimed(shop, member(steward, "advice")) == review


@pytest.mark.parametrize("why", ["paused", "lost", "budget", "fails"])
def test_nothing_waits_for_one_without_a_vote_that_cannot_come(shop: Desk, staff: Staff, why: str) -> None:
    steward = staff(STYLE, {**ADVICE, "token_budget_per_review": 10})
    advised = started(shop, profile=[{**ADVICE, "name": "more"}]) if why == "paused" else None
    if advised is not None:
        shop.do("pause_reviewers", supervisor_id=advised.supervisor_id, project=None)
    if why == "lost":
        other = Steward(shop, profile=[{**ADVICE, "name": "more"}])
        other.register()
        other.beat(closing=True)
    review = shop.put_up(diff=edited())
    adviser = member(steward, "advice")
    if why == "fails":
        steward.beat(ended(adviser, 3, quick=True, error="no such program"))
    elif why == "budget":
        claim = shop.do("claim_review", reviewer_id=adviser)
        shop.verdict(review, "approved")
        steward.report(adviser, claim, "verdict", tokens_in=11)
        shop.verdict(review, "changes_requested", shop.claim(review))
        shop.revise(review, diff=edited(text="best"))
    else:
        claimed(shop, adviser)
        shop.verdict(review, "approved")
    assert claimed(shop, member(steward, "style")) == review


def test_a_failure_that_is_allowed_holds_nothing_up_and_is_not_tried_again(shop: Desk, staff: Staff) -> None:
    steward = staff(STYLE, {**ADVICE, "allow_failure": True})
    review = shop.put_up(diff=edited())
    adviser = member(steward, "advice")
    reported = steward.fail(adviser)
    assert (reported["attempts"], reported["not_before"]) == (0, None)
    assert claimed(shop, adviser) is None
    assert claimed(shop, member(steward, "style")) == review


def test_one_that_is_not_allowed_is_tried_again_until_a_person_is_asked(shop: Desk, staff: Staff) -> None:
    steward = staff(STYLE, ADVICE)
    review = shop.put_up(diff=edited())
    adviser = member(steward, "advice")
    assert [steward.fail(adviser)["attention"] is None for _ in range(3)] == [True, True, False]
    assert shop.status(review)["attention"]


def test_who_waits_hears_that_all_that_may_fail_have_failed(shop: Desk, staff: Staff) -> None:
    steward = staff({**STYLE, "allow_failure": True})
    review = shop.put_up(diff=edited())
    steward.fail(member(steward, "style"))
    assert shop.status(review)["no_reviewer"]["reason"] == "no_profile"


@ON_BOTH_DATABASES
@pytest.mark.parametrize(
    "budget", [{"budget_per_day": 1.0}, pytest.param({"token_budget_per_review": 100}, marks=VARIATION)]
)
def test_a_budget_of_one_profile_leaves_out_that_one(
    shop: Desk, repo: Sandbox, staff: Staff, budget: dict[str, Any]
) -> None:
    have(repo, "agent:security")
    steward = staff({**SECURITY, **budget}, STYLE)
    shop.put_up(diff=edited())
    reviewer = member(steward, "security")
    claim = shop.do("claim_review", reviewer_id=reviewer)
    shop.verdict(claim["review_id"], "approved")
    steward.report(reviewer, claim, "verdict", cost_usd=1.5, tokens_in=200)
    review = shop.put_up(diff=edited("a.txt", line=5))
    assert team(steward) == []
    pool = steward.pool()
    assert pool["state"] == "running"
    whys = {one["name"]: one["why"] for one in pool["profiles"]}
    assert "budget of 'security'" in whys["security"]
    assert whys["style"] is None
    none = shop.status(review)["no_reviewer"]
    assert (none["reason"], "'security'" in none["message"]) == ("budget", True)
    # Not the whole pool: the other goes on; and a person lets the first in again.
    have(repo, "agent:style")
    shop.put_up(diff=edited("b.txt"))
    assert team(steward) == ["style"]
    steward.register()
    assert [one["why"] for one in steward.pool()["profiles"]] == [whys["security"], None]
    shop.do("resume_reviewers", project=None)
    assert team(steward) == ["security", "style"]


def test_a_quota_of_one_profile_leaves_out_that_one(shop: Desk, staff: Staff) -> None:
    steward = staff(SECURITY, STYLE)
    review = shop.put_up(diff=edited())
    steward.fail(member(steward, "security"), "crashed", reason="HTTP 429", retry_after_s=600)
    assert steward.pool()["state"] == "running"
    assert claimed(shop, member(steward, "style")) == review


def test_a_profile_whose_program_fails_holds_up_no_other(shop: Desk, repo: Sandbox, staff: Staff) -> None:
    have(repo, "agent:security")
    steward = staff(SECURITY, STYLE)
    review = shop.put_up(diff=edited())
    for _ in range(4):
        steward.beat(ended(member(steward, "security"), 3, quick=True, error="no such program"))
    assert team(steward) == []
    assert shop.status(review)["no_reviewer"]["reason"] == "circuit_open"
    have(repo, "agent:style")
    shop.put_up(diff=edited("b.txt"))
    assert team(steward) == ["style"]


def test_one_that_is_idle_makes_room_for_another_profile(shop: Desk, repo: Sandbox, staff: Staff) -> None:
    steward = staff(SECURITY, {**STYLE, "paths": ["b.*"]}, max_pool_size=1)
    review = shop.put_up(diff=edited())
    first = member(steward, "security")
    assert claimed(shop, first) == review
    other = shop.put_up(diff=edited("b.txt"))
    steward.beat()
    assert steward.known == {first: "run"}
    shop.verdict(review, "approved")
    steward.beat()
    assert steward.known == {first: "drain"}
    steward.beat(ended(first))
    assert claimed(shop, member(steward, "style")) == other


def test_the_vote_of_a_reviewer_whose_profile_is_gone_counts_no_more(shop: Desk, staff: Staff) -> None:
    steward = staff(SECURITY)
    review = shop.put_up(diff=edited())
    reviewer = member(steward, "security")
    claimed(shop, reviewer)
    steward.rules["profile"] = [STYLE]
    steward.register(incarnation=steward.incarnation)
    assert shop.verdict(review, "approved")["verdict"] == "comment"

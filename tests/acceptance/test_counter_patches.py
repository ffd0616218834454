"""Counter-patches in a real repository: offered, accepted, declined, overtaken, and too late."""

from __future__ import annotations

from typing import Any

import pytest

from tests.acceptance.reviewing import OTHER, PROPOSER, REVIEWER, WHY, Desk, drawn, edited
from tests.databases import ON_BOTH_DATABASES
from tests.git.sandbox import Sandbox

BETTER = edited(text="better")
BEST = edited(text="best")
GREAT = edited(text="great")


@pytest.fixture
def review(shop: Desk) -> str:
    """A change of `a.txt` that `REVIEWER` has claimed."""
    return shop.put_up_claimed(diff=BETTER)


def offer(desk: Desk, review: str, verdict: str = "comment", patch: str = BEST) -> str:
    return desk.verdict(review, verdict, counter_patch=patch)["counter_patch_id"]


def decide(desk: Desk, how: str, review: str, patch: str, **more: Any) -> dict[str, Any]:
    with Desk(desk.url, desk.project, agent=PROPOSER) as proposer:
        return proposer.do(f"{how}_counter_patch", review_id=review, counter_patch_id=patch, **more)


def fate(desk: Desk, review: str) -> list[str]:
    """How each counter-patch of the review ended, oldest first."""
    return [entry["status"] for entry in desk.discussion(review) if entry["kind"] == "counter_patch"]


@pytest.mark.parametrize("verdict", ["comment", "changes_requested"])
def test_is_shown_to_the_proposer_whole(shop: Desk, review: str, verdict: str):
    patch = offer(shop, review, verdict)
    shown = shop.do("get_proposal", review_id=review)
    assert shown["diff"] == drawn(text="better")
    pending = shown["counter_patch"]
    assert (pending["id"], pending["author"], pending["diff"]) == (patch, REVIEWER, drawn(text="best"))
    assert [file["path"] for file in pending["affected_files"]] == ["a.txt"]
    assert pending["digest"] not in {None, shown["digest"]}
    status = shop.status(review)
    assert (status["counter_patch_status"], status["counter_patch_id"]) == ("pending", patch)
    assert (status["turn"], status["next_action"]) == ("proposer", "decide_counter_patch")
    assert shop.kinds(review)[-1] == "counter_patch_proposed"


@ON_BOTH_DATABASES
@pytest.mark.parametrize(("verdict", "status"), [("comment", "in_review"), ("changes_requested", "pending")])
def test_accepted_it_is_the_next_rounds_content(shop: Desk, review: str, verdict: str, status: str):
    patch = offer(shop, review, verdict)
    digest = shop.do("get_proposal", review_id=review)["counter_patch"]["digest"]
    decided = decide(shop, "accept", review, patch)
    assert (decided["status"], decided["round"], decided["digest"]) == (status, 2, digest)
    shown = shop.do("get_proposal", review_id=review)
    assert (shown["diff"], shown["origin"], shown["author"]) == (drawn(text="best"), "counter_patch", REVIEWER)
    assert (shown["counter_patch"], shown["proposer_id"]) == (None, PROPOSER)
    assert shop.do("get_proposal", review_id=review, round=1)["diff"] == drawn(text="better")
    assert fate(shop, review) == ["accepted"]


def test_accepted_while_claimed_the_verdict_must_name_the_new_round(shop: Desk, review: str):
    decide(shop, "accept", review, offer(shop, review))
    with shop.unchanged(review):
        for more in ({}, {"round": 1}):
            details = shop.refused(
                "STALE_ROUND", "submit_verdict", review_id=review, verdict="approved", claim_generation=1, **more
            )
            assert (details["expected"], details["actual"]) == (2, 1)
    # Its author may approve it: the proposer's acceptance was the second pair of eyes.
    shop.verdict(review, "approved", round=2)
    assert shop.is_open_for(shop.status(review)["digest"])


@pytest.mark.parametrize("verdict", ["comment", "changes_requested"])
def test_declined_the_content_stays(shop: Desk, review: str, verdict: str):
    patch = offer(shop, review, verdict)
    before = shop.status(review)
    decided = decide(shop, "reject", review, patch, reason="I prefer mine.")
    assert (decided["status"], decided["round"], decided["digest"]) == (before["status"], 1, before["digest"])
    assert shop.do("get_proposal", review_id=review)["counter_patch"] is None
    assert fate(shop, review) == ["rejected"]
    assert shop.events(review)[-1]["data"]["reason"] == "I prefer mine."


def test_a_newer_one_supersedes_it(shop: Desk, review: str):
    first, second = offer(shop, review), offer(shop, review, patch=GREAT)
    assert fate(shop, review) == ["superseded", "pending"]
    assert "counter_patch_superseded" in shop.kinds(review)
    with shop.unchanged(review):
        details = shop.refused("NO_COUNTER_PATCH", "accept_counter_patch", review_id=review, counter_patch_id=first)
    assert details["actual"] == "superseded"
    decide(shop, "accept", review, second)
    assert shop.do("get_proposal", review_id=review)["diff"] == drawn(text="great")


def test_a_revision_supersedes_it(shop: Desk, review: str):
    patch = offer(shop, review, "changes_requested")
    shop.revise(review, diff=GREAT)
    assert fate(shop, review) == ["superseded"]
    assert shop.kinds(review)[-2:] == ["counter_patch_superseded", "review_revised"]
    shop.refused("NO_COUNTER_PATCH", "reject_counter_patch", review_id=review, counter_patch_id=patch)


@pytest.mark.parametrize("verdict", ["approved", "changes_requested", "rejected"])
def test_a_decisive_verdict_without_one_supersedes_it(shop: Desk, review: str, verdict: str):
    offer(shop, review)
    shop.say(review, "proposer")
    shop.verdict(review, verdict)
    assert fate(shop, review) == ["superseded"]
    assert shop.do("get_proposal", review_id=review)["counter_patch"] is None


def test_neither_a_comment_nor_a_release_supersedes_it(shop: Desk, review: str):
    patch = offer(shop, review)
    shop.verdict(review, "comment", reason="What do you think?")
    shop.do("release_claim", review_id=review, claim_generation=1)
    assert fate(shop, review) == ["pending"]
    assert shop.status(review)["next_action"] == "decide_counter_patch"
    shop.claim(review, OTHER)
    decided = decide(shop, "accept", review, patch)
    assert (decided["status"], decided["round"]) == ("claimed", 2)


def test_one_that_no_longer_fits_cannot_be_accepted_any_more(shop: Desk, review: str, repo: Sandbox):
    patch = offer(shop, review, "changes_requested")
    repo.write("a.txt", "all is new\n")
    repo.commit("another change of the same file")
    with shop.unchanged(review):
        shop.refused("INVALID_DIFF", "accept_counter_patch", review_id=review, counter_patch_id=patch)
    decide(shop, "reject", review, patch)


def test_one_that_still_fits_is_accepted_on_the_moved_head(shop: Desk, review: str, repo: Sandbox):
    patch = offer(shop, review, "changes_requested")
    sent = shop.do("get_proposal", review_id=review)["counter_patch"]["digest"]
    repo.write("b.txt", "all is new\n")
    head = repo.commit("a change of another file")
    assert decide(shop, "accept", review, patch)["digest"] == sent
    assert shop.do("get_proposal", review_id=review)["base_commit"] == head


@pytest.mark.parametrize("verdict", ["approved", "rejected"])
def test_goes_with_changes_requested_or_comment_only(shop: Desk, review: str, verdict: str):
    with shop.unchanged(review):
        shop.refused(
            "INVALID_INPUT",
            "submit_verdict",
            review_id=review,
            verdict=verdict,
            reason=WHY,
            claim_generation=1,
            counter_patch=BEST,
        )


def test_unknown_and_decided_ones_are_told_apart(shop: Desk, review: str):
    elsewhere = shop.put_up_claimed(diff=BETTER)
    foreign = offer(shop, elsewhere)
    patch = offer(shop, review)
    for how in ("accept", "reject"):
        for unknown in (foreign, "cp_nothing"):
            with shop.unchanged(review):
                shop.refused("NOT_FOUND", f"{how}_counter_patch", review_id=review, counter_patch_id=unknown)
    decide(shop, "reject", review, patch)
    for how in ("accept", "reject"):
        with shop.unchanged(review):
            details = shop.refused("NO_COUNTER_PATCH", f"{how}_counter_patch", review_id=review, counter_patch_id=patch)
        assert (details["expected"], details["actual"]) == ("pending", "rejected")


def test_for_a_text_it_is_the_whole_text(shop: Desk):
    created = shop.put_up_whole(description="# Plan\n", path="docs/plan.md", category="plan_review")
    review = created["review_id"]
    shop.claim(review)
    patch = offer(shop, review, "changes_requested", "# A better plan\n")
    shown = shop.do("get_proposal", review_id=review)["counter_patch"]
    assert (shown["description"], shown["diff"]) == ("# A better plan\n", None)
    assert shown["digest"] != created["digest"]
    decide(shop, "accept", review, patch)
    accepted = shop.do("get_proposal", review_id=review)
    assert (accepted["description"], accepted["path"]) == ("# A better plan\n", "docs/plan.md")
    assert accepted["digest"] == shown["digest"]
    shop.approve(review, OTHER)
    assert shop.is_open_for(shown["digest"])
    assert not shop.is_open_for(created["digest"])


def test_for_what_was_not_validated_it_opens_no_gate(shop: Desk):
    review = shop.put_up_claimed(diff=BETTER, skip_diff_validation=True)
    decide(shop, "accept", review, offer(shop, review, "changes_requested"))
    assert shop.status(review)["digest"] is None

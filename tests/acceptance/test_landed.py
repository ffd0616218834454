"""A change that is approved and committed is not revised: the next one is a new review."""

from __future__ import annotations

import pytest

from tests.acceptance.gating import Branch
from tests.acceptance.reviewing import edited
from tests.git.sandbox import Sandbox


def approved(feature: Branch) -> str:
    """An approved review of what the working tree changes."""
    feature.repo.git("add", "--all")
    review = feature.desk.put_up(diff=feature.repo.diff("--cached"))
    feature.desk.approve(review)
    return review


def test_what_a_base_branch_holds_is_not_revised(feature: Branch, repo: Sandbox):
    repo.write("a.txt", "better\n")
    review = approved(feature)
    repo.commit()
    repo.git("branch", "--force", "main", "feature")
    with feature.desk.unchanged(review):
        details = feature.desk.refused("ALREADY_LANDED", "create_review", review_id=review, **changed())
    assert (details["review_id"], details["branches"], details["commits"]) == (review, ["main"], [])
    refused = feature.desk.envelope_unscoped("create_review", review_id=review, **changed())
    # It says how to go on.
    assert "tandem submit -m" in refused["error"]["message"]
    assert feature.desk.put_up(diff=edited("b.txt")) != review


def test_squashed_into_a_base_branch_it_is_not_revised_either(feature: Branch, repo: Sandbox):
    repo.write("a.txt", "better\n")
    review = approved(feature)
    repo.commit()
    repo.git("switch", "--quiet", "main")
    repo.git("merge", "--squash", "--quiet", "feature")
    repo.commit("squashed")
    assert feature.desk.refused("ALREADY_LANDED", "create_review", review_id=review, **changed())["branches"] == [
        "main"
    ]


def test_what_is_committed_on_another_branch_is_revised_unless_it_is_recorded(feature: Branch, repo: Sandbox):
    repo.write("a.txt", "better\n")
    review = approved(feature)
    repo.commit()
    assert feature.desk.revise(review, diff=edited("b.txt"))["round"] == 2
    repo.write("a.txt", "best\n")
    other = approved(feature)
    commit = repo.commit()
    feature.record(commit, other)
    assert feature.desk.refused("ALREADY_LANDED", "create_review", review_id=other, **changed())["commits"] == [commit]


def test_a_file_that_a_base_branch_never_had_has_not_landed_by_being_deleted(feature: Branch, repo: Sandbox):
    repo.write("only-here.txt", "x\n")
    repo.commit()
    (repo.root / "only-here.txt").unlink()
    review = approved(feature)
    repo.commit()
    assert feature.desk.revise(review, diff=edited("b.txt"))["round"] == 2


@pytest.mark.parametrize("verdict", ["changes_requested", None])
def test_an_optimistic_commit_is_revised_while_it_is_not_approved(feature: Branch, verdict: str | None):
    _, review = feature.optimistic("a.txt", "better\n")
    if verdict:
        feature.decide(review, verdict)
    assert feature.desk.revise(review, diff=edited("b.txt"))["round"] == 2


def test_an_approved_round_that_is_not_what_was_committed_is_revised(feature: Branch):
    _, review = feature.optimistic("a.txt", "better\n")
    feature.decide(review, "changes_requested")
    feature.desk.revise(review, diff=edited("b.txt"))
    feature.desk.approve(review)
    assert feature.desk.revise(review, diff=edited("b.txt"))["round"] == 3


def test_an_approved_optimistic_commit_is_revised_once_it_is_rolled_back(feature: Branch):
    commit, review = feature.optimistic("a.txt", "better\n")
    feature.desk.approve(review)
    assert feature.desk.refused("ALREADY_LANDED", "create_review", review_id=review, **changed())["commits"] == [commit]
    reverted = {"commit": commit, "reverted_by": "3" * 40}
    heads = {"head_before": commit, "head_after": "3" * 40}
    feature.desk.do("record_rollback", review_id=review, branch="feature", **heads, reverted=[reverted])
    assert feature.desk.revise(review, diff=edited("b.txt"))["round"] == 2


def changed() -> dict[str, str]:
    """The content of a revision."""
    return {"intent": "Improve it", "agent_type": "claude-code", "diff": edited("b.txt")}

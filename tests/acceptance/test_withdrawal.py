"""An approval that is withdrawn, and one that a later approval reverts, open no gate."""

from __future__ import annotations

from typing import Any

from tests.acceptance.accessing import Bearer
from tests.acceptance.gating import Branch, Change, inverted, staged
from tests.acceptance.reviewing import OTHER, REVIEWER, WHY, Desk, edited
from tests.databases import ON_BOTH_DATABASES
from tests.git.sandbox import Sandbox

pytest_plugins = ["tests.acceptance.accessing_brokers"]


def approved(feature: Branch, content: str = "better\n", path: str = "a.txt") -> tuple[str, list[Change]]:
    """An approved review of a file's new content, and its changes."""
    feature.repo.write(path, content)
    changes = staged(feature.repo)
    review = feature.desk.put_up(diff=feature.repo.diff("--cached"))
    feature.desk.approve(review)
    return review, changes


def withdraw(desk: Desk, review: str, **more: Any) -> dict[str, Any]:
    return desk.do("withdraw_approval", review_id=review, reason=WHY, **more)


@ON_BOTH_DATABASES
def test_p2_a_withdrawn_approval_opens_no_gate_and_is_an_event_with_who_and_why(feature: Branch):
    review, changes = approved(feature)
    digest = feature.desk.status(review)["digest"]
    assert feature.check(changes)["allowed"]
    answer = withdraw(feature.desk, review, withdrawn_by="ada")
    assert (answer["status"], answer["outcome"], answer["commits"], answer["branches"]) == (
        "changes_requested", None, [], [],
    )  # fmt: skip
    assert not feature.check(changes)["allowed"]
    assert not feature.desk.is_open_for(digest)
    status = feature.desk.status(review)
    assert (status["turn"], status["next_action"], status["verdict_reason"]) == ("proposer", "revise", WHY)
    event = feature.desk.events(review)[-1]
    assert (event["kind"], event["actor"], event["old"], event["new"]) == (
        "approval_withdrawn", "ada", "approved", "changes_requested",
    )  # fmt: skip
    assert feature.desk.discussion(review)[-1]["body"] == WHY
    assert (event["data"]["reason"], event["data"]["round"], event["data"]["approved_by"]) == (WHY, 1, REVIEWER)
    # Approved again by somebody who says that the reason is gone, it is as it was.
    [request] = feature.desk.do("list_findings", review_id=review)["findings"]
    answers = [{"finding_id": request["finding_id"], "answer": "verified"}]
    feature.desk.verdict(review, "approved", feature.desk.claim(review, OTHER), answers=answers)
    assert feature.check(changes)["allowed"]


def test_p2_the_approval_of_a_closed_review_is_withdrawn_too(feature: Branch):
    review, changes = approved(feature)
    feature.desk.do("close_review", review_id=review)
    assert feature.check(changes)["allowed"]
    answer = withdraw(feature.desk, review)
    assert (answer["status"], answer["outcome"]) == ("closed", "withdrawn")
    assert not feature.check(changes)["allowed"]
    with feature.desk.unchanged(review):
        feature.desk.refused("INVALID_TRANSITION", "withdraw_approval", review_id=review, reason=WHY)


def test_what_is_committed_is_named_and_can_be_reverted_without_a_review(feature: Branch, repo: Sandbox):
    commit, review = feature.optimistic("a.txt", "better\n")
    feature.desk.approve(review)
    repo.git("branch", "--force", "main", "feature")
    answer = withdraw(feature.desk, review)
    assert (answer["commits"], answer["branches"]) == ([commit], ["main"])
    # As of any commit of its plan that was decided against.
    assert feature.plan()["against"] == [review]
    # A revision is not told that it has landed: nothing of it is approved any more.
    assert feature.desk.revise(review, diff=edited("b.txt"))["round"] == 2


def test_a_reason_is_required_and_only_an_approval_is_withdrawn(feature: Branch):
    review, _ = approved(feature)
    for reason in (None, " \n"):
        with feature.desk.unchanged(review):
            feature.desk.refused("REASON_REQUIRED", "withdraw_approval", review_id=review, reason=reason)
    pending = feature.desk.put_up(diff=edited("b.txt"))
    assert feature.desk.refused("INVALID_TRANSITION", "withdraw_approval", review_id=pending, reason=WHY)


def test_reviewers_withdraw_only_their_own_approvals(owner: Bearer):
    with (
        owner.give("alice", "reviewer") as alice,
        owner.give("bob", "reviewer") as bob,
        owner.give("oz", "operator") as operator,
        owner.give("pat", "proposer") as proposer,
    ):
        for number, by in enumerate((alice, operator, owner)):
            review = owner.put_up(description=f"Plan {number} in words.")
            alice.approve(review, "alice/agent")
            request = {"review_id": review, "reason": WHY}
            with owner.unchanged(review):
                assert bob.refused("NOT_CLAIMANT", "withdraw_approval", **request)["expected"] == "alice/agent"
                assert bob.refused("NOT_CLAIMANT", "withdraw_approval", **request, withdrawn_by="alice/agent")
                proposer.refused("FORBIDDEN", "withdraw_approval", **request)
            assert by.do("withdraw_approval", **request)["status"] == "changes_requested"
        assert operator.token_id


# ------------------------------------------------------------------------------------- reverted by an approval


def test_p2_an_approved_revert_ends_the_approval_that_it_takes_back(feature: Branch, repo: Sandbox):
    review, changes = approved(feature)
    digest = feature.desk.status(review)["digest"]
    repo.commit()
    repo.git("revert", "--no-commit", "HEAD")
    back = staged(repo)
    revert = feature.desk.put_up(diff=repo.diff("--cached"))
    # Nothing ends before the revert is approved.
    assert feature.check(changes)["allowed"]
    assert feature.desk.put_up(diff=repo.diff("--cached"), reuse=True) == revert
    feature.desk.approve(revert)
    assert feature.check(back)["allowed"]
    answer = feature.check(changes)
    assert not answer["allowed"]
    assert review in answer["paths"][0]["reason"]
    assert revert in answer["paths"][0]["reason"]
    assert not feature.desk.is_open_for(digest)
    repo.commit()
    # Once more approved, it passes, and the revert does not.
    repo.git("revert", "--no-commit", "HEAD")
    again = feature.desk.put_up(diff=repo.diff("--cached"), reuse=True)
    assert again != review
    feature.desk.approve(again)
    assert feature.check(changes)["review_ids"] == [again]
    assert not feature.check(back)["allowed"]
    # And a withdrawn decision counts no more.
    withdraw(feature.desk, again)
    assert not feature.check(changes)["allowed"]
    assert feature.check(back)["allowed"]


def test_changes_that_revert_it_only_together_end_nothing_until_it_is_withdrawn(feature: Branch, repo: Sandbox):
    before = (repo.root / "a.txt").read_text("utf-8")
    review, changes = approved(feature)
    for content in ("other\n", before):
        repo.commit()
        approved(feature, content)
    repo.commit()
    assert feature.check(changes)["review_ids"] == [review]
    withdraw(feature.desk, review)
    assert not feature.check(changes)["allowed"]


def test_p2_a_larger_change_that_takes_it_back_ends_it_and_a_smaller_one_does_not(feature: Branch, repo: Sandbox):
    repo.write("a.txt", "better\n")
    repo.write("b.txt", "better\n")
    changes = staged(repo)
    review = feature.desk.put_up(diff=repo.diff("--cached"))
    feature.desk.approve(review)
    repo.commit()
    repo.git("checkout", "HEAD^", "--", "a.txt")
    approved(feature, "new\n", "new.txt")
    assert feature.check(changes)["allowed"]
    repo.git("checkout", "HEAD^", "--", "b.txt")
    approved(feature, "newer\n", "new.txt")
    assert not feature.check(changes)["allowed"]
    assert feature.check(inverted(changes), head=None)["allowed"] is False

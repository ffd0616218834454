"""Commits before their review: only where a person trusts the settings that say so, and never on a base branch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tandem.rulings import pending
from tandem.setup import gate_switch
from tests.modes import VARIATION
from tests.repository.gating import DIGITS, Gated
from tests.repository.stepping import PLAN, PLAN_FILE

SUBJECT = "feat(03-02): count in digits"
SHARED = "<task><name>Task 3: More letters</name><files>b.txt</files></task>\n"
"""Beside the tasks of `PLAN`, the second of which names that file too."""


def commits(gated: Gated, **wanted: Any) -> list[dict[str, Any]]:
    return gated.call("list_commits", **wanted)["commits"]


def feature(gated: Gated, **planning: Any) -> None:
    gated.settings(**planning)
    gated.git("switch", "--quiet", "--create", "feature")


@pytest.mark.parametrize("planning", [{"review_granularity": "per_plan"}, {"execution_mode": "optimistic"}])
def test_p2_no_mode_lets_anything_onto_a_base_branch(gated: Gated, planning: dict[str, Any]):
    gated.settings(**planning)
    gated.stage(DIGITS)
    gated.refused("commit", "-m", SUBJECT)
    # A detached HEAD is no base branch, and commits made there do not get onto one.
    gated.git("checkout", "--quiet", "--detach")
    gated.git("commit", "-m", SUBJECT)
    (recorded,) = commits(gated, plan="03-02")
    assert (recorded["commit"], recorded["branch"]) == (gated.head(), None)
    commit = gated.head()
    gated.git("switch", "--quiet", "main")
    gated.refused("merge", "--ff-only", commit)


def test_per_plan_commits_pass_on_the_plans_branch_with_a_mark(gated: Gated):
    feature(gated, review_granularity="per_plan")
    gated.stage(DIGITS)
    gated.git("commit", "-m", SUBJECT)
    assert gated.trailers() == ["unreviewed"]
    (recorded,) = commits(gated, plan="03-02")
    assert recorded["commit"] == gated.head()
    assert recorded["unreviewed"]
    assert (recorded["phase"], recorded["branch"], recorded["review_ids"]) == ("03", "feature", [])
    # An approved one names its review.
    gated.stage({"b.txt": "alpha\n"})
    review = gated.approve()
    gated.git("commit", "-m", "feat(03-02): fewer letters")
    assert gated.trailers() == [review]
    both = commits(gated, plan="03-02")
    assert [record["review_ids"] for record in both] == [[], [review]]
    # Without a plan the tasks of its commits are counted.
    assert sorted(record["task"] for record in both) == ["1", "2"]


def test_an_optimistic_commit_is_put_up_by_the_hook(gated: Gated):
    feature(gated, execution_mode="optimistic")
    gated.stage({**DIGITS, "logo.bin": bytes(range(256)), "latin.txt": "caf\xe9\n".encode("latin-1")})
    gated.git("commit", "-m", f"{SUBJECT}\n\nBecause.\n\nTandem-Depends-On: rv_earlier", TANDEM_AGENT="codex")
    (review,) = gated.trailers()
    proposal = gated.call("get_proposal", review_id=review)
    assert proposal["intent"] == SUBJECT
    assert (proposal["phase"], proposal["plan"], proposal["agent_type"]) == ("03", "02", "codex")
    status = gated.call("get_review_status", review_id=review)
    assert status["status"] == "pending"
    # The proposed change is the committed one: its approval lets exactly this commit onto the base branch.
    gated.decide(review)
    gated.git("switch", "--quiet", "main")
    gated.git("merge", "--ff-only", "feature")
    (recorded,) = commits(gated, review_id=review)
    assert recorded["depends_on"] == ["rv_earlier"]


def test_a_commit_without_a_plan_belongs_to_its_branch(gated: Gated):
    feature(gated, execution_mode="optimistic")
    gated.stage(DIGITS)
    gated.git("commit", "-m", "Count in digits")
    assert [record["commit"] for record in commits(gated, plan="feature")] == [gated.head()]
    gated.stage({"b.txt": "alpha\n"})
    gated.git("commit", "-m", "Fewer letters", TANDEM_PHASE="04", TANDEM_PLAN="01", TANDEM_TASK="2")
    (recorded,) = commits(gated, plan="04-01")
    assert recorded["task"] == "2"


@VARIATION
def test_a_commit_belongs_to_the_task_that_its_plan_has_for_its_files(gated: Gated):
    gated.settings(review_granularity="per_plan", execution_mode="optimistic")
    gated.approved_commit({PLAN_FILE: PLAN.replace("</tasks>", f"{SHARED}</tasks>")})
    # GSD works in a linked working tree.
    tree = gated.linked(gated.root.parent / f"{gated.root.name}-linked", "feature")
    found: list[str | None] = []
    for number, path in enumerate(("b.txt", "a.txt", "b.txt", "new.txt", PLAN_FILE)):
        gated.stage({path: f"{number}\n"}, tree)
        gated.git("commit", "-m", SUBJECT, cwd=tree)
        (review,) = gated.trailers(cwd=tree)
        recorded = commits(gated, commits=[gated.head(cwd=tree)])[0]["task"]
        assert gated.call("get_proposal", review_id=review)["task"] == recorded
        found.append(recorded)
    # Two tasks name b.txt, so that it is the next one's turn; and nothing of GSD's own is a task's.
    assert found == ["2", "1", "3", "3", None]
    gated.stage({"a.txt": "two\n"}, tree)
    gated.git("commit", "-m", "feat(03-02-2): as it says itself", cwd=tree)
    assert commits(gated, commits=[gated.head(cwd=tree)])[0]["task"] == "2"


def test_a_commit_that_failed_is_the_same_review_when_it_is_tried_again(gated: Gated):
    feature(gated, execution_mode="optimistic")
    hook = Path(gated.git("rev-parse", "--git-path", "hooks/commit-msg"))
    (gated.root / hook).write_text("#!/bin/sh\nexit 1\n", "utf-8")
    (gated.root / hook).chmod(0o755)
    gated.stage(DIGITS)
    assert not gated.try_git("commit", "-m", SUBJECT).ok
    (gated.root / hook).unlink()
    gated.git("commit", "-m", SUBJECT)
    assert [one["review_id"] for one in gated.call("list_reviews")["reviews"]] == gated.trailers()


def test_an_amended_and_a_rebased_commit_are_recorded_as_what_they_became(gated: Gated):
    feature(gated, review_granularity="per_plan")
    gated.stage(DIGITS)
    gated.git("commit", "-m", SUBJECT)
    first = gated.head()
    gated.git("commit", "--amend", "-m", f"{SUBJECT}, all of them")
    second = gated.head()
    assert {record["commit"]: record["replaced_by"] for record in commits(gated, commits=[first])} == {first: second}
    gated.git("switch", "--quiet", "main")
    gated.approved_commit({"b.txt": "alpha\n"})
    gated.git("switch", "--quiet", "feature")
    gated.git("rebase", "--quiet", "main")
    assert commits(gated, commits=[second])[0]["replaced_by"] == gated.head()


def test_an_optimistic_commit_keeps_its_review_through_a_new_message_and_a_rebase(gated: Gated):
    feature(gated, execution_mode="optimistic")
    gated.stage(DIGITS)
    gated.git("commit", "-m", SUBJECT)
    (review,) = gated.trailers()
    gated.git("commit", "--amend", "-m", f"{SUBJECT}, all of them")
    assert gated.trailers() == [review]
    gated.git("switch", "--quiet", "main")
    gated.approved_commit({"b.txt": "alpha\n"})
    gated.git("switch", "--quiet", "feature")
    gated.git("rebase", "--quiet", "main")
    assert gated.trailers() == [review]
    # An amend's addition is proposed by itself; both approvals together cover the commit.
    gated.stage({"c.txt": "more\n"})
    gated.git("commit", "--amend", "--no-edit")
    kept, added = gated.trailers()
    assert kept == review
    gated.git("switch", "--quiet", "main")
    gated.decide(review)
    gated.refused("merge", "--ff-only", "feature")
    gated.decide(added)
    gated.git("merge", "--ff-only", "feature")


def test_p2_a_review_that_the_message_made_up_is_not_taken_over(gated: Gated):
    feature(gated, execution_mode="optimistic")
    gated.stage({"b.txt": "alpha\n"})
    other = gated.put_up()
    gated.stage({"b.txt": "alpha\nbeta\n", **DIGITS})
    gated.git("commit", "-m", f"{SUBJECT}\n\nTandem-Review: {other}\nTandem-Review: rv_invented")
    (review,) = gated.trailers()
    assert review not in {other, "rv_invented"}


def test_in_blocking_mode_nothing_is_recorded_and_no_second_process_starts(gated: Gated):
    feature(gated, review_granularity="per_task")
    gated.approved_commit(DIGITS)
    assert commits(gated) == []
    assert not (gated.root / ".git/tandem/recording").exists()


def test_a_record_that_found_no_broker_is_delivered_later(own_gated: Gated):
    feature(own_gated, review_granularity="per_plan")
    # The broker ends between the gate's look and the record: another hook ends it.
    hook = own_gated.root / ".git/hooks/commit-msg"
    hook.write_text(f"#!/bin/sh\nkill -9 {own_gated.broker.pid}\n", "utf-8")
    hook.chmod(0o755)
    own_gated.stage(DIGITS)
    said = own_gated.try_git("commit", "-m", SUBJECT)
    assert said.ok
    assert "recorded when it is back" in said.stderr
    hook.unlink()
    place = gate_switch.place_at(own_gated.root)
    assert len(pending.waiting(place)) == 1
    own_gated.broker.kill()
    own_gated.broker.start()
    assert commits(own_gated) == []
    own_gated.stage({"b.txt": "alpha\n"})
    own_gated.git("commit", "-m", "feat(03-02): fewer letters")
    assert len(commits(own_gated, plan="03-02")) == 2
    assert pending.waiting(place) == []

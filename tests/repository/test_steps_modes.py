"""The steps in the looser modes: a plan reviewed as a whole, and changes reviewed after their commit."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.broker import BrokerProcess
from tests.modes import VARIATION
from tests.repository.gating import Gated
from tests.repository.stepping import PLAN, PLAN_FILE, Steps, enabled, head


@pytest.fixture
def under_gate(gated: Gated) -> Steps:
    """The gate is on; the plan is on `main` and approved."""
    steps = Steps(gated)
    gated.approved_commit({PLAN_FILE: PLAN}, "docs(03-02): plan")
    return steps


@pytest.fixture
def per_plan(under_gate: Steps) -> Steps:
    """Plans are reviewed as a whole, as a person has trusted; on a plan's branch."""
    under_gate.gated.settings(tandem_enabled=True, review_granularity="per_plan")
    under_gate.gated.git("switch", "--quiet", "--create", "gsd/phase-03")
    return under_gate


@pytest.fixture
def optimistic(under_gate: Steps) -> Steps:
    """Changes are reviewed after their commit; on a plan's branch."""
    under_gate.gated.settings(tandem_enabled=True, execution_mode="optimistic")
    under_gate.gated.git("switch", "--quiet", "--create", "gsd/phase-03")
    return under_gate


def merge(steps: Steps) -> None:
    """Merge the plan's branch, which the gate lets through."""
    steps.gated.git("switch", "--quiet", "main")
    steps.gated.git("merge", "--quiet", "gsd/phase-03")


# A plan as a whole.


def test_per_plan_a_task_goes_on_without_asking_anybody_but_on_the_base_branch(per_plan: Steps) -> None:
    per_plan.write("a.txt", "1\n")
    before = len(per_plan.reviews())
    per_plan.gated.broker.stop()
    try:
        ended = per_plan.run("task", "--plan", "03-02")
    finally:
        per_plan.gated.broker.start()
    assert (ended.status, head(ended)) == (0, "GO")
    assert "tandem gate wave" in ended.stdout
    assert len(per_plan.reviews()) == before
    per_plan.gated.git("switch", "--quiet", "main")
    per_plan.ends(per_plan.run("task", "--timeout", "0", "--json"), "WAITING", 12)


def test_per_plan_that_nobody_trusts_is_per_task(under_gate: Steps) -> None:
    # Where a wave has nothing to wait for.
    ended = under_gate.run("wave")
    assert (ended.status, head(ended)) == (0, "GO")
    under_gate.gated.settings(tandem_enabled=True, review_granularity="per_plan", trusted=False)
    under_gate.gated.git("switch", "--quiet", "--create", "gsd/phase-03")
    under_gate.write("a.txt", "1\n")
    ended = under_gate.run("task", "--timeout", "0")
    assert (ended.status, head(ended)) == (12, "WAITING")
    assert "tandem trust" in ended.stderr


def test_p2_per_plan_a_commit_after_the_approval_is_not_merged(per_plan: Steps) -> None:
    per_plan.commit({"a.txt": "1\n"}, "feat(03-02): count")
    first = per_plan.ends(per_plan.reviewed("wave", "--json"), "APPROVED", 0)
    per_plan.commit({"a.txt": "2\n"}, "feat(03-02): more")
    second = per_plan.ends(per_plan.run("wave", "--timeout", "0", "--json"), "WAITING", 12)
    assert second["review_id"] != first["review_id"]
    per_plan.gated.git("switch", "--quiet", "main")
    per_plan.gated.refused("merge", "--quiet", "gsd/phase-03")


def test_per_plan_changes_are_committed_and_the_same_review_goes_on(per_plan: Steps) -> None:
    per_plan.commit({"a.txt": "1\n"}, "feat(03-02): count")
    first = per_plan.ends(per_plan.reviewed("wave", "--json", verdict="changes_requested"), "CHANGES", 10)
    per_plan.write("a.txt", "2\n")
    ended = per_plan.run("wave")
    assert (ended.status, head(ended)) == (10, "CHANGES")
    assert "uncommitted" in ended.stderr
    per_plan.commit({"a.txt": "2\n"}, "fix(03-02): as the reviewer asked")
    again = per_plan.ends(per_plan.reviewed("wave", "--json"), "APPROVED", 0)
    assert (again["review_id"], again["round"]) == (first["review_id"], 2)


def test_per_plan_a_counter_patch_is_brought_in_committed_and_approved(per_plan: Steps) -> None:
    base = per_plan.gated.head()
    per_plan.commit({"a.txt": "1\n"}, "feat(03-02): count")
    better = per_plan.commit({"a.txt": "uno\n"}, "feat(03-02): better")
    patch = per_plan.gated.git("diff", base, better) + "\n"
    per_plan.gated.git("reset", "--quiet", "--hard", "HEAD^")
    per_plan.reviewed("wave", verdict="changes_requested", counter_patch=patch)
    ended = per_plan.reviewed("wave", "--accept")
    assert (ended.status, head(ended)) == (0, "APPROVED")
    assert (per_plan.root / "a.txt").read_text() == "uno\n"
    per_plan.commit({}, "fix(03-02): the reviewer's")
    per_plan.ends(per_plan.run("wave", "--json"), "APPROVED", 0)
    merge(per_plan)


def test_per_plan_from_the_base_branch_the_linked_trees_are_put_up(per_plan: Steps, tmp_path: Path) -> None:
    per_plan.gated.git("switch", "--quiet", "main")
    for number, name in ((2, "a.txt"), (3, "b.txt")):
        linked = per_plan.gated.linked(tmp_path / f"agent-{number}", f"worktree-agent-{number}")
        per_plan.commit({name: f"{number}\n"}, f"feat(03-0{number}): a task", linked)
    per_plan.gated.linked(tmp_path / "idle", "idle")
    waiting = per_plan.ends(per_plan.run("wave", "--timeout", "0", "--json"), "WAITING", 12)
    assert [(part["plan"], part["files"]) for part in waiting["parts"]] == [("02", ["a.txt"]), ("03", ["b.txt"])]
    third = per_plan.run("wave", "--plan", "03-03", "--timeout", "0", "--json")
    assert per_plan.ends(third, "WAITING", 12)["review_id"] == waiting["review_ids"][1]
    first, second = waiting["review_ids"]
    per_plan.gated.decide(first)
    per_plan.gated.decide(second, "changes_requested")
    data = per_plan.ends(per_plan.run("wave", "--json"), "CHANGES", 10)
    assert [part["word"] for part in data["parts"]] == ["APPROVED", "CHANGES"]
    per_plan.gated.git("merge", "--quiet", "--no-edit", "worktree-agent-2")
    per_plan.gated.refused("merge", "--quiet", "--no-ff", "--no-edit", "worktree-agent-3")


def test_a_wave_begins_where_the_plan_does_or_where_it_is_told(per_plan: Steps) -> None:
    per_plan.commit({"a.txt": "1\n"}, "feat(03-01): another plan")
    per_plan.commit({"b.txt": "2\n"}, "feat(03-02): this plan")
    per_plan.commit({"c.txt": "3\n"}, "feat(03-02): and more of it")
    data = per_plan.ends(per_plan.run("wave", "--timeout", "0", "--json"), "WAITING", 12)
    assert (data["plan"], data["files"]) == ("02", ["b.txt", "c.txt"])
    told = per_plan.run("wave", "--since", "main", "--plan", "03-09", "--timeout", "0", "--json")
    assert per_plan.ends(told, "WAITING", 12)["files"] == ["a.txt", "b.txt", "c.txt"]
    assert per_plan.run("wave", "--since", "nowhere").status == 1


def test_a_wave_on_the_main_branch_without_a_gate(shared_broker: BrokerProcess, plain: Path) -> None:
    steps = enabled(shared_broker, plain, review_granularity="per_plan")
    assert head(steps.run("task")) == "GO"
    assert "--since" in steps.run("wave").refusal
    steps.commit({"a.txt": "1\n"}, "feat(03-02): count")
    data = steps.ends(steps.run("wave", "--timeout", "0", "--json"), "WAITING", 12)
    assert (data["phase"], data["plan"], data["files"]) == ("03", "02", ["a.txt"])


# Reviewed after the commit.


@VARIATION
def test_optimistic_an_earlier_change_that_was_decided_against_comes_first(optimistic: Steps) -> None:
    before = optimistic.commit({"a.txt": "1\n"}, "feat(03-02): count")
    review_id = optimistic.arrival()
    optimistic.gated.decide(review_id, "rejected")
    optimistic.write("b.txt", "beta\n")
    ended = optimistic.run("task", "--plan", "03-02")
    assert (ended.status, head(ended)) == (10, f"ROLLBACK {review_id}")
    assert f"tandem rollback {review_id}" in ended.stdout
    # Of another plan it is not.
    assert head(optimistic.run("task", "--plan", "03-07")) == "GO"
    # The rest of the plan is blocking.
    optimistic.gated.tandem("rollback", review_id)
    assert optimistic.gated.head() != before
    ended = optimistic.reviewed("task", "--plan", "03-02")
    assert (ended.status, head(ended)) == (0, "APPROVED")
    optimistic.commit({}, "feat(03-02): beta")


def test_optimistic_and_per_plan_two_plans_go_their_ways_to_the_base_branch(under_gate: Steps, tmp_path: Path) -> None:
    gated = under_gate.gated
    gated.settings(tandem_enabled=True, review_granularity="per_plan", execution_mode="optimistic")
    first, second = (gated.linked(tmp_path / f"agent-{number}", f"agent-{number}") for number in (2, 3))
    reviews: list[str] = []
    for tree, path, text, subject in (
        (first, "a.txt", "1\n", "feat(03-02): count"),
        (first, "a.txt", "2\n", "fix(03-02): count on"),
        (second, "b.txt", "beta\n", "feat(03-03): beta"),
    ):
        under_gate.write(path, text, tree)
        assert head(under_gate.run("task", cwd=tree)) == "GO"
        under_gate.commit({}, subject, tree)
        reviews += gated.trailers(cwd=tree)
    waiting = under_gate.ends(under_gate.run("wave", "--timeout", "0", "--json"), "WAITING", 12)
    assert waiting["review_id"] in reviews
    gated.refused("merge", "--no-ff", "--no-edit", "agent-2")
    gated.git("merge", "--abort")
    for review_id, verdict in zip(reviews, ("approved", "approved", "rejected"), strict=True):
        gated.decide(review_id, verdict)
    assert head(under_gate.run("wave")) == f"ROLLBACK {reviews[2]}"
    # The one plan does not hold up the other.
    assert head(under_gate.run("wave", "--plan", "03-02")) == "APPROVED"
    gated.git("merge", "--quiet", "--no-ff", "--no-edit", "agent-2")
    under_gate.write("c.txt", "1\n", second)
    assert head(under_gate.run("task", "--plan", "03-03", cwd=second)) == f"ROLLBACK {reviews[2]}"
    gated.git("add", "c.txt", cwd=second)
    gated.refused("commit", "-m", "feat(03-03): more", cwd=second)
    gated.git("rm", "--quiet", "--force", "c.txt", cwd=second)
    assert "The plan 03-03 goes on in blocking mode" in gated.tandem("rollback", reviews[2], cwd=second).stdout
    under_gate.write("b.txt", "gamma\n", second)
    assert head(under_gate.reviewed("task", "--plan", "03-03", cwd=second)) == "APPROVED"
    under_gate.commit({}, "feat(03-03): gamma", second)
    assert head(under_gate.run("wave")) == "APPROVED"
    gated.git("merge", "--quiet", "--no-ff", "--no-edit", "agent-3")
    assert (under_gate.root / "b.txt").read_text("utf-8") == "gamma\n"
    assert gated.tandem("audit", "main").status == 0


def test_optimistic_without_a_gate_the_step_puts_the_change_up(shared_broker: BrokerProcess, plain: Path) -> None:
    steps = enabled(shared_broker, plain, execution_mode="optimistic")
    steps.write("a.txt", "1\n")
    data = steps.ends(steps.run("task", "--plan", "03-02", "--json"), "GO", 0)
    review_id = steps.arrival()
    assert data["review_id"] == review_id
    assert steps.proposal(review_id)["metadata"]["optimistic"] is True
    steps.commit({}, f"feat(03-02): count\n\nTandem-Review: {review_id}")
    steps.write("b.txt", "beta\n")
    other = steps.ends(steps.run("task", "--plan", "03-02", "--json"), "GO", 0)
    assert other["review_id"] != review_id
    steps.gated.decide(review_id, "rejected")
    assert head(steps.run("task", "--plan", "03-02")) == f"ROLLBACK {review_id}"

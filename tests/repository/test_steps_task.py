"""`tandem gate task`: a task's change, reviewed before its commit, with what its plan says of it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.broker import BrokerProcess
from tests.repository.gating import Gated
from tests.repository.stepping import PHASE, PLAN, PLAN_FILE, Steps, enabled, head

MINE = "1\ntwo\nthree\n"
BETTER = "uno\ntwo\nthree\n"
PATCH = """\
diff --git a/a.txt b/a.txt
--- a/a.txt
+++ b/a.txt
@@ -1,3 +1,3 @@
-one
+uno
 two
 three
"""


@pytest.fixture
def under_gate(gated: Gated) -> Steps:
    """The gate is on; the plan is part of the repository and approved."""
    steps = Steps(gated)
    gated.approved_commit({PLAN_FILE: PLAN}, "docs(03-02): plan")
    return steps


@pytest.fixture
def steps(shared_broker: BrokerProcess, plain: Path, config_dir: Path) -> Steps:
    """The workflow submits, and there is no gate."""
    found = enabled(shared_broker, plain)
    found.write(PLAN_FILE, PLAN)
    found.commit({}, "docs(03-02): plan")
    return found


def test_the_reviewer_gets_the_task_and_what_verifying_it_gave(under_gate: Steps) -> None:
    under_gate.write("a.txt", MINE)
    under_gate.write("new.txt", "new\n")
    ended = under_gate.reviewed("task", "--plan", "03-02", "--task", "1", "--result", "make test: 12 passed")
    assert (ended.status, head(ended)) == (0, "APPROVED")
    review_id = ended.stdout.splitlines()[1].partition(",")[0]
    proposal = under_gate.proposal(review_id)
    assert (proposal["phase"], proposal["plan"], proposal["task"]) == ("03", "02", "1")
    assert proposal["intent"] == "Plan 03-02, task: Count in words"
    assert "Write the numbers as words." in proposal["description"]
    assert "Add gamma." not in proposal["description"]
    assert "make test: 12 passed" in proposal["description"]
    assert [file["path"] for file in proposal["affected_files"]] == ["a.txt", "new.txt"]
    under_gate.commit({}, "feat(03-02): count in words")
    assert under_gate.gated.trailers() == [review_id]


def test_p2_another_file_beside_the_approved_ones_is_refused(under_gate: Steps) -> None:
    under_gate.write("a.txt", MINE)
    under_gate.reviewed("task")
    under_gate.gated.stage({"b.txt": "slipped in\n"})
    under_gate.gated.refused("commit", "-m", "feat(03-02): count in words")


def test_the_task_is_the_one_that_names_the_changed_files(steps: Steps) -> None:
    steps.write("greek/gamma.txt", "gamma\n")
    data = steps.ends(steps.run("task", "--timeout", "0", "--json"), "WAITING", 12)
    assert (data["phase"], data["plan"], data["task"]) == ("03", "02", "2")
    assert "Add gamma." in steps.proposal(data["review_id"])["description"]


def test_the_plan_is_found_from_a_linked_tree_that_lacks_it(steps: Steps, tmp_path: Path) -> None:
    linked = steps.gated.linked(tmp_path / "linked", "worktree-agent-1")
    steps.gated.git("rm", "--quiet", "-r", ".planning", cwd=linked)
    steps.gated.git("commit", "--quiet", "-m", "chore: no planning here", cwd=linked)
    steps.write("a.txt", MINE, linked)
    ended = steps.run("task", "--plan", "03-02", "--task", "1", "--timeout", "0", "--json", cwd=linked)
    data = steps.ends(ended, "WAITING", 12)
    assert "Write the numbers as words." in steps.proposal(data["review_id"])["description"]


def test_a_committed_approval_is_closed_and_the_next_change_is_a_review_of_its_own(steps: Steps) -> None:
    steps.write("a.txt", MINE)
    first = steps.ends(steps.reviewed("task", "--plan", "09-01", "--json"), "APPROVED", 0)
    assert steps.status(first["review_id"])["status"] == "approved"
    steps.commit({}, "feat(09-01): a task")
    steps.write("b.txt", "beta\n")
    second = steps.ends(steps.run("task", "--plan", "09-01", "--timeout", "0", "--json"), "WAITING", 12)
    assert second["review_id"] != first["review_id"]
    closed = steps.status(first["review_id"])
    assert (closed["status"], closed["outcome"]) == ("closed", "approved")


def test_an_approval_that_was_not_committed_gets_another_round_when_the_change_goes_on(steps: Steps) -> None:
    steps.write("a.txt", MINE)
    first = steps.ends(steps.reviewed("task", "--json"), "APPROVED", 0)
    steps.write("a.txt", MINE + "four\n")
    again = steps.ends(steps.run("task", "--timeout", "0", "--json"), "WAITING", 12)
    assert (again["review_id"], again["round"]) == (first["review_id"], 2)


def test_a_counter_patch_is_brought_into_the_working_tree(under_gate: Steps) -> None:
    under_gate.write("a.txt", MINE)
    under_gate.write("b.txt", "mine\n")
    first = under_gate.reviewed("task", verdict="changes_requested", counter_patch=PATCH)
    assert (first.status, head(first)) == (10, "CHANGES")
    assert "+uno" in first.stdout
    ended = under_gate.reviewed("task", "--accept")
    assert (ended.status, head(ended)) == (0, "APPROVED")
    assert (under_gate.root / "a.txt").read_text() == BETTER
    # It replaces the round's content as a whole.
    assert (under_gate.root / "b.txt").read_text() == "alpha\nbeta\n"
    under_gate.commit({}, "feat(03-02): count in words")


def test_a_counter_patch_leaves_other_work_alone_and_is_declined_by_its_command(steps: Steps) -> None:
    steps.write("a.txt", MINE)
    first = steps.reviewed("task", "--json", verdict="changes_requested", counter_patch=PATCH)
    data = steps.ends(first, "CHANGES", 10)
    patch_id = data["counter_patch"]["id"]
    assert any(f"tandem review patch reject {data['review_id']} {patch_id}" in line for line in data["next"])
    steps.gated.tandem("review", "patch", "reject", data["review_id"], patch_id, "--reason", "no")
    assert "without --accept" in steps.run("task", "--accept", "--timeout", "0").refusal
    assert (steps.root / "a.txt").read_text() == MINE


def test_rejected_says_how_to_take_the_change_back(steps: Steps) -> None:
    steps.write("a.txt", MINE)
    data = steps.ends(steps.reviewed("task", "--json", verdict="rejected"), "REJECTED", 11)
    command = next(line for line in data["next"] if "git stash" in line).partition(": ")[2]
    steps.gated.git(*command.split()[1:])
    assert (steps.root / "a.txt").read_text() == "one\ntwo\nthree\n"


def test_what_is_exempt_or_approved_by_itself_is_left_out(under_gate: Steps) -> None:
    under_gate.write(f"{PHASE}/03-03-PLAN.md", PLAN.replace("plan: 02", "plan: 03"))
    under_gate.reviewed("plan", f"{PHASE}/03-03-PLAN.md")
    under_gate.write(".planning/STATE.md", "# State\n")
    under_gate.write("a.txt", MINE)
    data = under_gate.ends(under_gate.reviewed("task", "--json"), "APPROVED", 0)
    assert data["files"] == ["a.txt"]
    under_gate.commit({}, "feat(03-02): all of it")


def test_only_what_is_staged_and_the_shape_of_json_is_the_same_whatever_the_word(steps: Steps) -> None:
    nothing = steps.ends(steps.run("task", "--json"), "NOTHING", 0)
    assert steps.reviews() == []
    steps.gated.stage({"a.txt": MINE})
    steps.write("b.txt", "not yet\n")
    # A plan is known however its number is written.
    data = steps.ends(steps.run("task", "--plan", "3-2", "--staged", "--timeout", "0", "--json"), "WAITING", 12)
    assert (data["files"], data["phase"], data["plan"]) == (["a.txt"], "03", "02")
    assert data.keys() == nothing.keys()


def test_the_first_commit_of_a_repository(shared_broker: BrokerProcess, tmp_path: Path) -> None:
    root = tmp_path / "fresh"
    root.mkdir()
    steps = Steps(Gated(shared_broker, root, "unborn"))
    steps.gated.git("init", "--quiet", "--initial-branch=main")
    steps = enabled(shared_broker, root)
    steps.write("a.txt", "first\n")
    data = steps.ends(steps.reviewed("task", "--json"), "APPROVED", 0)
    assert data["files"] == ["a.txt"]


def test_a_counter_patch_accepted_elsewhere_is_not_overwritten_by_the_old_content(steps: Steps) -> None:
    steps.write("a.txt", MINE)
    first = steps.ends(
        steps.reviewed("task", "--json", verdict="changes_requested", counter_patch=PATCH), "CHANGES", 10
    )
    review_id = first["review_id"]
    steps.gated.tandem("review", "patch", "accept", review_id, first["counter_patch"]["id"], "--agent", "executor")
    for _ in range(2):
        if steps.status(review_id)["status"] == "pending":
            steps.gated.decide(review_id)
        ended = steps.run("task")
        assert (ended.status, head(ended)) == (0, "APPROVED")
        assert f"tandem apply {review_id}" in ended.stdout
    assert steps.status(review_id)["round"] == 2


def test_a_damaged_list_of_pointers_costs_nothing_but_a_new_review(steps: Steps) -> None:
    steps.write("a.txt", MINE)
    pointers = steps.root / ".git" / "tandem" / "steps.json"
    steps.run("task", "--timeout", "0")
    for damaged in ("", "[]", '{"version": 1, "pointers": {"a": 1, "b": {"review_id": 1, "round": "x", "digest": 3}}}'):
        pointers.write_text(damaged)
        steps.ends(steps.run("task", "--timeout", "0", "--json"), "WAITING", 12)


def test_a_pointer_is_never_an_approval(under_gate: Steps) -> None:
    under_gate.write("a.txt", MINE)
    first = under_gate.ends(under_gate.run("task", "--timeout", "0", "--json"), "WAITING", 12)
    pointers = under_gate.root / ".git" / "tandem" / "steps.json"
    forged = json.loads(pointers.read_text())
    for pointer in forged["pointers"].values():
        pointer["approved"] = pointer["digest"]
    pointers.write_text(json.dumps(forged))
    again = under_gate.ends(under_gate.run("task", "--timeout", "0", "--json"), "WAITING", 12)
    assert again["review_id"] == first["review_id"]
    under_gate.gated.git("add", "a.txt")
    under_gate.gated.refused("commit", "-m", "feat(03-02): count")

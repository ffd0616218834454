"""Operations of git that make or move a commit, approved and not, in every mode of the gate."""

from __future__ import annotations

import pytest

from tests.repository.ranges.operations import OPERATIONS
from tests.repository.ranges.works import Auditor, Work

# Flows have the approved ones of the other operations, and routes the refused ones.
APPROVED = [("no-verify", "per_task"), ("commit-tree", "per_task"), ("commit", "per_plan"), ("rebase", "optimistic")]
# Where a commit is let through, its proposal depends on its parent and on how much is staged. Commits that are only
# marked look the same for every operation, and an operation without a hook before the commit knows no mode.
PUT_UP = ("commit", "partial", "amend", "revert", "merge", "rebase")
NOT_APPROVED = [
    *((operation, "per_task") for operation in ("commit", "no-verify", "commit-tree", "fast-forward")),
    *((operation, "optimistic") for operation in PUT_UP),
    *((operation, "per_plan") for operation in ("commit", "rebase")),
]


@pytest.mark.parametrize(("operation", "mode"), APPROVED, indirect=["mode"])
def test_what_is_approved_gets_onto_its_branch_and_the_base_branch(
    work: Work, mode: str, operation: str, auditor: Auditor
):
    tried = OPERATIONS[operation]
    work.approve(*tried.prepare(work))
    assert tried.run(work), work.words
    assert auditor.judge(f"{work.start}..HEAD")["approved"]
    assert work.offer(work.head())


@pytest.mark.parametrize(("operation", "mode"), NOT_APPROVED, indirect=["mode"])
def test_p2_what_is_not_approved_stays_away_from_the_base_branch(
    work: Work, mode: str, operation: str, auditor: Auditor
):
    tried = OPERATIONS[operation]
    tried.prepare(work)
    before = work.head()
    done = tried.run(work)
    if tried.calls_hook and mode == "per_task":
        assert not done
        assert "tandem: refused" in work.words
        assert work.head() == before
        return
    # It is on its branch, as the mode has it or because git asked no hook. The audit finds it.
    assert done, work.words
    said = auditor.judge(f"{work.start}..HEAD")
    assert not said["approved"]
    assert {"unapproved", "unreviewed"} & {commit["verdict"] for commit in said["commits"]}
    if tried.calls_hook:
        (mark,) = work.gated.trailers()
        assert mark == "unreviewed" if mode == "per_plan" else mark.startswith("rv_")
    assert not work.offer(work.head())


@pytest.mark.parametrize("operation", [name for name in PUT_UP if name != "rebase"])
@pytest.mark.parametrize("mode", ["optimistic"], indirect=True)
def test_p2_no_mode_lets_the_base_branch_itself_have_it(work: Work, mode: str, operation: str):
    work.gated.git("switch", "--quiet", "main")
    work.branch = "main"
    tried = OPERATIONS[operation]
    tried.prepare(work)
    before = work.head()
    assert not tried.run(work), work.words
    assert "tandem: refused" in work.words
    assert work.head("main") == before


@pytest.mark.parametrize("mode", ["per_plan", "optimistic"], indirect=True)
def test_a_plan_that_is_approved_as_a_whole_gets_onto_the_base_branch(work: Work, mode: str, auditor: Auditor):
    for number, files in enumerate((work.change, work.other, {"a.txt": f"1\n{work.name}\n3\n"})):
        work.stage(files)
        work.git("commit", "-m", f"feat(01-0{number}): a task")
    assert not work.offer(work.head())
    work.approve(work.start, work.head())
    said = auditor.judge(f"{work.start}..HEAD")
    assert [commit["verdict"] for commit in said["commits"]] == ["approved"] * 3
    assert work.offer(work.head())


@pytest.mark.parametrize("mode", ["optimistic"], indirect=True)
def test_a_stash_is_no_commit_of_a_branch(work: Work, mode: str):
    work.stage(work.change)
    work.git("stash", "push", "--include-untracked")
    assert work.head() == work.start
    work.git("stash", "pop", "--index")
    assert work.git("diff", "--cached", "--name-only") == "a.txt"


@pytest.mark.parametrize("mode", ["per_task", "optimistic"], indirect=True)
def test_a_linked_worktree_has_the_same_gate(work: Work, mode: str):
    folder = work.gated.linked(work.folder / "linked", f"{work.name}-linked")
    linked = Work(work.gated, f"{work.name}-linked", work.name, folder, work.start, work.folder)
    linked.jump(work.start)
    linked.stage(work.change)
    done = linked.run("commit", "-m", "From a linked working tree")
    assert done == (mode != "per_task"), linked.words
    if done:
        assert not linked.offer(linked.head())
    work.git("worktree", "remove", "--force", str(folder))

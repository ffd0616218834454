"""Plans, stashes and linked working trees in the modes of the gate in which commits pass before their review."""

from __future__ import annotations

import pytest

from tests.repository.ranges.works import Auditor, Work


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

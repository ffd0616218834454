"""The commit of a review: the recorded one, its rewritten successor, or the one that makes the same change."""

from __future__ import annotations

from pathlib import Path

from tests.modes import VARIATION
from tests.repository.rolling_back import BASE, BRANCH, UNHOOKED, Plan, Task, with_lines


def test_finds_what_an_amend_made_of_it(plan: Plan, task: Task) -> None:
    plan.git(*UNHOOKED, "commit", "--quiet", "--amend", "--no-edit", "--date=2001-01-01T00:00:00Z")
    amended = plan.head
    done = plan.rolled_back(task.review)
    assert (done["how"], done["reverted"][0]["commit"]) == ("trailer", amended)
    assert plan.read("f.txt") == BASE


def test_finds_what_a_recorded_rebase_made_of_it(plan: Plan, task: Task) -> None:
    plan.git("switch", "--quiet", "-c", "side", "main")
    plan.foreign({"side.txt": "side\n"})
    plan.git("switch", "--quiet", BRANCH)
    plan.git(*UNHOOKED, "rebase", "--quiet", "side")
    plan.git(*UNHOOKED, "commit", "--quiet", "--amend", "-m", "no trailer")
    rebased = plan.head
    plan.gated.call("record_commit", commit=rebased, replaces=task.commit, branch=BRANCH, plan="03-02")
    done = plan.rolled_back(task.review)
    assert (done["how"], done["reverted"][0]["commit"]) == ("record", rebased)
    assert plan.read("side.txt") == "side\n"


@VARIATION
def test_finds_it_by_its_patch_when_nothing_names_it(plan: Plan, task: Task) -> None:
    plan.foreign({"f.txt": with_lines(l3="three", l15="theirs")})
    plan.git("reset", "--quiet", "--keep", task.commit)
    plan.git(*UNHOOKED, "commit", "--quiet", "--amend", "-m", "no trailer")
    amended = plan.head
    done = plan.rolled_back(task.review)
    assert (done["how"], done["reverted"][0]["commit"]) == ("patch_id", amended)


def test_stops_when_two_commits_make_the_same_change(plan: Plan, task: Task) -> None:
    plan.git("reset", "--quiet", "--keep", "HEAD^")
    for text in ("1", "2"):
        plan.foreign({"f.txt": BASE + "".join(f"more {number}\n" for number in range(1, 9))}, text)
        plan.git("reset", "--quiet", "--keep", "HEAD^")
    same = {"f.txt": with_lines(l3="three"), "new.txt": "new\n"}
    plan.foreign(same, "once")
    plan.foreign({"f.txt": BASE, "new.txt": None}, "by hand")
    plan.foreign(same, "twice")
    error = plan.refused(task.review, code="INVALID_INPUT")
    assert len(error["details"]["commits"]) == 2


def test_a_squash_of_the_plans_own_work_is_taken_back_as_one(plan: Plan) -> None:
    first = plan.commit({"f.txt": with_lines(l3="three")}, "feat(03-02): one")
    second = plan.commit({"g.txt": "g\n"}, "feat(03-02): two")
    message = "\n\n".join(plan.gated.message(task.commit) for task in (first, second))
    plan.git("reset", "--quiet", "--soft", "HEAD~2")
    plan.git(*UNHOOKED, "commit", "--quiet", "-m", message)
    squashed = plan.head
    plan.reject(first.review)
    done = plan.rolled_back(first.review)
    assert [one["commit"] for one in done["reverted"]] == [squashed]
    assert [one["review_ids"] for one in done["rework"]] == [[second.review]]
    assert not (plan.root / "g.txt").exists()


def test_a_squash_with_another_plans_work_stops(plan: Plan) -> None:
    first = plan.commit({"f.txt": with_lines(l3="three")}, "feat(03-02): one")
    other = plan.commit({"g.txt": "g\n"}, "feat(04-01): theirs")
    message = "\n\n".join(plan.gated.message(task.commit) for task in (first, other))
    plan.git("reset", "--quiet", "--soft", "HEAD~2")
    plan.git(*UNHOOKED, "commit", "--quiet", "-m", message)
    plan.reject(first.review)
    error = plan.refused(first.review, code="INVALID_INPUT")
    assert error["details"]["review_id"] == other.review
    assert "04-01" in error["message"]


def test_a_merge_commit_stops(plan: Plan, task: Task) -> None:
    plan.git("switch", "--quiet", "-C", "merged", f"{task.commit}^")
    plan.foreign({"side.txt": "side\n"})
    side = plan.head
    plan.git("reset", "--quiet", "--keep", "HEAD^")
    plan.git(*UNHOOKED, "merge", "--quiet", "--no-commit", "--no-ff", side)
    plan.gated.stage({"f.txt": with_lines(l3="three")})
    plan.git(*UNHOOKED, "commit", "--quiet", "-m", f"merge\n\nTandem-Review: {task.review}")
    plan.git("branch", "--quiet", "-D", BRANCH)
    error = plan.refused(task.review, code="INVALID_INPUT")
    assert "is a merge" in error["message"]
    assert error["details"]["commit"] == plan.head


def test_a_commit_that_came_by_a_merge_is_reverted_on_its_branch_and_no_other(plan: Plan, task: Task) -> None:
    plan.git("switch", "--quiet", "-c", "side", f"{task.commit}^")
    plan.foreign({"side.txt": "side\n"})
    plan.git("switch", "--quiet", BRANCH)
    plan.git(*UNHOOKED, "merge", "--quiet", "--no-edit", "side")
    plan.git("switch", "--quiet", "-c", "elsewhere")
    error = plan.refused(task.review, code="INVALID_INPUT")
    assert (error["details"]["expected"], error["details"]["actual"]) == (BRANCH, "elsewhere")
    plan.git("switch", "--quiet", "main")
    assert "git switch work" in plan.refused(task.review, code="INVALID_INPUT")["message"]
    plan.git("switch", "--quiet", BRANCH)
    plan.rolled_back(task.review)
    assert plan.read("f.txt") == BASE
    assert plan.read("side.txt") == "side\n"


@VARIATION
def test_a_revert_by_hand_counts_as_taken_back_also_on_a_renamed_branch(plan: Plan, task: Task) -> None:
    plan.git("branch", "--move", "renamed")
    plan.git(*UNHOOKED, "revert", "--no-edit", task.commit)
    by_hand = plan.head
    assert plan.rolled_back(task.review)["already"] == [by_hand]
    plan.git(*UNHOOKED, "revert", "--no-edit", by_hand)
    assert plan.read("f.txt") == with_lines(l3="three")
    done = plan.rolled_back(task.review)
    assert (done["changed"], done["branch"]) == (True, "renamed")
    assert plan.read("f.txt") == BASE


def test_works_in_a_linked_worktree(plan: Plan, tmp_path: Path) -> None:
    linked = plan.gated.linked(tmp_path / "linked", "feature")
    plan.gated.stage({"f.txt": with_lines(l3="three")}, linked)
    plan.gated.git("commit", "--quiet", "-m", "feat(03-02): count", cwd=linked)
    review = plan.gated.trailers(cwd=linked)[0]
    plan.reject(review)
    (linked / "sub").mkdir()
    ended = plan.rollback(review, "--json", at=linked / "sub")
    assert ended.status == 0, ended.stdout
    assert (linked / "f.txt").read_text() == BASE
    assert plan.git("-C", str(linked), "status", "--porcelain") == ""

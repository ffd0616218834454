"""P2: with `carry = "rebase"` approvals stay at the same change on another base, and nowhere else."""

from __future__ import annotations

from typing import Any

from tandem.rulings.policy import FILE
from tests.acceptance.checking import Checked, check
from tests.acceptance.test_policy import BOTH, allowed, have
from tests.databases import ON_BOTH_DATABASES

CARRIED = f'carry = "rebase"\n{BOTH}'
OWNED = f'{CARRIED}[[rule]]\npaths = ["*.md"]\nneeds = ["person"]\n'
BEFORE = "".join(f"line {number}\n" for number in range(1, 11))


def begin(project: Checked, policy: str = CARRIED) -> None:
    """A policy, and a gate with a base branch."""
    have(project, policy)
    project.repo.git("branch", "-M", "main")
    project.do("set_gate", enabled=True, branches=["main"])


def change(project: Checked, old: str = "line 8\n", new: str = "better\n", **beside: str) -> dict[str, Any]:
    """The diff of one line of the file as it is by now, and its base."""
    project.repo.write("a.txt", project.repo.read("a.txt").decode().replace(old, new))
    for path, text in beside.items():
        project.repo.write(path, text)
    project.repo.git("add", "--all")
    diff = project.repo.diff("--cached", "--full-index")
    project.repo.git("reset", "--quiet", "--hard")
    return {"diff": diff, "base": project.repo.head()}


def move_on(project: Checked, before: str = "line 1\n", after: str = "zero\nline 1\n") -> None:
    """A commit of the base branch beside the change."""
    project.repo.write("a.txt", project.repo.read("a.txt").decode().replace(before, after))
    project.repo.commit("beside")


def approved(project: Checked) -> str:
    review, _ = project.submitted(**change(project))
    project.approved_by(review, "codex")
    assert project.approved_by(review, "ann", proved=True)["data"]["status"] == "approved"
    return review


def events(project: Checked, review: str) -> list[dict[str, Any]]:
    told = project.do("get_review_timeline", review_id=review)["events"]
    return [one["data"] for one in told if one["kind"] == "review_revised"]


@ON_BOTH_DATABASES
def test_approvals_carry_over_to_a_rebase_where_the_policy_says_so(project: Checked) -> None:
    begin(project)
    review = approved(project)
    move_on(project)
    digest = project.revise(review, **change(project))["digest"]
    status = project.status(review)
    assert (status["status"], status["missing"]) == ("approved", [])
    assert status["verdict_reason"] == "All approvals that it needs were given before."
    assert allowed(project, digest) == (True, None)
    assert [one.get("carried_over") for one in events(project, review)] == ["rebase"]
    # One of two approvals stays likewise, and once more.
    other, _ = project.submitted(**change(project, "line 9\n"))
    project.approved_by(other, "codex")
    for number in (1, 2):
        move_on(project, after=f"more {number}\nline 1\n")
        project.revise(other, **change(project, "line 9\n"))
        assert [one.split(" (")[0] for one in project.status(other)["missing"]] == ["a person's review"]


def test_checks_run_again_on_the_new_base(project: Checked) -> None:
    project.have(check("calm", "import sys; sys.exit('zero' in open('a.txt').read())"))
    begin(project)
    review = approved(project)
    project.ended(review)
    move_on(project)
    digest = project.revise(review, **change(project))["digest"]
    assert project.ended(review)["calm"]["status"] == "failed"
    assert allowed(project, digest) == (False, "CHECK_FAILED")


ATTACKS: dict[str, tuple[str, str, dict[str, str]]] = {
    "other words": ("line 8\n", "worse\n", {}),
    "a blank more": ("line 8\n", "better \n", {}),
    "another place": ("line 9\n", "better\n", {}),
    "a file beside it": ("line 8\n", "better\n", {"b.txt": "bad\n"}),
}


def test_nothing_carries_over_to_another_change(project: Checked) -> None:
    begin(project)
    start = project.repo.head()
    for name, (old, new, beside) in ATTACKS.items():
        project.repo.git("reset", "--quiet", "--hard", start)
        review = approved(project)
        move_on(project)
        project.revise(review, **change(project, old, new, **beside))
        assert len(project.status(review)["missing"]) == 2, name
        assert "carried_over" not in events(project, review)[0]


def test_nothing_carries_over_without_the_word_or_from_one_policy_to_another(project: Checked) -> None:
    begin(project, BOTH)
    review = approved(project)
    move_on(project)
    project.revise(review, **change(project))
    assert len(project.status(review)["missing"]) == 2
    have(project, CARRIED)
    project.revise(review, **change(project))
    assert len(project.status(review)["missing"]) == 2
    project.approved_by(review, "codex")
    have(project, OWNED)
    move_on(project, after="more\nline 1\n")
    project.revise(review, **change(project))
    assert len(project.status(review)["missing"]) == 2


def test_nothing_carries_over_to_a_change_of_the_policy(project: Checked) -> None:
    begin(project)
    review, _ = project.submitted(**change(project, **{FILE: f"{CARRIED}# A word.\n"}))
    project.approved_by(review, "codex")
    move_on(project)
    project.revise(review, **change(project, **{FILE: f"{CARRIED}# A word.\n"}))
    assert len(project.status(review)["missing"]) == 2


def test_nothing_carries_over_to_commits_that_the_base_branch_has_not(project: Checked) -> None:
    begin(project)
    review = approved(project)
    project.repo.git("checkout", "--quiet", "-b", "own")
    move_on(project)
    project.revise(review, **change(project))
    assert len(project.status(review)["missing"]) == 2


def test_who_makes_the_new_round_keeps_no_approval_of_it(project: Checked) -> None:
    begin(project)
    review, _ = project.submitted(**change(project))
    project.approved_by(review, "codex")
    move_on(project)
    project.revise(review, **change(project), proposer_id="Codex")
    assert len(project.status(review)["missing"]) == 2

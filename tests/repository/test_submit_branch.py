"""`tandem submit --branch`: a branch as one change, which the gate then lets reach the base branch."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.commandline import Ended
from tests.modes import VARIATION
from tests.repository.gating import Gated

NAMES = ("a.txt", "b.txt", "c.txt")


@pytest.fixture
def branch(gated: Gated) -> Gated:
    """With a branch of three commits of which none was approved, and one more on the base branch."""
    gated.git("switch", "--quiet", "--create", "feature")
    for name in NAMES:
        unseen(gated, name, "of the branch\n")
    return gated


def unseen(gated: Gated, name: str, text: str) -> None:
    """A commit that no one has reviewed."""
    gated.stage({name: text})
    gated.git("-c", "core.hooksPath=/dev/null", "commit", "--quiet", "-m", f"Write {name}")


def submit(gated: Gated, *words: str) -> Ended:
    """Submit the branch."""
    ended = gated.tandem("submit", "--branch", *words, "--json")
    assert ended.status == 0, ended
    return ended


@pytest.mark.parametrize(
    "way", [pytest.param("merge", marks=VARIATION), "ff", "squash", "merge of a base branch that moved"]
)
def test_its_approval_lets_the_branch_through(branch: Gated, way: str) -> None:
    review = submit(branch, "-m", "Three files").data["review_id"]
    assert {one["path"] for one in submit(branch).data["affected_files"]} == set(NAMES)
    branch.git("switch", "--quiet", "main")
    if "moved" in way:
        branch.approved_commit({"later.txt": "later\n"})
    ways = {"ff": ["merge", "--ff-only", "feature"], "squash": ["merge", "--squash", "feature"]}
    words = ways.get(way, ["merge", "--no-ff", "--no-edit", "feature"])
    if way == "squash":
        branch.git(*words)
        words = ["commit", "--quiet", "-m", "Three files"]
    assert review in branch.refused(*words) or way != "squash"
    branch.try_git("reset", "--merge")
    if way == "squash":
        branch.git("merge", "--squash", "feature")
    branch.decide(review)
    branch.git(*words)
    assert {branch.git("show", f"main:{name}") for name in NAMES} == {"of the branch"}


@VARIATION
def test_what_git_refuses_of_a_branch_names_the_command_that_lands_it(branch: Gated, tmp_path: Path) -> None:
    branch.git("switch", "--quiet", "main")
    bare = tmp_path / "remote.git"
    branch.git("clone", "--quiet", "--bare", str(branch.root), str(bare))
    branch.git("remote", "add", "origin", str(bare))
    pushed = branch.refused("push", "origin", "feature:main")
    assert "Have it reviewed as one change, and landed: tandem land feature --remote origin\n" in pushed
    assert "and landed: tandem land feature\n" in branch.refused("push", str(bare), "feature:main")
    merged = branch.refused("merge", "feature")
    [told] = re.findall(r"and landed: tandem (land feature)\n", merged)
    [back] = re.findall(r"to bring both back: git (.*)\n", merged)
    branch.git(*back.split())
    assert branch.tandem(*told.split(), "--timeout", "0").status == 12
    [review] = branch.call("list_reviews")["reviews"]
    branch.decide(review["review_id"])
    assert branch.tandem(*told.split()).status == 0
    # Of commits that are no branch's end only their range can be named.
    branch.git("switch", "--quiet", "feature")
    unseen(branch, "a.txt", "more\n")
    unseen(branch, "b.txt", "more\n")
    assert "tandem submit --range" in branch.refused("push", "origin", "feature~1:main")


def test_run_again_it_is_a_new_round_of_the_same_review(branch: Gated) -> None:
    first = submit(branch, "-m", "Three files").data
    assert submit(branch).data["existed"]
    branch.decide(first["review_id"], "changes_requested")
    told = branch.tandem("review", "status", first["review_id"])
    assert "commit it on its branch, then: tandem submit --branch --wait\n" in told.stdout
    unseen(branch, "a.txt", "as asked\n")
    second = submit(branch).data
    assert (second["review_id"], second["round"]) == (first["review_id"], 2)
    branch.git("switch", "--quiet", "main")
    assert submit(branch, "feature").data["review_id"] == first["review_id"]
    branch.decide(first["review_id"], "rejected")
    branch.git("switch", "--quiet", "feature")
    unseen(branch, "a.txt", "differently\n")
    third = submit(branch).data
    assert (third["round"], third["parent_id"]) == (1, first["review_id"])


def test_a_branch_that_has_landed_gets_a_review_of_its_own_for_what_follows(branch: Gated) -> None:
    missing = branch.tandem("submit", "--branch")
    assert (missing.status, "Say what the change is for" in missing.stderr) == (2, True)
    first = submit(branch, "-m", "Three files").data["review_id"]
    branch.decide(first)
    branch.git("push", "--quiet", ".", "feature:main")
    unseen(branch, "a.txt", "more\n")
    second = submit(branch, "-m", "More").data
    assert second["review_id"] != first
    assert [one["path"] for one in second["affected_files"]] == ["a.txt"]


def test_a_base_branch_and_no_branch_are_refused(branch: Gated) -> None:
    for words, said in (
        (["--branch", "main"], "main is a base branch"),
        (["--branch", "none"], "'none' is no branch here"),
        (["--branch", "--staged"], "stands alone"),
        (["feature"], "stands alone"),
    ):
        ended = branch.tandem("submit", "-m", "x", *words)
        assert (ended.status in {1, 2}, said in ended.stderr) == (True, True), ended
    branch.git("switch", "--quiet", "--detach")
    assert "No branch is checked out here" in branch.tandem("submit", "--branch", "-m", "x").stderr

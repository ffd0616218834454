"""A rollback brings back every kind of file: renamed, executable, binary, linked, and the very first ones."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.broker import BrokerProcess
from tests.modes import VARIATION
from tests.repository.gating import gate_on, new_repository
from tests.repository.rolling_back import BASE, BRANCH, Plan, with_lines


def taken_back(plan: Plan, review: str) -> None:
    """Reject a review and roll it back: everything is as before its commit, to the byte and the mode."""
    commit = plan.head
    before = plan.git("ls-tree", "-r", "HEAD^")
    plan.reject(review)
    plan.rolled_back(review)
    assert plan.git("ls-tree", "-r", "HEAD") == before
    assert plan.head != commit
    assert plan.is_clean()


def test_files_of_every_kind(plan: Plan) -> None:
    start = {"g.txt": "g\n", "run.txt": "run\n", "pixel.bin": bytes(range(256)), "deep/er/old.txt": "old\n"}
    plan.foreign(start)
    plan.foreign({"between.txt": "x\n"})
    plan.git("mv", "f.txt", "renamed.txt")
    (plan.root / "run.txt").chmod(0o755)
    (plan.root / "g.txt").unlink()
    awkward = 'folder with spaces/-leading "quoted" ünïcode\t.txt'
    files = {"g.txt/inside.txt": "x\n", "pixel.bin": bytes(range(255, -1, -1)), "deep/er/old.txt": None}
    taken_back(plan, plan.commit({**files, "new/er/new.txt": "new\n", awkward: "x\n"}, "feat(03-02): all kinds").review)
    assert plan.read("f.txt") == BASE
    assert (plan.read("g.txt"), plan.read("deep/er/old.txt")) == ("g\n", "old\n")
    assert (plan.root / "pixel.bin").read_bytes() == start["pixel.bin"]
    assert not os.access(plan.root / "run.txt", os.X_OK)
    assert not [name for name in ("renamed.txt", "new", awkward) if (plan.root / name).exists()]


@VARIATION
def test_a_rename_whose_new_name_a_dependent_changes(plan: Plan) -> None:
    plan.git("mv", "f.txt", "renamed.txt")
    first = plan.commit({}, "feat(03-02): rename")
    second = plan.commit({"renamed.txt": with_lines(l3="three")}, "feat(03-02): count")
    plan.reject(first.review)
    done = plan.rolled_back(first.review)
    assert [one["commit"] for one in done["reverted"]] == [second.commit, first.commit]
    # Git follows the rename: the dependent's change is on the old name, and has to be looked at again.
    assert plan.read("f.txt") == with_lines(l3="three")
    assert [one["approval"] for one in done["carried"]] == ["re_review"]
    assert not (plan.root / "renamed.txt").exists()


@VARIATION
def test_line_ends_that_git_converts(plan: Plan) -> None:
    plan.foreign({".gitattributes": "*.txt text eol=crlf\n"})
    plan.gated.write({"f.txt": with_lines(l3="three").replace("\n", "\r\n")})
    taken_back(plan, plan.commit({}, "feat(03-02): count").review)
    assert (plan.root / "f.txt").read_bytes() == BASE.replace("\n", "\r\n").encode()


def test_a_link_in_the_working_tree_is_not_followed(plan: Plan, tmp_path: Path) -> None:
    task = plan.commit({"new/file.txt": "new\n"}, "feat(03-02): new")
    plan.reject(task.review)
    outside = tmp_path / "outside"
    (plan.root / "new").rename(outside)
    (plan.root / "new").symlink_to(outside)
    plan.refused(task.review, code="INVALID_INPUT")
    assert (outside / "file.txt").read_text() == "new\n"


def test_the_root_commit(shared_broker: BrokerProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gated = gate_on(shared_broker, new_repository(tmp_path / "other"))
    gated.settings(tandem_enabled=True, execution_mode="optimistic")
    gated.git("switch", "--quiet", "--orphan", BRANCH)
    plan = Plan(gated, monkeypatch.chdir)
    task = plan.commit({"first.txt": "first\n"}, "feat(03-02): begin")
    assert plan.git("rev-list", "--count", "HEAD") == "1"
    plan.foreign({"theirs.txt": "theirs\n"})
    plan.reject(task.review)
    plan.rolled_back(task.review)
    assert plan.git("ls-files") == "theirs.txt"
    assert not (plan.root / "first.txt").exists()
    assert plan.is_clean()


def test_a_merged_counter_patch_is_put_up_again(plan: Plan) -> None:
    task = plan.commit({"f.txt": with_lines(l3="three")}, "feat(03-02): count")
    better = plan.better({"f.txt": with_lines(l3="drei")})
    plan.foreign({"f.txt": with_lines(l3="three", l18="theirs")})
    plan.want_changes(task.review, better)
    done = plan.rolled_back(task.review)
    assert plan.read("f.txt") == with_lines(l3="drei", l18="theirs")
    assert not done["counter_patch"]["exact"]
    assert [(one["review_id"], one["round"]) for one in done["re_reviews"]] == [(task.review, 3)]


def test_a_counter_patch_that_does_not_fit_is_rework(plan: Plan) -> None:
    task = plan.commit({"f.txt": with_lines(l3="three")}, "feat(03-02): count")
    better = plan.better({"f.txt": with_lines(l3="drei", l18="x")})
    plan.foreign({"f.txt": with_lines(l3="three", l18="theirs")})
    plan.want_changes(task.review, better)
    done = plan.rolled_back(task.review)
    assert plan.read("f.txt") == with_lines(l18="theirs")
    assert done["counter_patch"] is None
    assert "counter-patch does not fit" in done["rework"][0]["reason"]

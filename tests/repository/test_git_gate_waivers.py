"""Waived changes to which somebody objects: the answers of git's hooks."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.acceptance.checking import Checked
from tests.acceptance.test_policy import have
from tests.acceptance.test_waivers import PERSON, settle, waive
from tests.repository.gating import Gated


@pytest.fixture
def gated(project: Checked) -> Gated:
    """The project with a gate, where each change needs a person."""
    have(project, PERSON)
    gated = Gated(project.broker, project.repo.root, project.project)
    on = gated.tandem("gate", "on")
    assert on.status == 0, on.stderr
    return gated


def stage(gated: Gated, *lines: int) -> None:
    """Stage a change of some lines."""
    content = "".join(f"{'better' if number in lines else 'line'} {number}\n" for number in range(1, 11))
    gated.stage({"a.txt": content})


def waived(project: Checked, gated: Gated, *lines: int) -> str:
    """A staged change of some lines that a person lets through; its review's id."""
    stage(gated, *lines)
    review = gated.put_up()
    assert waive(project, review, "person")["data"]["status"] == "approved"
    return review


def test_git_names_an_objection_and_its_end(project: Checked, gated: Gated) -> None:
    review = waived(project, gated, 2)
    settle(project, review, "objects", "bob", proved=True, reason="It loses uploads")
    said = gated.refused("commit", "-m", "Improve it")
    assert "a requirement was waived, and bob objects: It loses uploads." in said
    assert f"tandem review settle {review} approved" in said
    assert f"tell your person: tandem open {review}" in said
    assert "--revise" not in said
    gated.git("switch", "--quiet", "--create", "feature")
    gated.git("commit", "-m", "Improve it")
    gated.git("switch", "--quiet", "main")
    said = gated.refused("merge", "--ff-only", "feature")
    assert "1 of 1 commits are approved, and kept back by the policy." in said
    assert "bob objects: It loses uploads" in said
    assert f"See its next step: tandem review status {review}" in said
    assert "check" not in said
    gated.git("read-tree", "-m", "-u", "feature", "main")
    settle(project, review, "approved", "bob", proved=True)
    gated.git("merge", "--ff-only", "feature")


def test_an_objection_to_what_has_landed_keeps_no_push_back_when_its_file_goes_on(
    project: Checked, gated: Gated, tmp_path: Path
) -> None:
    gated.git("init", "--quiet", "--bare", str(tmp_path / "remote.git"))
    gated.git("remote", "add", "origin", str(tmp_path / "remote.git"))
    review = waived(project, gated, 2)
    gated.git("commit", "-m", "Improve it")
    settle(project, review, "objects", "bob", proved=True, reason="It loses uploads")
    later = waived(project, gated, 2, 4)
    assert settle(project, later, "approved", "bob", proved=True)["ok"]
    gated.git("commit", "-m", "Go on")
    audited = gated.tandem("audit", "main", "--json")
    assert audited.status == 0
    [owed] = json.loads(audited.stdout.splitlines()[-1])["data"]["owed"]
    assert owed.startswith(review)
    assert owed.endswith("bob objects: It loses uploads")
    gated.git("push", "origin", "main")


def test_an_audit_counts_the_debt_of_commits_that_were_waived_as_one_change(project: Checked, gated: Gated) -> None:
    gated.git("switch", "--quiet", "--create", "feature")
    for lines in ((2,), (2, 4)):
        stage(gated, *lines)
        gated.git("commit", "-m", "A part")
    whole = gated.submit("--range", "main..feature")
    assert waive(project, whole, "person")["ok"]
    audited = json.loads(gated.tandem("audit", "main..feature", "--json").stdout.splitlines()[-1])["data"]
    assert audited["approved"]
    assert [one.partition(":")[0] for one in audited["owed"]] == [whole]

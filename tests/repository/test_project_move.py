"""A repository that was moved, copied or cloned, and its project: `tandem project move`, and who offers it."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from tests.broker import BrokerProcess, fresh_project
from tests.modes import VARIATION
from tests.repository.gating import DIGITS, START, Gated, gate_on, new_repository

AGAIN = {"a.txt": "one\n2\n3\n"}


def folders(here: Gated) -> dict[str, str]:
    """Every project that the broker has near this repository: folder by name."""
    listed = here.tandem("project", "list", "--json").data["projects"]
    return {one["project"]: one["root"] for one in listed if Path(one["root"]).is_relative_to(here.root.parent)}


def moved(here: Gated) -> Gated:
    """The same repository after a `mv`."""
    target = here.root.with_name("moved to here")
    return replace(here, root=here.root.rename(target))


@pytest.fixture
def registered(shared_broker: BrokerProcess, plain: Path, config_dir: Path) -> Gated:
    """A project without a gate."""
    here = Gated(shared_broker, plain, fresh_project())
    assert here.tandem("project", "add", "--name", here.project).status == 0
    return here


@pytest.mark.parametrize(
    ("command", "hooks_path"),
    [
        (("project", "move"), None),
        pytest.param(("project", "move"), ".githooks", marks=VARIATION),
        (("doctor", "--fix"), None),
        (("gate", "on"), None),
        (("init", "--yes", "--gate", "--client", "claude"), None),
    ],
)
def test_p2_a_moved_repository_keeps_its_project_and_its_gate(
    shared_broker: BrokerProcess, plain: Path, command: tuple[str, ...], hooks_path: str | None
):
    if hooks_path is not None:
        Gated(shared_broker, plain, "none").git("config", "core.hooksPath", hooks_path)
    before = gate_on(shared_broker, plain)
    before.approved_commit(DIGITS)
    here = moved(before)
    found = here.tandem("doctor", "--json")
    assert [one["fix"] for one in found.data["findings"] if one["check"] == "project"] == ["tandem project move"]
    here.stage(AGAIN)
    if hooks_path is None:
        # Git finds these hooks; others it looks for where they were.
        assert "tandem project move" in here.refused("commit", "-m", "x")
    here.tandem(*command)
    assert folders(here) == {here.project: str(here.root)}
    assert here.tandem("gate", "status").status == 0
    assert str(here.root / ".git") in here.call("get_gate")["folders"]
    assert "This commit holds" in here.refused("commit", "-m", "x")
    here.approved_commit(AGAIN)
    assert here.tandem("audit", "main").status == 0
    told = here.call("get_audit_log", kind="project_registered")["events"]
    assert [event["data"]["root"] for event in told] == [str(before.root), str(here.root)]
    # The same again changes nothing.
    assert here.tandem("project", "move").status == 0
    assert len(here.call("get_audit_log", kind="project_registered")["events"]) == 2


@pytest.mark.parametrize("command", [("project", "move"), ("project", "add")])
def test_a_moved_repository_without_a_gate_is_no_second_project(registered: Gated, command: tuple[str, ...]):
    here = moved(registered)
    here.stage(DIGITS)
    ended = here.tandem("submit", "--staged", "-m", "x")
    assert "tandem project move" in ended.stderr
    here.tandem(*command)
    assert folders(here) == {here.project: str(here.root)}
    here.submit()


def test_a_copy_is_not_taken_for_the_moved_one_and_the_original_keeps_its_hooks(gated: Gated):
    copy = replace(gated, root=shutil.copytree(gated.root, gated.root.with_name("copy"), symlinks=True))
    refused = copy.tandem("project", "move")
    assert refused.status == 1
    for way in (f"tandem project move {gated.project}", "tandem gate on --project", str(gated.root)):
        assert way in refused.stderr
    found = copy.tandem("doctor", "--fix", "--json").data["findings"]
    (told,) = [one["message"] for one in found if one["check"] == "project"]
    assert told.startswith(
        f"This repository is a copy of the project {gated.project} at {gated.root}, and no project of its own."
    )
    assert folders(gated) == {gated.project: str(gated.root)}
    # Its switch describes the hooks of the original.
    assert copy.tandem("gate", "on").status == 1
    for here in (gated, copy):
        here.stage(DIGITS)
        here.refused("commit", "-m", "x")
    # Its checks are those of the original, as long as that is there with its gate.
    for way in (("move", gated.project), ("remove", gated.project)):
        assert "tandem gate off" in copy.tandem("project", *way).stderr
    assert folders(gated) == {gated.project: str(gated.root)}
    assert gated.person("gate", "off").ok
    assert copy.tandem("project", "move", gated.project).status == 0
    assert folders(gated) == {gated.project: str(copy.root)}


def test_a_clone_takes_the_place_of_a_project_that_is_named(own_gated: Gated):
    # On a broker that other tests use there may be one more project whose folder is gone, with the same history.
    gated = own_gated
    clone = replace(gated, root=gated.root.with_name("clone"))
    gated.git("clone", "--quiet", str(gated.root), str(clone.root))
    refusal = clone.tandem("project", "move").refusal
    assert "tandem project move NAME" in refusal
    assert f"{gated.project} ({gated.root})" in refusal
    shutil.rmtree(gated.root)
    ended = clone.tandem("project", "move", gated.project, str(clone.root), "--json", cwd=clone.root.parent)
    assert ended.data == {"project": gated.project, "root": str(clone.root), "gate": True}
    clone.stage(DIGITS)
    clone.refused("commit", "-m", "x")
    clone.approved_commit(DIGITS)


def test_a_project_is_not_moved_over_another_nor_one_that_nobody_knows(registered: Gated, tmp_path: Path):
    other = replace(registered, root=new_repository(tmp_path / "other", START), project=fresh_project())
    assert other.tandem("project", "add", "--name", other.project).status == 0
    assert f"tandem project remove {other.project}" in other.tandem("project", "move", registered.project).refusal
    assert "NOT_FOUND" in other.tandem("project", "move", fresh_project()).stderr
    named = other.tandem("project", "add", "--name", registered.project)
    assert f"tandem project move {registered.project}" in " ".join(named.stderr.split())
    assert folders(registered) == {one.project: str(one.root) for one in (registered, other)}

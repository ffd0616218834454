"""Repositories that are lost, moved, copied or called alike: each is named with the command that helps."""

from __future__ import annotations

import shlex
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.broker import BrokerProcess, fresh_project
from tests.commandline import Shell, git
from tests.modes import VARIATION
from tests.repository.gating import Gated, new_repository
from tests.repository.layouts import fix_of, lay, roots, work_through


def test_a_working_tree_that_has_lost_its_git_folder_is_named_with_the_command_that_brings_it(
    shared_broker: BrokerProcess, tmp_path: Path
) -> None:
    laid = lay("with_linked_worktree", tmp_path)
    here = Gated(shared_broker, laid.first, fresh_project())
    assert here.tandem("gate", "on", "--commits", "reviewed", "--project", here.project, "--new").status == 0
    assert laid.main is not None
    moved = laid.main.rename(tmp_path / "moved")
    way = ensure_said(here, "the repository was moved")
    assert way == f"git worktree repair {laid.first}"
    git(moved, *shlex.split(way)[1:])
    assert here.tandem("project", "move").status == 0
    work_through(here, laid.first, "moved", looks=False)
    # Moved by itself, and forgotten by git.
    away = laid.first.rename(tmp_path / "away")
    git(moved, "worktree", "prune")
    way = ensure_said(replace(here, root=away), "git has removed its record")
    subprocess.run(shlex.split(way.partition(",")[0]), check=True, capture_output=True)
    work_through(replace(here, root=tmp_path / "away-again"), tmp_path / "away-again", "again")


def ensure_said(here: Gated, words: str) -> str:
    """All commands name the same trouble, and nothing else; the way out of it."""
    for command in ("gate on", "gate status", "init --gate --yes", "project add", "submit -m x", "gate check"):
        assert words in here.tandem(*command.split()).refusal, command
    found = [one for one in here.tandem("doctor", "--json").data["findings"] if one["state"] == "problem"]
    # The broker is shared: the projects of other tests on it do not belong to this repository.
    [trouble] = [one for one in found if one["check"] not in {"reviewers", "webhooks", "mirrors"}]
    assert words in trouble["message"]
    return trouble["fix"].removeprefix("where it is now, run: ")


@pytest.mark.parametrize(("name", "words"), [("a\nb", "has a line end"), ("a\udcff", "is not UTF-8")])
def test_a_path_that_cannot_be_used_is_named_with_the_reason(
    shared_broker: BrokerProcess, tmp_path: Path, name: str, words: str
) -> None:
    here = Gated(shared_broker, new_repository(tmp_path / name), fresh_project())
    ensure_said(here, words)


DELETED = "was deleted. Go to one that is there: cd "


@pytest.mark.parametrize(
    ("command", "status"),
    [
        ("submit -m x", 1),
        ("doctor --json", 1),
        ("gate task", 1),
        ("up", 1),
        ("mcp", 1),
        ("hook reference-transaction prepared", 1),
        ("hook post-commit", 0),
        ("hook session --client claude", 0),
        ("hook agent --client claude", 0),
    ],
)
def test_in_a_folder_that_was_deleted_a_code_and_a_sentence_are_the_answer(
    tmp_path: Path, command: str, status: int
) -> None:
    script = Path(sys.executable).with_name("tandem")
    there = tmp_path / "there"
    gone = there / "gone" / "inner"
    gone.mkdir(parents=True)
    deleted = f"cd {gone} && rm -r {gone.parent} && exec {script} {command}"
    call = b'{"tool_name": "Bash", "tool_input": {"command": "cd /"}}'
    ended = subprocess.run(["sh", "-c", deleted], input=call, capture_output=True, check=False, timeout=60)
    said = ended.stdout.decode() + ended.stderr.decode()
    assert ended.returncode == status, said
    assert "Traceback" not in said
    assert "NOT_FOUND" in said
    assert f"({gone}) {DELETED}{there}" in said


def test_doctor_offers_a_copy_with_a_gate_no_second_project_but_one_with_a_gate_of_its_own(gated: Gated) -> None:
    copy = replace(gated, root=shutil.copytree(gated.root, gated.root.with_name("copy"), symlinks=True))
    fix = fix_of(copy)
    assert "project add" not in fix
    known = roots(copy)
    for command in (
        "gate on",
        "init --gate --yes",
        "init --yes",
        "project add",
        "submit -m x --staged",
        "project move",
    ):
        refused = copy.tandem(*command.split())
        assert refused.status == 1, command
        assert fix in refused.stderr, command
    # Without a person nothing is half done.
    assert copy.tandem(*shlex.split(fix)[1:]).status == 1
    assert roots(copy) == known == [str(gated.root)]
    # It lets go of the original's gate, which a person decides.
    assert copy.person(*shlex.split(fix)[1:]).ok
    copy = replace(copy, project=shlex.split(fix)[4])
    assert copy.tandem("gate", "status", "--json").data["project"] == copy.project
    work_through(copy, copy.root, "copied")
    assert gated.tandem("gate", "status", "--json").data["project"] == gated.project
    work_through(gated, gated.root, "original", looks=False)


@VARIATION
def test_doctor_heals_a_copy_whose_gate_asks_for_the_originals_approvals(gated: Gated) -> None:
    copy = replace(gated, root=shutil.copytree(gated.root, gated.root.with_name("copied"), symlinks=True))
    # As a program can leave it that registers the copy by itself.
    copy = replace(copy, project=fresh_project())
    stated = {"root": str(copy.root), "name": copy.project}
    Shell(gated.broker.url, copy.root).ask(lambda client: client.data("register_project", stated))
    fix = fix_of(copy)
    assert replace(copy, project=gated.project).person(*shlex.split(fix)[1:]).ok
    work_through(copy, copy.root, "healed")


@VARIATION
def test_a_copy_of_a_repository_whose_gate_is_off_gets_a_project_and_a_gate_of_its_own(gated: Gated) -> None:
    assert gated.person("gate", "off").ok
    copy = replace(gated, root=shutil.copytree(gated.root, gated.root.with_name("offcopy"), symlinks=True))
    fix = fix_of(copy)
    assert fix == "tandem project add"
    assert fix in copy.tandem("gate", "on").stderr
    copy = replace(copy, project=copy.tandem(*shlex.split(fix)[1:], "--json").data["project"])
    assert copy.tandem("gate", "on").status == 0
    work_through(copy, copy.root, "copied")


@VARIATION
def test_a_second_repository_of_the_same_name_is_offered_another_one(
    shared_broker: BrokerProcess, tmp_path: Path
) -> None:
    name = fresh_project()
    first, second = (
        Gated(shared_broker, new_repository(tmp_path / folder / name), name) for folder in ("one", "another")
    )
    assert first.tandem("init", "--gate", "--yes").status == 0
    for command in ("init --gate --yes", "project add"):
        refused = second.tandem(*command.split())
        assert "gate off" not in refused.stderr
        assert f"--name {name}-2 " in refused.stderr
    assert f"--project {name}-2 --new" in second.tandem("gate", "on").stderr
    assert fix_of(second) == f"tandem project add --name {name}-2"
    second = replace(second, project=f"{name}-2")
    assert second.tandem("init", "--gate", "--yes", "--name", second.project).status == 0
    work_through(second, second.root, "second")
    assert first.tandem("gate", "status", "--json").data["enabled"]


def test_p2_in_the_place_of_another_gated_project_a_repository_does_not_become_that_one(
    shared_broker: BrokerProcess, tmp_path: Path
) -> None:
    first, second = (
        Gated(shared_broker, new_repository(tmp_path / folder), fresh_project()) for folder in ("one", "another")
    )
    for here in (first, second):
        assert here.tandem("init", "--gate", "--yes", "--name", here.project).status == 0
    first.root.rename(tmp_path / "former")
    second = replace(second, root=second.root.rename(first.root))
    assert f"tandem project remove {first.project} && tandem project move" in second.tandem("gate", "on").refusal
    assert second.tandem("gate", "status", "--json").data["project"] == second.project


@VARIATION
def test_a_repository_is_moved_while_a_folder_without_one_stands_at_its_former_place(
    gated: Gated, tmp_path: Path
) -> None:
    moved = replace(gated, root=gated.root.rename(tmp_path / "moved"))
    gated.root.mkdir()
    assert moved.tandem("project", "move").status == 0
    work_through(moved, moved.root, "moved")


@VARIATION
def test_doctor_names_what_brings_back_a_project_that_the_broker_has_lost(gated: Gated) -> None:
    gated.loosen(enabled=False, reason="lost")
    assert gated.tandem("project", "remove", gated.project).status == 0
    assert "with: tandem gate on" in gated.tandem("submit", "--staged", "-m", "x").stderr
    assert fix_of(gated) == "tandem gate on"
    assert gated.tandem("gate", "on").status == 0
    work_through(gated, gated.root, "again")

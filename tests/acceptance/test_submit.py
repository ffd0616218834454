"""`tandem submit`: the proposal is exactly the commit of the change, for every kind of change."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.reviewing import Desk
from tests.commandline import Shell, git, repository

FILES = {
    "a.txt": b"one\ntwo\nthree\n",
    "crlf.txt": b"one\r\ntwo\r\n",
    "gone.txt": b"to be deleted\n",
    "old name.txt": b"".join(b"line %d\n" % number for number in range(30)),
    "pixel.bin": bytes(range(256)),
    "run.sh": b"#!/bin/sh\n",
    "inner/deep.txt": b"deep\n",
}


@pytest.fixture
def files() -> dict[str, bytes]:
    return FILES


def modify(root: Path) -> None:
    (root / "a.txt").write_bytes(b"one\nTWO\nthree\n")


def untracked(root: Path) -> None:
    (root / "new folder").mkdir()
    (root / "new folder" / "größe.txt").write_bytes("größer\n".encode())


def delete(root: Path) -> None:
    (root / "gone.txt").unlink()


def rename(root: Path) -> None:
    (root / "old name.txt").rename(root / "new name.txt")


def binary(root: Path) -> None:
    (root / "pixel.bin").write_bytes(bytes(reversed(range(256))))
    (root / "latin1.txt").write_bytes("größer\n".encode("latin-1"))


def crlf(root: Path) -> None:
    (root / "crlf.txt").write_bytes(b"one\r\n2\r\n")


def no_final_newline(root: Path) -> None:
    (root / "a.txt").write_bytes(b"one\ntwo\nthree")
    (root / "tail.txt").write_bytes(b"no newline either")


def intended(root: Path) -> None:
    (root / "soon.txt").write_bytes(b"soon\n")
    git(root, "add", "--intent-to-add", "soon.txt")


def executable(root: Path) -> None:
    (root / "run.sh").chmod(0o755)


def partly_staged(root: Path) -> None:
    (root / "a.txt").write_bytes(b"staged\n")
    git(root, "add", "a.txt")
    (root / "a.txt").write_bytes(b"staged\nand more\n")


ALL = [modify, untracked, delete, rename, binary, crlf, intended, *([executable] if sys.platform != "win32" else [])]


@pytest.mark.parametrize("changes", [ALL, [no_final_newline], [partly_staged]], ids=["all", "no newline", "staged"])
def test_p2_what_was_submitted_and_approved_passes_the_gate_as_a_commit(
    shell: Shell, others: Desk, changes: list[Callable[[Path], None]]
) -> None:
    for change in changes:
        change(shell.cwd)
    index = (shell.cwd / ".git" / "index").read_bytes()
    created = shell.run("submit", "-m", "m", "--json").data
    assert created["validated"]
    assert created["category"] == "code_change"
    assert (shell.cwd / ".git" / "index").read_bytes() == index
    others.approve(created["review_id"])
    git(shell.cwd, "add", "--all")
    git(shell.cwd, "commit", "--quiet", "--message", "as approved")
    checked = shell.run("gate", "check", "--commit", "HEAD")
    assert (checked.status, checked.stdout.splitlines()[0]) == (0, "allowed  everything is approved")
    assert created["review_id"] in checked.stdout


def test_submits_the_whole_tree_also_from_a_subfolder(shell: Shell) -> None:
    modify(shell.cwd)
    (shell.cwd / "inner" / "more.txt").write_bytes(b"more\n")
    created = shell.at(shell.cwd / "inner").run("submit", "-m", "m", "--json").data
    assert [file["path"] for file in created["affected_files"]] == ["a.txt", "inner/more.txt"]


def test_a_linked_worktree_belongs_to_the_project_of_its_main_one(shell: Shell, tmp_path: Path) -> None:
    linked = tmp_path / "linked"
    git(shell.cwd, "worktree", "add", "--quiet", "-b", "side", str(linked))
    (linked / "a.txt").write_bytes(b"in the linked worktree\n")
    created = shell.at(linked).run("submit", "-m", "m", "--json").data
    assert created["project"] == shell.cwd.name
    assert created["validated"]
    assert [file["path"] for file in created["affected_files"]] == ["a.txt"]


def test_staged_commit_and_range_take_just_that(shell: Shell) -> None:
    modify(shell.cwd)
    git(shell.cwd, "commit", "--quiet", "--all", "--message", "second")
    delete(shell.cwd)
    git(shell.cwd, "commit", "--quiet", "--all", "--message", "third")
    crlf(shell.cwd)
    git(shell.cwd, "add", "crlf.txt")
    (shell.cwd / "unstaged.txt").write_bytes(b"not yet\n")

    def submitted(*options: str) -> list[str]:
        created = shell.run("submit", "-m", "m", "--json", *options).data
        return [file["path"] for file in created["affected_files"]]

    assert submitted("--staged") == ["crlf.txt"]
    assert submitted("--commit", "HEAD~1") == ["a.txt"]
    assert submitted("--range", "HEAD~2..HEAD") == ["a.txt", "gone.txt"]


def test_a_text_goes_up_with_its_path_from_the_root(shell: Shell) -> None:
    plan = shell.cwd / "inner" / "PLAN.md"
    plan.write_bytes("# Größerer Plan\r\nno newline at the end".encode())
    created = shell.at(shell.cwd / "inner").run("submit", "-m", "the plan", "--text", "PLAN.md", "--json").data
    assert created["category"] == "plan_review"
    blob = git(shell.cwd, "hash-object", "--no-filters", "inner/PLAN.md").strip()
    assert created["digest"] == f"{blob}:inner/PLAN.md"
    proposal = shell.ask(lambda client: client.get_proposal(created["review_id"]))
    assert proposal.path == "inner/PLAN.md"
    assert proposal.description == "# Größerer Plan\r\nno newline at the end"


def test_a_revision_keeps_what_it_is_not_told_otherwise(shell: Shell) -> None:
    modify(shell.cwd)
    options = ("--phase", "03", "--plan", "03-02", "--task", "1", "--description", "why")
    first = shell.run("submit", "-m", "the intent", "--json", *options).data
    no_final_newline(shell.cwd)
    second = shell.run("submit", "--revise", first["review_id"], "--task", "2", "--json").data
    assert (second["review_id"], second["round"]) == (first["review_id"], 2)
    proposal = shell.ask(lambda client: client.get_proposal(first["review_id"]))
    kept = (proposal.intent, proposal.phase, proposal.plan, proposal.task, proposal.description)
    assert kept == ("the intent", "03", "03-02", "2", "why")


@pytest.mark.parametrize(("which", "options"), [("--revise", ("--staged",)), ("--parent", ())])
def test_a_revised_text_is_read_again_by_itself(shell: Shell, which: str, options: tuple[str, ...]) -> None:
    plan = shell.cwd / "PLAN.md"
    plan.write_text("first")
    first = shell.run("submit", "-m", "plan", "--text", "PLAN.md", "--json").data
    plan.write_text("second")
    again = shell.run("submit", which, first["review_id"], *options, "--json").data
    proposal = shell.ask(lambda client: client.get_proposal(again["review_id"]))
    assert (proposal.path, proposal.description, proposal.category) == ("PLAN.md", "second", "plan_review")


def test_a_rejected_change_goes_on_as_a_new_review_with_its_parent(shell: Shell, others: Desk) -> None:
    modify(shell.cwd)
    first = shell.run("submit", "-m", "m", "--json").data["review_id"]
    others.decide(first, "rejected")
    delete(shell.cwd)
    second = shell.run("submit", "--parent", first, "--json").data
    assert second["parent_id"] == first
    assert second["review_id"] != first


def test_who_made_the_change_is_said_by_option_or_environment(shell: Shell) -> None:
    modify(shell.cwd)

    def agent_of(*options: str, **environment: Any) -> str:
        created = shell.run("submit", "-m", "m", "--json", *options, **environment).data
        return shell.ask(lambda client: client.get_proposal(created["review_id"])).agent_type

    assert agent_of() == "cli"
    assert agent_of(TANDEM_AGENT="gsd-executor") == "gsd-executor"
    assert agent_of("--agent-type", "planner", TANDEM_AGENT="gsd-executor") == "planner"


NOTHING = (
    (("-m", "m"), "Nothing to submit: the working tree equals HEAD"),
    (("-m", "m", "--staged"), "Nothing to submit: the index equals HEAD"),
    (("-m", "m", "--text", "../outside.md"), "is not in the repository"),
    (("-m", "m", "--text", "missing.md"), "cannot be read"),
    (("-m", "m", "--commit", "nowhere"), "nowhere"),
)
CONTRADICTIONS = (
    (),
    ("-m", "m", "--staged", "--commit", "HEAD"),
    ("-m", "m", "--range", "HEAD"),
    ("-m", "m", "--commit", "A..B"),
    ("-m", "m", "--text", "a.txt", "--description", "d"),
    ("--revise", "rv_1", "--parent", "rv_2"),
)


def test_says_why_there_is_nothing_to_put_up(shell: Shell) -> None:
    for options, said in NOTHING:
        ended = shell.run("submit", *options)
        assert (ended.status, ended.stdout, said in ended.stderr) == (1, "", True), ended
        assert ended.stderr.startswith("refused: INVALID_INPUT: ")


def test_contradictions_are_a_usage_error(shell: Shell) -> None:
    assert [shell.run("submit", *options).status for options in CONTRADICTIONS] == [2] * len(CONTRADICTIONS)


def test_an_unregistered_repository_says_how_to_register_it(shell: Shell, tmp_path: Path) -> None:
    other = repository(tmp_path / "unregistered")
    (other / "a.txt").write_bytes(b"changed\n")
    ended = shell.at(other).run("submit", "-m", "m")
    assert ended.status == 1
    assert "tandem project add" in ended.stderr


def test_a_repository_inside_is_named_and_left_out(shell: Shell) -> None:
    modify(shell.cwd)
    repository(shell.cwd / "vendored")
    ended = shell.run("submit", "-m", "m", "--json")
    assert [file["path"] for file in ended.data["affected_files"]] == ["a.txt"]
    assert "left out: vendored/" in ended.stderr


def test_refused_by_the_broker_is_printed_with_its_code(shell: Shell) -> None:
    modify(shell.cwd)
    ended = shell.run("submit", "-m", "m", "--revise", "rv_none")
    assert ended.status == 1
    assert ended.stderr.startswith("refused: NOT_FOUND: ")
    as_json = shell.run("submit", "-m", "m", "--revise", "rv_none", "--json")
    assert as_json.status == 1
    assert as_json.envelope["error"]["code"] == "NOT_FOUND"
    assert as_json.stderr == ""


def entries(data: dict[str, Any]) -> list[tuple[str, bool]]:
    return [(path["path"], path["allowed"]) for path in data["paths"]]


def test_the_gate_says_path_by_path_what_covers_it(shell: Shell, others: Desk) -> None:
    modify(shell.cwd)
    review_id = shell.run("submit", "-m", "m", "--json").data["review_id"]
    others.approve(review_id)
    (shell.cwd / "PLAN.md").write_text("plan")
    plan_id = shell.run("submit", "-m", "p", "--text", "PLAN.md", "--json").data["review_id"]
    others.approve(plan_id)
    delete(shell.cwd)
    git(shell.cwd, "add", "--all")
    checked = shell.run("gate", "check", "--staged", "--json")
    assert checked.status == 1
    assert entries(checked.data)[0] == ("PLAN.md", True)
    git(shell.cwd, "reset", "--quiet", "--", "gone.txt")
    assert shell.run("gate", "check").status == 0
    git(shell.cwd, "commit", "--quiet", "--message", "m")
    assert shell.run("gate", "check", "--range", "HEAD~1..HEAD").status == 0
    digest = shell.ask(lambda client: client.get_review_status(review_id)).digest
    assert shell.run("gate", "check", "--digest", str(digest)).status == 0
    assert shell.run("gate", "check", "--digest", "0" * 64).status == 1

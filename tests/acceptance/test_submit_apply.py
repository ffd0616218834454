"""`tandem apply`: the working tree becomes the approved content, or nothing changes and it says why."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from tests.acceptance.reviewing import Desk
from tests.commandline import Shell, git, repository

BEFORE = {"a.txt": b"one\ntwo\n", "gone.txt": b"gone\n", "other.txt": b"other\n"}


@pytest.fixture
def files() -> dict[str, bytes]:
    return BEFORE


def change(root: Path) -> None:
    (root / "a.txt").write_bytes(b"one\r\n2")
    (root / "gone.txt").unlink()
    (root / "new").mkdir()
    (root / "new" / "pixel.bin").write_bytes(bytes(range(256)))


def put_away(root: Path) -> None:
    git(root, "checkout", "--quiet", "--", ".")
    git(root, "clean", "--quiet", "--force", "-d")


def submitted(shell: Shell, *options: str) -> str:
    return shell.run("submit", "-m", "m", "--json", *options).data["review_id"]


def approved(shell: Shell, others: Desk, *options: str) -> str:
    review_id = submitted(shell, *options)
    others.approve(review_id)
    return review_id


def test_brings_the_working_tree_to_the_approved_round_which_passes_the_gate(shell: Shell, others: Desk) -> None:
    change(shell.cwd)
    review_id = approved(shell, others)
    put_away(shell.cwd)
    (shell.cwd / "other.txt").write_bytes(b"my own work\n")
    ended = shell.run("apply", review_id)
    assert ended.status == 0
    assert ended.stdout.splitlines()[:3] == ["written  a.txt", "written  new/pixel.bin", "deleted  gone.txt"]
    assert (shell.cwd / "a.txt").read_bytes() == b"one\r\n2"
    assert (shell.cwd / "new" / "pixel.bin").read_bytes() == bytes(range(256))
    assert not (shell.cwd / "gone.txt").exists()
    assert (shell.cwd / "other.txt").read_bytes() == b"my own work\n"
    assert git(shell.cwd, "diff", "--cached", "--name-only") == ""
    put_away(shell.cwd)
    assert shell.run("apply", review_id, "--index").status == 0
    checked = shell.run("gate", "check", "--json")
    assert checked.status == 0
    assert checked.data["review_ids"] == [review_id]
    shell.run("review", "close", review_id)
    ended = shell.run("apply", review_id)
    assert (ended.status, ended.stdout) == (0, f"Already there: the working tree has round 1 of {review_id}.\n")
    assert shell.run("apply", review_id, "--json").data["changed"] is False


def test_what_is_staged_besides_is_unstaged_by_the_command_that_it_names(shell: Shell, others: Desk) -> None:
    (shell.cwd / "a.txt").write_bytes(b"approved\n")
    review_id = approved(shell, others)
    (shell.cwd / "my own.txt").write_bytes(b"my own work\n")
    git(shell.cwd, "add", "--all")
    [command] = re.findall(r"Unstage that: git (.*)", shell.run("apply", review_id, "--index").stdout)
    git(shell.cwd, *shlex.split(command))
    assert git(shell.cwd, "diff", "--cached", "--name-only") == "a.txt\n"
    assert "Unstage" not in shell.run("apply", review_id, "--index").stdout


def test_refuses_what_is_not_approved(shell: Shell, others: Desk) -> None:
    change(shell.cwd)
    review_id = submitted(shell)
    pending = shell.run("apply", review_id)
    assert (pending.status, pending.stderr.partition(" is ")[0]) == (1, f"refused: INVALID_TRANSITION: {review_id}")
    # Nor what a revision has ended, or a close.
    others.approve(review_id)
    (shell.cwd / "a.txt").write_bytes(b"later\n")
    submitted(shell, "--revise", review_id)
    assert shell.run("apply", review_id).status == 1
    shell.run("review", "close", review_id)
    withdrawn = shell.run("apply", review_id)
    assert withdrawn.status == 1
    assert "closed (withdrawn)" in withdrawn.stderr


def test_refuses_to_overwrite_local_work_and_changes_nothing(shell: Shell, others: Desk) -> None:
    change(shell.cwd)
    review_id = approved(shell, others)
    put_away(shell.cwd)
    (shell.cwd / "a.txt").write_bytes(b"local work\n")
    ended = shell.run("apply", review_id)
    assert ended.status == 1
    assert "local changes" in ended.stderr
    assert "a.txt" in ended.stderr
    assert (shell.cwd / "a.txt").read_bytes() == b"local work\n"
    assert (shell.cwd / "gone.txt").exists()
    assert not (shell.cwd / "new").exists()


def test_an_earlier_round_in_the_way_is_put_away_by_the_command_that_is_named(shell: Shell, others: Desk) -> None:
    (shell.cwd / "a.txt").write_bytes(b"round one\n")
    review_id = submitted(shell)
    (shell.cwd / "a.txt").write_bytes(b"round two\n")
    submitted(shell, "--revise", review_id)
    others.approve(review_id)
    (shell.cwd / "a.txt").write_bytes(b"round one\n")
    ended = shell.run("apply", review_id)
    assert ended.status == 1
    assert "git stash push --all -- :/a.txt" in ended.stderr


def test_applies_an_accepted_counter_patch(shell: Shell, others: Desk) -> None:
    (shell.cwd / "a.txt").write_bytes(b"mine\n")
    review_id = submitted(shell)
    put_away(shell.cwd)
    (shell.cwd / "a.txt").write_bytes(b"better\n")
    patch = git(shell.cwd, "diff")
    put_away(shell.cwd)
    generation = others.claim(review_id)
    patch_id = others.verdict(review_id, "changes_requested", generation, counter_patch=patch)["counter_patch_id"]
    assert shell.run("review", "patch", "accept", review_id, patch_id, "--agent", "carol").status == 0
    others.approve(review_id)
    assert shell.run("apply", review_id).status == 0
    assert (shell.cwd / "a.txt").read_bytes() == b"better\n"


def test_applies_a_text_to_its_file(shell: Shell, others: Desk) -> None:
    plan = shell.cwd / "plans" / "PLAN.md"
    plan.parent.mkdir()
    plan.write_bytes(b"# Plan\r\nno newline")
    review_id = approved(shell, others, "--text", "plans/PLAN.md")
    assert "Already there" in shell.run("apply", review_id).stdout
    plan.write_bytes(b"local notes")
    refused = shell.run("apply", review_id)
    assert refused.status == 1
    assert plan.read_bytes() == b"local notes"
    plan.unlink()
    plan.parent.rmdir()
    assert shell.run("apply", review_id, "--index").status == 0
    assert plan.read_bytes() == b"# Plan\r\nno newline"
    assert git(shell.cwd, "diff", "--cached", "--name-only") == "plans/PLAN.md\n"


def test_a_text_that_git_ignores_is_closed_by_the_command_that_apply_names(shell: Shell, others: Desk) -> None:
    (shell.cwd / "PLAN.md").write_bytes(b"# Plan\n")
    (shell.cwd / ".git" / "info" / "exclude").write_text("PLAN.md\n", "utf-8")
    review_id = approved(shell, others, "--text", "PLAN.md")
    [command] = re.findall(r"If it is not to be committed: tandem (.*)", shell.run("apply", review_id).stdout)
    assert shell.run(*command.split()).status == 0


def test_a_change_of_another_project_is_refused(shell: Shell, others: Desk, tmp_path: Path) -> None:
    change(shell.cwd)
    review_id = approved(shell, others)
    other = repository(tmp_path / f"{tmp_path.name}-other", BEFORE)
    others.do_unscoped("register_project", root=str(other))
    ended = shell.at(other).run("apply", review_id)
    assert ended.status == 1
    assert shell.cwd.name in ended.stderr
    assert (other / "gone.txt").exists()


def test_no_unvalidated_words_are_applied(shell: Shell, others: Desk) -> None:
    review_id = others.put_up_approved(description="words")
    ended = shell.run("apply", review_id)
    assert ended.status == 1
    assert "no content to apply" in ended.stderr


def test_checkout_makes_a_folder_with_exactly_the_round(shell: Shell, tmp_path: Path) -> None:
    change(shell.cwd)
    review_id = submitted(shell)
    put_away(shell.cwd)
    (shell.cwd / "a.txt").write_bytes(b"something else\n")
    made = shell.run("review", "checkout", review_id, "--json")
    folder = Path(made.data["folder"])
    assert folder == shell.cwd.with_name(f"{shell.cwd.name}-{review_id}")
    assert (folder / "a.txt").read_bytes() == b"one\r\n2"
    assert not (folder / "gone.txt").exists()
    assert git(folder, "log", "-1", "--format=%H %P").split() == [made.data["commit"], made.data["base"]]
    assert "not empty" in shell.run("review", "checkout", review_id).stderr
    assert shell.run("review", "checkout", review_id, str(tmp_path / "look")).status == 0
    assert (shell.cwd / "a.txt").read_bytes() == b"something else\n"

"""The gate's hooks beside those that are there: they are called first, respected, and put back to the byte."""

from __future__ import annotations

import hashlib
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tandem.setup import gate_switch, githooks
from tests.broker import BrokerProcess
from tests.repository.gating import Gated, gate_on, new_repository

DIGITS = {"a.txt": "one\n2\nthree\n"}
NOTE = '#!/bin/sh\nprintf "%s %s\\n" "${0##*/}" "$*" >>"$(git rev-parse --git-common-dir)/called"\n'
READS = NOTE + 'cat >>"$(git rev-parse --git-common-dir)/told"\n'


def hook(folder: Path, name: str, text: str = NOTE) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / name
    file.write_text(text, "utf-8")
    file.chmod(0o755)
    return file


def picture(folder: Path) -> dict[str, tuple[int, str]]:
    """Mode and content of everything that the gate may have touched in a git folder."""
    seen: dict[str, tuple[int, str]] = {}
    for file in [folder / "config", *sorted((folder / "hooks").rglob("*")), *sorted((folder / "tandem").rglob("*"))]:
        name = str(file.relative_to(folder))
        if file.is_symlink():
            seen[name] = (0, str(file.readlink()))
        elif file.is_file():
            seen[name] = (file.stat().st_mode, hashlib.sha256(file.read_bytes()).hexdigest())
        else:
            seen[name] = (file.stat().st_mode, "folder")
    return seen


def called(gated: Gated) -> list[str]:
    file = gated.root / ".git/called"
    return file.read_text("utf-8").splitlines() if file.exists() else []


def commits_only_what_is_approved(gated: Gated) -> None:
    gated.stage(DIGITS)
    gated.refused("commit", "-m", "x")
    gated.approve()
    gated.git("commit", "-m", "x")


def own_hooks(root: Path) -> None:
    hook(root / ".git/hooks", "prepare-commit-msg")
    hook(root / ".git/hooks", "pre-commit")
    hook(root / ".git/hooks", "reference-transaction", READS)


def linked_hook(root: Path) -> None:
    hook(root / "scripts", "their-hook")
    (root / ".git/hooks").mkdir(exist_ok=True)
    (root / ".git/hooks/prepare-commit-msg").symlink_to("../../scripts/their-hook")


def no_hooks(root: Path) -> None:
    for file in (root / ".git/hooks").iterdir():
        file.unlink()
    (root / ".git/hooks").rmdir()


def sleeping_hook(root: Path) -> None:
    hook(root / ".git/hooks", "prepare-commit-msg").chmod(0o644)


def husky(root: Path) -> None:
    """What husky 9 leaves: a relative folder, whose hooks look at their own names."""
    inner = root / ".husky/_"
    hook(inner, "h", '#!/usr/bin/env sh\nn=$(basename "$0")\ns=$(dirname "$(dirname "$0")")/$n\nsh -e "$s" "$@"\n')
    for name in ("prepare-commit-msg", "pre-commit", "commit-msg"):
        hook(inner, name, '#!/usr/bin/env sh\n. "$(dirname "$0")/h"\n')
        hook(root / ".husky", name)
    (inner / ".gitignore").write_text("*", "utf-8")
    subprocess.run(["git", "config", "core.hooksPath", ".husky/_"], cwd=root, check=True)


def without_a_last_line_end(root: Path) -> None:
    husky(root)
    config = root / ".git/config"
    config.write_bytes(config.read_bytes().rstrip(b"\n"))


def shared_folder(root: Path) -> None:
    """A hook folder that is a link to one that others use too."""
    no_hooks(root)
    hook(root / "githooks", "prepare-commit-msg")
    (root / ".git/hooks").symlink_to("../githooks")


BEFORE = (own_hooks, linked_hook, no_hooks, sleeping_hook, husky, without_a_last_line_end, shared_folder)
CALLED: dict[str, set[str]] = {
    "own_hooks": {"prepare-commit-msg", "pre-commit", "reference-transaction"},
    "linked_hook": {"their-hook"},
    "no_hooks": set(),
    "sleeping_hook": set(),
    "husky": {"prepare-commit-msg", "pre-commit", "commit-msg"},
    "without_a_last_line_end": {"prepare-commit-msg", "pre-commit", "commit-msg"},
    "shared_folder": {"prepare-commit-msg"},
}


@pytest.mark.parametrize("before", BEFORE, ids=lambda before: before.__name__)
def test_what_was_there_works_on_and_comes_back_to_the_byte(
    shared_broker: BrokerProcess, plain: Path, config_dir: Path, before: Callable[[Path], None]
):
    before(plain)
    first = picture(plain / ".git")
    gated = gate_on(shared_broker, plain)
    commits_only_what_is_approved(gated)
    names = {line.partition(" ")[0] for line in called(gated)}
    assert names == CALLED[before.__name__]
    ended = gated.tandem("gate", "off", "--yes")
    assert ended.status == 0, ended.stderr
    after = picture(plain / ".git")
    kept = {name: facts for name, facts in after.items() if not name.startswith("tandem")}
    assert kept == first
    assert set(after) - set(first) == {"tandem/gate.json"}
    assert gated.git("for-each-ref", "refs/tandem") == ""
    gated.stage({"b.txt": "no gate\n"})
    gated.git("commit", "-m", "x")


def test_a_hook_that_refuses_is_respected_and_one_that_changes_the_message_too(
    shared_broker: BrokerProcess, plain: Path, config_dir: Path
):
    theirs = hook(plain / ".git/hooks", "prepare-commit-msg", "#!/bin/sh\nexit 7\n")
    gated = gate_on(shared_broker, plain)
    gated.stage(DIGITS)
    review = gated.approve()
    assert not gated.try_git("commit", "-m", "x").ok
    moved = gated.root / ".git/tandem/chained" / theirs.name
    hook(moved.parent, theirs.name, '#!/bin/sh\nprintf "TICKET-1 %s" "$(cat "$1")" >"$1"\n')
    gated.git("commit", "-m", "x")
    assert gated.message() == f"TICKET-1 x\n\nTandem-Review: {review}"


def test_a_hook_that_reads_is_told_what_git_tells(shared_broker: BrokerProcess, plain: Path, config_dir: Path):
    hook(plain / ".git/hooks", "reference-transaction", READS)
    gated = gate_on(shared_broker, plain)
    gated.git("branch", "side")
    told = (gated.root / ".git/told").read_text("utf-8")
    line = f"{'0' * 40} {gated.head()} refs/heads/side\n"
    assert told == line * 2
    assert called(gated)[-2:] == ["reference-transaction prepared", "reference-transaction committed"]
    hook(gated.root / ".git/tandem/chained", "reference-transaction", "#!/bin/sh\nexit 1\n")
    assert not gated.try_git("branch", "other").ok


def test_husky_that_sets_its_folder_again_switches_nothing_off(
    shared_broker: BrokerProcess, plain: Path, config_dir: Path
):
    husky(plain)
    gated = gate_on(shared_broker, plain)
    gated.git("config", "core.hooksPath", ".husky/_")
    commits_only_what_is_approved(gated)
    assert "pre-commit " in called(gated)


def test_a_relative_folder_counts_from_each_working_tree(
    shared_broker: BrokerProcess, plain: Path, config_dir: Path, tmp_path: Path
):
    husky(plain)
    gated = gate_on(shared_broker, plain)
    linked = gated.linked(tmp_path / "linked", "feature")
    hook(linked / ".husky/_", "pre-commit", "#!/bin/sh\nexit 1\n")
    gated.stage(DIGITS, linked)
    gated.git("reset", "--quiet", ".husky", cwd=linked)
    gated.approve(cwd=linked)
    assert not gated.try_git("commit", "-m", "x", cwd=linked).ok
    gated.git("commit", "--no-verify", "-m", "x", cwd=linked)


def test_a_folder_for_all_repositories_is_called_and_left_alone(
    shared_broker: BrokerProcess, plain: Path, config_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    everywhere = tmp_path / "everywhere"
    hook(everywhere, "commit-msg")
    configuration = tmp_path / "gitconfig"
    configuration.write_text(
        f"[user]\n\tname = A\n\temail = a@b.c\n[core]\n\thooksPath = {everywhere.as_posix()}\n", "utf-8"
    )
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(configuration))
    gated = gate_on(shared_broker, plain)
    commits_only_what_is_approved(gated)
    assert [line.partition(" ")[0] for line in called(gated)] == ["commit-msg"]
    assert [file.name for file in everywhere.iterdir()] == ["commit-msg"]
    # Another repository of the same person has no gate.
    other = new_repository(tmp_path / "other")
    assert gate_switch.switch(gate_switch.place_at(other)) is None


def pre_commit(root: Path) -> None:
    """What `pre-commit install` does: the hook that it finds is kept as `.legacy` and called."""
    found = root / ".git/hooks/prepare-commit-msg"
    found.rename(found.with_name(f"{found.name}.legacy"))
    hook(
        found.parent,
        found.name,
        "#!/bin/sh\n# File generated by pre-commit: https://pre-commit.com\n"
        'HERE="$(cd "$(dirname "$0")" && pwd)"\nlegacy="$HERE/prepare-commit-msg.legacy"\n'
        'if [ -x "$legacy" ]; then "$legacy" "$@" || exit 1; fi\n',
    )


def test_pre_commit_installed_over_the_gate_calls_it_and_stays_when_it_goes(gated: Gated):
    pre_commit(gated.root)
    theirs = (gated.root / ".git/hooks/prepare-commit-msg").read_bytes()
    commits_only_what_is_approved(gated)
    assert gated.tandem("gate", "status").status == 0
    assert gated.tandem("gate", "on").status == 0
    gated.stage({"b.txt": "more\n"})
    gated.refused("commit", "-m", "y")
    assert gated.tandem("gate", "off", "--yes").status == 0
    assert (gated.root / ".git/hooks/prepare-commit-msg").read_bytes() == theirs
    assert not (gated.root / ".git/hooks/prepare-commit-msg.legacy").exists()


def test_pre_commit_that_was_there_first_keeps_the_hook_that_it_calls(
    shared_broker: BrokerProcess, plain: Path, config_dir: Path
):
    hook(plain / ".git/hooks", "prepare-commit-msg")
    pre_commit(plain)
    first = picture(plain / ".git")
    gated = gate_on(shared_broker, plain)
    commits_only_what_is_approved(gated)
    assert {line.partition(" ")[0] for line in called(gated)} == {"prepare-commit-msg.legacy"}
    assert gated.tandem("gate", "off", "--yes").status == 0
    kept = {name: facts for name, facts in picture(plain / ".git").items() if not name.startswith("tandem")}
    assert kept == first


def test_a_tool_that_puts_its_hook_in_the_gates_place_is_found_and_mended(gated: Gated):
    ours = gated.root / ".git/hooks/prepare-commit-msg"
    ours.rename(ours.with_name("prepare-commit-msg.old"))
    hook(ours.parent, ours.name, NOTE + "# lefthook\n")
    status = gated.tandem("gate", "status", "--json")
    assert status.status == 1
    assert status.data["hooks"]["prepare-commit-msg"] is False
    assert any("tandem gate on" in problem for problem in status.data["problems"])
    # The base branch is guarded meanwhile.
    gated.stage(DIGITS)
    gated.refused("commit", "-m", "x")
    assert gated.tandem("gate", "on").status == 0
    commits_only_what_is_approved(gated)
    assert "prepare-commit-msg .git/COMMIT_EDITMSG message" in called(gated)
    assert not (ours.parent / "prepare-commit-msg.old").exists()


def test_a_setting_that_would_silence_the_hooks_is_an_error_and_changes_nothing(
    shared_broker: BrokerProcess, plain: Path, config_dir: Path
):
    first = picture(plain / ".git")
    gated = Gated(shared_broker, plain, "silenced")
    gated.git("config", "extensions.worktreeConfig", "true")
    first = picture(plain / ".git")
    gated.git("config", "--worktree", "core.hooksPath", "/nowhere")
    ended = gated.tandem("gate", "on")
    assert ended.status == 1
    assert "core.hooksPath" in ended.stderr
    after = {name: facts for name, facts in picture(plain / ".git").items() if name != "tandem"}
    assert after == first


def test_the_hooks_are_those_that_git_starts(gated: Gated):
    place = gate_switch.place_at(gated.root)
    installed = githooks.found(place)
    assert set(githooks.alive(place, installed).values()) == {True}
    (gated.root / ".git/hooks/pre-push").chmod(0o644)
    assert githooks.alive(place, installed)["pre-push"] is False

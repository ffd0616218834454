"""A repository whose configuration names programs: no call to the broker runs any of them."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tandem.errors import Unavailable
from tandem.git.repository import Repository
from tandem.git.runner import Git
from tests.acceptance.reviewing import PROPOSAL, REVIEWER, Desk, edited
from tests.broker import StartBroker, fresh_project
from tests.git.sandbox import Sandbox

pytestmark = pytest.mark.skipif(os.name == "nt", reason="platform: the planted programs are POSIX scripts")


def old_git(folder: Path, says: str = "") -> Path:
    """Git from before it had a switch against fetching missing objects; it can claim another version."""
    program = folder / "old-git"
    version = f'[ "$1" = version ] && echo "git version {says}" && exit 0\n' if says else ""
    program.write_text(f'#!/bin/sh\n{version}unset GIT_NO_LAZY_FETCH\nexec "{shutil.which("git")}" "$@"\n')
    program.chmod(0o755)
    return program


@pytest.fixture
def ran(tmp_path: Path) -> Path:
    """What a planted program leaves behind."""
    return tmp_path / "ran"


@pytest.fixture
def trapped(repo: Sandbox, ran: Path) -> Sandbox:
    """A repository of two commits that lacks contents of both, and whose settings name a program for everything."""
    repo.write("c.txt", "".join(f"line {number}\n" for number in range(1, 11)) + "more\n")
    repo.write("lost.txt", "".join(f"line {number}\n" for number in range(1, 11)) + "lost\n")
    repo.write("sub/d.txt", "deep\n")
    repo.commit()
    repo.git("branch", "--track", "feature", "main")
    evil = ran.with_name("evil")
    evil.write_text(f"#!/bin/sh\ntouch '{ran}'\nexit 1\n")
    evil.chmod(0o755)
    hooks = ran.with_name("hooks")
    hooks.mkdir()
    for hook in ("reference-transaction", "post-index-change", "fsmonitor-watchman", "pre-auto-gc"):
        shutil.copy(evil, hooks / hook)
    with (repo.root / ".git/config").open("a", encoding="utf-8") as config:
        config.write(
            f"[core]\n\trepositoryformatversion = 1\n\tfsmonitor = {evil}\n\thooksPath = {hooks}\n\tsshCommand = {evil}"
            f"\n\tgitProxy = {evil}\n\talternateRefsCommand = {evil}\n\tpager = {evil}\n\taskPass = {evil}\n"
            f"[extensions]\n\tpartialClone = origin\n"
            f'[remote "origin"]\n\turl = ext::{evil}\n\tpromisor = true\n\tpartialCloneFilter = blob:none\n'
            f"\tuploadpack = {evil}\n\tvcs = ext\n"
            f'[protocol]\n\tallow = always\n[diff]\n\texternal = {evil}\n[filter "evil"]\n\tclean = {evil}\n'
            f'\tsmudge = {evil}\n[diff "evil"]\n\ttextconv = {evil}\n\tcommand = {evil}\n[gpg]\n\tprogram = {evil}\n'
        )
    (repo.root / ".git/info/attributes").write_text("* filter=evil diff=evil\n")
    for path in ("lost.txt", "c.txt"):
        lose(repo, f"HEAD:{path}")
    return repo


def lose(repo: Sandbox, revision: str) -> str:
    """Takes an object out of a repository; its id."""
    oid = repo.git("rev-parse", revision).strip()
    (repo.root / ".git/objects" / oid[:2] / oid[2:]).unlink()
    return oid


@pytest.fixture
def desk_of_old(start_broker: StartBroker, tmp_path: Path) -> Iterator[Desk]:
    """A broker whose git does not know how not to fetch."""
    broker = start_broker(git_executable=old_git(tmp_path))
    with Desk(broker.url, fresh_project()) as opened:
        yield opened


def test_the_trap_works(trapped: Sandbox, ran: Path):
    """Else the other tests would show nothing."""
    trapped.run("cat-file", "-p", "HEAD:lost.txt", check=False)
    assert ran.exists()


def test_no_question_about_a_repository_runs_what_its_configuration_names(
    desk_of_old: Desk, trapped: Sandbox, ran: Path
):
    desk = desk_of_old
    desk.register(trapped.root)
    whole = desk.put_up(diff=edited("b.txt"))
    desk.revise(whole, diff=edited("b.txt", text="best"))
    text = desk.put_up(path="sub/d.txt", description="deeper\n")
    # The base's own contents are missing; so is, for the last of them, the commit before.
    parent = trapped.git("rev-parse", "HEAD~1").strip()
    offered: list[tuple[str, dict[str, Any]]] = [
        ("create_review", {**PROPOSAL, "diff": edited("lost.txt")}),
        ("create_review", {**PROPOSAL, "path": "lost.txt", "description": "another\n"}),
        ("create_review", {**PROPOSAL, "diff": edited("lost.txt").replace("a/lost.txt b/lost.txt", "a/lost.txt b/x")}),
        ("get_round_file", {"review_id": whole, "path": "lost.txt"}),
        ("get_round_file", {"review_id": whole, "path": "c.txt", "side": "before"}),
        ("get_round_file", {"review_id": whole, "path": "b.txt", "round": 1}),
        ("get_round_file", {"review_id": text, "path": "sub/d.txt", "side": "before"}),
        ("draft_counter_patch", {"review_id": whole, "edits": [{"path": "lost.txt", "content": "x\n"}]}),
        ("get_proposal", {"review_id": whole, "since_round": 1}),
        ("claim_review", {"review_id": whole, "reviewer_id": REVIEWER}),
        (
            "submit_verdict",
            {"review_id": whole, "verdict": "comment", "counter_patch": edited("lost.txt"), "claim_generation": 1},
        ),
    ]
    bases = ("main", "feature@{u}", "@{0}", "HEAD~1", "HEAD~2", "HEAD^{/start}", parent, parent[:9], "HEAD^{tree}")
    offered += [("create_review", {**PROPOSAL, "diff": edited("b.txt"), "base": base}) for base in bases]
    for operation, arguments in offered:
        desk.call(operation, **arguments)
        assert not ran.exists(), (operation, arguments)
    lose(trapped, "HEAD~1")
    for operation, arguments in offered:
        desk.call(operation, **arguments)
        assert not ran.exists(), (operation, arguments)
    # All that was needed is there for these.
    assert desk.do("create_review", **PROPOSAL, diff=edited("b.txt"), base="feature@{u}")["validated"]


def test_a_search_for_what_a_change_takes_back_runs_nothing_either(trapped: Sandbox, ran: Path, tmp_path: Path):
    head = trapped.head()
    with Repository(trapped.root, Git(str(old_git(tmp_path)))) as repository:
        changes = repository.change_on_the_way(head, head=head, base=None, branches=["nowhere"])
        assert changes is not None
        assert [change.path for change in changes] == ["c.txt", "lost.txt", "sub/d.txt"]
        assert repository.change_on_the_way(head, head=head, base=None, branches=["nowhere", "main"]) is None
        assert repository.change_on_the_way(head, head=head, base=None, branches=[]) is None
        lose(trapped, "HEAD~1")
        with pytest.raises(Unavailable):
            repository.change_on_the_way(head, head=head, base=None, branches=["nowhere"])
    assert not ran.exists()


def test_a_git_that_is_too_old_is_refused_with_what_to_install(
    start_broker: StartBroker, repo: Sandbox, tmp_path: Path
):
    broker = start_broker(git_executable=old_git(tmp_path, says="2.20.1"))
    with Desk(broker.url, fresh_project()) as desk:
        refused = desk.envelope_unscoped("register_project", root=str(repo.root), name=desk.project)["error"]
    assert refused["code"] == "UNAVAILABLE"
    assert "2.20.1" in refused["message"]
    assert "Install git 2.38 or newer" in refused["message"]

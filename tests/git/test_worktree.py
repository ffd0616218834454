from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tandem.errors import InvalidDiff, InvalidInput, Unavailable
from tandem.git.repository import Repository
from tests.git.edits import EDITS, change, populate
from tests.git.sandbox import Sandbox, edit, new_file


def files(root: Path) -> dict[str, tuple[bytes, bool]]:
    """Everything in a working tree: content (or a link's target) and whether it can be run."""
    found: dict[str, tuple[bytes, bool]] = {}
    for file in sorted(root.rglob("*")):
        name = file.relative_to(root).as_posix()
        if name == ".git" or name.startswith(".git/"):
            continue
        if file.is_symlink():
            found[name] = (str(file.readlink()).encode(), False)
        elif file.is_file():
            found[name] = (file.read_bytes(), bool(file.stat().st_mode & 0o100))
        else:
            found[name] = (b"folder", False)
    return found


@pytest.mark.parametrize(("name", "index"), [(name, bool(number % 2)) for number, name in enumerate(EDITS)])
def test_the_working_tree_becomes_what_was_approved(
    sandbox: Sandbox, repository: Repository, name: str, index: bool
) -> None:
    populate(sandbox)
    change(sandbox, name)
    diff = repository.working_diff().diff
    wanted = files(sandbox.root)
    sandbox.git("add", "--all")
    approved = sandbox.git("write-tree").strip()
    sandbox.git("reset", "--hard", "-q")
    staged = sandbox.read(".git/index")
    if index:
        # A failure at the very end is undone.
        before, lock = files(sandbox.root), sandbox.root / ".git/index.lock"
        lock.touch()
        with pytest.raises(Unavailable, match=r"index\.lock"):
            repository.apply_to_worktree(diff, index=True)
        assert files(sandbox.root) == before
        lock.unlink()

    done = repository.apply_to_worktree(diff, index=index)
    assert files(sandbox.root) == wanted
    assert done.changed
    assert not done.already
    if index:
        assert sandbox.git("write-tree").strip() == approved
        assert sandbox.git("diff", "--name-only") == ""
    else:
        assert sandbox.read(".git/index") == staged

    again = repository.apply_to_worktree(diff, index=index)
    assert not again.changed
    assert set(again.already) == {*done.written, *done.deleted}
    assert files(sandbox.root) == wanted


def test_what_is_partly_there_is_completed(sandbox: Sandbox, repository: Repository) -> None:
    populate(sandbox)
    diff = edit("thing", "a file", "another") + new_file("new/one.txt") + new_file("new/two.txt")
    sandbox.write("new/one.txt", "hello\n")
    sandbox.write("plain.txt", "a local change of another file\n")
    done = repository.apply_to_worktree(diff)
    assert (done.written, done.deleted, done.already) == (("new/two.txt", "thing"), (), ("new/one.txt",))
    assert sandbox.read("thing") == b"another\n"
    assert sandbox.read("plain.txt").startswith(b"a local change")


@pytest.mark.parametrize("path", ["thing", "plain.txt", "new.txt", "occupied"])
def test_local_changes_are_never_overwritten(sandbox: Sandbox, repository: Repository, path: str) -> None:
    populate(sandbox)
    diff = (
        edit("thing", "a file", "another")
        + new_file("new.txt")
        + new_file("occupied")
        + "diff --git a/plain.txt b/moved.txt\nsimilarity index 100%\nrename from plain.txt\nrename to moved.txt\n"
    )
    if path == "occupied":
        sandbox.write("occupied/by/someone", "x\n")
    else:
        sandbox.write(path, "mine\n")
    before = files(sandbox.root)
    with pytest.raises(InvalidInput, match="local changes") as refused:
        repository.apply_to_worktree(diff)
    assert any(name.startswith(path) for name in refused.value.details["paths"])
    assert files(sandbox.root) == before


def test_a_deleted_or_runnable_file_is_a_local_change_too(sandbox: Sandbox, repository: Repository) -> None:
    populate(sandbox)
    diff = edit("thing", "a file", "another")
    (sandbox.root / "thing").chmod(0o755)
    with pytest.raises(InvalidInput):
        repository.apply_to_worktree(diff)
    (sandbox.root / "thing").unlink()
    with pytest.raises(InvalidInput):
        repository.apply_to_worktree(diff)
    (sandbox.root / "thing").symlink_to("plain.txt")
    with pytest.raises(InvalidInput):
        repository.apply_to_worktree(diff)
    assert (sandbox.root / "plain.txt").read_bytes() == sandbox.run("show", "HEAD:plain.txt").stdout


def test_nothing_is_written_through_a_symbolic_link(sandbox: Sandbox, repository: Repository, tmp_path: Path) -> None:
    populate(sandbox)
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "file.txt").write_bytes(sandbox.read("deep/er/file.txt"))
    (sandbox.root / "deep/er/file.txt").unlink()
    (sandbox.root / "deep/er").rmdir()
    (sandbox.root / "deep/er").symlink_to(outside)
    (sandbox.root / "fresh").symlink_to(outside)
    for diff in (new_file("deep/er/new.txt"), new_file("fresh/new.txt"), new_file("fresh/a/b.txt")):
        with pytest.raises(InvalidInput, match="symbolic link"):
            repository.apply_to_worktree(diff)
    assert [file.name for file in outside.iterdir()] == ["file.txt"]


def test_filters_write_files_as_a_checkout_does(sandbox: Sandbox, repository: Repository) -> None:
    sandbox.write(".gitattributes", "*.win text eol=crlf\n*.rot filter=rot\n")
    sandbox.git("config", "filter.rot.clean", "tr a-z A-Z")
    sandbox.git("config", "filter.rot.smudge", "tr A-Z a-z")
    sandbox.write("x.win", "one\r\n")
    sandbox.write("x.rot", "quiet\n")
    sandbox.commit()
    done = repository.apply_to_worktree(edit("x.win", "one", "two") + edit("x.rot", "QUIET", "LOUD"))
    assert done.written == ("x.rot", "x.win")
    assert sandbox.read("x.win") == b"two\r\n"
    assert sandbox.read("x.rot") == b"loud\n"
    assert not repository.apply_to_worktree(edit("x.win", "one", "two") + edit("x.rot", "QUIET", "LOUD")).changed


def test_attributes_of_the_same_diff_count(sandbox: Sandbox, repository: Repository) -> None:
    sandbox.write("x.win", "one\n")
    base = sandbox.commit()
    diff = new_file(".gitattributes", "*.win text eol=crlf") + edit("x.win", "one", "two")
    repository.apply_to_worktree(diff, base)
    assert sandbox.read("x.win") == b"two\r\n"


def test_filters_that_do_not_give_back_the_content_change_nothing(sandbox: Sandbox, repository: Repository) -> None:
    sandbox.write(".gitattributes", "*.rot filter=rot\n")
    sandbox.write("x.rot", "a\n")
    sandbox.write("other", "a\n")
    sandbox.commit()
    sandbox.git("config", "filter.rot.smudge", "echo broken; cat")
    before = files(sandbox.root)
    with pytest.raises(Unavailable, match="filters"):
        repository.apply_to_worktree(edit("x.rot", "a", "b") + edit("other", "a", "b") + new_file("deep/new"))
    assert files(sandbox.root) == before


@pytest.mark.skipif(sys.platform == "win32", reason="platform: Windows writes with other calls")
def test_a_failure_half_way_is_taken_back(
    sandbox: Sandbox, repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    populate(sandbox)
    before = files(sandbox.root)
    diff = (
        "diff --git a/deep/er/file.txt b/deep/er/gone.txt\nsimilarity index 100%\n"
        "rename from deep/er/file.txt\nrename to deep/er/gone.txt\n" + edit("thing", "a file", "b") + new_file("z/z")
    )
    replace = os.replace

    def full(source: str, target: Path) -> None:
        if target.name == "z":
            raise OSError(28, "No space left on device", str(target))
        replace(source, target)

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(Unavailable, match="No space left"):
        repository.apply_to_worktree(diff)
    assert files(sandbox.root) == before


def test_another_staged_state_is_kept(sandbox: Sandbox, repository: Repository) -> None:
    populate(sandbox)
    sandbox.write("thing", "staged\n")
    sandbox.git("add", "thing")
    sandbox.write("thing", "a file\n")
    diff = edit("thing", "a file", "another")
    with pytest.raises(InvalidInput, match="index has local changes"):
        repository.apply_to_worktree(diff, index=True)
    assert sandbox.read("thing") == b"a file\n"
    assert repository.apply_to_worktree(diff).written == ("thing",)
    assert sandbox.git("show", ":thing") == "staged\n"


def test_hooks_of_the_user_do_not_run(sandbox: Sandbox, repository: Repository, tmp_path: Path) -> None:
    populate(sandbox)
    marker = tmp_path / "marker"
    for hook in ("post-index-change", "post-checkout", "pre-applypatch"):
        sandbox.write(f".git/hooks/{hook}", f"#!/bin/sh\ntouch '{marker}'\n", executable=True)
    repository.apply_to_worktree(edit("thing", "a file", "another"), index=True)
    assert not marker.exists()


def test_a_diff_that_is_refused_changes_nothing(sandbox: Sandbox, repository: Repository) -> None:
    populate(sandbox)
    before = files(sandbox.root)
    with pytest.raises(InvalidDiff):
        repository.apply_to_worktree(new_file("../outside"))
    with pytest.raises(InvalidDiff):
        repository.apply_to_worktree(edit("thing", "something else", "x"))
    assert files(sandbox.root) == before
    assert not (sandbox.root.parent / "outside").exists()


def test_a_linked_worktree_is_its_own(sandbox: Sandbox, tmp_path: Path) -> None:
    populate(sandbox)
    sandbox.git("worktree", "add", "-q", str(tmp_path / "linked"))
    with Repository(tmp_path / "linked") as linked:
        linked.apply_to_worktree(edit("thing", "a file", "another"), index=True)
        assert [change.path for change in linked.raw_changes()] == ["thing"]
    assert (tmp_path / "linked/thing").read_bytes() == b"another\n"
    assert sandbox.read("thing") == b"a file\n"
    assert sandbox.git("status", "--porcelain") == ""

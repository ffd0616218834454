"""`tandem gate server-hook`: where others push to, nothing gets onto a base branch that is not approved."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from tests.broker import fresh_project
from tests.repository.gating import DIGITS, Gated, Said, new_repository

GREEK = {"b.txt": "alpha\ngamma\n"}


@pytest.fixture
def server(gated: Gated, tmp_path: Path) -> Path:
    """The bare repository that the clones push to, with the hook of another tool, which refuses branches `held/…`."""
    folder = tmp_path / "shop.git"
    gated.git("clone", "--quiet", "--bare", str(gated.root), str(folder))
    gated.git("remote", "add", "origin", str(folder))
    hook = folder / "hooks" / "pre-receive"
    hook.write_bytes(
        b"#!/bin/sh\nwhile read -r _ _ ref; do case $ref in */held/*) echo held back; exit 1 ;; esac; done\n"
    )
    hook.chmod(0o750)
    return folder


@pytest.fixture
def guarded(gated: Gated, server: Path) -> Path:
    """The same with the hook of the gate."""
    done = hooked(gated, server, "--project", gated.project)
    assert done == 0
    return server


def hooked(gated: Gated, server: Path, *options: str, **environment: Any) -> int:
    return gated.tandem("gate", "server-hook", str(server), *options, **environment).status


def push(gated: Gated, *refs: str) -> Said:
    """Push as somebody who has no hooks."""
    return gated.try_git("push", "--no-verify", "origin", *refs)


def refused(gated: Gated, server: Path, *refs: str) -> str:
    """Returns the output of a push that the server must refuse: it stays as it is."""
    before = gated.git("for-each-ref", cwd=server)
    said = push(gated, *refs)
    assert not said.ok, said.stderr
    assert gated.git("for-each-ref", cwd=server) == before
    return said.stderr


def commit(gated: Gated, files: dict[str, str], parent: str, subject: str = "A change") -> str:
    """A commit made with no hook asked."""
    gated.git("read-tree", "-u", "--reset", parent)
    gated.stage(dict(files))
    return gated.git("commit-tree", gated.git("write-tree"), "-p", parent, "-m", subject)


def approved(gated: Gated, files: dict[str, str], parent: str) -> str:
    made = commit(gated, files, parent)
    gated.decide(gated.submit("--range", f"{parent}..{made}"))
    return made


def contents(folder: Path) -> dict[str, tuple[bytes, int]]:
    """Every file of a repository with its permissions."""
    return {
        str(path.relative_to(folder)): (path.read_bytes(), path.stat().st_mode)
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_p2_a_push_without_the_clients_hooks_is_refused_until_it_is_approved(gated: Gated, guarded: Path):
    start = gated.head()
    bad = commit(gated, DIGITS, start, "Count in digits")
    words = refused(gated, guarded, f"{bad}:main")
    assert "remote: tandem: refused: main stays where it is: 1 of 1 commits are not approved." in words
    assert f"tandem submit --range {start[:10]}..{bad[:10]} --wait" in words
    # All of a push or nothing, under every name of the branch, also one that stands for it.
    gated.git("symbolic-ref", "refs/heads/alias", "refs/heads/main", cwd=guarded)
    refused(gated, guarded, f"{start}:refs/heads/fine", f"{bad}:main")
    refused(gated, guarded, f"{bad}:refs/heads/alias")
    refused(gated, guarded, f"{bad}:refs/heads/MAIN")
    # Other branches are everybody's own.
    assert push(gated, f"{bad}:refs/heads/feature").ok
    gated.decide(gated.submit("--range", f"{start}..{bad}"))
    said = push(gated, f"{bad}:main")
    assert said.ok, said.stderr
    assert gated.head("main", cwd=guarded) == bad


def test_p2_forced_pushes_merges_and_branches_that_come_back_are_judged(gated: Gated, guarded: Path):
    start = gated.head()
    one, other = approved(gated, DIGITS, start), approved(gated, GREEK, start)
    tree = gated.git("merge-tree", "--write-tree", one, other)
    merge = gated.git("commit-tree", tree, "-p", one, "-p", other, "-m", "Merge")
    assert push(gated, f"{merge}:main").ok
    bad = commit(gated, {"c.txt": "no\n"}, one)
    refused(gated, guarded, f"+{bad}:main")
    # Back to where it was, and away, as the branch here.
    assert push(gated, f"+{one}:main").ok
    gated.git("symbolic-ref", "HEAD", "refs/heads/other", cwd=guarded)
    assert push(gated, ":main").ok
    refused(gated, guarded, f"{bad}:refs/heads/main")
    assert push(gated, f"{merge}:refs/heads/main").ok


def test_without_its_broker_nothing_gets_onto_a_base_branch(gated: Gated, guarded: Path):
    good = approved(gated, DIGITS, gated.head())
    gated.broker.stop()
    try:
        assert "The Tandem broker" in refused(gated, guarded, f"{good}:main")
        assert push(gated, f"{good}:refs/heads/feature").ok
    finally:
        gated.broker.start()
    (guarded / "tandem/gate.json").rename(guarded / "lost.json")
    assert "gate.json is missing" in refused(gated, guarded, f"{good}:refs/heads/more")
    # The broker that is there was lost as well, and is named again.
    assert hooked(gated, guarded, "--project", gated.project) == 0
    assert push(gated, f"{good}:main").ok


@pytest.mark.skipif(os.name == "nt", reason="platform: permissions, links")
def test_a_former_hook_is_called_first_and_comes_back_to_the_byte(gated: Gated, server: Path):
    # As gitolite has it: a link, whose target counts from where it is.
    former = server / "hooks/pre-receive"
    former.rename(server / "held.sh")
    former.symlink_to("../held.sh")
    before = contents(server)
    for _ in range(2):
        assert hooked(gated, server, "--project", gated.project) == 0
        words = refused(gated, server, f"{gated.head()}:refs/heads/held/back")
        assert "remote: held" in words
        assert "tandem: " not in words
        refused(gated, server, f"{commit(gated, DIGITS, gated.head())}:main")
        # A hook that another tool writes over it is dead, and is found and repaired by the same command.
        former.chmod(0o644)
    assert hooked(gated, server, "--remove", CLAUDECODE="1") == 1
    assert hooked(gated, server, "--remove") == 1
    assert gated.person("gate", "server-hook", str(server), "--remove").ok
    after = contents(server)
    assert {name: after[name] for name in before} == before
    assert former.readlink() == Path("../held.sh")
    assert [name for name in after.keys() - before.keys() if not name.startswith("objects")] == []


def test_it_is_for_bare_repositories_and_projects_whose_gate_is_on(gated: Gated, server: Path, tmp_path: Path):
    assert "tandem gate on" in gated.tandem("gate", "server-hook", str(gated.root), "--project", "x").stderr
    assert "--project" in gated.tandem("gate", "server-hook", str(server)).stderr
    misspelt = gated.tandem("gate", "server-hook", str(server), "--project", f"{gated.project}x").stderr
    assert (f"Did you mean '{gated.project}'?" in misspelt, "--new" in misspelt) == (True, False)
    gated.git("config", "core.hooksPath", str(tmp_path), cwd=server)
    assert "core.hooksPath" in gated.tandem("gate", "server-hook", str(server), "--project", gated.project).stderr
    gated.git("config", "--unset", "core.hooksPath", cwd=server)
    gated.loosen(enabled=False)
    assert "tandem gate on" in gated.tandem("gate", "server-hook", str(server), "--project", gated.project).stderr
    assert not (server / "tandem").exists()
    gated.call("set_gate", enabled=True)
    assert hooked(gated, server, "--project", gated.project) == 0
    # An agent does not have another project's approvals count.
    other = Gated(gated.broker, new_repository(tmp_path / "other"), fresh_project())
    assert other.tandem("project", "add", "--name", other.project).status == 0
    assert hooked(gated, server, "--project", other.project, CLAUDECODE="1") == 1
    assert hooked(gated, server) == 0

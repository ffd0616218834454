"""`pre-push`: the last look before others see it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.repository.ranges.works import Work


def refused(work: Work, remote: Path, *refs: str) -> str:
    """Returns the output of a push that the gate must refuse: the remote stays as it is."""
    before = work.gated.git("for-each-ref", cwd=remote)
    work.said.clear()
    assert not work.run("push", str(remote), *refs), work.words
    assert "tandem: refused" in work.words
    assert work.gated.git("for-each-ref", cwd=remote) == before
    return work.words


def push(work: Work, remote: Path, *refs: str) -> None:
    """A push that must go through."""
    assert work.run("push", str(remote), *refs), work.words


ELSEWHERE = ("refs/heads/topic", "refs/tags/light", "refs/tags/annotated", "refs/for/main", "refs/changes/1")
"""Refs other than a base branch that a commit can be pushed to."""


@pytest.fixture
def new(work: Work) -> dict[str, str]:
    """Returns what to push to each of these: an unapproved commit, or a tag of it."""
    commit = work.made(work.change, work.start, "Count in digits")
    work.git("tag", "-a", "-m", "One", f"{work.name}-annotated", commit)
    return dict.fromkeys(ELSEWHERE, commit) | {"refs/tags/annotated": f"{work.name}-annotated"}


def test_in_a_project_whose_every_commit_is_reviewed_any_push_is_judged(work: Work, remote: Path, new: dict[str, str]):
    topic = new["refs/heads/topic"]
    for ref, commit in (*new.items(), ("refs/heads/main", topic)):
        words = refused(work, remote, f"{commit}:{ref}")
        assert f"{ref} is not pushed: 1 of 1 commits are not approved." in words
        assert f"{topic[:10]} Count in digits: unapproved" in words
    # Tags, branches and notes may be made, and notes and deletions be pushed.
    work.git("branch", f"{work.name}-topic", topic)
    work.git("notes", "add", "-m", work.name, topic)
    push(work, remote, "refs/notes/commits")
    work.gated.git("update-ref", "refs/heads/old", work.start, cwd=remote)
    push(work, remote, ":refs/heads/old")
    # One that is refused keeps the others from being pushed.
    refused(work, remote, f"{work.start}:refs/heads/start", f"{topic}:refs/heads/topic")
    work.approve(work.start, topic)
    push(work, remote, f"{topic}:refs/heads/main", *(f"{commit}:{ref}" for ref, commit in new.items()))
    # A commit of the remote's passes elsewhere, too.
    push(work, remote, f"{topic}:refs/heads/another")


@pytest.mark.parametrize("mode", ["optimistic"], indirect=True)
def test_elsewhere_only_a_push_to_a_base_branch_is_judged_also_with_a_strict_gate(
    work: Work, mode: str, remote: Path, new: dict[str, str]
):
    assert work.gated.tandem("gate", "on", "--strict").status == 0
    try:
        push(work, remote, *(f"{commit}:{ref}" for ref, commit in new.items()))
        blob = work.git("hash-object", "-w", "--stdin", stdin=work.name.encode())
        push(work, remote, f"{blob}:refs/tags/blob")
        for main in ("main", "MAIN"):
            refused(work, remote, f"{new['refs/heads/topic']}:refs/heads/{main}")
        work.approve(work.start, new["refs/heads/topic"])
        push(work, remote, f"{new['refs/heads/topic']}:refs/heads/main")
    finally:
        assert work.gated.person("gate", "on", "--no-strict").ok


def test_a_base_branch_takes_only_what_it_has_there_already_or_what_is_approved(work: Work, remote: Path):
    bad = work.made(work.change, work.start)
    # Another branch there has it, so that a third may have it, too; the base branch may not.
    work.git("push", "--quiet", "--no-verify", str(remote), f"{bad}:refs/heads/theirs")
    push(work, remote, f"{bad}:refs/heads/ours")
    refused(work, remote, f"{bad}:refs/heads/main")
    # Commit by commit, or all as one change.
    back = work.made({"a.txt": f"one\n{work.name}\n3\n"}, bad)
    refused(work, remote, f"{back}:refs/heads/main")
    work.approve(work.start, back)
    push(work, remote, f"{back}:refs/heads/main")
    assert work.gated.head("main", cwd=remote) == back


def test_what_went_round_the_hooks_onto_the_base_branch_here_is_found(work: Work, remote: Path):
    commit = work.made(work.change, work.start)
    work.git("-c", f"core.hooksPath={work.folder}", "update-ref", "refs/heads/main", commit)
    refused(work, remote, "main")
    # Nor is it a ground for later commits.
    work.git("branch", f"{work.branch}-more", work.approved(work.other, commit))
    refused(work, remote, f"{work.branch}-more:main")


def test_what_the_remote_has_beyond_what_is_known_here_is_not_trusted(work: Work, remote: Path):
    """Somebody else moved it meanwhile; a forced push is judged from where the gate began."""
    tree = work.gated.git("rev-parse", f"{work.start}^{{tree}}", cwd=remote)
    theirs = work.gated.git("commit-tree", tree, "-p", work.start, "-m", "Theirs", cwd=remote)
    work.gated.git("update-ref", "refs/heads/main", theirs, cwd=remote)
    refused(work, remote, f"+{work.made(work.change, work.start)}:refs/heads/main")
    push(work, remote, f"+{work.approved(work.other, work.start)}:refs/heads/main")


def test_what_stands_here_for_a_branch_of_the_remote_does_not_count_but_what_it_has(work: Work, remote: Path):
    bad = work.made(work.change, work.start)
    work.git("update-ref", "refs/remotes/origin/theirs", bad)
    work.refused("push", "origin", f"{bad}:refs/heads/topic")
    # A colleague, who has no gate, has pushed it.
    work.git("push", "--quiet", "--no-verify", "origin", f"{bad}:refs/heads/theirs")
    work.git("push", "origin", f"{work.approved(work.other, bad)}:refs/heads/topic")
    # A remote that takes pushes and answers nothing else: everything is judged.
    deaf = (f"--receive-pack=git-receive-pack '{remote}' #", str(work.folder / "deaf"))
    assert "could not be asked" in work.refused("push", *deaf, f"{bad}:refs/heads/other")
    work.git("push", *deaf, f"{work.approved(work.change, work.start)}:refs/heads/other")


def test_an_object_that_is_no_commit_cannot_be_judged(work: Work, remote: Path):
    blob = work.git("hash-object", "-w", "--stdin", stdin=work.name.encode())
    assert "no commit" in refused(work, remote, f"{blob}:refs/tags/blob")

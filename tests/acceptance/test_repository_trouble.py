"""Unusable diffs, and repositories or a git that cannot be used: told apart, and without harm to other calls."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.reviewing import PROPOSAL, REVIEWER, WHY, Desk, at_once, edited
from tests.broker import StartBroker, fresh_project
from tests.git.sandbox import Sandbox

GIT_SECONDS = 4
"""As long as git may take; a busy machine needs a second for what takes some milliseconds on an idle one."""


NO_DIFFS = {
    "empty": "",
    "words": "not a diff",
    "context": edited().replace("line 2", "line two"),
    "git aborts": "diff --git a/a.txt b/a.txt\n--- a/a.txt\n+++ b/a.txt\nnew file mode 100644\n line 1\n",
    "NUL": edited().replace("a/a.txt", '"a/a.txt\\000.md"').replace("b/a.txt", '"b/a.txt\\000.md"'),
    "named as a fault": edited("No space left on device"),
    "named as another": edited("unable to write x"),
}


def test_a_diff_that_cannot_be_taken_is_refused(shop: Desk):
    review = shop.put_up(diff=edited())
    with shop.unchanged(review):
        for diff in NO_DIFFS.values():
            shop.refused("INVALID_DIFF", "create_review", **PROPOSAL, diff=diff)
            shop.refused("INVALID_DIFF", "create_review", **PROPOSAL, review_id=review, diff=diff)


def test_a_base_that_git_cannot_follow_is_refused_in_its_words(shop: Desk):
    bases = ("main@{u}", "@{push}", "HEAD@{99}", "HEAD:../a.txt", "HEAD^{/(}", ":0:a.txt", "HEAD..HEAD", "x" * 512)
    for base in bases:
        error = shop.call("create_review", **PROPOSAL, diff=edited(), base=base)["error"]
        assert (error["code"], error["retryable"], error["details"]["field"]) == ("INVALID_INPUT", False, "base"), error
    envelope = shop.call("create_review", **PROPOSAL, diff=edited(), base="main@{u}")
    assert "git says: no upstream configured for branch 'main'" in envelope["error"]["message"]


def test_a_folder_that_is_no_repository_is_no_project(desk: Desk, tmp_path: Path):
    for root in ("relative", str(tmp_path), str(tmp_path / "missing")):
        envelope = desk.envelope_unscoped("register_project", root=root, name=desk.project)
        assert envelope["error"]["code"] == "INVALID_INPUT"


def test_a_repository_that_is_gone_stops_its_own_diffs_only(shop: Desk, repo: Sandbox):
    review = shop.put_up(diff=edited())
    repo.root.rename(repo.root.with_name("moved"))
    with shop.unchanged(review):
        shop.refused("UNAVAILABLE", "create_review", **PROPOSAL, diff=edited())
        shop.refused("UNAVAILABLE", "create_review", **PROPOSAL, review_id=review, diff=edited(text="best"))
    # What needs no repository goes on.
    claim = shop.do("claim_review", review_id=review, reviewer_id=REVIEWER)
    assert claim["applies_to_head"] is None
    shop.verdict(review, "approved")


def test_without_git_everything_but_diffs_goes_on(start_broker: StartBroker, repo: Sandbox):
    broker = start_broker(git_executable="git-that-is-not-there")
    with Desk(broker.url, fresh_project()) as desk:
        envelope = desk.envelope_unscoped("register_project", root=str(repo.root), name=desk.project)
        assert envelope["error"]["code"] == "UNAVAILABLE"
        desk.approve(desk.put_up())


@pytest.mark.skipif(os.name == "nt", reason="platform: a script without an interpreter's name is POSIX's")
def test_a_git_that_hangs_holds_up_diffs_only(start_broker: StartBroker, repo: Sandbox, tmp_path: Path):
    program, hangs = tmp_path / "git", tmp_path / "hangs"
    program.write_text(f'#!/bin/sh\n[ -e "{hangs}" ] && exec sleep 600\nexec "{shutil.which("git")}" "$@"\n')
    program.chmod(0o755)
    broker = start_broker(git_executable=program, git_timeout_seconds=GIT_SECONDS)
    with Desk(broker.url, fresh_project()) as desk:
        desk.register(repo.root)
        review = desk.put_up_claimed(diff=edited())
        hangs.touch()
        with desk.unchanged(review):
            offer = {"review_id": review, "verdict": "comment", "reason": WHY, "claim_generation": 1}
            calls: list[Callable[[], dict[str, Any]]] = [
                lambda: desk.call("create_review", **PROPOSAL, diff=edited("b.txt")),
                lambda: desk.call("submit_verdict", **offer, counter_patch=edited(text="best")),
                # Beside them, what needs no git is done as fast as ever.
                lambda: {"took": timed(lambda: [desk.status(review) for _ in range(20)])},
            ]
            created, offered, beside = at_once(calls)
        assert beside["took"] < GIT_SECONDS
        for envelope in (created, offered):
            assert (envelope["error"]["code"], envelope["error"]["retryable"]) == ("TIMEOUT", True)
        hangs.unlink()
        desk.verdict(review, "comment", counter_patch=edited(text="best"))
        desk.put_up(diff=edited("b.txt"))


def timed(work: Callable[[], object]) -> float:
    """How many seconds it takes."""
    began = time.monotonic()
    work()
    return time.monotonic() - began


def test_a_failure_that_may_pass_is_not_kept_for_its_key(shop: Desk, repo: Sandbox):
    """`retryable` answers are not kept: the same call with the same key is done once that is possible."""
    moved = repo.root.with_name("moved")
    repo.root.rename(moved)
    sent = {**PROPOSAL, "diff": edited(), "idempotency_key": "key-1"}
    shop.refused("UNAVAILABLE", "create_review", **sent)
    moved.rename(repo.root)
    created = shop.do("create_review", **sent)
    assert shop.do("create_review", **sent) == created

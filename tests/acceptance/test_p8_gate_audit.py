"""P8 for gates: replaying the log rebuilds their rows, and whatever was done to them behind the broker's back shows."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acceptance.gating import Branch
from tests.acceptance.reviewing import Desk
from tests.acceptance.test_p8_audit import Archive, copy_of
from tests.broker import BrokerProcess
from tests.git.sandbox import Sandbox

PROJECT = "shop/with a slash"


def gated_history(desk: Desk, repo: Sandbox) -> str:
    """A history that leaves every row of a gate behind; the review that was rolled back."""
    branch = Branch(desk, repo)
    desk.loosen(enabled=False, reason="A pause.")
    desk.do("set_gate", enabled=True, accepted=["1" * 40], folder="/home/ann/shop/.git")
    change = {"path": "a.txt", "mode_after": "100644", "blob_after": "1" * 40}
    desk.override(changes=[change], reason="The shop is down.", override_id="ov-1")
    kept, _ = branch.optimistic("kept.txt", "kept\n")
    commit, review = branch.optimistic("a.txt", "one\n")
    branch.record(branch.commit("b.txt", "two\n"), unreviewed=True)
    branch.decide(review, "rejected")
    _, against = branch.optimistic("c.txt", "three\n")
    branch.decide(against, "changes_requested")
    desk.do(
        "record_rollback",
        review_id=review,
        branch="feature",
        head_before=repo.head(),
        head_after="2" * 40,
        reverted=[{"commit": commit, "reverted_by": "3" * 40}],
        carried=[{"commit": kept, "becomes": "2" * 40}],
    )
    return review


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory, repo_template: Path) -> Archive:
    """A history that is all well, and no broker running on it; PostgreSQL is held against its log by `broker`."""
    folder = tmp_path_factory.mktemp("original")
    broker = BrokerProcess(folder)
    with broker, Desk(broker.url, PROJECT) as desk:
        repo = Sandbox(Path(shutil.copytree(repo_template, folder / "repository")))
        desk.register(repo.root)
        review = gated_history(desk, repo)
    return Archive.left_by(broker, {}, review)


@pytest.fixture
def archive(original: Archive, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Archive]:
    """A copy of that history, to be spoilt."""
    with copy_of(original, tmp_path, request) as copy:
        yield copy


def test_p8_replaying_the_log_rebuilds_what_a_gate_is_made_of(archive: Archive):
    report = archive.audit()
    assert report["problems"] == []
    # The project, its gate, an override, four commits, three reviews and the log's own checkpoints.
    assert report["subjects"] == 11


FORGERIES = {
    "a gate switched off": "UPDATE gates SET enabled = 0",
    "a base branch": "UPDATE gates SET branches = '[]'",
    "a gate gone": "DELETE FROM gates",
    "a gate put in": "INSERT INTO gates SELECT 'other', enabled, branches, accepted, reason, switched_at, switched_by,"
    " event_seq, event_hash, folders, trusted, signers FROM gates",
    "another override": "UPDATE overrides SET digest = 'x' || digest",
    "an override put in": "INSERT INTO overrides SELECT project, 'ov-2', digest, branch, reason, overridden_at,"
    " overridden_by, recorded_at, event_seq, event_hash FROM overrides",
    "what takes a commit back": "UPDATE commits SET inverse = 'x' || inverse WHERE inverse IS NOT NULL",
    "a commit that is called unreviewed": "UPDATE commits SET unreviewed = 1 WHERE unreviewed = 0",
    "a commit's plan": "UPDATE commits SET plan = 'x'",
    "a commit gone": "DELETE FROM commits WHERE unreviewed = 1",
    "a commit's review": "DELETE FROM commit_reviews",
    "a review's plan": "UPDATE commit_reviews SET plan = 'x'",
    "a refusal forgotten": "DELETE FROM plan_refusals",
    "a refusal put in": "INSERT INTO plan_refusals SELECT project, 'x', review_id FROM plan_refusals",
    "a rollback gone": "DELETE FROM rollbacks",
    "a rollback's plan": "UPDATE rollbacks SET plan = 'x'",
    "what was taken back": "UPDATE taken_back SET reverted_by = NULL WHERE reverted_by IS NOT NULL",
    "an event gone": "DELETE FROM events WHERE kind = 'commit_recorded'",
    "an event's words": "UPDATE events SET data = replace(data, 'pause', 'party') WHERE kind = 'gate_switched'",
}


@pytest.mark.parametrize("forgery", FORGERIES)
def test_p8_what_was_done_behind_the_brokers_back_is_detected(archive: Archive, forgery: str):
    assert archive.change(FORGERIES[forgery]) > 0, "the forgery has nothing to forge"
    assert archive.problems()

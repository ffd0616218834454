"""A reviewer process does the job that its supervisor writes to it, and no other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tandem.pool.reviewers.job import WorkerExit, read_job
from tests.reviewers.peer import Peer
from tests.reviewers.working import Reviewer, StartReviewer, deeds


@pytest.fixture
def reviewer(tmp_path: Path, peer: Peer) -> Any:
    """A reviewer that is not started yet."""
    found = Reviewer(tmp_path, peer, deeds("say", "x"))
    yield found
    found.end()


def test_a_job_is_read_as_it_was_written(reviewer: Reviewer) -> None:
    assert read_job(reviewer.job.line()) == reviewer.job


@pytest.mark.parametrize("line", [b"", b'{"half'])
def test_without_a_job_it_ends(reviewer: Reviewer, line: bytes) -> None:
    reviewer.start(line)
    reviewer.leave()
    assert reviewer.wait() == WorkerExit.SUPERVISOR_GONE
    assert "before there was a job" in reviewer.complaint()


def test_a_template_that_is_gone_ends_it(start: StartReviewer, tmp_path: Path) -> None:
    reviewer = start(deeds("say", "x"), prompt_template=str(tmp_path / "gone.md"))
    assert reviewer.wait() == WorkerExit.BAD_JOB
    assert "there is no such file" in reviewer.complaint()


def test_a_log_that_cannot_be_written_ends_it(start: StartReviewer, tmp_path: Path) -> None:
    reviewer = start(deeds("say", "x"), log_file=str(tmp_path))
    assert reviewer.wait() == WorkerExit.BAD_JOB
    assert "cannot be written" in reviewer.complaint()


@pytest.mark.parametrize(
    "environment",
    [{"TANDEM_REVIEWER": "codex-r9-abcdef"}, {"TANDEM_RUN": "0" * 32}],
    ids=["of another", "inside a run"],
)
def test_a_reviewer_that_starts_a_reviewer_is_refused(reviewer: Reviewer, environment: dict[str, str]) -> None:
    reviewer.start(None, **environment)
    assert reviewer.wait() == WorkerExit.BAD_JOB
    assert "A reviewer cannot start a reviewer" in reviewer.complaint()


def test_it_may_also_be_started_by_hand(reviewer: Reviewer, peer: Peer) -> None:
    reviewer.start(TANDEM_REVIEWER="")
    peer.wait_for("list_reviews", 2)
    reviewer.say(b"drain\n")
    assert reviewer.wait() == WorkerExit.IN_ORDER

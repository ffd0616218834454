"""A reviewer process does the job that its supervisor writes to it, and no other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tandem.pool.reviewers.job import WorkerExit
from tests.reviewers.peer import Peer
from tests.reviewers.working import Reviewer, StartReviewer, deeds


@pytest.fixture
def reviewer(tmp_path: Path, peer: Peer) -> Any:
    """A reviewer that is not started yet."""
    found = Reviewer(tmp_path, peer, deeds("say", "x"))
    yield found
    found.end()


@pytest.mark.parametrize("line", [b"", b'{"half'])
def test_without_a_job_it_ends(reviewer: Reviewer, line: bytes) -> None:
    reviewer.start(line)
    reviewer.leave()
    assert reviewer.wait() == WorkerExit.SUPERVISOR_GONE
    assert "before there was a job" in reviewer.complaint()


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"prompt_template": "FOLDER/gone.md"}, "there is no such file"),
        ({"log_file": "FOLDER"}, "cannot be written"),
        ({"prompt_template": "FOLDER/mine.md", "mode": "agent"}, "the variable {{project}} is missing"),
    ],
)
def test_a_job_that_cannot_be_done_ends_it(
    start: StartReviewer, tmp_path: Path, settings: dict[str, str], said: str
) -> None:
    (tmp_path / "mine.md").write_text("Review as {{reviewer_id}}.")
    named = {name: value.replace("FOLDER", str(tmp_path)) for name, value in settings.items()}
    reviewer = start(deeds("say", "x"), **named)
    assert reviewer.wait() == WorkerExit.BAD_JOB
    assert said in reviewer.complaint()


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

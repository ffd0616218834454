"""A reviewer process does the job that its supervisor writes to it, and no other."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tandem.errors import ConfigInvalid
from tandem.reviewers.job import JOB_LIMIT_BYTES, Exit, Job, read_job
from tests.reviewers.peer import Peer
from tests.reviewers.working import Reviewer, StartReviewer, deeds

DELETED = object()


@pytest.fixture
def reviewer(tmp_path: Path, peer: Peer) -> Any:
    """A reviewer that is not started yet."""
    found = Reviewer(tmp_path, peer, deeds("say", "x"))
    yield found
    found.end()


def written(job: Job, **changes: Any) -> bytes:
    values = {**json.loads(job.line()), **changes}
    return json.dumps({name: value for name, value in values.items() if value is not DELETED}).encode()


def test_a_job_is_read_as_it_was_written(reviewer: Reviewer) -> None:
    assert read_job(reviewer.job.line()) == reviewer.job


def test_what_has_a_default_may_be_left_out(reviewer: Reviewer) -> None:
    changes: dict[str, Any] = dict.fromkeys(("wsl_distro", "model", "prompt_template", "start_seconds"), DELETED)
    assert read_job(written(reviewer.job, **changes, command=None)).command == ()


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("broker", "ftp://host"),
        ("broker", "http://user:word@host"),
        ("broker", "http://host?project=x"),
        ("broker", "http://host:99999"),
        ("access", ""),
        ("access", "two words"),
        ("access", "two\nlines"),
        ("reviewer_id", "a b"),
        ("reviewer_id", "-x"),
        ("project", ""),
        ("project", DELETED),
        ("workspace", "relative"),
        ("mode", "both"),
        ("provider", 3),
        ("command", "codex --flag"),
        ("command", ["codex", 1]),
        ("effort", "most"),
        ("attempt_seconds", -1),
        ("attempt_seconds", True),
        ("attempt_seconds", float("nan")),
        ("total_seconds", None),
        ("output_bytes", 1.5),
        ("log_backups", -1),
        ("log_file", "a\0b"),
        ("scratch", None),
        ("unknown", 1),
    ],
)
def test_a_field_that_cannot_be_used_is_named(reviewer: Reviewer, field: str, value: Any) -> None:
    with pytest.raises(ConfigInvalid, match=field) as caught:
        read_job(written(reviewer.job, **{field: value}))
    assert caught.value.details["setting"] == field


@pytest.mark.parametrize("line", [b"", b"no json", b"[1]", b'"a"', b"[" * 100_000, b"\xff"])
def test_what_is_no_job_is_refused(line: bytes) -> None:
    with pytest.raises(ConfigInvalid, match="no JSON"):
        read_job(line)


# ---------------------------------------------------------------------------------------------- the process


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (b'{"broker": 1}\n', "broker must be a text"),
        (b"x" * (JOB_LIMIT_BYTES + 1), f"is over {JOB_LIMIT_BYTES} bytes"),
    ],
)
def test_a_bad_job_ends_it(reviewer: Reviewer, line: bytes, words: str) -> None:
    reviewer.start(line)
    assert reviewer.wait() == Exit.BAD_JOB
    assert words in reviewer.complaint()


@pytest.mark.parametrize("line", [b"", b'{"half'])
def test_without_a_job_it_ends(reviewer: Reviewer, line: bytes) -> None:
    reviewer.start(line)
    reviewer.leave()
    assert reviewer.wait() == Exit.SUPERVISOR_GONE
    assert "before there was a job" in reviewer.complaint()


def test_an_unknown_provider_ends_it(start: StartReviewer) -> None:
    reviewer = start((), provider="hal")
    assert reviewer.wait() == Exit.BAD_JOB
    assert "no reviewer provider 'hal'" in reviewer.complaint()


def test_a_template_that_is_gone_ends_it(start: StartReviewer, tmp_path: Path) -> None:
    reviewer = start(deeds("say", "x"), prompt_template=str(tmp_path / "gone.md"))
    assert reviewer.wait() == Exit.BAD_JOB
    assert "there is no such file" in reviewer.complaint()


def test_a_log_that_cannot_be_written_ends_it(start: StartReviewer, tmp_path: Path) -> None:
    reviewer = start(deeds("say", "x"), log_file=str(tmp_path))
    assert reviewer.wait() == Exit.BAD_JOB
    assert "cannot be written" in reviewer.complaint()


@pytest.mark.parametrize(
    "environment",
    [{"TANDEM_REVIEWER": "codex-r9-abcdef"}, {"TANDEM_RUN": "0" * 32}],
    ids=["of another", "inside a run"],
)
def test_a_reviewer_that_starts_a_reviewer_is_refused(reviewer: Reviewer, environment: dict[str, str]) -> None:
    reviewer.start(None, **environment)
    assert reviewer.wait() == Exit.BAD_JOB
    assert "A reviewer cannot start a reviewer" in reviewer.complaint()


def test_it_may_also_be_started_by_hand(reviewer: Reviewer, peer: Peer) -> None:
    reviewer.start(TANDEM_REVIEWER="")
    peer.wait_for("list_reviews", 2)
    reviewer.say(b"drain\n")
    assert reviewer.wait() == Exit.IN_ORDER

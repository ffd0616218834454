"""In the mode `agent` the program runs the loop itself, and the reviewer process lives as long as it does."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tandem.pool.reviewers.job import WorkerExit
from tests.ports import HeldPort
from tests.reviewers.peer import Peer
from tests.reviewers.running import START_SECONDS, is_gone, number_in
from tests.reviewers.working import StartReviewer, deeds

only_posix = pytest.mark.skipif(sys.platform == "win32", reason="platform: signals are of POSIX")
KEEPING = (
    "import json, os, sys; json.dump(dict(os.environ), open(sys.argv[1], 'w'));"
    " open(sys.argv[1] + '.prompt', 'w').write(sys.stdin.read())"
)


def test_the_program_is_told_where_and_for_what(peer: Peer, start: StartReviewer, tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    command = (sys.executable, "-c", KEEPING, str(kept))
    reviewer = start(command, mode="agent", project="my shop & more", idle_seconds=77)
    assert reviewer.wait() == WorkerExit.IN_ORDER
    environment = json.loads(kept.read_text())
    assert environment["TANDEM_REVIEW_MCP_URL"] == f"{peer.url}/mcp/reviewer?project=my%20shop%20%26%20more"
    assert environment["TANDEM_REVIEWER"] == reviewer.job.reviewer_id
    prompt = kept.with_suffix(".prompt").read_text()
    for words in (reviewer.job.reviewer_id, "my shop & more", "at 77 seconds, stop"):
        assert words in prompt
    assert list(reviewer.scratch.iterdir()) == []
    assert peer.calls == []


def test_of_several_brokers_it_is_told_of_one_that_answers(peer: Peer, start: StartReviewer, tmp_path: Path) -> None:
    kept, gone = tmp_path / "kept", HeldPort()
    command = (sys.executable, "-c", KEEPING, str(kept))
    reviewer = start(command, mode="agent", broker=f"http://127.0.0.1:{gone.hold()},{peer.url}")
    assert reviewer.wait() == WorkerExit.IN_ORDER
    gone.release()
    assert json.loads(kept.read_text())["TANDEM_REVIEW_MCP_URL"].startswith(f"{peer.url}/mcp/reviewer")


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (deeds("fill-stderr", "0", "leave", "3"), "The program ended with status 3: last complaint"),
        (("no-such-program",), "cannot be started"),
    ],
)
def test_its_failure_is_told(start: StartReviewer, command: tuple[str, ...], said: str) -> None:
    reviewer = start(command, mode="agent")
    assert reviewer.wait() == WorkerExit.PROGRAM_FAILED
    assert said in reviewer.complaint()


def test_its_life_is_limited(start: StartReviewer) -> None:
    reviewer = start(deeds("say", "at work", "sleep", "300"), mode="agent", total_seconds=START_SECONDS)
    assert reviewer.wait() == WorkerExit.IN_ORDER
    assert "at work" in reviewer.said()
    assert f"its time of {START_SECONDS:g} s is up" in reviewer.said()


@only_posix
def test_told_to_stop_it_ends_the_program(start: StartReviewer, tmp_path: Path) -> None:
    asked, child = tmp_path / "asked", tmp_path / "child"
    reviewer = start(deeds("note-sigterm", str(asked), "child", str(child), "sleep", "300"), mode="agent")
    pid = number_in(child)
    reviewer.stop()
    assert reviewer.wait() == WorkerExit.IN_ORDER
    assert asked.read_text() == "asked"
    assert is_gone(pid)


def test_without_its_supervisor_the_program_ends(start: StartReviewer, tmp_path: Path) -> None:
    reviewer = start(deeds("note", str(tmp_path / "pid"), "sleep", "300"), mode="agent")
    pid = number_in(tmp_path / "pid")
    reviewer.leave()
    assert reviewer.wait() == WorkerExit.SUPERVISOR_GONE
    assert is_gone(pid)

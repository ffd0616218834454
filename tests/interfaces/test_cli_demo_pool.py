"""`tandem demo --pool` plays a reviewer pool with everything real but the model, and leaves nothing behind."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import psutil
import pytest

from tests.commandline import Shell
from tests.interfaces.test_cli_demo import ensure_told, play

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="platform: reviewers run in WSL there")

STORY = [
    "No reviewer has run yet",
    "$ tandem submit -m 'Read prices from the form' --wait",
    "changes_requested",
    "which the pool started by itself, requests changes:",
    "prices.py:5: eval runs whatever text it is given",
    "$ tandem submit --revise rv_",
    "approved",
    "allowed  everything is approved",
    "puts up 6 proposals at once",
    "proves that there were never more than 2 reviewers at a time",
    "starts nothing: the model is down",
    "each finishes what it is at, and ends",
    "while the pool is paused, nothing is started",
    "$ tandem reviewers resume",
    "3 reviewers gave no verdict; the last: crashed",
    "tried again later",
    "tried again later",
    "raised to a person's attention",
    "refused  1 of 1 paths",
    "$ tandem reviewers list",
    "1 crashed",
    # What a reviewer approved of: how many reviews each of them gets, the machine decides.
    " %",
    "$ tandem down",
    "has stopped",
    "of 6 reviewers, their programs and the broker no process is left",
    "intact",
    "All of it happened as it must",
]


@pytest.fixture(autouse=True)
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the demonstration makes its folder."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return tmp_path


def processes_in(folder: Path) -> list[str]:
    """Processes that were started below a folder, or with a file of it."""
    found: list[str] = []
    for process in psutil.process_iter(["cmdline", "cwd"]):
        words = " ".join(process.info["cmdline"] or ())
        if str(folder) in words or (process.info["cwd"] or "").startswith(str(folder / "tandem-demo")):
            found.append(words)
    return found


@pytest.mark.timeout(240)
def test_the_pool_is_played_to_its_end_and_leaves_nothing(scratch: Path) -> None:
    ended = play(scratch, "--pool")
    assert ended.status == 0, ended.stdout + ended.stderr
    ensure_told(ended.stdout, STORY)
    assert list(scratch.glob("tandem-demo-*")) == []
    assert processes_in(scratch) == []


def test_a_pool_plays_alone(scratch: Path) -> None:
    ended = Shell("http://127.0.0.1:9", scratch).run("demo", "--pool", "--only", "review")
    assert (ended.status, "leave out --only" in ended.stderr) == (2, True)

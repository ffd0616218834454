"""`tandem demo` plays a review, a hand-off cycle and a pool with all real but the model, and leaves nothing behind."""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from pathlib import Path

import psutil
import pytest

from tests.commandline import Ended, Shell

PLAY_SECONDS = 200
OF_THE_REVIEW = [
    "proposes rv_",
    "asks:",
    "wakes at once and answers",
    "requests changes",
    "accepts the counter-patch: it becomes round 2",
    "approves round 2",
    "allowed  everything is approved",
    "refused  1 of 1 paths",
    "closes rv_",
]
OF_THE_CYCLE = [
    "keys, shown this once: gemini psk_",
    "starts the cycle",
    "asks for the lock out of turn, and is refused: LOCK_DENIED",
    "hands over to codex: phase backend",
    "was waiting, wakes at once and reads it",
    "hands over to gemini: phase frontend_refine",
    "hands over with the token of before, lock_",
    "is refused: LOCK_DENIED",
    "whose token is another by now: lock_",
    "hands over to codex: phase backend",
    "hands over to gemini: phase frontend_refine",
    "completes the cycle",
    "archives it in data/archives/",
    "handoffs/004-gemini.json",
    "manifest.json",
]
OF_THE_POOL = [
    "No reviewer has run yet",
    "$ tandem submit -m 'Read prices from the form' --wait",
    "changes_requested",
    "which the pool started by itself, requests changes:",
    "prices.py:5: eval runs any text that it is given",
    "$ tandem submit --revise rv_",
    "approved",
    "allowed  everything is approved",
    "$ tandem reviewers list",
    "$ tandem down",
    "has stopped",
]
OF_THE_END = ["intact", "All of it happened as it must"]
SECRET = re.compile(rb"psk_[\w-]{20}|lock_[0-9a-f]{6}_[0-9a-f]{8}|sess_[0-9a-z]{18}_[0-9a-f]{6}_")
MASKED = re.compile(r"(?:psk|lock|sess)_.{3}…")


@pytest.fixture(autouse=True)
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the demonstration makes its folder."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return tmp_path


def ensure_told(told: str, lines: list[str]) -> None:
    """Insist that every line is there, each behind the one before."""
    place = 0
    for line in lines:
        found = told.find(line, place)
        assert found >= 0, f"'{line}' is missing in what follows:\n{told[place:]}"
        place = found + len(line)


def play(folder: Path, *options: str, **environment: str) -> Ended:
    """Run the demonstration; it may take far longer than other commands where the machine is busy."""
    with Shell("http://127.0.0.1:9", folder).start("demo", *options, **environment) as process:
        try:
            told, complaint = process.communicate(timeout=PLAY_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            raise
    return Ended(process.returncode, told.decode(), complaint.decode())


@pytest.mark.timeout(240)
def test_the_demonstration_plays_to_its_end_and_leaves_no_key_and_no_token_on_the_disk(scratch: Path) -> None:
    ended = play(scratch, "--keep")
    assert ended.status == 0, ended.stdout + ended.stderr
    ensure_told(ended.stdout, [*OF_THE_REVIEW, *OF_THE_CYCLE, *OF_THE_END])
    assert MASKED.search(ended.stdout)
    assert not SECRET.search((ended.stdout + ended.stderr).encode())
    [folder] = scratch.glob("tandem-demo-*")
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert "manifest.json" in {path.name for path in files}
    assert [path for path in files if SECRET.search(path.read_bytes())] == []


@pytest.mark.timeout(240)
def test_the_cycle_plays_alone(scratch: Path) -> None:
    ended = play(scratch, "--only", "cycle")
    assert ended.status == 0, ended.stdout + ended.stderr
    ensure_told(ended.stdout, OF_THE_CYCLE)
    assert "proposes" not in ended.stdout


@pytest.mark.timeout(240)
def test_a_step_that_fails_ends_the_demonstration_with_its_reason(scratch: Path) -> None:
    (scratch / "nothing").mkdir()
    ended = play(scratch, PATH=str(scratch / "nothing"))
    assert ended.status == 1, ended.stdout
    assert "The demonstration failed: " in ended.stderr
    assert "git" in ended.stderr
    assert "All of it happened" not in ended.stdout
    assert list(scratch.glob("tandem-demo-*")) == []


def processes_in(folder: Path) -> list[str]:
    """Processes that were started below a folder, or with a file of it."""
    found: list[str] = []
    for process in psutil.process_iter(["cmdline", "cwd"]):
        words = " ".join(process.info["cmdline"] or ())
        if str(folder) in words or (process.info["cwd"] or "").startswith(str(folder / "tandem-demo")):
            found.append(words)
    return found


@pytest.mark.skipif(sys.platform == "win32", reason="platform: reviewers run in WSL there")
@pytest.mark.timeout(240)
def test_the_pool_is_played_to_its_end_and_leaves_nothing(scratch: Path) -> None:
    ended = play(scratch, "--pool")
    assert ended.status == 0, ended.stdout + ended.stderr
    ensure_told(ended.stdout, [*OF_THE_POOL, *OF_THE_END])
    assert list(scratch.glob("tandem-demo-*")) == []
    assert processes_in(scratch) == []


def test_a_pool_plays_alone(scratch: Path) -> None:
    ended = Shell("http://127.0.0.1:9", scratch).run("demo", "--pool", "--only", "review")
    assert (ended.status, "leave out --only" in ended.stderr) == (2, True)

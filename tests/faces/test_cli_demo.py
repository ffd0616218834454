"""`tandem demo` plays the whole review with everything real, and leaves nothing behind."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from tests.commandline import Shell


@pytest.mark.timeout(240)
def test_the_demonstration_plays_to_its_end_and_cleans_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    ended = Shell("http://127.0.0.1:9", tmp_path).run("demo")
    assert ended.status == 0, ended.stdout + ended.stderr
    told = [
        "puts up rv_",
        "asks:",
        "wakes at once and answers",
        "requests changes",
        "accepts the counter-patch: it becomes round 2",
        "approves round 2",
        "allowed  everything is approved",
        "refused  1 of 1 paths",
        "closes rv_",
        "intact",
        "All of it happened as it must",
    ]
    places = [ended.stdout.find(line) for line in told]
    assert -1 not in places, told[places.index(-1)]
    assert places == sorted(places)
    assert list(tmp_path.glob("tandem-demo-*")) == []

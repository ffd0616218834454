"""The rule about skipped tests, tried on tests that are skipped."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.architecture.source import ROOT
from tests.modes import VARIATION

PLUGINS = [word for name in ("tests.no_skips", "no:cacheprovider") for word in ("-p", name)]
EXAMPLES = """
import pytest

def test_passes():
    pass

@pytest.mark.skip(reason="not today")
def test_marked(): ...

def test_called():
    pytest.skip("no network")

@pytest.mark.skipif(True, reason="platform: other systems only")
def test_platform(): ...

@pytest.mark.xfail(strict=True)
def test_known_to_fail():
    assert False
"""


MISSING = """
import pytest
from tests.downloads import needing

@pytest.mark.parametrize("number", range(4))
def test_that_needs_one(number):
    with needing("a thing", OSError):
        raise OSError("no network")

@pytest.fixture(scope="session")
def another():
    with needing("another thing", OSError):
        raise OSError("no certificate")

@pytest.mark.parametrize("number", range(4))
def test_that_needs_another(another, number): ...

def test_that_needs_none(): ...
"""


def outcome(folder: Path, source: str, *arguments: str, ci: str) -> str:
    (folder / "test_examples.py").write_text(source, "utf-8")
    environment = {**os.environ, "CI": ci, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "pytest", *PLUGINS, "-c", os.devnull]
    command += [f"--rootdir={folder}", str(folder), *arguments]
    return subprocess.run(
        command, cwd=folder, env=environment, check=False, capture_output=True, text=True
    ).stdout.splitlines()[-1]


def test_in_ci_only_a_platform_excuses(tmp_path: Path) -> None:
    last = outcome(tmp_path, EXAMPLES, ci="true")
    assert "1 passed" in last
    assert "1 skipped" in last
    assert "1 xfailed" in last
    assert "1 failed" in last
    assert "1 error" in last


@VARIATION
def test_what_cannot_be_fetched_fails_one_test_and_says_why(tmp_path: Path) -> None:
    last = outcome(tmp_path, MISSING, "--numprocesses", "2", ci="true")
    assert "1 failed, 1 passed, 6 skipped, 1 error" in last

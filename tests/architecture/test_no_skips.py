"""The rule about skipped tests, tried on tests that are skipped."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.architecture.source import ROOT

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


def outcome(folder: Path, source: str, *, ci: str) -> str:
    (folder / "test_examples.py").write_text(source, "utf-8")
    environment = {**os.environ, "CI": ci, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "pytest", "-p", "tests.no_skips", "-p", "no:cacheprovider", "-c", os.devnull]
    command += [f"--rootdir={folder}", str(folder)]
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


def test_elsewhere_skips_are_skips(tmp_path: Path) -> None:
    assert "1 passed, 3 skipped, 1 xfailed" in outcome(tmp_path, EXAMPLES, ci="")


@pytest.mark.parametrize(("reason", "fails"), [("no module today", True), ("platform: Windows only", False)])
def test_a_whole_module_too(tmp_path: Path, *, reason: str, fails: bool) -> None:
    source = f"import pytest\npytest.skip({reason!r}, allow_module_level=True)\n"
    last = outcome(tmp_path, source, ci="true")
    assert ("error" in last) is fails
    assert ("1 skipped" in last) is not fails

"""A forked `tandem` is like a started one: a process of its own, which ends by its own work or by a signal."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.broker import BrokerProcess
from tests.forked import Forked

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="platform: processes are forked on Linux only")
PATIENCE_SECONDS = 60


def ended(folder: Path, *arguments: str, **environment: str) -> tuple[int, str, str]:
    """Exit status, output and errors of a forked `tandem`."""
    told = [folder / "out.txt", folder / "errors.txt"]
    with told[0].open("wb") as out, told[1].open("wb") as errors:
        everything = {**os.environ, **environment}
        with Forked(arguments, folder, everything, subprocess.DEVNULL, out.fileno(), errors.fileno()) as process:
            status = process.wait(PATIENCE_SECONDS)
    return status, told[0].read_text("utf-8"), told[1].read_text("utf-8")


@pytest.mark.parametrize("arguments", [["--version"], ["status", "--json"], ["up", "--port", "high"]])
def test_it_says_and_answers_what_a_started_one_does(tmp_path: Path, arguments: list[str]) -> None:
    command = [sys.executable, "-m", "tandem", *arguments]
    environment = {"TANDEM_DATA_DIR": str(tmp_path / "data")}
    started = subprocess.run(
        command, cwd=tmp_path, env={**os.environ, **environment}, check=False, capture_output=True, text=True
    )
    assert ended(tmp_path, *arguments, **environment) == (started.returncode, started.stdout, started.stderr)


def channels(pid: int) -> set[str]:
    """The pipes and sockets that a process holds open now."""
    found: set[str] = set()
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        # A running broker closes some while we look.
        with contextlib.suppress(FileNotFoundError):
            found.add(str(descriptor.readlink()))
    return {name for name in found if name.startswith(("pipe:", "socket:"))}


def test_a_signal_ends_it_and_nobody_else(tmp_path: Path) -> None:
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
    with BrokerProcess(tmp_path / "one") as one, BrokerProcess(tmp_path / "other") as other:
        # No process holds the descriptors of another: the end of a pipe is seen when its own process ends.
        assert channels(one.pid)
        assert channels(one.pid).isdisjoint(channels(other.pid))
        one.kill()
        assert other.health()
        one.start()
        assert one.health()

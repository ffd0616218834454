"""Running scripted programs: what tests of processes share."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import psutil

from tandem.core import platforms
from tandem.core.platforms import ProcessIdentity
from tandem.pool.reviewers import Finished, Invocation, RunLimits, programs

ACTS = Path(__file__).parent / "programs" / "acts.py"
LIMITS = RunLimits(
    start_seconds=None, total_seconds=60.0, silence_seconds=None, output_bytes=1024 * 1024, grace_seconds=10.0
)
PATIENCE_SECONDS = 60.0
START_SECONDS = 6.0
"""In which a program has started and spoken, on a machine with ten times as much to do as it has processors."""


def acts(*deeds: str, folder: Path, stdin: bytes = b"", talks: bool = True) -> Invocation:
    """An invocation of the scripted program."""
    environment = {"PATH": os.defpath, "TANDEM_REVIEWER": "tests-r1-abcdef"}
    return Invocation(
        argv=(sys.executable, str(ACTS), *deeds),
        environment=environment,
        folder=str(folder),
        stdin=stdin,
        files={},
        talks=talks,
    )


def run(
    invocation: Invocation,
    *,
    on_start: Callable[[ProcessIdentity], None] = lambda _: None,
    cancelled: threading.Event | None = None,
    log: Callable[[bytes], object] = lambda _: None,
    **limits: float | None,
) -> Finished:
    """Runs it under the usual limits, apart from those that are named."""
    return programs.run(
        invocation,
        replace(LIMITS, **limits),
        on_start=on_start,
        cancelled=cancelled or threading.Event(),
        log=log,
    )


def number_in(path: Path) -> int:
    """The process number in a file that a scripted program notes it in."""
    for _ in until(f"{path.name} is written"):
        if path.exists():
            break
    return int(path.read_text())


def is_gone(pid: int) -> bool:
    """Whether a process has ended; a zombie has."""
    try:
        return psutil.Process(pid).status() in {psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD}
    except psutil.NoSuchProcess:
        return True


def until(what: str) -> Iterator[None]:
    """Looks again and again; fails when that takes too long."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < deadline:
        yield
        platforms.wait_until_gone(platforms.this_process(), 0.01)
    raise AssertionError(f"waited in vain until {what}")

"""Work in processes of its own: several that begin at the same moment, or one that dies at a step of it.

The first part is for tests, the second for the scripts that they hand over.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PATIENCE_SECONDS = 60
KILL = 9
"""Windows has no name for it, but ends a process at once all the same."""

CHANGES = {"open", "os.link", "os.mkdir", "os.remove", "os.rename", "os.rmdir"}
"""What Python tells its audit hooks just before it does it; see the table of audit events."""


def start(script: str, *arguments: str) -> subprocess.Popen[str]:
    """A process that runs a script and hears and says lines."""
    command = [sys.executable, "-c", script, *arguments]
    return subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def all_at_once(script: str, each: Sequence[Sequence[str]]) -> list[str]:
    """What each process said that ran the script, all from the same moment on; they must end well.

    The script calls `wait_for_start` once it has everything it needs.
    """
    with ExitStack() as stack:
        children = [stack.enter_context(start(script, *arguments)) for arguments in each]
        for child in children:
            stack.callback(child.kill)
        for child in children:
            await_ready(child)
        for child in children:
            go_on(child)
        said = [child.communicate(timeout=PATIENCE_SECONDS)[0] for child in children]
    assert [child.returncode for child in children] == [0] * len(children)
    return said


def await_ready(child: subprocess.Popen[str]) -> None:
    """Wait until a script waits for the test."""
    assert child.stdout is not None
    assert child.stdout.readline() == "ready\n"


def go_on(child: subprocess.Popen[str]) -> None:
    """Let a script that waits go on."""
    assert child.stdin is not None
    child.stdin.write("go\n")
    child.stdin.flush()


def survives(script: str, *arguments: str) -> bool:
    """Whether a script ran to its end; if not, it was killed."""
    with start(script, *arguments) as child:
        child.communicate(timeout=PATIENCE_SECONDS)
    # Windows gives the number of the signal as the exit status.
    assert child.returncode in {0, -KILL, KILL}
    return child.returncode == 0


def wait_for_start() -> None:
    """For scripts: say that all is ready, and wait for the test."""
    print("ready", flush=True)  # noqa: T201 - heard by `all_at_once`
    sys.stdin.readline()


def pause_before(event: str) -> None:
    """For scripts: say "ready" and wait for a line just before the first of Python's audit events of that name."""
    paused = False

    def hear(heard: str, _details: tuple[Any, ...]) -> None:
        nonlocal paused
        if heard == event and not paused:
            paused = True
            wait_for_start()

    sys.addaudithook(hear)


def before_each_change(act: Callable[[], None]) -> None:
    """For scripts: from now on, call this just before a file or a folder is opened, made, renamed or removed."""

    def hear(event: str, _details: tuple[Any, ...]) -> None:
        if event in CHANGES:
            act()

    sys.addaudithook(hear)


def die_before_change(number: int) -> None:
    """For scripts: have the process killed just before a change; the first is 1."""
    left = number

    def count() -> None:
        nonlocal left
        left -= 1
        if left == 0:
            os.kill(os.getpid(), KILL)

    before_each_change(count)

"""A program at a pseudo terminal, as a person has it before them."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

SECONDS = 60


class Terminal:
    """A program whose controlling terminal, input and output are a pseudo terminal.

    Args:
        command: What to run.
        cwd: Where.
        environment: The whole environment.
    """

    def __init__(self, command: Sequence[str], cwd: Path, environment: Mapping[str, str]) -> None:
        self._command = command
        self._cwd = cwd
        self._environment = environment
        self._seen = ""

    def __enter__(self) -> Self:
        self._ours, theirs = pty.openpty()
        # A process that leads a session makes the terminal its own, then becomes the program.
        opener = (
            "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execvp(sys.argv[1], sys.argv[1:])"
        )
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", opener, *self._command],
            cwd=self._cwd,
            env=dict(self._environment),
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
        )
        os.close(theirs)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.wait(SECONDS)
        os.close(self._ours)

    def read_until(self, words: str) -> str:
        """What has been shown, up to the first of these words that was not read yet."""
        deadline = time.monotonic() + SECONDS
        while words not in self._seen:
            assert self._more(deadline), f"it ended, or waits, without {words!r}:\n{self._seen}"
        before, _, self._seen = self._seen.partition(words)
        return before + words

    def read_all(self) -> str:
        """What was shown to the end and not read yet."""
        deadline = time.monotonic() + SECONDS
        while self._more(deadline):
            pass
        return self._seen

    def type(self, line: str) -> None:
        """Type a line."""
        os.write(self._ours, line.encode() + b"\n")

    def wait(self) -> int:
        """Read to the end; the exit status."""
        self.read_all()
        return self._process.wait(SECONDS)

    def _more(self, deadline: float) -> bool:
        """Whether something was read before the end."""
        ready, _, _ = select.select([self._ours], [], [], max(0.0, deadline - time.monotonic()))
        if not ready:
            return False
        try:
            shown = os.read(self._ours, 65536)
        except OSError:
            # Linux answers so when the last one at the other end has gone.
            return False
        self._seen += shown.decode("utf-8", "replace").replace("\r\n", "\n")
        return bool(shown)

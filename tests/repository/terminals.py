"""A program at a pseudo terminal, as a person has it before them."""

from __future__ import annotations

import os
import pty
import select
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.forked import start_tandem

SECONDS = 60


class Terminal:
    """A `tandem` whose controlling terminal, input and output are a pseudo terminal.

    Args:
        arguments: What it is told to do.
        cwd: Where.
        environment: The whole environment.
    """

    def __init__(self, arguments: Sequence[str], cwd: Path, environment: Mapping[str, str]) -> None:
        self._arguments = arguments
        self._cwd = cwd
        self._environment = environment
        self._seen = ""

    def __enter__(self) -> Self:
        self._ours, theirs = pty.openpty()
        streams = dict.fromkeys(("stdin", "stdout", "stderr"), theirs)
        self._process = start_tandem(self._arguments, self._cwd, self._environment, **streams, session="terminal")
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

"""A person at a terminal: a command that has a controlling terminal, and somebody who types there."""

from __future__ import annotations

import os
import select
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

from tandem.rulings.person import agent_mark
from tests.forked import start_tandem

SECONDS = 60


def without_agents() -> dict[str, str]:
    """The process's environment without the marks of an agent, which may well run these tests."""
    environment = dict(os.environ)
    while mark := agent_mark(environment):
        del environment[mark]
    return environment


class Terminal:
    """A `tandem` whose controlling terminal, input and output are a pseudo-terminal.

    Args:
        arguments: The command line.
        cwd: Where.
        environment: The whole environment.
    """

    def __init__(self, arguments: Sequence[str], cwd: Path, environment: Mapping[str, str]) -> None:
        self._arguments = arguments
        self._cwd = cwd
        self._environment = environment
        self._read = b""
        self._passed = 0

    def __enter__(self) -> Self:
        import pty  # platform: Windows has none

        self._ours, theirs = pty.openpty()
        # The terminal must belong to the command's own session: /dev/tty opens that one.
        streams = dict.fromkeys(("stdin", "stdout", "stderr"), theirs)
        self._process = start_tandem(self._arguments, self._cwd, self._environment, **streams, session="terminal")
        os.close(theirs)
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait(SECONDS)
        os.close(self._ours)

    @property
    def shown(self) -> str:
        """All that was read so far."""
        return self._read.decode(errors="replace").replace("\r\n", "\n")

    def shows(self, words: str) -> bool:
        """Whether these words come next, before it ends or waits for something else; reads up to them."""
        deadline = time.monotonic() + SECONDS
        while words not in self.shown[self._passed :]:
            if not self._more(deadline):
                return False
        self._passed = self.shown.index(words, self._passed) + len(words)
        return True

    def read_until(self, words: str) -> str:
        """All up to the first of these words that was not read yet."""
        before = self._passed
        assert self.shows(words), f"it ended, or waits, without {words!r}:\n{self.shown}"
        return self.shown[before : self._passed]

    def read_all(self) -> str:
        """All to the end that was not read yet."""
        deadline = time.monotonic() + SECONDS
        while self._more(deadline):
            pass
        return self.shown[self._passed :]

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
            more = os.read(self._ours, 65536)
        except OSError:
            # Linux answers so when the last one at the other end has gone.
            return False
        self._read += more
        return bool(more)


def at_a_terminal(
    arguments: Sequence[str], cwd: Path, *, typed: str = "", after: str = "", **environment: str
) -> tuple[int, str]:
    """Run `tandem` at a pseudo-terminal of its own; its exit status and everything that was shown there.

    Args:
        arguments: The command line.
        cwd: Where.
        typed: What the person types, with its newline; empty for nothing.
        after: The words that they wait for; where these do not come they type nothing.
        environment: Variables beside those of the process.
    """
    with Terminal(arguments, cwd, {**without_agents(), "TERM": "dumb", **environment}) as terminal:
        if typed and terminal.shows(after):
            terminal.type(typed.removesuffix("\n"))
        return terminal.wait(), terminal.shown

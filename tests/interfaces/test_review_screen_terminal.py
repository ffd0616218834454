"""`tandem review` as it is called: at a real terminal, without one, and by an agent."""

from __future__ import annotations

import os
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tandem.client import TandemClient
from tandem.rulings import proof
from tests.architecture.source import ROOT
from tests.commandline import Shell
from tests.forked import Started, start_tandem
from tests.sentences.forms import find_command
from tests.sentences.named import lines_of, typed_commands

_LOCAL_FLAGS = 3
_PATIENCE_SECONDS = 90.0
_LOOK_SECONDS = 0.1
_SEQUENCE = re.compile(rb"\x1b(?:\[[0-?]*[ -/]*[@-~]|[()][A-Z0-9]|[=>78])")
TERMINALS = pytest.mark.skipif(sys.platform == "win32", reason="platform: there are no pseudo-terminals")


class Terminal:
    """A pseudo-terminal with a command in it."""

    def __init__(self, ours: int, process: Started) -> None:
        self._ours = ours
        self.process = process
        self.shown = b""
        self._seen = 0

    @property
    def text(self) -> str:
        """The output since the last text that was waited for, without colours and places."""
        return _SEQUENCE.sub(b" ", self.shown[self._seen :]).decode("utf-8", "replace")

    def until(self, text: str) -> None:
        """Wait until this has been shown."""
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while text not in self.text:
            assert time.monotonic() < deadline, f"never showed {text!r}:\n{self.text}"
            assert self._read(), f"ended before {text!r}:\n{self.text}"
        self._seen = len(self.shown)

    def type(self, keys: str) -> None:
        os.write(self._ours, keys.encode())

    def end(self) -> int:
        """Wait for the command's end; its exit status."""
        deadline = time.monotonic() + _PATIENCE_SECONDS
        # Our own copy of its other end stays open, so that only the process tells when it is over.
        while (status := self.process.poll()) is None and time.monotonic() < deadline:
            self._read(_LOOK_SECONDS)
        if status is None:
            # It then says where each of its threads is: see `tests/fork_server.py`.
            self.process.send_signal(signal.SIGUSR1)
            self._read()
        while self._read(0.0):
            pass
        assert status is not None, f"never ended:\n{self.text}"
        return status

    def _read(self, patience_seconds: float = _PATIENCE_SECONDS) -> bool:
        ready, _, _ = select.select([self._ours], [], [], patience_seconds)
        try:
            chunk = os.read(self._ours, 65_536) if ready else b""
        except OSError:
            # So a pseudo-terminal says on Linux that its other end is closed.
            chunk = b""
        self.shown += chunk
        return bool(chunk)


@contextmanager
def terminal(shell: Shell, *arguments: str, **environment: str) -> Generator[Terminal]:
    """Start a command at a terminal of 100 by 30."""
    import fcntl
    import pty
    import struct
    import termios

    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 100, 0, 0))
    variables = {**os.environ, "TANDEM_BROKER": shell.url, "TERM": "xterm-256color", **environment}
    streams = dict.fromkeys(("stdin", "stdout", "stderr"), theirs)
    process = start_tandem(arguments, shell.cwd, variables, **streams, session="own")
    try:
        with process:
            try:
                yield Terminal(ours, process)
                assert termios.tcgetattr(theirs)[_LOCAL_FLAGS] & termios.ECHO, "the terminal was left as it was not"
            finally:
                os.close(theirs)
                process.kill()
    finally:
        os.close(ours)


@TERMINALS
def test_a_person_approves_at_the_terminal_and_leaves(shell: Shell) -> None:
    intent = "Wait between attempts \x1b]0;owned\x07"
    review_id = shell.run("submit", "-m", intent, "--json").data["review_id"]
    with terminal(shell, "review", "--as", "ann") as at:
        at.until("Wait between attempts \\u001b]0;owned\\u0007")
        at.type("\r")
        at.until("no one holds it")
        at.type("a")
        at.until("Your verdict on round 1")
        at.type("\x13")
        at.until("ann approved on round 1.")
        at.type("q")
        at.until("Waiting on others")
        at.type("q")
        assert at.end() == 0
        assert b"\x1b]0;" not in at.shown

    async def status(client: TandemClient) -> tuple[str, str | None]:
        found = await client.get_review_status(review_id)
        return found.status, found.reviewer_id

    assert shell.ask(status) == ("approved", "ann")


@TERMINALS
def test_the_page_that_a_person_opens_from_there_knows_their_browser(shell: Shell, tmp_path: Path) -> None:
    """As `tandem open` does: at the address without the proof the page would take no approval of a person."""
    (tmp_path / proof.FILE).write_text("k" * 64, "ascii")
    # The same content again would be the review that is there.
    (shell.cwd / "b.txt").write_text("two\n", "ascii")
    shell.run("submit", "-m", "Wait a moment", "--json")
    with terminal(shell, "review", "--as", "ann", TANDEM_DATA_DIR=str(tmp_path), BROWSER="/none") as at:
        at.until("Wait a moment")
        at.type("\r")
        at.until("no one holds it")
        at.type("b")
        at.until("/you?proof=")
        at.type("q")
        at.until("Unclaimed")
        at.type("q")
        assert at.end() == 0


@TERMINALS
def test_an_agent_at_a_terminal_is_sent_to_the_commands(shell: Shell) -> None:
    with terminal(shell, "review", AI_AGENT="robot") as at:
        at.until("agents review with 'tandem review claim'")
        assert at.end() == 1


@TERMINALS
def test_a_broker_that_is_away_is_said_before_the_screen_opens(shell: Shell) -> None:
    with terminal(Shell("http://127.0.0.1:9", shell.cwd), "review", "--as", "ann") as at:
        at.until("No broker answers")
        assert at.end() == 3


def test_without_a_terminal_it_is_the_help(shell: Shell) -> None:
    ended = shell.run("review")
    asked = shell.run("review", "--help")
    assert (ended.status, asked.status) == (2, 0)
    assert "Usage: tandem review [OPTIONS] COMMAND [ARGS]..." in ended.stdout + ended.stderr
    assert (ended.stdout + ended.stderr).split() == asked.stdout.split()
    refused = shell.run("review", "--as", "ann")
    assert (refused.status, "needs a terminal" in refused.stderr) == (1, True)


def test_other_commands_start_without_the_screen_and_the_broker(tmp_path: Path) -> None:
    slow = ("textual", "pygments", "tandem.cli.review_screen", "sqlalchemy", "starlette", "uvicorn", "mcp")
    script = (
        "import sys; import tandem.cli.main as main, tandem.cli.submit; main.load('review');"
        f"print([name for name in {slow} if name in sys.modules])"
    )
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert ended.stdout == "[]\n"


def test_what_the_guide_tells_to_type_is_understood() -> None:
    lines = lines_of((ROOT / "docs" / "guide" / "terminal.md").read_text("utf-8"))
    told = [list(one.words[1:]) for _, is_typed, line in lines if is_typed for one in typed_commands("", line)]
    assert ["review"] in told
    for words in told:
        command, left = find_command(["review", "screen", *words[1:]] if words[1:2] != ["screen"] else words)
        assert command.make_context("screen", left).params, words

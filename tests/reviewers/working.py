"""Reviewer processes, started as their supervisor starts them: what their tests share."""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from tandem.pool.reviewers import REENTRY_VARIABLE, processes
from tandem.pool.reviewers.job import ReviewJob
from tests.forked import Started, start_tandem
from tests.reviewers.peer import DIGEST, Peer
from tests.reviewers.running import ACTS, PATIENCE_SECONDS, until

KEEPS = ACTS.with_name("reviewer.py")


def answer(verdict: str = "approved", **changes: Any) -> str:
    """What a program has to print, for the usual proposal; it puts its nonces in."""
    return json.dumps(
        {
            "nonce": "THE-NONCE",
            "digest": DIGEST,
            "files": "THE-FILES",
            "summary": None,
            "answers": [],
            "findings": [],
            "reason": "Read all of it.",
            "verdict": verdict,
            "counter_patch": None,
            **changes,
        }
    )


def deeds(*words: str) -> tuple[str, ...]:
    """The command of the scripted program."""
    return (sys.executable, str(ACTS), *words)


def keeping(folder: Path, *answers: str) -> tuple[str, ...]:
    """The command of a program that keeps its input."""
    folder.mkdir(exist_ok=True)
    return (sys.executable, str(KEEPS), str(folder), *answers)


class Reviewer:
    """A reviewer process, and the files around it."""

    def __init__(self, folder: Path, peer: Peer, command: tuple[str, ...], **settings: Any) -> None:
        self.scratch = folder / "scratch"
        self.log = folder / "logs" / "reviewer.log"
        self.workspace = folder / "workspace"
        for each in (self.scratch, self.workspace):
            each.mkdir(exist_ok=True)
        usual: dict[str, Any] = {
            "broker": peer.url,
            # Processes are found and ended by it, and other tests run beside this one.
            "reviewer_id": f"custom-r1-{secrets.token_hex(6)}",
            "project": "shop",
            "workspace": str(self.workspace),
            "provider": "custom",
            "command": command,
            "idle_seconds": 60,
            "attempt_seconds": 60.0,
            "grace_seconds": 1.0,
            "total_seconds": 60.0,
            "output_bytes": 1024 * 1024,
            "log_file": str(self.log),
            "log_max_bytes": 1024 * 1024,
            "log_backups": 2,
            "scratch": str(self.scratch),
        }
        self.job = ReviewJob(**{**usual, **settings})
        self._process: Started | None = None

    def start(self, line: bytes | None = None, **environment: str) -> None:
        """Starts the process and writes its job."""
        variables = {**os.environ, REENTRY_VARIABLE: self.job.reviewer_id, **environment}
        variables = {name: value for name, value in variables.items() if value}
        pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
        self._process = start_tandem(
            (), self.scratch.parent, variables, **pipes, module="tandem.pool.reviewers.worker", session="own"
        )
        self.say(self.job.line() if line is None else line)

    @property
    def process(self) -> Started:
        assert self._process is not None
        return self._process

    def say(self, line: bytes) -> None:
        """Writes to its standard input."""
        pipe = self._stdin()
        pipe.write(line)
        pipe.flush()

    def leave(self) -> None:
        """Closes its standard input, as the system does when its supervisor dies."""
        self._stdin().close()

    def stop(self) -> None:
        """Asks it to stop, as its supervisor does."""
        self.process.terminate()

    def wait(self, seconds: float = PATIENCE_SECONDS) -> int:
        """Its exit status; fails when it does not end within so long."""
        return self.process.wait(seconds)

    def complaint(self) -> str:
        """Its standard error, once it has ended."""
        assert self.process.stderr is not None
        return self.process.stderr.read().decode()

    def said(self) -> str:
        """All of its log."""
        return self.log.read_text("utf-8", "replace") if self.log.exists() else ""

    def until_said(self, words: str) -> None:
        """Waits until the log has these words."""
        for _ in until(f"the log says {words!r}"):
            if words in self.said():
                return

    def end(self) -> None:
        """Ends it and every process that it started."""
        process = self._process
        if process is None:
            return
        process.kill()
        process.wait(PATIENCE_SECONDS)
        for pipe in (process.stdin, process.stdout, process.stderr):
            if pipe is not None:
                pipe.close()
        processes.end_marked({REENTRY_VARIABLE: self.job.reviewer_id})

    def _stdin(self) -> IO[bytes]:
        assert self.process.stdin is not None
        return self.process.stdin


StartReviewer = Callable[..., Reviewer]


@contextmanager
def reviewers(folder: Path, peer: Peer) -> Generator[StartReviewer]:
    """Starts reviewers, which are gone afterwards."""
    started: list[Reviewer] = []

    def start(command: tuple[str, ...], **settings: Any) -> Reviewer:
        one = Reviewer(folder, peer, command, **settings)
        started.append(one)
        one.start()
        return one

    try:
        yield start
    finally:
        for one in started:
            one.end()

"""One reviewer's process as its supervisor sees it: started, spoken to, ended with all that it started.

Standard input stays open for as long as the supervisor lives, and only the supervisor has the other end: when that is
gone, however it went, the process reads the end of its input and ends. Lines go down there: the job, `drain`, `cancel`.
"""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import psutil

from tandem import platforms
from tandem.platforms import ProcessIdentity
from tandem.reviewers.job import CANCEL_LINE, DRAIN_LINE
from tandem.reviewers.trees import Tree, has_ended

_LOOK_SECONDS = 0.05
_REAP_SECONDS = 5.0
_log = logging.getLogger("tandem.supervisor")


DRAIN: Final = DRAIN_LINE + b"\n"
"""To a worker: finish what you are at, then end."""

CANCEL: Final = CANCEL_LINE + b"\n"
"""To a worker: break off what you are at, say so to the broker, and end."""


@dataclass(frozen=True, slots=True)
class Start:
    """How a reviewer's process is started.

    Attributes:
        reviewer_id: Whose it is.
        marks: What its environment and that of all its descendants have, and no others.
        argv: The program and its arguments.
        environment: Its environment, apart from that.
        folder: Where it starts; nothing of a repository may be found from there.
        log_file: What it writes goes to the end of this.
    """

    reviewer_id: str
    marks: Mapping[str, str]
    argv: tuple[str, ...]
    environment: Mapping[str, str] = field(repr=False)
    folder: Path
    log_file: Path


class WorkerProcess:
    """A process that was started, and the thread that waits for its end.

    Nothing here belongs to an event loop: all methods may block for a moment.

    Attributes:
        identity: The process, safe from reuse of its number.
    """

    def __init__(self, start: Start, on_end: Callable[[int], None]) -> None:
        """Starts the process.

        Args:
            start: What to start.
            on_end: Is called once, in a thread of its own, when the process and all that it started are gone,
                with the exit status or the negative number of the signal that ended it.

        Raises:
            OSError: It cannot be started.
        """
        self._on_end = on_end
        self._process = _popen(start)
        self._tree = Tree(self._process.pid, start.marks)
        # Whoever holds it may rely on the number: the process is reaped only under it.
        self._lock = threading.Lock()
        self._reaped = False
        self.identity = _identity(self._process)
        try:
            threading.Thread(target=self._watch, name=f"reviewer-{start.reviewer_id}", daemon=True).start()
        except RuntimeError as error:
            self._end_tree()
            raise OSError(f"no thread can be had for it: {error}") from error

    def write(self, line: bytes) -> None:
        """Writes a line, with its end, to its standard input; one that does not listen any more misses it."""
        # ValueError: it was hung up on.
        with suppress(OSError, ValueError):
            if self._process.stdin is not None:
                self._process.stdin.write(line)

    def hang_up(self) -> None:
        """Closes its standard input, which tells it that it has no supervisor; twice is safe."""
        with suppress(OSError):
            if self._process.stdin is not None:
                self._process.stdin.close()

    def kill(self) -> None:
        """Has it ended at once with all that it started, even if it stands still; `on_end` tells when that is done."""
        with self._lock:
            if not self._reaped:
                # Those that left its session are found through it as long as it is there.
                self._tree.look()
                _kill_session(self._process)

    def _watch(self) -> None:
        try:
            _wait_without_reaping(self._process)
        finally:
            self._end_tree()
            code = self._process.returncode
            self._on_end(-1 if code is None else code)

    def _end_tree(self) -> None:
        with self._lock:
            try:
                self._tree.kill()
            except Exception:  # noqa: BLE001 - its end is to be told whatever becomes of its descendants
                _log.exception("what process %d left behind could not be ended", self._process.pid)
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(_REAP_SECONDS)
            self._reaped = True
        self.hang_up()


def _popen(start: Start) -> subprocess.Popen[bytes]:
    own_group = platforms.detached()
    log = os.open(start.log_file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        return subprocess.Popen(
            start.argv,
            cwd=start.folder,
            env={**start.environment, **start.marks},
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            bufsize=0,
            start_new_session=bool(own_group.get("start_new_session")),
            creationflags=int(own_group.get("creationflags", 0)),
        )
    finally:
        os.close(log)


def _identity(process: subprocess.Popen[bytes]) -> ProcessIdentity:
    try:
        started = psutil.Process(process.pid).create_time()
    except psutil.Error:
        started = time.time()
    return ProcessIdentity(process.pid, round(started * 1_000_000))


def _wait_without_reaping(process: subprocess.Popen[bytes]) -> None:
    """Waits for its end and leaves it its number, by which its descendants are found."""
    if not hasattr(os, "killpg"):
        # Windows: the handle keeps the number from being given to others.
        process.wait()
    elif hasattr(os, "waitid"):
        # ChildProcessError: somebody else has waited for it.
        with suppress(ChildProcessError):
            os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    else:
        while not has_ended(process.pid):
            time.sleep(_LOOK_SECONDS)


def _kill_session(process: subprocess.Popen[bytes]) -> None:
    if not hasattr(os, "killpg"):
        process.kill()
        return
    # Gone, or only zombies left (which macOS answers with a refusal).
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)

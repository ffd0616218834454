"""Processes of reviewers: starting them, finding and ending all that they started, and a supervisor's hold on a worker.

A program's processes are told by three things: they are in its session, they descend from it, or a variable of their
environment says so. The last finds those that left the session and whose parent is gone.

A worker's standard input stays open for as long as its supervisor lives, who alone has the other end: when that is
gone, the worker reads the end of its input and ends. Lines go down there: the job, `drain`, `cancel`.
"""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import psutil

from tandem.core import platforms
from tandem.core.platforms import STOPS_BY_FILE, ProcessIdentity
from tandem.pool.reviewers import REENTRY_VARIABLE, SUPERVISOR_VARIABLE

_LOOK_SECONDS = 0.02
_REAP_SECONDS = 5.0
_KILL_SECONDS = 5.0
"""How long the dead may take to go away: one that waits for a disk cannot be killed."""

_EXEC_SECONDS = 1.0
_EXEC_LOOK_SECONDS = 0.001
_HAS_SIGNALS = hasattr(os, "killpg")
_GONE = {psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD}
_log = logging.getLogger("tandem.supervisor")


@dataclass(slots=True)
class ProcessTree:
    """A program that was started in a session of its own, and everything that came of it.

    Its identity is safe until it is waited for: an unreaped process keeps its number.

    Attributes:
        marks: Variables of the environment by which its processes are known.
        process: The program; None where the marks alone tell what belongs to it.
    """

    marks: Mapping[str, str]
    process: subprocess.Popen[bytes] | None = None
    _seen: dict[int, psutil.Process] = field(default_factory=dict[int, psutil.Process])

    def look(self) -> None:
        """Remembers the descendants there are, so that they are known when their parents are gone."""
        # NoSuchProcess: it ended; its descendants are found by the other signs.
        with suppress(psutil.Error):
            if self.process is not None:
                self._remember(psutil.Process(self.process.pid))

    def processor_seconds(self) -> float:
        """What the program and its known descendants used so far; one that has ended counts with who waited for it."""
        used = 0.0
        with suppress(psutil.Error):
            used = sum(psutil.Process(self.process.pid).cpu_times()[:4]) if self.process is not None else used
        for process in self._seen.values():
            with suppress(psutil.Error):
                used += sum(process.cpu_times()[:4])
        return used

    def ask_to_stop(self) -> None:
        """Sends the signal to stop in order to the whole session and to everything known outside it."""
        self.look()
        if STOPS_BY_FILE:
            # Nothing that we could send is heard there: it is killed when its grace is over.
            return
        self._signal_group(signal.SIGTERM)
        for process in self._members():
            # OSError: it is gone. Who has had the signal with the group does not get it twice.
            with suppress(psutil.Error, OSError):
                if self.process is None or os.getpgid(process.pid) != self.process.pid:
                    process.terminate()

    def strike(self) -> None:
        """Kills its group at once. Those that left it are remembered: they are found as long as the program is."""
        self.look()
        if _HAS_SIGNALS:
            self._signal_group(signal.SIGKILL)
        elif self.process is not None:
            self.process.kill()

    def kill(self) -> int:
        """Ends all of it at once; returns when it is gone, or after five seconds, how many there were."""
        deadline = time.monotonic() + _KILL_SECONDS
        if _HAS_SIGNALS:
            self._signal_group(signal.SIGKILL)
        killed: set[int] = set()
        seen = True
        # Again and again: a process may have started others before, and one that is just beginning shows no marks.
        while (members := self._members()) or (seen and killed):
            seen = bool(members)
            for process in members:
                # psutil compares start times first: a process that has the number of a dead one now is left alone.
                with suppress(psutil.Error):
                    process.kill()
            killed.update(process.pid for process in members)
            if time.monotonic() > deadline:
                break
            time.sleep(_LOOK_SECONDS)
        return len(killed)

    def end(self) -> None:
        """Ends all of it, and reaps the program; from then on its number may be anybody's."""
        try:
            self.kill()
        finally:
            if self.process is not None:
                with suppress(subprocess.TimeoutExpired):
                    self.process.wait(_REAP_SECONDS)

    def _members(self) -> list[psutil.Process]:
        self.look()
        owned = [one for one in _processes() if one.pid != os.getpid() and self._owns(one)]
        if self.process is None:
            for one in owned:
                with suppress(psutil.Error):
                    self._remember(one)
        known = {process.pid: process for process in [*self._seen.values(), *owned]}
        return [process for process in known.values() if process.pid != os.getpid() and _lives(process)]

    def _remember(self, parent: psutil.Process) -> None:
        for process in parent.children(recursive=True):
            self._seen.setdefault(process.pid, process)

    def _owns(self, process: psutil.Process) -> bool:
        if self.process is not None and (process.pid == self.process.pid or self._has_in_session(process)):
            return True
        try:
            return self.marks.items() <= environment_of(process).items()
        except (psutil.Error, OSError):
            # Somebody else's, a kernel's, or gone.
            return False

    def _has_in_session(self, process: psutil.Process) -> bool:
        # The program leads its session, and its group.
        try:
            return _HAS_SIGNALS and self.process is not None and os.getsid(process.pid) == self.process.pid
        except OSError:
            return False

    def _signal_group(self, number: int) -> None:
        # Gone, or only zombies left (which macOS answers with a refusal).
        with suppress(ProcessLookupError, PermissionError):
            if self.process is not None:
                os.killpg(self.process.pid, number)


def start_program(
    argv: Sequence[str], folder: str | Path, environment: Mapping[str, str], **ends: int | IO[bytes]
) -> subprocess.Popen[bytes]:
    """Starts a program in a session of its own, by which it and its descendants are ended.

    Args:
        argv: The program and its arguments.
        folder: Where it starts.
        environment: All of its environment.
        **ends: `stdin`, `stdout` and `stderr`, as `subprocess.Popen` takes them.

    Raises:
        OSError: It cannot be started.
    """
    stated: dict[str, Any] = {**ends, **platforms.detached()}
    return subprocess.Popen[bytes](argv, cwd=folder, env=environment, bufsize=0, **stated)


def identity_of(process: subprocess.Popen[bytes]) -> ProcessIdentity:
    """A child of ours, safe from reuse of its number."""
    # Of one that has ended the system may say no more.
    return platforms.identify(process.pid) or ProcessIdentity(process.pid, round(time.time() * 1_000_000))


def has_ended(process: subprocess.Popen[bytes]) -> bool:
    """Whether a child of ours has ended. It is not reaped, so that its number stays its own."""
    if not _HAS_SIGNALS:
        # Windows: the handle keeps the number from being given to others.
        return process.poll() is not None
    try:
        return psutil.Process(process.pid).status() in _GONE
    except psutil.Error:
        return True


def marks_of(reviewer_id: str, supervisor_id: str) -> dict[str, str]:
    """What the processes of a supervisor's reviewer have in their environment, and no other process has."""
    return {REENTRY_VARIABLE: reviewer_id, SUPERVISOR_VARIABLE: supervisor_id}


def end_marked(marks: Mapping[str, str]) -> int:
    """Kills every process on this machine that has all these marks, and what descends from it; says how many.

    For supervisors whose worker died without ending its program, and for those that find orphans. A mark is the only
    proof that a process is one's own: its number may be anybody's by now, or have been somebody's lie.
    """
    return ProcessTree(marks).kill()


def _processes() -> Iterator[psutil.Process]:
    """All there are. Psutil's own list keeps the dead whose numbers others have now, and takes those for dead."""
    for pid in psutil.pids():
        with suppress(psutil.Error):
            yield psutil.Process(pid)


def environment_of(process: psutil.Process) -> dict[str, str]:
    """The environment of a process, waited for while it has none yet.

    On Linux the starter of a program goes on before the program has its arguments and, after these, its environment.

    Raises:
        psutil.Error: It has ended, or is somebody else's.
    """
    deadline = time.monotonic() + _EXEC_SECONDS
    # Those of the kernel have no file, and never have arguments.
    while not process.cmdline() and process.exe() and time.monotonic() < deadline:
        time.sleep(_EXEC_LOOK_SECONDS)
    return process.environ()


def _lives(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() not in _GONE
    except psutil.Error:
        return False


class WorkerProcess:
    """A process that was started, and the thread that waits for its end.

    Nothing here belongs to an event loop: all methods may block for a moment.

    Attributes:
        identity: The process, safe from reuse of its number.
    """

    def __init__(
        self,
        argv: Sequence[str],
        environment: Mapping[str, str],
        *,
        marks: Mapping[str, str],
        folder: Path,
        log_file: Path,
        on_end: Callable[[int], None],
    ) -> None:
        """Starts the process.

        Args:
            argv: The program and its arguments.
            environment: Its environment, apart from the marks.
            marks: What its environment and that of all its descendants have, and no others.
            folder: Where it starts; nothing of a repository may be found from there.
            log_file: Gets its output at the end.
            on_end: Is called once, in a thread of its own, when the process and all that it started are gone,
                with the exit status or the negative number of the signal that ended it.

        Raises:
            OSError: It cannot be started.
        """
        self._on_end = on_end
        log = os.open(log_file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            self._process = start_program(
                argv, folder, {**environment, **marks}, stdin=subprocess.PIPE, stdout=log, stderr=log
            )
        finally:
            os.close(log)
        self._tree = ProcessTree(marks, self._process)
        # Under it the number is sure: the process is reaped only under it.
        self._lock = threading.Lock()
        self._reaped = False
        self.identity = identity_of(self._process)
        try:
            threading.Thread(target=self._watch, name="reviewer", daemon=True).start()
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
                self._tree.strike()

    def _watch(self) -> None:
        try:
            self._wait_without_reaping()
        finally:
            self._end_tree()
            code = self._process.returncode
            self._on_end(-1 if code is None else code)

    def _wait_without_reaping(self) -> None:
        """Waits for its end and leaves it its number, by which its descendants are found."""
        if hasattr(os, "waitid"):
            # ChildProcessError: somebody else has waited for it.
            with suppress(ChildProcessError):
                os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOWAIT)
        while not has_ended(self._process):
            time.sleep(_LOOK_SECONDS)

    def _end_tree(self) -> None:
        with self._lock:
            try:
                self._tree.end()
            except Exception:  # noqa: BLE001 - its end must be told also if its descendants cannot be ended
                _log.exception("what process %d left behind could not be ended", self._process.pid)
            self._reaped = True
        self.hang_up()

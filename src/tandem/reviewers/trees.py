"""Process trees: finding and ending everything that a program started, wherever it went.

A program's processes are told by three things: they are in its session, they descend from it, or a
variable of their environment says so. The last finds those that left the session and whose parent is gone.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

import psutil

from tandem.platforms import STOPS_BY_FILE
from tandem.reviewers import REENTRY_VARIABLE, SUPERVISOR_VARIABLE

_LOOK_SECONDS = 0.02
_KILL_SECONDS = 5.0
"""How long the dead may take to go away: one that waits for a disk cannot be killed."""

_GONE = {psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD}


@dataclass(slots=True)
class Tree:
    """A program that was started in a session of its own, and what came of it.

    Its identity is safe as long as nobody has waited for it: an unreaped process keeps its number.

    Attributes:
        pid: The program's number, which is also that of its session.
        marks: Variables of the environment by which its processes are known.
    """

    pid: int
    marks: Mapping[str, str]
    _seen: dict[int, psutil.Process] = field(default_factory=dict[int, psutil.Process])

    def look(self) -> None:
        """Remembers the descendants there are, so that they are known when their parents are gone."""
        # NoSuchProcess: it ended; what it started is found by the other signs.
        with suppress(psutil.Error):
            for process in psutil.Process(self.pid).children(recursive=True):
                self._seen.setdefault(process.pid, process)

    def ask_to_stop(self) -> None:
        """Sends the signal to stop in order to the whole session and to everything known outside it."""
        self.look()
        if STOPS_BY_FILE:
            # Nothing that we could send is heard there: it is killed when its grace is over.
            return
        _signal_group(self.pid, signal.SIGTERM)
        for process in self._members():
            if _group_of(process.pid) != self.pid:
                with suppress(psutil.Error):
                    process.terminate()

    def kill(self) -> None:
        """Ends all of it at once; returns when it is gone, or after five seconds."""
        deadline = time.monotonic() + _KILL_SECONDS
        if hasattr(os, "killpg"):
            _signal_group(self.pid, signal.SIGKILL)
        # Again and again: what is killed may have started something in the meantime.
        while members := self._members():
            _kill(members)
            if time.monotonic() > deadline:
                return
            time.sleep(_LOOK_SECONDS)

    def _members(self) -> list[psutil.Process]:
        self.look()
        marked = [one for one in _processes() if self._owns(one)]
        known = {process.pid: process for process in [*self._seen.values(), *marked]}
        return [process for process in known.values() if _lives(process)]

    def _owns(self, process: psutil.Process) -> bool:
        if process.pid in {self.pid, os.getpid()}:
            return process.pid == self.pid
        if hasattr(os, "getsid") and _session_of(process.pid) == self.pid:
            return True
        return _says(process, self.marks)


def marks_of(reviewer_id: str, supervisor_id: str) -> dict[str, str]:
    """What the processes of a supervisor's reviewer have in their environment, and no other process has."""
    return {REENTRY_VARIABLE: reviewer_id, SUPERVISOR_VARIABLE: supervisor_id}


def end_marked(marks: Mapping[str, str]) -> int:
    """Kills every process on this machine that has all these marks, and what descends from it; says how many.

    For supervisors whose worker died without ending its program, and for those that find orphans. A mark is the only
    proof that a process is one's own: its number may be anybody's by now, or have been somebody's lie.
    """
    deadline = time.monotonic() + _KILL_SECONDS
    ended: set[int] = set()
    while found := _marked(marks):
        _kill(found)
        ended.update(process.pid for process in found)
        if time.monotonic() > deadline:
            break
        time.sleep(_LOOK_SECONDS)
    return len(ended)


def has_ended(pid: int) -> bool:
    """Whether a child of ours has ended. It is not reaped, so that its number stays its own."""
    try:
        return psutil.Process(pid).status() in _GONE
    except psutil.Error:
        return True


def _marked(marks: Mapping[str, str]) -> list[psutil.Process]:
    marked = [one for one in _processes() if one.pid != os.getpid() and _says(one, marks) and _lives(one)]
    found = {one.pid: one for one in marked}
    for one in marked:
        with suppress(psutil.Error):
            found |= {child.pid: child for child in one.children(recursive=True) if child.pid != os.getpid()}
    return [one for one in found.values() if _lives(one)]


def _processes() -> Iterator[psutil.Process]:
    """All there are. Psutil's own list keeps the dead whose numbers others have now, and takes those for dead."""
    for pid in psutil.pids():
        with suppress(psutil.Error):
            yield psutil.Process(pid)


def _kill(processes: list[psutil.Process]) -> None:
    # psutil compares start times first: whoever has the number of a dead process now is left alone.
    for process in processes:
        with suppress(psutil.Error):
            process.kill()


def _says(process: psutil.Process, marks: Mapping[str, str]) -> bool:
    try:
        return marks.items() <= process.environ().items()
    except (psutil.Error, OSError):
        # Somebody else's, a kernel's, or gone.
        return False


def _lives(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() not in _GONE
    except psutil.Error:
        return False


def _signal_group(group: int, number: int) -> None:
    # Gone, or only zombies left (which macOS answers with a refusal).
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)


def _group_of(pid: int) -> int | None:
    try:
        return os.getpgid(pid)
    except OSError:
        return None


def _session_of(pid: int) -> int | None:
    try:
        return os.getsid(pid)
    except OSError:
        return None

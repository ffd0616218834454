"""Time limits for processes that are talked to while they run."""

from __future__ import annotations

import heapq
import itertools
import threading
import time
from typing import TYPE_CHECKING, Self

from tandem.git.runner import end

if TYPE_CHECKING:
    from tandem.git.runner import Process


class TimeLimit:
    """Ends a process, and with it every read from its pipes, unless the block ends in time.

    Attributes:
        passed: Whether the time was up.
    """

    def __init__(self, process: Process, seconds: float) -> None:
        self.passed = False
        self.due = time.monotonic() + seconds
        self._process: Process | None = process
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        _watchdog.watch(self)
        return self

    def __exit__(self, *_: object) -> None:
        # Once the lock is had, the process is not ended any more, whoever has its number next.
        with self._lock:
            self._process = None

    @property
    def over(self) -> bool:
        """Whether the block has ended."""
        return self._process is None

    def enforce(self) -> None:
        """Ends the process if it is still needed."""
        with self._lock:
            if self._process is not None:
                self.passed = True
                end(self._process)


class _Watchdog:
    """One thread for all time limits: a thread each would cost more than some git commands take."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._limits: list[tuple[float, int, TimeLimit]] = []
        self._order = itertools.count()
        self._thread: threading.Thread | None = None

    def watch(self, limit: TimeLimit) -> None:
        with self._changed:
            heapq.heappush(self._limits, (limit.due, next(self._order), limit))
            # A fork leaves the thread behind.
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._run, name="git-time-limits", daemon=True)
                self._thread.start()
            elif self._limits[0][2] is limit:
                self._changed.notify()

    def _run(self) -> None:
        while True:
            for limit in self._next_due():
                limit.enforce()

    def _next_due(self) -> list[TimeLimit]:
        """Waits until some limit may have passed."""
        with self._changed:
            while self._limits and self._limits[0][2].over:
                heapq.heappop(self._limits)
            self._changed.wait(self._limits[0][0] - time.monotonic() if self._limits else None)
            due: list[TimeLimit] = []
            while self._limits and self._limits[0][0] <= time.monotonic():
                due.append(heapq.heappop(self._limits)[2])
            return due


_watchdog = _Watchdog()

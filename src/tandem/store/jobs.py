"""Units of work on their way from a caller to one of the store's threads, and the answers back."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import deque
from concurrent.futures import Future
from contextvars import ContextVar
from math import inf
from queue import Empty, SimpleQueue
from time import monotonic
from typing import TYPE_CHECKING, Any, Final

from tandem.errors import Unavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

_log = logging.getLogger(__name__)
_OF_ITS_TIME = 0.9
"""A job whose turn comes later than that is not begun: it would be late, and roll back others in its transaction."""

WAITING_LIMIT: Final = 20_000
"""Units of work that may wait in a queue before the store refuses more."""

_JOB, _END = "job", "end"
lane: ContextVar[str] = ContextVar("lane", default="")
"""Whose work is done here: lanes take turns where work waits, so that the many jobs of one delay another's by one."""


def outcome_unknown(reason: str) -> Unavailable:
    """For a commit whose outcome is unknown: only with a key may the same call be sent again."""
    error = Unavailable(
        f"{reason}, so it is unknown whether this was done. Look before you send it again, or send it with an"
        " idempotency_key in the first place."
    )
    error.retryable = False
    return error


class Job:
    """One unit of work and the caller that waits for its answer.

    Attributes:
        deadline: When its caller is answered at the latest, by `time.monotonic`.
        is_late: Its caller was answered at the deadline; nothing that is not committed by then may be.
        lane: See there.
    """

    __slots__ = (
        "_begin_by",
        "_is_committing",
        "answer",
        "deadline",
        "error",
        "fn",
        "is_late",
        "lane",
        "loop",
        "result",
        "works_on",
    )

    def __init__(
        self,
        fn: Callable[[Any], Any],
        loop: asyncio.AbstractEventLoop | None,
        works_on: tuple[str, ...] = (),
    ) -> None:
        self.fn = fn
        self.works_on = works_on
        self.loop = loop
        self.lane = lane.get()
        # An asyncio future in the caller's loop, or one of `concurrent.futures` for a blocking caller.
        self.answer: Any = loop.create_future() if loop else Future()
        self.result: Any = None
        self.error: BaseException | None = None
        self.deadline = self._begin_by = inf
        self.is_late = self._is_committing = False

    @property
    def is_wanted(self) -> bool:
        """Whether its caller still waits for it, and long enough that it can be done."""
        return not self.answer.done() and monotonic() < self._begin_by

    def limit(self, seconds: float) -> asyncio.TimerHandle:
        """Have it answered after so long, done or not; only in its caller's event loop."""
        now = monotonic()
        self.deadline, self._begin_by = now + seconds, now + _OF_ITS_TIME * seconds
        return asyncio.get_running_loop().call_later(seconds, self._give_up, seconds)

    def _give_up(self, seconds: float) -> None:
        # In this order: `may_commit` notes the commit before it looks, so that one of the two sees the other.
        self.is_late = True
        if not self.answer.done():
            reason = f"The database has not answered for {seconds:.0f} s"
            self.answer.set_exception(
                outcome_unknown(reason) if self._is_committing else Unavailable(f"{reason}; try again.")
            )

    def may_commit(self) -> bool:
        """Note that its effect can no longer be prevented, unless its caller was told that there is none."""
        self._is_committing = True
        return not self.is_late

    def start_over(self) -> None:
        """Forget the result or error: the transaction was rolled back."""
        self.result = self.error = None
        self._is_committing = False

    def settle(self) -> None:
        """Hand over what `result` or `error` holds; only in the thread that `answer` belongs to."""
        if self.answer.done():
            return
        if self.error is None:
            self.answer.set_result(self.result)
        elif isinstance(self.error, StopIteration):
            # A future cannot carry it, and one that refuses would leave the rest of its batch unanswered.
            self.answer.set_exception(RuntimeError("a unit of work raised StopIteration"))
        else:
            self.answer.set_exception(self.error)


class WorkQueue:
    """Jobs that wait for a thread, in order of arrival within a lane; only while it is open it lets any in."""

    def __init__(self) -> None:
        # One sign for each job, and one for each thread that must end.
        self._signs: SimpleQueue[str] = SimpleQueue()
        self._lanes: dict[str, deque[Job]] = {}
        self._open = False
        # Without it a job could slip in behind the last thread's end and never be answered.
        self._door = threading.Lock()

    def put(self, job: Job) -> None:
        """Queue a job.

        Raises:
            Unavailable: The store is not open, or too many jobs wait already.
        """
        with self._door:
            if not self._open:
                raise Unavailable("the database is not open: the broker is starting or ending; try again later")
            if self._signs.qsize() >= WAITING_LIMIT:
                raise Unavailable(f"{WAITING_LIMIT} units of work are waiting already; try again later")
            self._lanes.setdefault(job.lane, deque()).append(job)
            self._signs.put(_JOB)

    def open(self) -> None:
        """Let jobs in."""
        with self._door:
            self._open = True

    def get(self) -> Job | None:
        """The next job, however long it takes; None is this thread's sign to end."""
        return self._next() if self._signs.get() == _JOB else None

    def take(self) -> Job | None:
        """The next job if there is one right now."""
        try:
            sign = self._signs.get_nowait()
        except Empty:
            return None
        if sign == _END:
            # The sign to end: put it back for `get`, behind which nothing can come any more.
            self._signs.put(_END)
            return None
        return self._next()

    def _next(self) -> Job:
        with self._door:
            name = next(iter(self._lanes))
            jobs = self._lanes.pop(name)
            job = jobs.popleft()
            if jobs:
                # At the end: it is the others' turn.
                self._lanes[name] = jobs
            return job

    def close(self, threads: int) -> None:
        """Let no more jobs in, and tell that many threads to end when they have done what waits."""
        with self._door:
            self._open = False
            for _ in range(threads):
                self._signs.put(_END)

    def waiting(self) -> int:
        """How many jobs wait, about."""
        return self._signs.qsize()


class Intake:
    """The jobs of one transaction: a first one, and those that wait or come while it runs, within bounds.

    Attributes:
        dropped: How many there were whose callers had gone, or were answered already.
    """

    def __init__(self, inbox: WorkQueue, first: Job, *, most: int, seconds: float) -> None:
        self.dropped = 0
        self._inbox = inbox
        self._next: Job | None = first
        self._room = most
        self._until = monotonic() + seconds

    def take(self) -> Job | None:
        """The next job, if there is one right now; it has to be answered."""
        while (job := self._take()) is not None:
            if job.is_wanted:
                return job
            self.dropped += 1
        return None

    def _take(self) -> Job | None:
        job, self._next = self._next, None
        if job is None and self._room > 0 and monotonic() < self._until:
            job = self._inbox.take()
        self._room -= job is not None
        return job


class Completions:
    """Takes answers and notices back to the event loops, with one wake-up for each."""

    def __init__(self) -> None:
        self._listeners: tuple[tuple[asyncio.AbstractEventLoop, Callable[[int, Collection[str]], None]], ...] = ()

    def add_listener(self, fn: Callable[[int, Collection[str]], None]) -> None:
        """Call `fn(notice, subjects)` in the loop that runs now, after every commit that gave a notice."""
        self._listeners = (*self._listeners, (asyncio.get_running_loop(), fn))

    def deliver(self, jobs: Iterable[Job], notice: int = 0, subjects: Collection[str] = ()) -> None:
        """Answer the jobs and pass the notice on, with the subjects that have events; from any thread."""
        loops: dict[asyncio.AbstractEventLoop, list[Job]] = {}
        for job in jobs:
            if job.loop is None:
                job.settle()
            else:
                loops.setdefault(job.loop, []).append(job)
        if notice:
            for loop, _ in self._listeners:
                loops.setdefault(loop, [])
        for loop, theirs in loops.items():
            try:
                loop.call_soon_threadsafe(self._arrive, loop, theirs, notice, subjects)
            except RuntimeError:
                # The loop was closed, and with it went everybody who waited in it.
                _log.debug("an event loop ended before its %d answers came", len(theirs))

    def _arrive(self, loop: asyncio.AbstractEventLoop, jobs: list[Job], notice: int, subjects: Collection[str]) -> None:
        for job in jobs:
            job.settle()
        if not notice:
            return
        for heard_in, listener in self._listeners:
            if heard_in is not loop:
                continue
            try:
                listener(notice, subjects)
            except Exception:  # noqa: BLE001 - an edge, and logged
                # One listener's fault must not keep the others from hearing.
                _log.exception("a listener of the store failed")

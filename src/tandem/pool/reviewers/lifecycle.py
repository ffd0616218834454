"""The reviewers of one supervisor: each from the order to start it to the report of its end.

    starting ─▶ running, told to the broker ─▶ has its job ─▶ [asked to drain ─▶ cancelled ─▶ killed] ─▶ ended

Its orders only grow stricter: run, drain, kill. A reviewer that is ended needs no broker for it, so that all of
this goes on while the broker is away.
"""

from __future__ import annotations

import asyncio
import logging
import re
import signal
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any, Final

from tandem.core.platforms import ProcessIdentity
from tandem.errors import TandemError
from tandem.pool.contract import Order, Orders
from tandem.pool.reviewers.job import CANCEL, DRAIN, ReviewJob, WorkerExit
from tandem.pool.reviewers.processes import WorkerProcess, end_marked
from tandem.pool.reviewers.reviewer_files import SupervisorContext
from tandem.pool.rules import END_OF_LOG, RETRY_AFTER
from tandem.present.words import duration

REPORT_SECONDS: Final = 2.0
"""Beyond the grace of its program: how long a worker that was cancelled may take to tell the broker."""

QUICK_SECONDS: Final = 10.0
"""A reviewer that ends out of order within so long of its start has failed at once."""

_AGAIN_SECONDS = 5.0
"""After a kill that had no effect."""

_SEVERITY = {"run": 0, "drain": 1, "kill": 2}
_MEANING: Final[dict[int, str]] = {
    WorkerExit.FAULT: "It stopped by a fault of its own",
    WorkerExit.BAD_JOB: "It was given a job that it cannot do",
    WorkerExit.PROGRAM_FAILED: "Its program cannot be started, or failed at once",
    WorkerExit.SUPERVISOR_GONE: "It lost its supervisor",
    WorkerExit.BROKER_GONE: "The broker refused it, or stayed away",
    WorkerExit.RATE_LIMITED: "Its provider takes no more requests now",
}
_RETRY_AFTER: Final = re.compile(rf"{RETRY_AFTER}(?P<seconds>\d+) s: (?P<said>.*)")
_log = logging.getLogger("tandem.supervisor")


@dataclass(frozen=True, slots=True)
class Ended:
    """How a reviewer ended, by the names in which its broker is told.

    Attributes:
        exit_code: Its exit status, or the negative number of a signal; None if it never started.
        quick: Whether it failed at once, or its program did.
        error: What went wrong, for people.
        retry_after_s: How long its provider's quota asks to wait, 0 if it does not say; None without a quota.
    """

    exit_code: int | None
    quick: bool
    error: str | None
    retry_after_s: float | None = None


class ReviewerLifecycle:
    """One reviewer.

    Attributes:
        reviewer_id: Its id.
        identity: Its process; None before it has one.
        ended: How it ended; None as long as it has not.
        life: Ends when it has ended.
    """

    def __init__(self, order: Order, context: SupervisorContext, living: Callable[[], Collection[str]]) -> None:
        """Begins to start it.

        Args:
            order: What the broker says of it.
            context: What all reviewers share.
            living: Gives the ids of all that have not ended.
        """
        self.reviewer_id = order.reviewer_id
        self.identity: ProcessIdentity | None = None
        self.ended: Ended | None = None
        self._order = order
        self._context = context
        self._settings = context.settings
        self._living = living
        self._wanted = order.wanted
        self._loop = asyncio.get_running_loop()
        self._changed = asyncio.Event()
        self._exit_code: int | None = None
        self._job: ReviewJob | None = None
        self._told_broker = False
        self._began = self._loop.time()
        self._drained_at: float | None = None
        self._asked_to_drain = False
        self._cancelled_at: float | None = None
        self._forced: str | None = None
        self.life = asyncio.create_task(self._run(), name=f"reviewer-{order.reviewer_id}")

    @property
    def starting(self) -> bool:
        """Whether it has neither a process nor an end yet."""
        return self.identity is None and self.ended is None

    def report(self) -> dict[str, Any]:
        """What the broker is told of it, once it is not starting any more."""
        identity = self.identity
        process = {} if identity is None else {"pid": identity.pid, "started_us": identity.started_us}
        about = {"reviewer_id": self.reviewer_id, "wanted": self._order.wanted, **process}
        if self.ended is not None:
            return {**about, "state": "ended", **asdict(self.ended)}
        activity = self._context.activity(self.reviewer_id)
        return {**about, "state": "running", "activity": activity and activity.model_dump()}

    def broker_knows(self) -> None:
        """The broker was told which process it is: now it may get its job."""
        self._told_broker = True
        self._changed.set()

    def follow(self, order: Order) -> None:
        """Does what the broker says of it now."""
        self._order = order
        self.want(order.wanted)
        # An agent is asked to drain when it holds no review.
        self._changed.set()

    def want(self, wanted: str) -> None:
        """Has it run, drain or end, unless its order is stricter already."""
        if _SEVERITY.get(wanted, 0) > _SEVERITY.get(self._wanted, 0):
            _log.info("reviewer %s: %s", self.reviewer_id, wanted)
            self._wanted = wanted
            self._changed.set()

    async def _run(self) -> None:
        try:
            self.ended = await self._live()
        except Exception:  # noqa: BLE001 - the others go on; it is logged and reported
            _log.exception("the supervision of reviewer %s failed", self.reviewer_id)
            self.ended = Ended(None, quick=True, error="Its supervisor failed; the supervisor's log says how.")
        finally:
            self._context.on_news()
        _log.info("reviewer %s ended: %s", self.reviewer_id, self.ended)

    async def _live(self) -> Ended:
        if self._wanted != "run":
            return Ended(None, quick=False, error=None)
        try:
            process = await asyncio.to_thread(self._start)
        except (TandemError, OSError) as error:
            await asyncio.to_thread(self._context.clear, self.reviewer_id)
            reason = error.message if isinstance(error, TandemError) else f"It cannot be started: {error}."
            return Ended(None, quick=True, error=reason)
        _log.info("reviewer %s started: process %d", self.reviewer_id, process.identity.pid)
        self.identity = process.identity
        self._context.on_news()
        try:
            code = await self._accompany(process)
        except BaseException:
            process.kill()
            raise
        seconds = self._loop.time() - self._began
        await asyncio.to_thread(self._context.clear, self.reviewer_id)
        return await asyncio.to_thread(self._judged, code, seconds)

    def _start(self) -> WorkerProcess:
        context = self._context
        self._job = context.prepare(self._order, self._living())
        return WorkerProcess(
            context.argv,
            context.environment,
            marks=context.marks(self.reviewer_id),
            folder=context.identity.folder,
            log_file=context.log_file(self.reviewer_id),
            on_end=self._on_end,
        )

    def _on_end(self, code: int) -> None:
        def note() -> None:
            self._exit_code = code
            self._changed.set()

        # RuntimeError: the loop is closed.
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(note)

    async def _accompany(self, process: WorkerProcess) -> int:
        """Follows its orders until it has ended; its exit status."""
        while self._exit_code is None:
            self._changed.clear()
            due = await self._step(process)
            with suppress(TimeoutError):
                async with asyncio.timeout_at(due):
                    await self._changed.wait()
        return self._exit_code

    async def _step(self, process: WorkerProcess) -> float:
        """Takes the step that is due; says when to look again at the latest."""
        now = self._loop.time()
        settings = self._settings
        longest = (
            settings.max_ttl_seconds + settings.checks_wait_seconds + settings.attempt_seconds + settings.grace_seconds
        )
        if now - self._began >= longest:
            return await self._kill(process, f"It had not ended {duration(longest)} after its start and was killed.")
        if self._wanted == "kill":
            return await self._cancel(process, now)
        if self._wanted == "drain":
            return min(await self._drain(process, now), self._began + longest)
        if self._told_broker and self._job is not None:
            job, self._job = self._job, None
            await asyncio.to_thread(process.write, job.line())
        return self._began + longest

    async def _drain(self, process: WorkerProcess, now: float) -> float:
        if self._drained_at is None:
            self._drained_at = now
        patient_until = self._drained_at + self._settings.attempt_seconds
        # The program of an agent has no ear for us: it is asked to end when it is idle, or has had its time.
        busy = self._settings.mode == "agent" and self._order.review_id is not None
        if not self._asked_to_drain and (not busy or now >= patient_until):
            self._asked_to_drain = True
            await self._tell(process, DRAIN)
        return float("inf") if self._asked_to_drain else patient_until

    async def _cancel(self, process: WorkerProcess, now: float) -> float:
        if self._cancelled_at is None:
            self._cancelled_at = now
            await self._tell(process, CANCEL)
        patient_until = self._cancelled_at + self._settings.grace_seconds + REPORT_SECONDS
        if now >= patient_until:
            return await self._kill(process, "It did not end when it was told to, and was killed.")
        return patient_until

    async def _tell(self, process: WorkerProcess, line: bytes) -> None:
        if self._job is None:
            await asyncio.to_thread(process.write, line)
        else:
            # It waits for its job, and takes the end of its input as the order to end.
            await asyncio.to_thread(process.hang_up)

    async def _kill(self, process: WorkerProcess, why: str) -> float:
        self._forced = why
        await asyncio.to_thread(process.kill)
        return self._loop.time() + _AGAIN_SECONDS

    def _judged(self, code: int, seconds: float) -> Ended:
        asked = self._wanted != "run"
        quick = code == WorkerExit.PROGRAM_FAILED or not (
            code in (WorkerExit.IN_ORDER, WorkerExit.RATE_LIMITED) or asked or self._forced or seconds >= QUICK_SECONDS
        )
        if self._forced is not None:
            return Ended(code, quick, self._forced)
        if code == WorkerExit.IN_ORDER or (asked and (code < 0 or code == WorkerExit.SUPERVISOR_GONE)):
            # Whom we hung up on before it had a job takes us for gone.
            return Ended(code, quick, None)
        last_words = self._context.last_words(self.reviewer_id)
        if code == WorkerExit.RATE_LIMITED and (named := _RETRY_AFTER.search(last_words or "")):
            return Ended(code, quick, named["said"], float(named["seconds"]))
        said = f" {END_OF_LOG}{last_words}" if last_words else " Its log is empty."
        return Ended(code, quick, f"{_meaning(code)}.{said}")


def _meaning(code: int) -> str:
    if code >= 0:
        return _MEANING.get(code, f"It ended with exit status {code}")
    with suppress(ValueError):
        return f"It was ended by a signal ({signal.Signals(-code).name})"
    return f"It was ended by signal {-code}"


class ReviewerSet:
    """The reviewers that the broker still has to hear something of."""

    def __init__(self, context: SupervisorContext) -> None:
        """An empty set of reviewers that share what the context says."""
        self._context = context
        self._reviewers: dict[str, ReviewerLifecycle] = {}

    def change(self, context: SupervisorContext) -> None:
        """Has the next reviewers share another context; those of the former one end after their review."""
        self._context = context
        self.want("drain")

    @property
    def starting(self) -> bool:
        """Whether there will be news of a start in a moment."""
        return any(one.starting for one in self._reviewers.values())

    def reports(self) -> list[dict[str, Any]]:
        """The reports for the broker: of each reviewer but those that are just being started."""
        return [one.report() for one in self._reviewers.values() if not one.starting]

    def obey(self, orders: Orders, reports: list[dict[str, Any]], *, may_start: bool) -> None:
        """Does what the broker answered.

        Args:
            orders: The answer.
            reports: What the broker was told before.
            may_start: Whether reviewers that are not there yet are started.
        """
        listed = {order.reviewer_id: order for order in orders.reviewers}
        for told in reports:
            reviewer = self._reviewers[told["reviewer_id"]]
            if told["state"] == "running":
                reviewer.broker_knows()
            elif reviewer.reviewer_id not in listed:
                del self._reviewers[reviewer.reviewer_id]
        for reviewer in self._reviewers.values():
            order = listed.pop(reviewer.reviewer_id, None)
            if order is None:
                # The broker has given it up, and with it its claim.
                reviewer.want("kill")
            else:
                reviewer.follow(order)
        for order in listed.values() if may_start else ():
            self._reviewers[order.reviewer_id] = ReviewerLifecycle(order, self._context, self._living)

    def end_processes(self) -> None:
        """Kills every process of every reviewer at once; blocks."""
        for reviewer_id in self._living():
            end_marked(self._context.marks(reviewer_id))

    def want(self, wanted: str) -> None:
        """Has every reviewer drain or end."""
        for reviewer in self._reviewers.values():
            reviewer.want(wanted)

    async def until_ended(self, seconds: float) -> bool:
        """Waits until all have ended, for so long at most; says whether they have."""
        lives = [one.life for one in self._reviewers.values() if not one.life.done()]
        if not lives:
            return True
        _, left = await asyncio.wait(lives, timeout=seconds)
        return not left

    async def abandon(self) -> None:
        """Forgets all of them; what could not be ended is killed once more, and not waited for."""
        for one in self._reviewers.values():
            one.life.cancel()
        await asyncio.gather(*(one.life for one in self._reviewers.values()), return_exceptions=True)
        self._reviewers.clear()

    def _living(self) -> tuple[str, ...]:
        return tuple(self._reviewers)

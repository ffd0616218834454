"""What a supervisor and its reviewer processes tell each other: the job, orders to stop, and how a process ended.

    signal, or a line on standard input ─▶ a queue ─▶ the main thread ─▶ events that the other threads look at

A handler of signals interrupts the main thread anywhere: it may only put something into a queue that is made for
it, since an event that is being looked at cannot be set from there.
"""

from __future__ import annotations

import json
import queue
import signal
import threading
import time
from collections.abc import Callable
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from enum import IntEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from tandem.core import files
from tandem.core.clock import MICROSECONDS
from tandem.pool.reviewers import Effort, RunLimits
from tandem.pool.rules import RATE_LIMITED

if TYPE_CHECKING:
    from collections.abc import Generator

Mode = Literal["worker", "agent"]

DRAIN: Final = b"drain\n"
"""A line on standard input after the job: finish the review under way, then end."""

CANCEL: Final = b"cancel\n"
"""A line on standard input after the job: break it off, say so to the broker, and end."""


class WorkerExit(IntEnum):
    """The exit status of a reviewer process."""

    IN_ORDER = 0
    """It was told to end, or the agent's program ended by itself."""
    FAULT = 1
    """A fault of ours; its log has the traceback."""
    BAD_JOB = 2
    """The job cannot be done as it is written; the last line of standard error says why."""
    PROGRAM_FAILED = 3
    """The program cannot be started, or failed at once."""
    SUPERVISOR_GONE = 4
    """Standard input ended."""
    BROKER_GONE = 5
    """The broker refuses it, or stays away."""
    RATE_LIMITED = RATE_LIMITED
    """The agent's program ended since its provider takes no more requests."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewJob(RunLimits):
    r"""The job of one reviewer process. The names are those of the JSON.

    Attributes:
        broker: The broker's URL, without the operation.
        access: The token that the broker lets it in with; None for a broker that trusts everybody.
        reviewer_id: Who it is.
        project: Whose reviews it takes.
        workspace: The project's folder, absolute; empty if it is on another machine; with `wsl_distro` its path inside
            the distribution.
        wsl_distro: On Windows: the distribution of WSL that the program runs in.
        mode: One run for each review, or one program that loops by itself.
        provider: The client program's name in the settings.
        command: How it is called, if not by its name.
        model: The model's name; None for the program's default.
        effort: How hard the model thinks.
        profile: Its profile; None in a pool without any.
        sections: The headings in the project's `REVIEW.md` that it judges by; none for all.
        rubric: The subject that it judges, in its person's own words instead.
        votes: Whether its verdicts count.
        prompt_template: A template of the person's own; None for ours.
        idle_seconds: How long an agent waits for a review before it ends itself.
        checks_seconds: How long it waits for a review's checks.
        attempt_seconds: What one run may take.
        total_seconds: What an agent may take for its whole life.
        log_file: Its log; the folder is there.
        log_max_bytes: The size at which that is rotated.
        log_backups: How many rotated logs are kept.
        scratch: A private folder for it alone; with `wsl_distro` in that distribution (`\\wsl.localhost\…`).
    """

    broker: str
    access: str | None = field(default=None, repr=False)
    reviewer_id: str
    project: str
    workspace: str
    wsl_distro: str | None = None
    mode: Mode = "worker"
    provider: str
    command: tuple[str, ...] = ()
    model: str | None = None
    effort: Effort = "high"
    profile: str | None = None
    sections: tuple[str, ...] = ()
    rubric: str | None = None
    votes: bool = True
    prompt_template: str | None = None
    idle_seconds: int
    checks_seconds: float = 0.0
    attempt_seconds: float
    log_file: str
    log_max_bytes: int
    log_backups: int
    scratch: str

    def line(self) -> bytes:
        """The job as it is written to the process, with its line end."""
        return json.dumps(asdict(self)).encode() + b"\n"


def read_job(line: bytes) -> ReviewJob:
    """The job that `Job.line` wrote."""
    stated: dict[str, Any] = json.loads(line)
    stated |= {name: tuple(stated[name]) for name in ("command", "sections")}
    return ReviewJob(**stated)


ACTIVITY: Final = "activity.json"
"""In a reviewer's scratch folder: its activity; see the request `ReviewerActivity`."""

_ACTIVITY_SECONDS = 1.0


class Activity:
    """What a reviewer does, in a file that its supervisor reads before each report. A full disk loses only that."""

    def __init__(self, scratch: str) -> None:
        """It does nothing yet."""
        self._file = Path(scratch, ACTIVITY)
        self._epoch_us = round((time.time() - time.monotonic()) * MICROSECONDS)
        self._written_at = 0.0
        self._said: dict[str, Any] = {}

    def wait_for_checks(self) -> None:
        """It waits for the checks of its review."""
        self._write({"checks": True})

    def run(self, output: float, silent: float | None) -> None:
        """Its program runs: when its last output came, 0 before the first; and since when it is silent, if it is."""
        said = {"output_us": self._us(output or None), "silent_us": self._us(silent)}
        is_news = self._said.get("silent_us") != said["silent_us"]
        if is_news or (said != self._said and time.monotonic() - self._written_at > _ACTIVITY_SECONDS):
            self._write(said)

    def rest(self) -> None:
        """It does nothing that takes long."""
        self._write({})

    def end(self) -> None:
        """It does nothing any more."""
        self._file.unlink(missing_ok=True)

    def _us(self, instant: float | None) -> int | None:
        return None if instant is None else self._epoch_us + round(instant * MICROSECONDS)

    def _write(self, said: dict[str, Any]) -> None:
        self._said, self._written_at = said, time.monotonic()
        with suppress(OSError):
            files.write_atomically(self._file, json.dumps(said).encode(), durable=False)


Ending = tuple[WorkerExit, str]
"""How a reviewer process ends: its exit status, and why in a line."""

_Order = Literal["signal", "drain", "cancel", "gone"]
_STOP_SIGNALS = ("SIGTERM", "SIGINT", "SIGBREAK")
_ORDERS: Final[dict[bytes, _Order]] = {DRAIN.strip(): "drain", CANCEL.strip(): "cancel"}
_MEANING: Final = {
    "drain": "told to stop after the review under way",
    "cancel": "told to stop at once",
    "gone": "the supervisor is gone",
}
_LOOK_SECONDS = 1.0
"""Windows tells of a signal only between two waits."""


class Control:
    """The orders so far. The main thread hears them; the others look, or have themselves told.

    Attributes:
        drain: Take no further review.
        cancel: End the review under way.
        abandoned: The supervisor is gone.
    """

    def __init__(self, descriptor: int) -> None:
        """Begin to hear signals.

        Args:
            descriptor: Standard input.
        """
        self.drain: Final = threading.Event()
        self.cancel: Final = threading.Event()
        self.abandoned: Final = threading.Event()
        self._signals = 0
        self._lock = threading.Lock()
        self._listeners: list[Callable[[], None]] = []
        # Unbuffered: a thread that waits in a buffered reader holds up our end.
        self._input = open(descriptor, "rb", buffering=0, closefd=False)  # noqa: SIM115 - open to our end
        # A handler may fill this kind while it interrupts the thread that empties it.
        self._news: queue.SimpleQueue[_Order | Ending] = queue.SimpleQueue()
        for name in _STOP_SIGNALS:
            number: signal.Signals | None = getattr(signal, name, None)
            if number is not None:
                signal.signal(number, lambda _number, _frame: self._news.put("signal"))

    def first_line(self) -> bytes | None:
        """The job's line; None if the input ended before. Blocks until one of both."""
        line = self._input.readline()
        return line if line.endswith(b"\n") else None

    def direct(self, work: Callable[[], Ending], note: Callable[[str], None], patience_seconds: float) -> Ending | None:
        """Has work done in a thread, and passes orders on to it until it is over.

        Args:
            work: Gives how it ended; never raises.
            note: Writes a line to the log.
            patience_seconds: How long the work may go on after the order to cancel.

        Returns:
            How the work ended; None if it does not end.
        """
        for name, target in (("supervisor", self._listen), ("work", lambda: self._news.put(work()))):
            threading.Thread(target=target, name=name, daemon=True).start()
        deadline = float("inf")
        while time.monotonic() < deadline:
            try:
                news = self._news.get(timeout=_LOOK_SECONDS)
            except queue.Empty:
                continue
            if isinstance(news, tuple):
                return news
            note(_MEANING[self._take(news)])
            if self.cancel.is_set():
                deadline = min(deadline, time.monotonic() + patience_seconds)
        return None

    @contextmanager
    def telling(self, listener: Callable[[], None]) -> Generator[None]:
        """Have a function called, which must be quick, now and after each order."""
        with self._lock:
            self._listeners.append(listener)
        try:
            listener()
            yield
        finally:
            with self._lock:
                self._listeners.remove(listener)

    def _take(self, order: _Order) -> _Order:
        """Take an order. A signal asks to drain when it is the first, and to cancel when it is another."""
        if order == "signal":
            self._signals += 1
            order = "drain" if self._signals == 1 else "cancel"
        if order == "gone":
            self.abandoned.set()
        self.drain.set()
        if order != "drain":
            self.cancel.set()
        with self._lock:
            listeners = [*self._listeners]
        for listener in listeners:
            listener()
        return order

    def _listen(self) -> None:
        with suppress(OSError):
            for line in self._input:
                if order := _ORDERS.get(line.strip()):
                    self._news.put(order)
        self._news.put("gone")

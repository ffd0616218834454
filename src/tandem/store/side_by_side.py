"""Units of work that run side by side in one transaction: what they ask at the same time is one round trip.

Each runs in a greenlet. Where it asks the database it stands still until all others stand still, too, or have ended;
then their statements are sent together, and each goes on with its answer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from greenlet import getcurrent, greenlet

from tandem.store.base import RunAgain, RunAlone
from tandem.store.postgres_unit import PostgresUnit, translated

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tandem.store.jobs import Intake, Job
    from tandem.store.postgres_unit import Sent, Transaction


class SideBySide:
    """Jobs that are run in one transaction; those that share a name of what they work on, one after the other.

    Attributes:
        done: Those that were run.
        left: Those that have to be run by themselves.
    """

    def __init__(self, intake: Intake) -> None:
        self.done: list[Job] = []
        self.left: list[Job] = []
        self._intake = intake
        self._taken: list[Job] = []
        self._waiting: list[Job] = self._arriving()
        self._parts: list[_Part] = []
        self._asking: list[_Part] = []

    def run(self, transaction: Transaction) -> None:
        """Run the jobs that there are, and those that come meanwhile.

        Raises:
            Exception: Nothing of what any of them did may be kept.
        """
        while self._start(transaction):
            answers = transaction.ask([part.asked for part in self._asking])
            answered, self._asking = self._asking, []
            for part, answer in zip(answered, answers, strict=True):
                self._go_on(part, answer)
        if not all(job.may_commit() for job in self.done):
            raise RunAgain("a caller was told that it was not done")

    def undo(self) -> None:
        """Have all of them be run by themselves, as their transaction came to nothing."""
        for part in self._parts:
            part.end()
        self.done = []
        self.left = self._taken
        for job in self.left:
            job.start_over()

    def _start(self, transaction: Transaction) -> bool:
        """Start the jobs that may be; whether one of them or of those before asks something."""
        self._waiting.extend(self._arriving())
        waiting, self._waiting = self._waiting, []
        for job in waiting:
            before = (*(part.job for part in self._asking), *self._waiting)
            if any(name in other.works_on for other in before for name in job.works_on):
                self._waiting.append(job)
            else:
                part = _Part(job, transaction)
                self._parts.append(part)
                self._go_on(part)
        return bool(self._asking)

    def _arriving(self) -> list[Job]:
        arrived: list[Job] = []
        while (job := self._intake.take()) is not None:
            arrived.append(job)
        self._taken.extend(arrived)
        return arrived

    def _go_on(self, part: _Part, *answer: Any) -> None:
        if part.runs_on(*answer):
            self._asking.append(part)
        elif part.is_to_be_repeated:
            self.left.append(part.job)
        else:
            self.done.append(part.job)


class _Part:
    """One job's part of the transaction.

    Attributes:
        asked: The statements whose answer it waits for.
        is_to_be_repeated: It came to nothing, but may well succeed by itself.
    """

    __slots__ = ("_error", "_greenlet", "_result", "_transaction", "_unit", "asked", "is_to_be_repeated", "job")

    def __init__(self, job: Job, transaction: Transaction) -> None:
        self.job = job
        self.asked: Sequence[Sent] = ()
        self.is_to_be_repeated = False
        self._result: Any = None
        self._error: BaseException | None = None
        self._transaction = transaction
        # To ask is to switch back to the greenlet in which all of them are started.
        self._unit = PostgresUnit(transaction, getcurrent().switch)
        self._greenlet = greenlet(self._run)

    def runs_on(self, *answer: Any) -> bool:
        """Run until it asks or ends; whether it asks.

        Raises:
            RunAgain: It failed, and only the end of the transaction undoes what it did.
        """
        asked = self._greenlet.switch(*answer)
        if not self._greenlet.dead:
            self.asked = asked
            return True
        self._end()
        return False

    def end(self) -> None:
        """End it where it stands still, if it does: what it held would never be freed. Its job hears nothing of it."""
        if self._greenlet:
            self._greenlet.throw()

    def _run(self) -> None:
        try:
            self._result = self.job.fn(self._unit)
        except BaseException as exc:  # noqa: BLE001 - it belongs to the caller, who gets it
            self._error = exc

    def _end(self) -> None:
        unit, error = self._unit, self._error
        if error is None:
            self._transaction.keep(unit)
            self.job.result = self._result
        elif isinstance(error, RunAgain):
            self.is_to_be_repeated = True
            if isinstance(error, RunAlone):
                self.job.works_on = ()
        else:
            self.job.error = translated(error)
        unit.end()
        if unit.has_written and error is not None:
            raise RunAgain from error

"""The process of one reviewer: `python -m tandem.reviewers.worker`, with its job as a line on standard input.

    main thread      signals and standard input ─▶ orders
    work             claims a review ─▶ attempt ─▶ the next one; or runs the agent
    lease            renews the claim of the review under way

It ends by itself when there is nothing left that it could do; else its supervisor tells it to.
"""

from __future__ import annotations

import os
import sys
import threading
import time
import traceback
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, cast

from tandem.errors import ConfigInvalid, TandemError
from tandem.reviewers import REENTRY_VARIABLE, RUN_VARIABLE, SUPERVISOR_VARIABLE, Provider, trees
from tandem.reviewers.agent import run_agent
from tandem.reviewers.attempt import Attempts
from tandem.reviewers.job import Exit, Job, read_job
from tandem.reviewers.lease import Claimed, instant_us
from tandem.reviewers.logs import RotatingLog
from tandem.reviewers.orders import Inbox, Orders
from tandem.reviewers.prompt import load_template
from tandem.reviewers.providers import provider
from tandem.reviewers.reasons import one_line
from tandem.reviewers.wire import Away, GivenUp, Refused, Wire, with_key

_WAIT_SECONDS: Final = 10.0
"""How long one wait for reviews lasts: those that were put off come without an event."""

_MARKS = (REENTRY_VARIABLE, SUPERVISOR_VARIABLE)
_QUICK_SECONDS = 0.5
_PAUSE_SECONDS = 0.5
"""A broker that stops answers waits at once; asking it all the time would only hold it up."""

_END_SECONDS = 30.0
"""How long, besides the program's grace, the work may take to end when it is to end at once."""


class Worker:
    """Takes one review after the other until it is told to stop."""

    def __init__(self, job: Job, client: Provider, orders: Orders, log: RotatingLog) -> None:
        """Prepare to work.

        Raises:
            ConfigInvalid: The prompt's template cannot be used.
        """
        self._job = job
        self._orders = orders
        self._log = log
        self._wire = Wire(job.broker, agent=job.reviewer_id, access=job.access)
        template = load_template(Path(job.prompt_template) if job.prompt_template else None)
        self._attempts = Attempts(job, client, template, wire=self._wire, orders=orders, log=log)

    def work(self) -> tuple[Exit, str]:
        """Works until told to stop; the exit status, and why in a line."""
        with self._orders.telling(self._wire.hang_up):
            try:
                return self._loop()
            except GivenUp:
                return Exit.IN_ORDER, "told to stop"
            except Away as error:
                return Exit.BROKER_GONE, one_line(str(error))
            except Refused as error:
                return Exit.BROKER_GONE, one_line(f"the broker refuses: {error}")
            finally:
                self._wire.close()

    def _loop(self) -> tuple[Exit, str]:
        page = self._list(None)
        while not self._orders.drain.is_set():
            # The place in the log was taken first: what comes up from here on ends the wait.
            claimed = self._claim() if page.get("reviews") else None
            if claimed is None:
                page = self._wait(page)
            elif self._orders.drain.is_set():
                self._give_back(claimed)
            else:
                result = self._attempts.review(claimed)
                if result.failed_at_once:
                    return Exit.PROGRAM_FAILED, result.reason
                page = self._list(None)
        return Exit.IN_ORDER, "told to stop"

    def _wait(self, page: dict[str, Any]) -> dict[str, Any]:
        began = time.monotonic()
        following = self._list(page.get("cursor"))
        if not following.get("changed") and time.monotonic() - began < _QUICK_SECONDS:
            self._orders.drain.wait(_PAUSE_SECONDS)
        return following

    def _list(self, cursor: str | None) -> dict[str, Any]:
        """Whether something waits; with a cursor, once there is news."""
        asked: dict[str, Any] = {"project": self._job.project, "status": "pending", "attention": False, "limit": 1}
        if cursor is not None:
            asked |= {"wait": True, "cursor": cursor, "timeout_s": _WAIT_SECONDS}
        try:
            return self._wire.call("list_reviews", asked, until=self._orders.drain)
        except Refused as error:
            if cursor is None or error.code != "CURSOR_EXPIRED":
                raise
            return self._list(None)

    def _claim(self) -> Claimed | None:
        asked = with_key({"reviewer_id": self._job.reviewer_id, "project": self._job.project})
        # Once it is on its way its answer is waited for: who does not know that it holds a review cannot give it back.
        answer = self._wire.call("claim_review", asked, until=self._orders.drain, hang_up=self._orders.cancel)
        if answer.get("review") is None:
            return None
        return Claimed(
            review_id=answer["review_id"],
            project=self._job.project,
            generation=answer["claim_generation"],
            round=answer["round"],
            lease_ends=instant_us(str(answer["lease_expires_at"])),
            proposal=cast("dict[str, Any]", answer["review"]),
        )

    def _give_back(self, claimed: Claimed) -> None:
        asked = {
            "review_id": claimed.review_id,
            "project": claimed.project,
            "claim_generation": claimed.generation,
            "reason": "The reviewer was told to stop before it began.",
        }
        # If it cannot be told, the broker takes the claim back when it hears that we have ended.
        with suppress(Away, Refused):
            self._wire.call("release_claim", with_key(asked), until=self._orders.cancel, patience_seconds=_WAIT_SECONDS)


def main() -> int:
    """Do the job that standard input says; the exit status."""
    inbox = Inbox(sys.stdin.fileno())
    try:
        line = inbox.first_line()
        if line is None:
            # Whoever wants no reviewer after all hangs up, too.
            return _says(Exit.SUPERVISOR_GONE, "The supervisor went away before there was a job.")
        job = read_job(line)
        _refuse_reentry(job)
        client = provider(job.provider, job.command)
    except ConfigInvalid as error:
        return _says(Exit.BAD_JOB, error.message)
    os.environ[REENTRY_VARIABLE] = job.reviewer_id
    try:
        log = RotatingLog(job.log_file, max_bytes=job.log_max_bytes, backups=job.log_backups)
    except OSError as error:
        return _says(Exit.BAD_JOB, f"The reviewer's log {job.log_file} cannot be written: {error.strerror}.")
    with log:
        return _says(*_directed(job, client, inbox, log))


def _refuse_reentry(job: Job) -> None:
    """A reviewer's program starts no reviewer: it would be one that nobody counts."""
    inside = os.environ.get(REENTRY_VARIABLE)
    if RUN_VARIABLE in os.environ or inside not in {None, job.reviewer_id}:
        raise ConfigInvalid(
            f"A reviewer cannot start a reviewer: {REENTRY_VARIABLE} is set already. Start it from outside.",
            setting=REENTRY_VARIABLE,
        )


def _directed(job: Job, client: Provider, inbox: Inbox, log: RotatingLog) -> tuple[Exit, str]:
    """Has the work done in a thread, and passes on to it what the supervisor wants."""
    orders = Orders(log.note)
    why = [""]

    def work() -> None:
        status, why[0] = _worked(job, client, orders, log)
        inbox.ended(status)

    log.note(f"reviewer {job.reviewer_id} begins: process {os.getpid()}, {job.provider}, mode {job.mode}")
    inbox.watch()
    threading.Thread(target=work, name="work", daemon=True).start()
    status = inbox.obey(orders, job.grace_seconds + _END_SECONDS)
    if status is None:
        # It hangs somewhere, in the disk or the network; its program is not to outlive us.
        trees.end_marked({name: os.environ[name] for name in _MARKS if name in os.environ})
        status, why[0] = Exit.FAULT, "the work did not end"
    if orders.abandoned.is_set():
        status, why[0] = Exit.SUPERVISOR_GONE, "the supervisor is gone"
    log.note(f"reviewer {job.reviewer_id} ends with {int(status)}: {why[0]}")
    return status, why[0]


def _worked(job: Job, client: Provider, orders: Orders, log: RotatingLog) -> tuple[Exit, str]:
    try:
        if job.mode == "agent":
            return run_agent(job, client, orders, log)
        return Worker(job, client, orders, log).work()
    except TandemError as error:
        return Exit.BAD_JOB, error.message
    except Exception as error:  # noqa: BLE001 - the edge: the process says what happened, and ends
        for line in traceback.format_exc().splitlines():
            log.note(line)
        return Exit.FAULT, f"a fault of Tandem ({type(error).__name__}); the reviewer's log has its traceback"


def _says(status: Exit, why: str) -> int:
    """Tells the supervisor why, where that is worth knowing."""
    if status is not Exit.IN_ORDER:
        sys.stderr.write(f"{one_line(why)}\n")
        sys.stderr.flush()
    return int(status)


if __name__ == "__main__":
    sys.exit(main())

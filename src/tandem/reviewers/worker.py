"""The process of one reviewer: `python -m tandem.reviewers.worker`, with its job as a line on standard input.

    main thread      signals and standard input ─▶ requests
    work             claims a review ─▶ attempt ─▶ the next one; or runs the agent
    lease            renews the claim of the review under way

It ends by itself when there is nothing left that it could do; else its supervisor tells it to. In the mode `agent` one
program works through the queue by itself, over MCP.
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
from urllib.parse import quote

from tandem.errors import ConfigInvalid, TandemError, Unavailable
from tandem.reviewers import (
    REENTRY_VARIABLE,
    RUN_VARIABLE,
    SUPERVISOR_VARIABLE,
    Finished,
    Provider,
    processes,
    programs,
    scratch,
)
from tandem.reviewers.attempt import Attempts
from tandem.reviewers.broker_client import Away, BrokerClient, GivenUp, Refused, with_key
from tandem.reviewers.control import ControlInput, StopRequests
from tandem.reviewers.job import Exit, Job, read_job
from tandem.reviewers.lease import Claimed, instant_us
from tandem.reviewers.logs import RotatingLog
from tandem.reviewers.outcomes import last_line, one_line
from tandem.reviewers.prompt import build_agent
from tandem.reviewers.providers import provider
from tandem.reviewers.templates import AGENT, load_template

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

    def __init__(self, job: Job, client: Provider, requests: StopRequests, log: RotatingLog) -> None:
        """Prepare to work.

        Raises:
            ConfigInvalid: The prompt's template cannot be used.
        """
        self._job = job
        self._requests = requests
        self._log = log
        self._broker = BrokerClient(job.broker, agent=job.reviewer_id, access=job.access)
        template = load_template(Path(job.prompt_template) if job.prompt_template else None)
        self._attempts = Attempts(job, client, template, broker=self._broker, requests=requests, log=log)

    def work(self) -> tuple[Exit, str]:
        """Works until told to stop; the exit status, and why in a line."""
        with self._requests.telling(self._broker.hang_up):
            try:
                return self._loop()
            except GivenUp:
                return Exit.IN_ORDER, "told to stop"
            except Away as error:
                return Exit.BROKER_GONE, one_line(str(error))
            except Refused as error:
                return Exit.BROKER_GONE, one_line(f"the broker refuses: {error}")
            finally:
                self._broker.close()

    def _loop(self) -> tuple[Exit, str]:
        page = self._list(None)
        while not self._requests.drain.is_set():
            # The place in the log was taken first: what comes up from here on ends the wait.
            claimed = self._claim() if page.get("reviews") else None
            if claimed is None:
                page = self._wait(page)
            elif self._requests.drain.is_set():
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
            self._requests.drain.wait(_PAUSE_SECONDS)
        return following

    def _list(self, cursor: str | None) -> dict[str, Any]:
        """Whether something waits; with a cursor, once there is news."""
        asked: dict[str, Any] = {"project": self._job.project, "status": "pending", "attention": False, "limit": 1}
        if cursor is not None:
            asked |= {"wait": True, "cursor": cursor, "timeout_s": _WAIT_SECONDS}
        try:
            return self._broker.call("list_reviews", asked, until=self._requests.drain)
        except Refused as error:
            if cursor is None or error.code != "CURSOR_EXPIRED":
                raise
            return self._list(None)

    def _claim(self) -> Claimed | None:
        asked = with_key({"reviewer_id": self._job.reviewer_id, "project": self._job.project})
        # Once it is on its way its answer is waited for: who does not know that it holds a review cannot give it back.
        answer = self._broker.call("claim_review", asked, until=self._requests.drain, hang_up=self._requests.cancel)
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
            self._broker.call(
                "release_claim", with_key(asked), until=self._requests.cancel, patience_seconds=_WAIT_SECONDS
            )


def main() -> int:
    """Do the job that standard input says; the exit status."""
    control = ControlInput(sys.stdin.fileno())
    try:
        line = control.first_line()
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
        return _says(*_directed(job, client, control, log))


def _refuse_reentry(job: Job) -> None:
    """A reviewer's program starts no reviewer: it would be one that nobody counts."""
    inside = os.environ.get(REENTRY_VARIABLE)
    if RUN_VARIABLE in os.environ or inside not in {None, job.reviewer_id}:
        raise ConfigInvalid(
            f"A reviewer cannot start a reviewer: {REENTRY_VARIABLE} is set already. Start it from outside.",
            setting=REENTRY_VARIABLE,
        )


def _directed(job: Job, client: Provider, control: ControlInput, log: RotatingLog) -> tuple[Exit, str]:
    """Has the work done in a thread, and passes on to it what the supervisor wants."""
    requests = StopRequests(log.note)
    why = [""]

    def work() -> None:
        status, why[0] = _worked(job, client, requests, log)
        control.ended(status)

    log.note(f"reviewer {job.reviewer_id} begins: process {os.getpid()}, {job.provider}, mode {job.mode}")
    control.watch()
    threading.Thread(target=work, name="work", daemon=True).start()
    status = control.obey(requests, job.grace_seconds + _END_SECONDS)
    if status is None:
        # It hangs somewhere, in the disk or the network; its program is not to outlive us.
        processes.end_marked({name: os.environ[name] for name in _MARKS if name in os.environ})
        status, why[0] = Exit.FAULT, "the work did not end"
    if requests.abandoned.is_set():
        status, why[0] = Exit.SUPERVISOR_GONE, "the supervisor is gone"
    log.note(f"reviewer {job.reviewer_id} ends with {int(status)}: {why[0]}")
    return status, why[0]


def _worked(job: Job, client: Provider, requests: StopRequests, log: RotatingLog) -> tuple[Exit, str]:
    try:
        if job.mode == "agent":
            return _run_agent(job, client, requests, log)
        return Worker(job, client, requests, log).work()
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


def _run_agent(job: Job, provider: Provider, requests: StopRequests, log: RotatingLog) -> tuple[Exit, str]:
    """Runs the program to its end, or until something is ordered; blocks meanwhile.

    Returns:
        The exit status, and why in a line.

    Raises:
        ConfigInvalid: The prompt's template, or a setting, cannot be used.
        OSError: The files of the run cannot be written.
    """
    prompt = build_agent(
        load_template(Path(job.prompt_template) if job.prompt_template else None, AGENT),
        reviewer_id=job.reviewer_id,
        project=job.project,
        idle_seconds=job.idle_seconds,
    )
    with scratch.folder_for_run(job.scratch) as folder:
        try:
            invocation = provider.agent(scratch.context_of(job, folder), prompt, _mcp_url(job), job.access)
            scratch.lay_out(folder, invocation.files)
            finished = programs.run(
                invocation,
                scratch.limits_of(job, job.total_seconds),
                on_start=lambda process: log.note(f"{provider.name} runs as the agent, process {process.pid}"),
                cancelled=requests.drain,
                log=log.as_file(),
            )
        except (ConfigInvalid, Unavailable) as error:
            return Exit.PROGRAM_FAILED, one_line(error.message)
    return _ended(finished, job)


def _mcp_url(job: Job) -> str:
    """Where the program finds the reviewers' tools, for the job's project."""
    return f"{job.broker.rstrip('/')}/mcp/reviewer?project={quote(job.project, safe='')}"


def _ended(finished: Finished, job: Job) -> tuple[Exit, str]:
    match finished.ended_by:
        case "cancelled":
            return Exit.IN_ORDER, "told to stop"
        case "timeout" if finished.seconds >= job.total_seconds:
            return Exit.IN_ORDER, f"its time of {job.total_seconds:.0f} s is up"
        case "itself" if finished.exit_code == 0:
            return Exit.IN_ORDER, "the program ended by itself"
        case "itself":
            said = last_line(finished.stderr_tail)
            return Exit.PROGRAM_FAILED, f"the program ended with status {finished.exit_code}. {said}".strip()
        case reason:
            return Exit.PROGRAM_FAILED, f"the program was ended: {reason}"


if __name__ == "__main__":
    sys.exit(main())

"""The process of one reviewer: `python -m tandem.pool.reviewers.worker`, with its job as a line on standard input.

    main thread      signals and standard input ─▶ requests
    work             claims a review ─▶ reviews it ─▶ the next one; or runs the agent
    lease            renews the claim of the review under way

It ends by itself when there is nothing left that it could do; else its supervisor tells it to. In the mode `agent` one
program works through the queue by itself, over MCP.

    claimed ─▶ dossier ─▶ prompt ─▶ program, while the lease is renewed ─▶ answer ─▶ verdict ─▶ outcome

The claim never stays behind: each way out of a review reports an outcome, and only a verdict that
the program plainly gave, for exactly this content, is one.
"""

from __future__ import annotations

import os
import sys
import threading
import time
import traceback
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from tandem.bridge.http import HttpClient
from tandem.bridge.location import HttpFailure, targets
from tandem.core.clock import instant_us
from tandem.core.log_files import RotatingLog
from tandem.errors import (
    ConfigInvalid,
    CursorExpired,
    InvalidDiff,
    InvalidInput,
    SchemaInvalid,
    TandemError,
    TooLarge,
    Unavailable,
)
from tandem.pool.reviewers import (
    ELSEWHERE,
    GIVEN_FOLDER,
    REENTRY_VARIABLE,
    RUN_VARIABLE,
    SUPERVISOR_VARIABLE,
    Finished,
    Invocation,
    ProgramOutput,
    RunContext,
    processes,
    programs,
)
from tandem.pool.reviewers.broker_client import (
    ANSWER_SECONDS,
    DEADLINE,
    OVER,
    BrokerClient,
    BrokerUnreachable,
    CallCancelled,
    Claimed,
    Lease,
    with_key,
)
from tandem.pool.reviewers.dossier import gather
from tandem.pool.reviewers.files import MIRRORS, RoundFolder, copy_for_agent, from_broker, remove_laid_out
from tandem.pool.reviewers.job import Activity, Control, Ending, ReviewJob, WorkerExit, read_job
from tandem.pool.reviewers.outcomes import (
    Outcome,
    crash_reason,
    lacks_login,
    one_line,
    outcome_of,
    quota_in,
    reason_of,
)
from tandem.pool.reviewers.prompt import (
    AGENT,
    REVIEW,
    Task,
    build,
    build_agent,
    diff_in_file,
    is_inline,
    load_template,
    marks_in,
)
from tandem.pool.reviewers.proof import RunProof
from tandem.pool.reviewers.providers import clean_room, provider
from tandem.pool.reviewers.providers.clean_room import Provider
from tandem.pool.reviewers.verdicts import SCHEMA, ReviewerAnswer, answer_in
from tandem.pool.rules import RETRY_AFTER

_WAIT_SECONDS: Final = 10.0
"""How long one wait for reviews lasts: those that were put off come without an event."""

_MARKS = (REENTRY_VARIABLE, SUPERVISOR_VARIABLE)
_QUICK_SECONDS = 0.5
_PAUSE_SECONDS = 0.5
"""A broker that stops answers waits at once; asking it all the time would only hold it up."""

_END_SECONDS = 30.0
"""How long, besides the program's grace, the work may take to end after the order to cancel."""

AT_ONCE_SECONDS: Final = 10.0
"""A program that fails within this time does not work at all: its next run would fail as well."""

_DIFF_FILE = "proposal.diff"
_LAST_REPORT_SECONDS = 2.0
"""How long a report may take after the order to cancel."""

_OF_COUNTER_PATCH = (InvalidDiff, SchemaInvalid, TooLarge, InvalidInput)


@dataclass(frozen=True, slots=True)
class RunResult:
    """What became of a run.

    Attributes:
        outcome: One of the six.
        reason: Why, in a line.
        seconds: How long the program ran.
        usage: Its cost.
        exit_code: How the program ended; None if it never began.
        failed_at_once: Whether the program does not work at all.
        retry_after_seconds: The wait that its provider's quota names, 0 if none; None if it failed by no quota.
    """

    outcome: Outcome
    reason: str
    seconds: float = 0.0
    usage: ProgramOutput = field(default_factory=lambda: ProgramOutput(None))
    exit_code: int | None = None
    failed_at_once: bool = False
    retry_after_seconds: float | None = None


class Worker:
    """Takes one review after the other until it is told to stop."""

    def __init__(self, job: ReviewJob, client: Provider, requests: Control, log: RotatingLog) -> None:
        """Prepare to work.

        Raises:
            ConfigInvalid: The prompt's template cannot be used.
        """
        self._job = job
        self._requests = requests
        self._log = log
        self._activity = Activity(job.scratch)
        self._broker = self._connected()
        self._ask = partial(self._broker.call, until=requests.cancel)
        self._provider = client
        form = AGENT if job.mode == "agent" else REVIEW
        self._template = load_template(Path(job.prompt_template) if job.prompt_template else None, form)

    def work(self) -> Ending:
        """Works until told to stop; the exit status, and why in a line."""
        with self._requests.telling(self._broker.hang_up):
            try:
                return self._loop()
            except CallCancelled:
                return WorkerExit.IN_ORDER, "told to stop"
            except BrokerUnreachable as error:
                return WorkerExit.BROKER_GONE, one_line(str(error))
            except TandemError as error:
                return WorkerExit.BROKER_GONE, one_line(f"the broker refuses: {error.code}: {error.message}")
            finally:
                self._broker.close()
                self._activity.end()
                remove_laid_out(Path(self._job.scratch))

    def _loop(self) -> Ending:
        page = self._list(None) | {"changed": True}
        while not self._requests.drain.is_set():
            # The place in the log was taken first: a review that comes from here on ends the wait. Those that others
            # hold, and this one may claim, too, are on no list: it looks for one first, and when there is news.
            claimed = self._claim() if page.get("reviews") or page.get("changed") else None
            if claimed is None:
                page = self._wait(page)
            elif self._requests.drain.is_set():
                self._give_back(claimed)
            else:
                result = self._review(claimed)
                if result.failed_at_once:
                    return WorkerExit.PROGRAM_FAILED, result.reason
                page = self._list(None)
        return WorkerExit.IN_ORDER, "told to stop"

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
        except CursorExpired:
            if cursor is None:
                raise
            return self._list(None)

    def _claim(self) -> Claimed | None:
        asked = with_key({"reviewer_id": self._job.reviewer_id, "project": self._job.project})
        # Once it is on its way its answer is waited for: who does not know that it holds a review cannot give it back.
        answer = self._broker.call("claim_review", asked, until=self._requests.drain, hang_up=self._requests.cancel)
        if answer.get("review") is None:
            return None
        ends = instant_us(str(answer["lease_expires_at"]))
        generation, number = answer["claim_generation"], answer["round"]
        return Claimed(answer["review_id"], self._job.project, generation, number, ends, answer["review"])

    def _give_back(self, claimed: Claimed) -> None:
        why = "The reviewer was told to stop before it began."
        asked = with_key(claimed.request(claim_generation=claimed.generation, reason=why))
        # If it cannot be told, the broker takes the claim back when it hears that we have ended.
        with suppress(BrokerUnreachable, TandemError):
            self._ask("release_claim", asked, patience_seconds=_WAIT_SECONDS)

    # ---------------------------------------------------------------------------------------- one review

    def _review(self, claimed: Claimed) -> RunResult:
        """Review the claimed round, and tell the broker; blocks as long as that takes.

        Raises:
            BrokerUnreachable: The broker does not answer any more.
            TandemError: It does not want to hear of the outcome, and not because the claim is over.
        """
        try:
            result = self._outcome(claimed)
        except CallCancelled:
            result = RunResult(Outcome.CANCELLED, self._why_cancelled(None))
        except BrokerUnreachable:
            raise
        except Exception:
            # The first fault is the one to tell of.
            with suppress(BrokerUnreachable, TandemError):
                reason = "A fault of the reviewer process. Its log has the traceback."
                self._report(claimed, RunResult(Outcome.CRASHED, reason))
            raise
        self._activity.rest()
        self._report(claimed, result)
        return result

    def _outcome(self, claimed: Claimed) -> RunResult:
        proof = RunProof.draw(claimed.proposal)
        try:
            finished, reply, claim_ended = self._run(claimed, proof)
        except (ConfigInvalid, Unavailable) as error:
            return RunResult(Outcome.CRASHED, one_line(error.message), failed_at_once=True)
        except OSError as error:
            words = f"The reviewer's files cannot be written: {error}. See to the space on the disk."
            return RunResult(Outcome.CRASHED, one_line(words), failed_at_once=True)
        answer = answer_in(finished, reply, claimed.proposal, proof)
        outcome = outcome_of(finished, answer, reply.error)
        if outcome is not Outcome.VERDICT and (quota := quota_in(finished, reply.error, reply.text)):
            said, wait = proof.hidden.hide_in(quota.said), round(quota.seconds, 3)
            return RunResult(outcome, said, finished.seconds, reply, finished.exit_code, retry_after_seconds=wait)
        # Some try for a while before they say that they have no login.
        hopeless = finished.seconds < AT_ONCE_SECONDS or lacks_login(finished, reply.error)
        at_once = outcome is Outcome.CRASHED and hopeless
        if outcome is Outcome.CANCELLED:
            outcome = Outcome.TIMEOUT if claim_ended == DEADLINE else outcome
            reason = self._why_cancelled(claim_ended)
        elif outcome is Outcome.VERDICT and isinstance(answer, ReviewerAnswer):
            outcome, reason = self._submit(claimed, answer)
        else:
            reason = reason_of(outcome, finished, answer, reply.error)
        return RunResult(outcome, proof.hidden.hide_in(reason), finished.seconds, reply, finished.exit_code, at_once)

    def _why_cancelled(self, claim_ended: str | None) -> str:
        if claim_ended == DEADLINE:
            return "The review's deadline came before an answer. Make it smaller, or raise review_deadline_seconds."
        if claim_ended is not None:
            return f"The claim was over before there was an answer ({claim_ended})."
        if self._requests.abandoned.is_set():
            return "The reviewer's supervisor is gone."
        return "The reviewer was told to stop at once."

    def _run(self, claimed: Claimed, proof: RunProof) -> tuple[Finished, ProgramOutput, str | None]:
        """Has the program review, with the claim renewed meanwhile; nothing of the run is left on the disk.

        Returns:
            How the program ended, its output, and why the claim was over before it, if it was.
        """
        cancelled = threading.Event()
        grace_seconds = self._job.grace_seconds
        lease = Lease(self._connected(), claimed, grace_seconds=grace_seconds, on_end=cancelled.set)

        def obey() -> None:
            if self._requests.cancel.is_set():
                cancelled.set()

        with programs.folder_for_run(self._job.scratch) as folder, lease, self._requests.telling(obey):
            self._wait_for_checks(claimed, cancelled)
            job, scratch = self._job, Path(self._job.scratch)
            context, files = RoundFolder(
                self._context(folder),
                claimed,
                scratch,
                self._log.note,
                lambda: self._ask("get_base_files", claimed.request(round=claimed.round)),
                partial(from_broker, job.broker, job.project, job.access, scratch.with_name(MIRRORS)),
            ).lay_out()
            invocation = self._invocation(claimed, context, files, proof)
            programs.lay_out(folder, invocation.files)
            finished = programs.run(
                invocation,
                replace(self._job, total_seconds=self._job.attempt_seconds),
                on_start=lambda process: self._log.note(
                    f"review {claimed.review_id}, round {claimed.round}, claim {claimed.generation}:"
                    f" {self._provider.name} runs as process {process.pid}"
                ),
                cancelled=cancelled,
                log=self._log.write,
                hidden=proof.hidden,
                tell=self._activity.run,
            )
            return finished, self._provider.read(finished, context), lease.ended

    def _wait_for_checks(self, claimed: Claimed, cancelled: threading.Event) -> None:
        """Until the round's checks have ended, or the time for it has."""
        until = time.monotonic() + self._job.checks_seconds
        asked = claimed.request(round=claimed.round)
        # A refusal costs the checks only: the proposal counts.
        with suppress(TandemError):
            while not (cancelled.is_set() or self._requests.drain.is_set()):
                answer = self._ask("list_checks", asked)
                left = until - time.monotonic()
                if left <= 0 or all(one["status"] not in {"queued", "running"} for one in answer["checks"]):
                    return
                self._log.note(f"review {claimed.review_id}: waits for its checks")
                self._activity.wait_for_checks()
                asked |= {"wait": True, "cursor": answer["cursor"], "timeout_s": min(left, _WAIT_SECONDS)}

    def _invocation(self, claimed: Claimed, context: RunContext, files: str, proof: RunProof) -> Invocation:
        job = self._job
        task = Task(job.profile, job.rubric, job.votes)
        known = gather(self._ask, claimed, self._log.note, task, job.sections)
        proof.asked.update((one["finding_id"], one["state"]) for one in known.findings.shown)
        prompt = build(
            self._template,
            claimed.proposal,
            nonce=proof.nonce,
            files=files,
            parts=proof.parts,
            known=known,
            diff_file=clean_room.path(context, GIVEN_FOLDER, _DIFF_FILE),
        )
        proof.hidden.add(marks_in(prompt))
        invocation = self._provider.review(context, prompt)
        if is_inline(claimed.proposal.get("diff")):
            return invocation
        given = {f"{GIVEN_FOLDER}/{_DIFF_FILE}": diff_in_file(proof.parts)}
        return replace(invocation, files={**invocation.files, **given})

    def _submit(self, claimed: Claimed, answer: ReviewerAnswer) -> tuple[Outcome, str]:
        """Gives the verdict. A counter-patch that cannot be taken costs no verdict, which stands without it."""
        verdict = claimed.request(
            claim_generation=claimed.generation,
            round=claimed.round,
            reviewer_id=self._job.reviewer_id,
            **answer.arguments(),
        )
        try:
            given = self._ask("submit_verdict", with_key(verdict))
        except TandemError as error:
            # A finding that does not take its answer any more says nothing about the claim.
            if isinstance(error, OVER) and "finding_id" not in error.details:
                return Outcome.CANCELLED, f"The claim was over before the verdict ({error.code})."
            if answer.counter_patch is None or not isinstance(error, _OF_COUNTER_PATCH):
                return Outcome.UNREADABLE, one_line(f"The verdict was refused ({error.code}): {error.message}")
            left_out = f"A counter-patch was left out: Tandem refused it ({error.code})."
            self._log.note(f"review {claimed.review_id}: the counter-patch is refused: {error.code}")
            bare = replace(answer, counter_patch=None, reason=f"{answer.reason}\n\n{left_out}")
            outcome, reason = self._submit(claimed, bare)
            return outcome, f"{reason}. {left_out}" if outcome is Outcome.VERDICT else reason
        return Outcome.VERDICT, given["verdict"]

    def _report(self, claimed: Claimed, result: RunResult) -> None:
        """Tells the broker what became of the run; if the claim is over, that changes nothing here.

        Raises:
            TandemError: It does not know this reviewer any more, or cannot take it in: its cost would not be counted.
        """
        # None is not sent.
        outcome = {
            "reviewer_id": self._job.reviewer_id,
            "review_id": claimed.review_id,
            "claim_generation": claimed.generation,
            "outcome": str(result.outcome),
            "reason": result.reason,
            "seconds": round(result.seconds, 3),
            **{name: getattr(result.usage, name) for name in ("tokens_in", "tokens_out", "cost_usd")},
            "exit_code": result.exit_code,
            "retry_after_s": result.retry_after_seconds,
        }
        self._log.note(f"review {claimed.review_id}, claim {claimed.generation}: {result.outcome}: {result.reason}")
        try:
            self._deliver(with_key(outcome))
        except TandemError as error:
            self._log.note(f"review {claimed.review_id}: the broker refuses the outcome: {error.code}")
            if not isinstance(error, OVER):
                raise

    def _deliver(self, report: dict[str, Any]) -> None:
        try:
            self._ask("report_outcome", report)
        except CallCancelled:
            # A reviewer that must end at once still reports the claim's end, if the broker listens.
            limit = _LAST_REPORT_SECONDS
            last = self._connected(answer_seconds=limit)
            try:
                last.call("report_outcome", report, until=threading.Event(), patience_seconds=limit)
            except BrokerUnreachable:
                self._log.note("the broker could not be told")
            finally:
                last.close()

    def _connected(self, *, answer_seconds: float = ANSWER_SECONDS) -> BrokerClient:
        job = self._job
        return BrokerClient(job.broker, agent=job.reviewer_id, access=job.access, answer_seconds=answer_seconds)

    # ----------------------------------------------------------------------------------------- as an agent

    def run_agent(self) -> Ending:
        """Runs the program to its end, or until something is ordered; blocks meanwhile.

        Raises:
            ConfigInvalid: A setting cannot be used.
            OSError: The files of the run cannot be written.
        """
        job, client = self._job, self._provider
        about = {"reviewer_id": job.reviewer_id, "project": job.project}
        prompt = build_agent(self._template, **about, idle_seconds=job.idle_seconds)
        with programs.folder_for_run(job.scratch) as folder:
            try:
                context = self._context(folder)
                if client.agent_tree is not None:
                    context = copy_for_agent(context, client.agent_tree, self._log.note)
                elif context.workspace == ELSEWHERE:
                    # It gets each review's diff from the broker; the project's files are on another machine.
                    empty = Path(job.scratch, "tree")
                    empty.mkdir(mode=0o700, exist_ok=True)
                    context = replace(context, workspace=str(empty))
                invocation = client.agent(context, prompt, self._mcp_url(), job.access)
                programs.lay_out(folder, invocation.files)
                finished = programs.run(
                    invocation,
                    # One that says nothing of itself may wait for a review.
                    job if invocation.talks else replace(job, silence_seconds=None),
                    on_start=lambda process: self._log.note(f"{client.name} runs as the agent, process {process.pid}"),
                    cancelled=self._requests.drain,
                    log=self._log.write,
                    tell=self._activity.run,
                )
                said = client.read(finished, context)
            except (ConfigInvalid, Unavailable) as error:
                return WorkerExit.PROGRAM_FAILED, one_line(error.message)
            finally:
                self._activity.end()
        return _ended(finished, said, job)

    def _context(self, folder: Path) -> RunContext:
        """The context of one run of the job's program, in a folder of its own."""
        job, environment = self._job, dict(os.environ)
        return RunContext(
            job.workspace, str(folder), job.model, job.effort, SCHEMA, environment, job.reviewer_id, job.wsl_distro
        )

    def _mcp_url(self) -> str:
        """Where the program finds the reviewers' tools: of several brokers, at one that answers."""
        client = HttpClient(*targets(self._job.broker))
        if len(client.targets) > 1:
            # It goes on at the next address by itself. If none answers, the program finds out.
            with suppress(HttpFailure):
                client.request("GET", "/healthz", b"", {}).close()
        return f"{client.target.url}/mcp/reviewer?project={quote(self._job.project, safe='')}"


def _ended(finished: Finished, said: ProgramOutput, job: ReviewJob) -> Ending:
    failed = finished.exit_code != 0 or finished.ended_by != "itself"
    # The last words of an agent that ended in order may be about anything.
    if (failed or said.error) and (quota := quota_in(finished, said.error, said.text if failed else None)):
        return WorkerExit.RATE_LIMITED, f"{RETRY_AFTER}{quota.seconds:.0f} s: {quota.said}"
    match finished.ended_by:
        case "cancelled":
            return WorkerExit.IN_ORDER, "told to stop"
        case "timeout" if finished.seconds >= job.total_seconds:
            return WorkerExit.IN_ORDER, f"its time of {job.total_seconds:.0f} s is up"
        case "itself" if finished.exit_code == 0:
            return WorkerExit.IN_ORDER, "the program ended by itself"
        case "itself":
            return WorkerExit.PROGRAM_FAILED, crash_reason(finished, said.error)
        case reason:
            return WorkerExit.PROGRAM_FAILED, f"the program was ended: {reason}"


def main() -> int:
    """Do the job that standard input says; the exit status."""
    control = Control(sys.stdin.fileno())
    try:
        line = control.first_line()
        if line is None:
            # Closing standard input cancels the start.
            return _says(WorkerExit.SUPERVISOR_GONE, "The supervisor went away before there was a job.")
        job = read_job(line)
        _refuse_reentry(job)
        client = provider(job.provider, job.command)
    except ConfigInvalid as error:
        return _says(WorkerExit.BAD_JOB, error.message)
    os.environ[REENTRY_VARIABLE] = job.reviewer_id
    try:
        log = RotatingLog(job.log_file, max_bytes=job.log_max_bytes, backups=job.log_backups)
    except OSError as error:
        return _says(WorkerExit.BAD_JOB, f"The reviewer's log {job.log_file} cannot be written: {error.strerror}.")
    with log:
        return _says(*_directed(job, client, control, log))


def _refuse_reentry(job: ReviewJob) -> None:
    """A reviewer's program starts no reviewer: no pool would count it."""
    inside = os.environ.get(REENTRY_VARIABLE)
    if RUN_VARIABLE in os.environ or inside not in {None, job.reviewer_id}:
        raise ConfigInvalid(
            f"A reviewer cannot start a reviewer: {REENTRY_VARIABLE} is set already. Start it from outside.",
            setting=REENTRY_VARIABLE,
        )


def _directed(job: ReviewJob, client: Provider, control: Control, log: RotatingLog) -> Ending:
    """Has the work done in a thread, and passes the supervisor's orders on to it."""
    log.note(f"reviewer {job.reviewer_id} begins: process {os.getpid()}, {job.provider}, mode {job.mode}")
    ending = control.direct(
        lambda: _worked(job, client, control, log), log.note, patience_seconds=job.grace_seconds + _END_SECONDS
    )
    if ending is None:
        # It hangs somewhere, in the disk or the network; its program must not outlive us.
        processes.end_marked({name: os.environ[name] for name in _MARKS if name in os.environ})
        ending = WorkerExit.FAULT, "the work did not end"
    if control.abandoned.is_set():
        ending = WorkerExit.SUPERVISOR_GONE, "the supervisor is gone"
    status, why = ending
    log.note(f"reviewer {job.reviewer_id} ends with {int(status)}: {why}")
    return ending


def _worked(job: ReviewJob, client: Provider, control: Control, log: RotatingLog) -> Ending:
    try:
        worker = Worker(job, client, control, log)
        return worker.run_agent() if job.mode == "agent" else worker.work()
    except TandemError as error:
        return WorkerExit.BAD_JOB, error.message
    except Exception as error:  # noqa: BLE001 - the edge: the process says what happened, and ends
        for line in traceback.format_exc().splitlines():
            log.note(line)
        return WorkerExit.FAULT, f"a fault of Tandem ({type(error).__name__}); the reviewer's log has its traceback"


def _says(status: WorkerExit, why: str) -> int:
    """Tells the supervisor why, where that is worth knowing."""
    if status is not WorkerExit.IN_ORDER:
        sys.stderr.write(f"{one_line(why)}\n")
        sys.stderr.flush()
    return int(status)


if __name__ == "__main__":
    sys.exit(main())

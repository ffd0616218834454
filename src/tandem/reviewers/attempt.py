"""One review, from its claim to the outcome that the broker is told.

    claimed ─▶ dossier ─▶ prompt ─▶ program, while the lease is renewed ─▶ answer ─▶ verdict ─▶ outcome

Whatever happens, the claim does not stay behind: each way out of here reports an outcome, and only a verdict that
the program plainly gave, for exactly this content, is one.
"""

from __future__ import annotations

import secrets
import threading
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, Final, cast

from tandem.errors import ConfigInvalid, Unavailable
from tandem.platforms import ProcessIdentity
from tandem.reviewers import GIVEN_FOLDER, Finished, Invocation, Provider, Reply, RunContext, programs, scratch
from tandem.reviewers.broker_client import ANSWER_SECONDS, Away, BrokerClient, GivenUp, Refused, with_key
from tandem.reviewers.control import StopRequests
from tandem.reviewers.dossier import gather
from tandem.reviewers.job import Job
from tandem.reviewers.lease import DEADLINE, OVER, Claimed, Lease
from tandem.reviewers.logs import RotatingLog
from tandem.reviewers.outcomes import Outcome, one_line, outcome_of, reason_of
from tandem.reviewers.prompt import build, is_inline
from tandem.reviewers.providers import clean_room
from tandem.reviewers.templates import Template
from tandem.reviewers.verdicts import Answer, Unreadable, WrongDigest, read_answer

AT_ONCE_SECONDS: Final = 10.0
"""A program that fails within this time does not work at all: its next run would fail as well."""

_NONCE_BYTES: Final = 16
_DIFF_FILE = "proposal.diff"
_LAST_REPORT_SECONDS = 2.0
"""How long a report may take of one who is to end at once."""

_OF_COUNTER_PATCH = frozenset({"INVALID_DIFF", "SCHEMA_INVALID", "TOO_LARGE", "INVALID_INPUT"})


@dataclass(frozen=True, slots=True)
class Result:
    """What became of a run.

    Attributes:
        outcome: One of the six.
        reason: Why, in a line.
        seconds: How long the program ran.
        usage: What it cost.
        exit_code: How the program ended; null if it never began.
        failed_at_once: Whether the program does not work at all.
    """

    outcome: Outcome
    reason: str
    seconds: float = 0.0
    usage: Reply = field(default_factory=lambda: Reply(None))
    exit_code: int | None = None
    failed_at_once: bool = False


@dataclass(frozen=True, slots=True)
class _Run:
    """How a program ended, what it said, whether its claim ended before it, and the nonce of its prompt."""

    finished: Finished
    reply: Reply
    claim_ended: str | None
    nonce: str


class Attempts:
    """Reviews one claim after the other, with the same program and settings."""

    def __init__(
        self,
        job: Job,
        provider: Provider,
        template: Template,
        *,
        broker: BrokerClient,
        requests: StopRequests,
        log: RotatingLog,
    ) -> None:
        self._job = job
        self._provider = provider
        self._template = template
        self._broker = broker
        self._requests = requests
        self._log = log

    def review(self, claimed: Claimed) -> Result:
        """Review what was claimed, and tell the broker; blocks as long as that takes.

        Raises:
            Away: The broker does not answer any more.
            Refused: It does not want to hear of the outcome, and not because the claim is over.
        """
        try:
            result = self._outcome(claimed)
        except GivenUp:
            result = Result(Outcome.CANCELLED, self._why_cancelled(None))
        except Away:
            raise
        except Exception:
            # The first fault is the one to tell of.
            with suppress(Away, Refused):
                reason = "A fault of the reviewer process. Its log has the traceback."
                self._report(claimed, Result(Outcome.CRASHED, reason))
            raise
        self._report(claimed, result)
        return result

    def _outcome(self, claimed: Claimed) -> Result:
        try:
            run = self._run(claimed)
        except (ConfigInvalid, Unavailable) as error:
            return Result(Outcome.CRASHED, one_line(error.message), failed_at_once=True)
        except OSError as error:
            words = f"The reviewer's files cannot be written: {error}. See to the space on the disk."
            return Result(Outcome.CRASHED, one_line(words), failed_at_once=True)
        answer = _answer_in(run, claimed)
        result = self._result(run, answer)
        if result.outcome is not Outcome.VERDICT or not isinstance(answer, Answer):
            return result
        outcome, reason = self._submit(claimed, answer)
        return replace(result, outcome=outcome, reason=reason)

    def _result(self, run: _Run, answer: Answer | Unreadable | WrongDigest | None) -> Result:
        finished = run.finished
        outcome = outcome_of(finished, answer)
        if outcome is Outcome.CANCELLED and run.claim_ended == DEADLINE:
            outcome = Outcome.TIMEOUT
        reason = (
            self._why_cancelled(run.claim_ended)
            if finished.ended_by == "cancelled"
            else reason_of(outcome, finished, answer)
        )
        return Result(
            outcome,
            reason,
            finished.seconds,
            run.reply,
            finished.exit_code,
            failed_at_once=outcome is Outcome.CRASHED and finished.seconds < AT_ONCE_SECONDS,
        )

    def _why_cancelled(self, claim_ended: str | None) -> str:
        if claim_ended == DEADLINE:
            return "The review's deadline came before an answer. Make it smaller, or raise review_deadline_seconds."
        if claim_ended is not None:
            return f"The claim was over before there was an answer ({claim_ended})."
        if self._requests.abandoned.is_set():
            return "The reviewer's supervisor is gone."
        return "The reviewer was told to stop at once."

    # ----------------------------------------------------------------------------------------- the program

    def _run(self, claimed: Claimed) -> _Run:
        """Has the program review, with the claim renewed meanwhile; nothing of the run is left on the disk."""
        cancelled = threading.Event()
        nonce = secrets.token_hex(_NONCE_BYTES)
        lease = Lease(
            self._connected(),
            claimed,
            grace_seconds=self._job.grace_seconds,
            on_end=cancelled.set,
        )

        def obey() -> None:
            if self._requests.cancel.is_set():
                cancelled.set()

        with scratch.folder_for_run(self._job.scratch) as folder, lease, self._requests.telling(obey):
            context = scratch.context_of(self._job, folder)
            invocation = self._invocation(claimed, context, nonce)
            scratch.lay_out(folder, invocation.files)
            finished = programs.run(
                invocation,
                scratch.limits_of(self._job, self._job.attempt_seconds),
                on_start=lambda process: self._began(claimed, process),
                cancelled=cancelled,
                log=self._log.as_file(),
                hidden=nonce.encode(),
            )
            return _Run(finished, self._provider.read(finished, context), lease.ended, nonce)

    def _began(self, claimed: Claimed, process: ProcessIdentity) -> None:
        self._log.note(
            f"review {claimed.review_id}, round {claimed.round}, claim {claimed.generation}:"
            f" {self._provider.name} runs as process {process.pid}"
        )

    def _invocation(self, claimed: Claimed, context: RunContext, nonce: str) -> Invocation:
        found = gather(self._broker, claimed, given_up=self._requests.cancel, log=self._log)
        diff = claimed.proposal.get("diff")
        prompt = build(
            self._template,
            claimed.proposal,
            nonce=nonce,
            earlier=found.earlier,
            open_comments=found.open_comments,
            interdiff=found.interdiff,
            conventions=found.conventions,
            diff_file=clean_room.path(context, GIVEN_FOLDER, _DIFF_FILE),
        )
        invocation = self._provider.review(context, prompt)
        if is_inline(diff):
            return invocation
        given = {f"{GIVEN_FOLDER}/{_DIFF_FILE}": str(diff).encode("utf-8", "backslashreplace")}
        return replace(invocation, files={**invocation.files, **given})

    # ----------------------------------------------------------------------------------------- the broker

    def _submit(self, claimed: Claimed, answer: Answer) -> tuple[Outcome, str]:
        """Gives the verdict. A counter-patch that cannot be taken costs no verdict, which stands without it."""
        try:
            self._send(claimed, answer)
        except Refused as error:
            if answer.counter_patch is None or error.code not in _OF_COUNTER_PATCH:
                return _refused(error)
            left_out = f"A counter-patch was left out: Tandem refused it ({error.code})."
            self._log.note(f"review {claimed.review_id}: the counter-patch is refused: {error.code}")
            bare = replace(answer, counter_patch=None, reason=f"{answer.reason}\n\n{left_out}")
            try:
                self._send(claimed, bare)
            except Refused as again:
                return _refused(again)
            return Outcome.VERDICT, f"{answer.verdict}. {left_out}"
        return Outcome.VERDICT, answer.verdict

    def _send(self, claimed: Claimed, answer: Answer) -> None:
        verdict = {
            "review_id": claimed.review_id,
            "project": claimed.project,
            "claim_generation": claimed.generation,
            "round": claimed.round,
            "reviewer_id": self._job.reviewer_id,
            **answer.arguments(),
        }
        self._broker.call("submit_verdict", with_key(verdict), until=self._requests.cancel)

    def _report(self, claimed: Claimed, result: Result) -> None:
        """Tells the broker what became of the run; if the claim is over, that changes nothing here.

        Raises:
            Refused: It does not know this reviewer any more, or cannot take it in: nobody counts what it costs.
        """
        usage = result.usage
        outcome = {
            "reviewer_id": self._job.reviewer_id,
            "review_id": claimed.review_id,
            "claim_generation": claimed.generation,
            "outcome": str(result.outcome),
            "reason": result.reason,
            "seconds": round(result.seconds, 3),
            "tokens_in": usage.tokens_in,
            "tokens_out": usage.tokens_out,
            "cost_usd": usage.cost_usd,
            "exit_code": result.exit_code,
        }
        self._log.note(f"review {claimed.review_id}, claim {claimed.generation}: {result.outcome}: {result.reason}")
        try:
            self._deliver(with_key(outcome))
        except Refused as error:
            self._log.note(f"review {claimed.review_id}: the broker refuses the outcome: {error.code}")
            if error.code not in OVER:
                raise

    def _deliver(self, report: dict[str, Any]) -> None:
        try:
            self._broker.call("report_outcome", report, until=self._requests.cancel)
        except GivenUp:
            # Who is to end at once still says what became of the claim, if somebody listens.
            limit = _LAST_REPORT_SECONDS
            last = self._connected(answer_seconds=limit)
            try:
                last.call("report_outcome", report, until=threading.Event(), patience_seconds=limit)
            except Away:
                self._log.note("the broker could not be told")
            finally:
                last.close()

    def _connected(self, *, answer_seconds: float = ANSWER_SECONDS) -> BrokerClient:
        job = self._job
        return BrokerClient(job.broker, agent=job.reviewer_id, access=job.access, answer_seconds=answer_seconds)


def _answer_in(run: _Run, claimed: Claimed) -> Answer | Unreadable | WrongDigest | None:
    """What the program's words are; null if it had none."""
    if run.reply.text is None:
        return None
    try:
        digest, files = claimed.proposal.get("digest"), _files_of(claimed.proposal)
        return read_answer(run.reply.text, nonce=run.nonce, digest=digest, files=files)
    except (Unreadable, WrongDigest) as error:
        return error


def _files_of(proposal: dict[str, Any]) -> frozenset[str] | None:
    """The files that a comment may be on; null where no file is part of what is proposed."""
    touched = cast("list[dict[str, Any]]", proposal.get("affected_files") or [])
    names = {file.get(name) for file in touched for name in ("path", "old_path")} | {proposal.get("path")}
    return frozenset(name for name in names if name) or None


def _refused(error: Refused) -> tuple[Outcome, str]:
    if error.code in OVER:
        return Outcome.CANCELLED, f"The claim was over before the verdict ({error.code})."
    return Outcome.UNREADABLE, one_line(f"The verdict was refused ({error.code}): {error.message}")

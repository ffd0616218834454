"""How a step ends: one word that an instruction can branch on, what a review comes to, and what to do next."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from enum import Enum, StrEnum
from typing import Any

from tandem.gsd.steps.situation import StepPointer
from tandem.gsd.steps.subjects import Subject
from tandem.reviews.answers import ReviewStatus
from tandem.reviews.rules import MOST_OBJECTIONS
from tandem.rulings import next_steps
from tandem.rulings.person import agent_mark

_MOST_NAMED = 20
"""Of files in a command; more are added together."""


class StepWord(StrEnum):
    """The first word that a step prints. It is part of the contract: instructions and agents branch on it.

    The most urgent one stands first.
    """

    ROLLBACK = "ROLLBACK"
    """An earlier change of the plan was decided against after its commit: roll it back first."""
    ESCALATE = "ESCALATE"
    """Stop and ask a person."""
    REJECTED = "REJECTED"
    """The change is not wanted: undo it."""
    CHANGES = "CHANGES"
    """The reviewer wants changes, or sent a counter-patch to decide about; or a required check failed."""
    WAITING = "WAITING"
    """No verdict yet, a required check runs still, or the reviewer asks something: do as it says, then run the same
    command again.
    """
    APPROVED = "APPROVED"
    """Exactly this content is approved: go on."""
    GO = "GO"
    """There is nothing to wait for here: go on."""
    NOTHING = "NOTHING"
    """There is nothing to propose: go on."""
    SOLO = "SOLO"
    """Reviews are off here: go on."""


@dataclass(frozen=True, slots=True)
class StepRemark:
    """A reviewer's comment on a line.

    Attributes:
        file: The file, from the root; None for a comment on the whole.
        line: The line, from 1; None for a comment on the file.
        body: Its text.
    """

    file: str | None
    line: int | None
    body: str


@dataclass(frozen=True, slots=True)
class Patch:
    """A counter-patch that waits for the proposer's decision.

    Attributes:
        id: Its id.
        author: Who sent it.
        files: The paths it touches.
        content: Its diff, or for a text the whole new text; None when it is too long to print.
    """

    id: str
    author: str
    files: tuple[str, ...]
    content: str | None


@dataclass(frozen=True, slots=True)
class StepResult:
    """How a step ended.

    Attributes:
        word: What to branch on.
        step: `plan`, `context`, `task`, `wave` or `verification`.
        next: What to do now, a sentence or a command each.
        review_id: The review that says so, if there is one.
        review_ids: Every review that takes part.
        project: The project it belongs to.
        phase: The phase, as it was named or found.
        plan: The plan.
        task: The task.
        path: The file that was proposed whole.
        files: The paths of the change that was proposed.
        status: The review's status.
        round: Its round.
        reason: Why, in the reviewer's words or ours.
        question: What the reviewer asks.
        remarks: Comments on lines.
        counter_patch: What the reviewer would have instead.
        parts: The outcomes that this one sums up: of a wave, one a branch.
    """

    word: StepWord
    step: str
    next: tuple[str, ...] = ()
    review_id: str | None = None
    review_ids: tuple[str, ...] = ()
    project: str | None = None
    phase: str | None = None
    plan: str | None = None
    task: str | None = None
    path: str | None = None
    files: tuple[str, ...] = ()
    status: str | None = None
    round: int | None = None
    reason: str | None = None
    question: str | None = None
    remarks: tuple[StepRemark, ...] = ()
    counter_patch: Patch | None = None
    parts: tuple[StepResult, ...] = ()


def ended(subject: Subject, word: StepWord, **facts: Any) -> StepResult:
    """How a step ended, with the facts of its content."""
    known: dict[str, Any] = {**asdict(subject.identity), "path": subject.path, "files": subject.paths}
    return StepResult(word, subject.step, **(known | facts))


_HELD_BY = {
    "pending": "It is approved, and a required check has not ended yet.",
    "doubtful": "It is approved, but what a required check ran on does not count.",
    "failed": "It is approved, but a required check has not passed.",
}


def held_by_checks(status: ReviewStatus) -> str | None:
    """Why an approved change does not pass the gate yet, in words; None if it does, or is not approved."""
    return _HELD_BY.get(status.checks or "") if "approved" in {status.status, status.outcome} else None


def lacks_reviewer(status: ReviewStatus) -> bool:
    """Whether no reviewer comes before a person has done something, or an agent has waited for one in vain."""
    none = status.no_reviewer
    return none is not None and (none.needs_person or (status.next_action == "escalate" and agent_mark() is not None))


def of_review(status: ReviewStatus) -> dict[str, Any]:
    """The facts of an outcome that a review's status says."""
    lacking = status.no_reviewer.message if lacks_reviewer(status) and status.no_reviewer else None
    return {
        "review_id": status.review_id,
        "review_ids": (status.review_id,),
        "project": status.project,
        "status": status.status,
        "round": status.round,
        "reason": status.attention or lacking or held_by_checks(status) or status.verdict_reason,
    }


class NextMove(Enum):
    """What to do with a content."""

    NEW = "new"
    """Propose a new review."""
    RESUBMIT = "resubmit"
    """Propose a new review that follows the rejected one."""
    REVISE = "revise"
    """Make a new round of the review."""
    KEEP = "keep"
    """Propose nothing: the review is of this content, or a person has to decide how it goes on."""


def is_same(subject: Subject, pointer: StepPointer, status: ReviewStatus) -> bool:
    """Whether the review's current round is exactly this content."""
    return (status.digest or pointer.digest) == subject.digest and pointer.claim == subject.claim


def is_superseded(subject: Subject, pointer: StepPointer, status: ReviewStatus) -> bool:
    """Whether the round is another content that was agreed on since, such as an accepted counter-patch."""
    put_up_here = pointer.digest == subject.digest and pointer.claim == subject.claim
    return put_up_here and status.round > pointer.round and not is_same(subject, pointer, status)


def decide(
    subject: Subject, pointer: StepPointer | None, status: ReviewStatus | None, *, was_committed: bool
) -> NextMove:
    """What to do with a content.

    Args:
        subject: The content.
        pointer: The earlier proposal; None if there was none.
        status: How that review stands; None if there is none.
        was_committed: Whether the earlier proposal is in a commit: an approval of it must then not be ended.
    """
    if pointer is None or status is None:
        return NextMove.NEW
    is_known = is_same(subject, pointer, status) or is_superseded(subject, pointer, status)
    is_over = _has_gone_far(status)
    match status.status:
        case "closed":
            # It was closed because it was finished.
            return NextMove.KEEP if is_known and status.outcome != "withdrawn" else NextMove.NEW
        case "rejected":
            return NextMove.KEEP if is_known or is_over else NextMove.RESUBMIT
        case "approved" if was_committed and not is_known:
            return NextMove.NEW
        case "changes_requested" if is_over:
            return NextMove.KEEP
        case _:
            return NextMove.KEEP if is_known else NextMove.REVISE


def awaits_checks(status: ReviewStatus) -> bool:
    """Whether it is approved, and a required check is still to end."""
    return held_by_checks(status) is not None and status.checks in {"pending", "doubtful"}


def _has_gone_far(status: ReviewStatus) -> bool:
    """Whether a person decides how it goes on, after so many rounds or reviews without agreement."""
    return status.next_action == "escalate" or status.objections >= MOST_OBJECTIONS


def word_of(status: ReviewStatus) -> StepWord:  # noqa: PLR0911 - as `decide`
    """The word for how a review stands."""
    is_over = _has_gone_far(status)
    if status.attention is not None or lacks_reviewer(status):
        return StepWord.ESCALATE
    if held_by_checks(status) is not None:
        return StepWord.WAITING if awaits_checks(status) else StepWord.CHANGES
    match status.status:
        case "approved":
            return StepWord.APPROVED
        case "closed":
            return {"approved": StepWord.APPROVED, "rejected": StepWord.REJECTED}.get(
                status.outcome or "", StepWord.ESCALATE
            )
        case "rejected":
            return StepWord.ESCALATE if is_over else StepWord.REJECTED
        case _ if status.next_action == "decide_counter_patch":
            return StepWord.CHANGES
        case "changes_requested" if status.next_action != "wait":
            return StepWord.ESCALATE if is_over else StepWord.CHANGES
        case _:
            return StepWord.WAITING


def advice(
    word: StepWord, subject: Subject, status: ReviewStatus, patch: Patch | None, *, is_superseded: bool
) -> tuple[str, ...]:
    """What follows from a word."""
    review_id = status.review_id
    match word:
        case StepWord.APPROVED:
            return approved(subject, review_id, is_superseded=is_superseded)
        case StepWord.CHANGES:
            return _changes(subject, status, patch)
        case StepWord.REJECTED:
            return _take_back(subject)
        case StepWord.WAITING:
            return _waiting(subject, status)
        case _:
            return _escalation(subject, status)


def approved(subject: Subject, review_id: str | None, *, is_superseded: bool) -> tuple[str, ...]:
    """What to do with an approved content."""
    close = () if review_id is None else (f"Then close the review: tandem review close {review_id}",)
    if is_superseded or subject.is_draft:
        fetch = f"Bring the files to exactly the approved content: tandem apply {review_id}"
        commit = f"Commit them as they are, then run again: {subject.command}" if subject.step == "wave" else ""
        return tuple(filter(None, (fetch, commit))) + (() if commit else close)
    if subject.step == "wave":
        return ("Merge the branch as it is; a later change of it needs another review.",)
    if subject.is_committed:
        return ("Go on.",)
    return (f"Commit exactly this, unchanged: git add -- {named(subject.paths)} && git commit -m '…'", *close)


def named(paths: Sequence[str]) -> str:
    """Paths as arguments of a command, from the root."""
    if len(paths) > _MOST_NAMED:
        return "."
    return " ".join(shlex.quote(f":/{path}") for path in paths)


def _waiting(subject: Subject, status: ReviewStatus) -> tuple[str, ...]:
    review_id, again = status.review_id, f"Then run again: {subject.command}"
    if status.unapproved_range is not None and awaits_checks(status):
        return (next_steps.beneath(status.unapproved_range), again)
    if status.checks == "doubtful" and awaits_checks(status):
        return (f"Run its checks again: tandem checks run {review_id}", again)
    if awaits_checks(status):
        return (f"Wait for the checks: tandem checks list {review_id} --wait", again)
    if status.next_action == "answer_message":
        return (f"Answer: {next_steps.answer(asdict(status))}", again)
    return (f"There is no verdict yet. Run the same command again: {subject.command}",)


def _again(subject: Subject) -> str:
    files = "the files and commit" if subject.step == "wave" else "the files"
    return f"Change {files if subject.path is None else _document(subject)}, then run again: {subject.command}"


def _document(subject: Subject) -> str:
    """What holds the text: a draft is not in its file, which may not be written yet."""
    return "the draft" if subject.is_draft else str(subject.path)


def _changes(subject: Subject, status: ReviewStatus, patch: Patch | None) -> tuple[str, ...]:
    review_id, again = status.review_id, _again(subject)
    if held_by_checks(status) is not None and status.conflict_with is not None:
        kept = {"committed": subject.is_committed, "staged": subject.order.staged}
        return tuple(next_steps.take_in(review_id, status.conflict_with, again, **kept))
    if held_by_checks(status) is not None:
        return (
            f"See which failed: tandem checks list {review_id}; its output: tandem checks log {review_id} NAME",
            again,
            f"If the check itself was at fault: tandem checks run {review_id}, then run again: {subject.command}",
        )
    if patch is None:
        return (again,)
    return (
        f"Take the counter-patch: {subject.order.accept_command}",
        f"Or decline it: {next_steps.decline(review_id, patch.id)}",
        again,
    )


def _take_back(subject: Subject) -> tuple[str, ...]:
    if subject.step == "wave":
        return (
            f"Take the plan's commits back: git revert --no-edit {subject.base}..{subject.branch or 'HEAD'}",
            "Or leave the branch unmerged, and do it differently on another.",
        )
    if subject.path is not None:
        return (f"It is not wanted as it is. Write {_document(subject)} again, then run: {subject.command}",)
    return (
        f"Take the change back: git stash push --include-untracked -- {named(subject.paths)}",
        f"Do it differently, then run again: {subject.command}",
    )


def _escalation(subject: Subject, status: ReviewStatus) -> tuple[str, ...]:
    review_id = status.review_id
    show = f"Stop, and ask the person. They can read it all: tandem review proposal {review_id}"
    if status.attention is not None:
        return (show, f"They can review it themselves, or have it tried again: tandem review retry {review_id}")
    if lacks_reviewer(status) and status.no_reviewer is not None:
        return (show, status.no_reviewer.remedy)
    if status.status == "closed":
        return (show, f"The review was withdrawn; propose it again only if they say so: {subject.command}")
    if status.status == "rejected":
        return (show, f"If they want it done differently after all, close this one: tandem review close {review_id}")
    source = f"--text {shlex.quote(subject.path)}" if subject.path is not None else "--staged"
    return (show, f"If they want another round of it: tandem submit --revise {review_id} {source} --wait")

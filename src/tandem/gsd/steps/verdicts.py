"""What follows from how a review stands: what to do with a content, the step's word, and what to do next."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from enum import Enum

from tandem.gsd.steps.outcomes import Patch, StepWord, held_by_checks, lacks_reviewer
from tandem.gsd.steps.situation import StepPointer
from tandem.gsd.steps.subjects import Subject
from tandem.reviews.answers import ReviewStatus
from tandem.reviews.rules import ESCALATION_ROUND
from tandem.rulings import next_steps

AGAINST = frozenset({"changes_requested", "rejected"})
_MOST_NAMED = 20
"""Of files in a command; more are added together."""


class NextMove(Enum):
    """One thing to do."""

    NEW = "new"
    """Propose a new review."""
    RESUBMIT = "resubmit"
    """Propose a new review that follows the rejected one."""
    REVISE = "revise"
    """Make a new round of the review."""
    WAIT = "wait"
    """This content is proposed already: wait."""
    TELL = "tell"
    """Say how the review stands; nothing has changed since."""


def is_same(subject: Subject, pointer: StepPointer, status: ReviewStatus) -> bool:
    """Whether the review's current round is exactly this content."""
    return (status.digest or pointer.digest) == subject.digest and pointer.claim == subject.claim


def is_superseded(subject: Subject, pointer: StepPointer, status: ReviewStatus) -> bool:
    """Whether the round is another content that was agreed on since, such as an accepted counter-patch."""
    put_up_here = pointer.digest == subject.digest and pointer.claim == subject.claim
    return put_up_here and status.round > pointer.round and not is_same(subject, pointer, status)


def decide(  # noqa: PLR0911 - a line each state reads best
    subject: Subject, pointer: StepPointer | None, status: ReviewStatus | None, *, was_committed: bool
) -> NextMove:
    """The move.

    Args:
        subject: The content.
        pointer: The earlier proposal; None if there was none.
        status: How that review stands; None if there is none.
        was_committed: Whether the earlier proposal is in a commit: an approval of it must then not be ended.
    """
    if pointer is None or status is None:
        return NextMove.NEW
    is_known = is_same(subject, pointer, status) or is_superseded(subject, pointer, status)
    is_over = pointer.rounds_before + status.round >= ESCALATION_ROUND
    match status.status:
        case "closed" if status.outcome == "withdrawn" or not is_known:
            # It was closed because it was finished.
            return NextMove.NEW
        case "rejected":
            return NextMove.TELL if is_known or is_over else NextMove.RESUBMIT
        case "closed":
            return NextMove.TELL
        case "approved":
            return NextMove.TELL if is_known else NextMove.NEW if was_committed else NextMove.REVISE
        case "changes_requested":
            if is_known:
                return NextMove.WAIT if status.next_action == "wait" else NextMove.TELL
            return NextMove.TELL if is_over else NextMove.REVISE
        case _:
            return NextMove.WAIT if is_known else NextMove.REVISE


def awaits_checks(status: ReviewStatus) -> bool:
    """Whether it is approved, and a required check is still to end."""
    return held_by_checks(status) is not None and status.checks in {"pending", "doubtful"}


def word_of(status: ReviewStatus, rounds_before: int) -> StepWord:  # noqa: PLR0911 - as `decide`
    """The word for how a review stands."""
    is_over = rounds_before + status.round >= ESCALATION_ROUND
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
        fetch = f"Bring the files to exactly what was approved: tandem apply {review_id}"
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
        return (f"Answer: {next_steps.answer(review_id)}", again)
    return (f"There is no verdict yet. Run the same command again: {subject.command}",)


def _again(subject: Subject) -> str:
    where = f"Change {_document(subject)}" if subject.path is not None else "Change the files"
    if subject.step == "wave":
        where = "Change the files and commit"
    return f"{where}, then run again: {subject.command}"


def _document(subject: Subject) -> str:
    """What holds the text: a draft is not in its file, which may not be written yet."""
    return "the draft" if subject.is_draft else str(subject.path)


def _changes(subject: Subject, status: ReviewStatus, patch: Patch | None) -> tuple[str, ...]:
    review_id, again = status.review_id, _again(subject)
    if held_by_checks(status) is not None and status.conflict_with is not None:
        return (*next_steps.take_in(review_id, status.conflict_with, committed=subject.is_committed), again)
    if held_by_checks(status) is not None:
        return (
            f"See which failed: tandem checks list {review_id}; what it wrote: tandem checks log {review_id} NAME",
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

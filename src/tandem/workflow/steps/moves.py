"""What to do with a content, given the review that was put up for its step before."""

from __future__ import annotations

from enum import Enum

from tandem.domain.answers import ReviewStatus
from tandem.domain.reviews import ESCALATION_ROUND
from tandem.workflow.steps.outcomes import Word
from tandem.workflow.steps.pointers import Pointer
from tandem.workflow.steps.subjects import Subject


class Move(Enum):
    """One thing to do."""

    NEW = "new"
    """Put up a new review."""
    RESUBMIT = "resubmit"
    """Put up a new review that follows the rejected one."""
    REVISE = "revise"
    """Make a new round of the review."""
    WAIT = "wait"
    """This content is up already: wait."""
    TELL = "tell"
    """Say how the review stands; nothing has changed since."""


def is_same(subject: Subject, pointer: Pointer, status: ReviewStatus) -> bool:
    """Whether the review's current round is exactly this content."""
    return (status.digest or pointer.digest) == subject.digest and pointer.claim == subject.claim


def is_superseded(subject: Subject, pointer: Pointer, status: ReviewStatus) -> bool:
    """Whether the round is another content that was agreed on since, such as an accepted counter-patch."""
    put_up_here = pointer.digest == subject.digest and pointer.claim == subject.claim
    return put_up_here and status.round > pointer.round and not is_same(subject, pointer, status)


def decide(  # noqa: PLR0911 - a line each state reads best
    subject: Subject, pointer: Pointer | None, status: ReviewStatus | None, *, is_committed: bool
) -> Move:
    """The move.

    Args:
        subject: The content.
        pointer: What was put up before; null if nothing was.
        status: How that review stands; null if there is none.
        is_committed: Whether what was put up before is in a commit: an approval of it must then not be ended.
    """
    if pointer is None or status is None:
        return Move.NEW
    is_known = is_same(subject, pointer, status) or is_superseded(subject, pointer, status)
    is_over = pointer.rounds_before + status.round >= ESCALATION_ROUND
    match status.status:
        case "closed" if status.outcome == "withdrawn" or not is_known:
            # Whoever closed it was done with it.
            return Move.NEW
        case "rejected":
            return Move.TELL if is_known or is_over else Move.RESUBMIT
        case "closed":
            return Move.TELL
        case "approved":
            return Move.TELL if is_known else Move.NEW if is_committed else Move.REVISE
        case "changes_requested":
            if is_known:
                return Move.WAIT if status.next_action == "wait" else Move.TELL
            return Move.TELL if is_over else Move.REVISE
        case _:
            return Move.WAIT if is_known else Move.REVISE


def word(status: ReviewStatus, rounds_before: int) -> Word:  # noqa: PLR0911 - as `decide`
    """The word for how a review stands."""
    is_over = rounds_before + status.round >= ESCALATION_ROUND
    if status.attention is not None:
        return Word.ESCALATE
    match status.status:
        case "approved":
            return Word.APPROVED
        case "closed":
            return {"approved": Word.APPROVED, "rejected": Word.REJECTED}.get(status.outcome or "", Word.ESCALATE)
        case "rejected":
            return Word.ESCALATE if is_over else Word.REJECTED
        case _ if status.next_action == "decide_counter_patch":
            return Word.CHANGES
        case "changes_requested" if status.next_action != "wait":
            return Word.ESCALATE if is_over else Word.CHANGES
        case _:
            return Word.WAITING

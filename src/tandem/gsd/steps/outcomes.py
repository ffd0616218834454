"""How a step ends: one word that an instruction can branch on, and what to do next."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from tandem.reviews.answers import ReviewStatus
from tandem.rulings.person import agent_mark


class StepWord(StrEnum):
    """The first word that a step prints. It is part of the contract: instructions and agents branch on it.

    What has to be dealt with first stands first.
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
    """No verdict yet, a required check runs still, or the reviewer asks something: run the same command again after
    what is said.
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
        body: What it says.
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

    def facts(self) -> dict[str, Any]:
        """Everything as JSON values; the same members for every word."""
        return asdict(self)


_HELD_BY = {
    "pending": "It is approved, and a required check has not ended yet.",
    "doubtful": "It is approved, but what a required check ran on does not count.",
    "failed": "It is approved, but a required check has not passed.",
}


def held_by_checks(status: ReviewStatus) -> str | None:
    """Why what is approved does not pass the gate yet, in words; None if it does, or is not approved."""
    return _HELD_BY.get(status.checks or "") if "approved" in {status.status, status.outcome} else None


def lacks_reviewer(status: ReviewStatus) -> bool:
    """Whether no reviewer comes before a person has done something, or an agent has waited for one in vain."""
    none = status.no_reviewer
    return none is not None and (none.needs_person or (status.next_action == "escalate" and agent_mark() is not None))


def of_review(status: ReviewStatus) -> dict[str, Any]:
    """The facts of an outcome that a review's status says."""
    nobody = status.no_reviewer.message if lacks_reviewer(status) and status.no_reviewer else None
    return {
        "review_id": status.review_id,
        "review_ids": (status.review_id,),
        "project": status.project,
        "status": status.status,
        "round": status.round,
        "reason": status.attention or nobody or held_by_checks(status) or status.verdict_reason,
    }

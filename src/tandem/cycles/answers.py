"""What the operations on hand-off cycles answer, declared once for every interface. Times are ISO 8601 in UTC."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any

from pydantic import Field

from tandem.contract.answer import (
    AlwaysTrue,
    Attention,
    Changed,
    CreatedAt,
    Cursor,
    NextPage,
    Outcome,
    ProjectName,
    ReviewId,
    RoundNumber,
    UpdatedAt,
    VerdictName,
)
from tandem.present.shape import Shown
from tandem.reviews.answers import NO_REVIEWER
from tandem.reviews.reviewer_contract import NoReviewer

CycleId = Annotated[str, Field(description="The cycle.")]
WorkflowName = Annotated[str, Field(description="The workflow.")]
ActiveRole = Annotated[str, Field(description="The role whose turn it is; it holds the lock.")]
Feature = Annotated[str, Field(description="The feature, in a few words.")]
Mode = Annotated[
    str, Field(description="`direct` or `approval`: whether a hand-off advances the cycle at once or by its review.")
]
RoleFor = Annotated[str, Field(description="The role that it is for.")]
SessionsEnded = Annotated[int, Field(description="How many sessions of the role ended with its old key.")]
SessionId = Annotated[str, Field(description="The session's name in the log; no secret.")]
NextStep = Annotated[
    str, Field(description="The next step and its actor, in a sentence with operations."), Shown("step")
]
Definition = Annotated[dict[str, Any], Field(description="The workflow as the configuration writes it; see its keys.")]


@dataclass(frozen=True, slots=True)
class SessionOpened:
    """A role's session; the token is the capability, and is shown nowhere else."""

    session_token: Annotated[str, Field(description="The session's token. It is shown here only, and not stored.")]
    role: RoleFor
    session_id: SessionId
    project: ProjectName
    workflow: WorkflowName


@dataclass(frozen=True, slots=True)
class SessionClosed:
    """A session was ended."""

    session_id: SessionId
    role: Annotated[str, Field(description="The role that it was for.")]
    closed: AlwaysTrue


@dataclass(frozen=True, slots=True)
class CycleStarted:
    """A cycle began in its first phase."""

    cycle_id: CycleId
    phase: Annotated[str, Field(description="The phase that the cycle is in.")]
    active_role: ActiveRole
    lock_token: Annotated[str, Field(description="The lock's token, for the first phase's role.")]
    project: ProjectName
    workflow: WorkflowName
    feature: Feature
    mode: Mode
    cursor: Cursor


@dataclass(frozen=True, slots=True)
class LockState:
    """Who holds the lock; never its token."""

    locked: Annotated[bool, Field(description="Whether anybody holds it: so while a cycle is under way.")]
    role: Annotated[str | None, Field(description="Who holds it, or held it last.")]
    acquired_at: Annotated[str | None, Field(description="When its token was last taken; null until the role took it.")]


@dataclass(frozen=True, slots=True)
class HandoffState:
    """Whether there is a hand-off for a role: `empty` or `present`."""

    status: Annotated[str, Field(description="`present` or `empty`.")]
    updated_at: Annotated[str | None, Field(description="When the newest one advanced the cycle.")]


@dataclass(frozen=True, slots=True)
class HandoffReview:
    """In approval mode, the review of the hand-off that was written last and has not advanced the cycle."""

    review_id: ReviewId
    target: RoleFor
    status: Annotated[str, Field(description="The review's state; see approval mode.")]
    outcome: Outcome | None
    round: RoundNumber
    verdict: VerdictName | None
    reason: Annotated[str | None, Field(description="The reason that came with the latest verdict.")]
    written_at: Annotated[str, Field(description="When it was written.")]
    attention: Attention | None = None
    no_reviewer: Annotated[NoReviewer | None, NO_REVIEWER] = None


@dataclass(frozen=True, slots=True)
class CycleStatus:
    """Where a cycle is; when none is under way, the same with nulls."""

    project: ProjectName
    workflow: WorkflowName
    cycle_id: Annotated[str | None, Field(description="The cycle under way; null when there is none.")]
    feature: Feature | None
    phase: Annotated[str | None, Field(description="The phase that the cycle is in; null when none is under way.")]
    active_role: ActiveRole | None
    mode: Mode
    handoffs: Annotated[
        dict[str, HandoffState],
        Field(description="For each role, whether there is a hand-off to it that advanced the cycle."),
    ]
    lock: Annotated[LockState, Field(description="Who holds the lock.")]
    review: Annotated[
        HandoffReview | None,
        Field(description="In approval mode, the review of the last hand-off, unless that has advanced the cycle."),
    ]
    next_step: NextStep
    created_at: CreatedAt | None
    updated_at: UpdatedAt | None
    changed: Changed
    cursor: Cursor


@dataclass(frozen=True, slots=True)
class LockAcquired:
    """The lock's current token, for the role whose turn it is."""

    cycle_id: CycleId
    role: Annotated[str, Field(description="Whose lock it is: the session's role.")]
    lock_token: Annotated[
        str, Field(description="The lock's current token. It is derived when it is asked for, and not stored.")
    ]


@dataclass(frozen=True, slots=True)
class HandoffWritten:
    """A hand-off was written; in approval mode it waits for its review, and the phase stays."""

    ok: AlwaysTrue
    phase: Annotated[
        str, Field(description="The phase that the cycle is in now; in approval mode still the producer's.")
    ]
    active_role: ActiveRole
    next_step: NextStep
    review_id: Annotated[str | None, Field(description="In approval mode, the hand-off's review.")]
    cursor: Cursor


@dataclass(frozen=True, slots=True)
class CycleCompleted:
    """A cycle is complete and waits to be archived."""

    ok: AlwaysTrue
    phase: Annotated[str, Field(description="`complete`.")]
    active_role: Annotated[str, Field(description="The role that archives.")]
    cursor: Cursor


@dataclass(frozen=True, slots=True)
class CycleArchived:
    """A cycle was archived; its project and workflow are idle again."""

    ok: AlwaysTrue
    cycle_id: CycleId
    archive: Annotated[str, Field(description="The folder of the archive, on the broker's machine.")]
    cursor: Cursor


@dataclass(frozen=True, slots=True)
class KeysMade:
    """New keys by role, each shown this once; roles that have theirs already are in `kept`."""

    project: ProjectName
    workflow: WorkflowName
    keys: Annotated[
        dict[str, str],
        Field(
            description=(
                "The new keys by role. They are shown this once; a repetition by idempotency key has a "
                "remark in their place."
            )
        ),
    ]
    kept: Annotated[tuple[str, ...], Field(description="Roles that had a key already, which stays.")] = ()
    sessions_ended: SessionsEnded = 0


@dataclass(frozen=True, slots=True)
class KeyRevoked:
    """A role's key is void, and its sessions have ended."""

    project: ProjectName
    workflow: WorkflowName
    role: Annotated[str, Field(description="Whose key is void.")]
    sessions_ended: SessionsEnded


@dataclass(frozen=True, slots=True)
class WorkflowView:
    """A workflow that the broker knows."""

    name: Annotated[str, Field(description="The workflow's name.")]
    roles: Annotated[tuple[str, ...], Field(description="Its roles.")]
    mode: Mode
    definition: Definition


@dataclass(frozen=True, slots=True)
class CycleRow:
    """A cycle in a list."""

    cycle_id: CycleId
    project: ProjectName
    workflow: WorkflowName
    feature: Feature
    mode: Mode
    phase: Annotated[str, Field(description="The phase that the cycle is in; `complete` also once it is archived.")]
    active_role: ActiveRole
    handoffs: Annotated[int, Field(description="How many hand-offs were written.")]
    review_id: Annotated[
        str | None, Field(description="The review of the last hand-off, unless that has advanced the cycle.")
    ]
    created_at: CreatedAt
    updated_at: UpdatedAt
    completed_at: Annotated[str | None, Field(description="When it was completed.")]
    archived_at: Annotated[str | None, Field(description="When it was archived; null while it is under way.")]
    removed_at: Annotated[
        str | None,
        Field(description="When its payloads were removed (setting `retention_days`); else null."),
        Shown(label="payloads removed"),
    ]


@dataclass(frozen=True, slots=True)
class CyclePage:
    """Cycles, newest first, and the workflows that the broker knows."""

    cycles: Annotated[
        tuple[CycleRow, ...], Field(description="The cycles of the page, newest first."), Shown(empty="No cycles.")
    ]
    workflows: Annotated[tuple[WorkflowView, ...], Field(description="The workflows that the broker knows.")]
    next_page: NextPage | None


@dataclass(frozen=True, slots=True)
class HandoffView:
    """One hand-off of a cycle with its payload."""

    number: Annotated[int, Field(description="Its place among the cycle's hand-offs, from 1.")]
    target: RoleFor
    producer: Annotated[str, Field(description="The role that wrote it.")]
    phase: Annotated[str, Field(description="The phase in which it was written.")]
    next_phase: Annotated[str, Field(description="The phase that it leads to.")]
    status: Annotated[
        str,
        Field(
            description=(
                "`advanced`; or in approval mode the state of its review, the outcome of a closed one, or "
                "`superseded` by a later round."
            )
        ),
    ]
    review_id: Annotated[str | None, Field(description="In approval mode, its review.")]
    round: Annotated[int | None, Field(description="In approval mode, the round of the review that has this payload.")]
    written_at: Annotated[str, Field(description="When it was written.")]
    advanced_at: Annotated[str | None, Field(description="When it advanced the cycle; null if it has not.")]
    payload: Annotated[
        dict[str, Any], Field(description="The content handed over, empty once it was removed; see the payload.")
    ]


@dataclass(frozen=True, slots=True)
class CycleHistory:
    """A whole cycle: its state, its lock without the token, its workflow, every hand-off."""

    cycle: Annotated[CycleRow, Field(description="The cycle.")]
    lock: Annotated[LockState, Field(description="Who holds the lock.")]
    definition: Definition
    handoffs: Annotated[tuple[HandoffView, ...], Field(description="Every hand-off, in the order of writing.")] = field(
        default_factory=tuple
    )

"""What the operations on hand-off cycles answer, declared once for every face. Times are ISO 8601 in UTC."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class SessionOpened:
    """A role's session; the token is the capability, and is shown nowhere else."""

    session_token: str
    role: str
    session_id: str
    project: str
    workflow: str


@dataclass(frozen=True, slots=True)
class SessionClosed:
    """A session was ended."""

    session_id: str
    role: str
    closed: bool


@dataclass(frozen=True, slots=True)
class CycleStarted:
    """A cycle began in its first phase."""

    cycle_id: str
    phase: str
    active_role: str
    lock_token: str
    project: str
    workflow: str
    feature: str
    mode: str
    cursor: str


@dataclass(frozen=True, slots=True)
class LockState:
    """Who holds the lock; never its token."""

    locked: bool
    role: str | None
    acquired_at: str | None


@dataclass(frozen=True, slots=True)
class HandoffState:
    """Whether there is a hand-off for a role: `empty` or `present`."""

    status: str
    updated_at: str | None


@dataclass(frozen=True, slots=True)
class HandoffReview:
    """In approval mode, the review of the hand-off that was written last and has not advanced the cycle."""

    review_id: str
    target: str
    status: str
    outcome: str | None
    round: int
    verdict: str | None
    reason: str | None
    written_at: str


@dataclass(frozen=True, slots=True)
class CycleStatus:
    """Where a cycle is; when none is under way, the same with nulls."""

    project: str
    workflow: str
    cycle_id: str | None
    feature: str | None
    phase: str | None
    active_role: str | None
    mode: str
    handoffs: dict[str, HandoffState]
    lock: LockState
    review: HandoffReview | None
    next_step: str
    created_at: str | None
    updated_at: str | None
    changed: bool
    cursor: str


@dataclass(frozen=True, slots=True)
class LockAcquired:
    """The lock's current token, for the role whose turn it is."""

    cycle_id: str
    role: str
    lock_token: str


@dataclass(frozen=True, slots=True)
class HandoffWritten:
    """A hand-off was written; in approval mode it waits for its review, and the phase stays."""

    ok: bool
    phase: str
    active_role: str
    next_step: str
    review_id: str | None
    cursor: str


@dataclass(frozen=True, slots=True)
class CycleCompleted:
    """A cycle is complete and waits to be archived."""

    ok: bool
    phase: str
    active_role: str
    cursor: str


@dataclass(frozen=True, slots=True)
class CycleArchived:
    """A cycle was archived; its project and workflow are idle again."""

    ok: bool
    cycle_id: str
    archive: str
    cursor: str


@dataclass(frozen=True, slots=True)
class KeysMade:
    """New keys by role, each shown this once; roles that have theirs already are in `kept`."""

    project: str
    workflow: str
    keys: dict[str, str]
    kept: tuple[str, ...] = ()
    sessions_ended: int = 0


@dataclass(frozen=True, slots=True)
class KeyRevoked:
    """A role's key is void, and its sessions have ended."""

    project: str
    workflow: str
    role: str
    sessions_ended: int


@dataclass(frozen=True, slots=True)
class WorkflowView:
    """A workflow that the broker knows."""

    name: str
    roles: tuple[str, ...]
    mode: str
    definition: dict[str, Any]


@dataclass(frozen=True, slots=True)
class CycleRow:
    """A cycle in a list."""

    cycle_id: str
    project: str
    workflow: str
    feature: str
    mode: str
    phase: str
    active_role: str
    handoffs: int
    review_id: str | None
    created_at: str
    updated_at: str
    completed_at: str | None
    archived_at: str | None


@dataclass(frozen=True, slots=True)
class CyclePage:
    """Cycles, newest first, and the workflows that the broker knows."""

    cycles: tuple[CycleRow, ...]
    workflows: tuple[WorkflowView, ...]
    next_page: str | None


@dataclass(frozen=True, slots=True)
class HandoffView:
    """One hand-off of a cycle with its payload."""

    number: int
    target: str
    producer: str
    phase: str
    next_phase: str
    status: str
    review_id: str | None
    round: int | None
    written_at: str
    advanced_at: str | None
    payload: dict[str, Any]


@dataclass(frozen=True, slots=True)
class CycleHistory:
    """A whole cycle: its state, its lock without the token, its workflow, every hand-off."""

    cycle: CycleRow
    lock: LockState
    definition: dict[str, Any]
    handoffs: tuple[HandoffView, ...] = field(default_factory=tuple)

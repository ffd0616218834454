"""What operations answer: the typed responses of the contract, declared once for every face.

Times are ISO 8601 in UTC. Cursors and page tokens are opaque.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tandem.domain.patches import AffectedFile


@dataclass(frozen=True, slots=True)
class ReviewCreated:
    """A proposal was put up or revised."""

    review_id: str
    project: str
    status: str
    round: int
    digest: str | None
    validated: bool
    priority: str
    category: str
    affected_files: tuple[AffectedFile, ...]
    cursor: str
    parent_id: str | None = None


@dataclass(frozen=True, slots=True)
class ReviewStatus:
    """Where a review stands, and what the proposer should do next."""

    review_id: str
    project: str
    status: str
    outcome: str | None
    round: int
    digest: str | None
    verdict: str | None
    verdict_reason: str | None
    reviewer_id: str | None
    claim_generation: int
    lease_expires_at: str | None
    counter_patch_id: str | None
    counter_patch_status: str | None
    turn: str | None
    attention: str | None
    next_action: str
    changed: bool
    cursor: str


@dataclass(frozen=True, slots=True)
class CounterPatchView:
    """A counter-patch as its proposer sees it."""

    id: str
    author: str
    round: int
    status: str
    diff: str | None
    description: str | None
    affected_files: tuple[AffectedFile, ...]
    digest: str | None
    created_at: str
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Proposal:
    """A round's whole content with the identity of who made it."""

    review_id: str
    project: str
    status: str
    round: int
    current_round: int
    intent: str
    category: str
    priority: str
    agent_type: str
    agent_role: str
    phase: str | None
    plan: str | None
    task: str | None
    proposer_id: str
    author: str
    origin: str
    description: str | None
    diff: str | None
    base: str | None
    base_commit: str | None
    path: str | None
    metadata: dict[str, Any]
    digest: str | None
    validated: bool
    affected_files: tuple[AffectedFile, ...]
    parent_id: str | None
    child_ids: tuple[str, ...]
    counter_patch: CounterPatchView | None
    created_at: str
    submitter: str
    accepted_by: str | None = None
    interdiff: str | None = None


@dataclass(frozen=True, slots=True)
class ReviewRow:
    """One line of a list."""

    review_id: str
    project: str
    status: str
    outcome: str | None
    category: str
    priority: str
    intent: str
    agent_type: str
    agent_role: str
    phase: str | None
    plan: str | None
    task: str | None
    proposer_id: str
    reviewer_id: str | None
    parent_id: str | None
    round: int
    digest: str | None
    verdict: str | None
    turn: str | None
    attention: str | None
    created_at: str
    updated_at: str


@dataclass(frozen=True, slots=True)
class ReviewPage:
    """A page of reviews, highest priority and oldest first."""

    reviews: tuple[ReviewRow, ...]
    next_page: str | None
    cursor: str
    changed: bool


@dataclass(frozen=True, slots=True)
class Claim:
    """A claim that was given, with the proposal; or an empty queue (`review` is null)."""

    review: Proposal | None
    review_id: str | None = None
    status: str | None = None
    reviewer_id: str | None = None
    claim_generation: int | None = None
    lease_expires_at: str | None = None
    round: int | None = None
    applies_to_head: bool | None = None
    cursor: str | None = None


@dataclass(frozen=True, slots=True)
class ClaimRenewed:
    """The lease's new end."""

    review_id: str
    claim_generation: int
    lease_expires_at: str


@dataclass(frozen=True, slots=True)
class ClaimReleased:
    """The review is back in the queue."""

    review_id: str
    status: str
    cursor: str


@dataclass(frozen=True, slots=True)
class VerdictGiven:
    """The verdict stands."""

    review_id: str
    status: str
    round: int
    verdict: str
    verdict_id: str
    counter_patch_id: str | None
    cursor: str


@dataclass(frozen=True, slots=True)
class CounterPatchDecided:
    """A counter-patch was accepted (it is now the round's content) or rejected."""

    review_id: str
    counter_patch_id: str
    status: str
    round: int
    digest: str | None
    cursor: str


@dataclass(frozen=True, slots=True)
class MessageSent:
    """The message is part of the discussion."""

    review_id: str
    message_id: str
    status: str
    round: int
    turn: str | None
    cursor: str


@dataclass(frozen=True, slots=True)
class DiscussionEntry:
    """A message, line comment, verdict or counter-patch, in the order it happened.

    `kind` is one of `message`, `comment`, `verdict`, `counter_patch`.
    """

    kind: str
    id: str
    round: int
    at: str
    author: str
    sender_role: str
    body: str | None
    verdict: str | None = None
    verdict_id: str | None = None
    file: str | None = None
    line: int | None = None
    status: str | None = None
    diff: str | None = None
    description: str | None = None
    metadata: dict[str, Any] | None = None
    resolves: str | None = None
    resolved_by: str | None = None


@dataclass(frozen=True, slots=True)
class Discussion:
    """A page of a review's discussion, oldest first."""

    review_id: str
    round: int
    turn: str | None
    entries: tuple[DiscussionEntry, ...]
    next_page: str | None
    cursor: str


@dataclass(frozen=True, slots=True)
class ReviewClosed:
    """The review is over."""

    review_id: str
    status: str
    outcome: str
    cursor: str


@dataclass(frozen=True, slots=True)
class EventView:
    """One event of the log; `seq` is null for a token of one project, as it counts all projects' events."""

    seq: int | None
    at: str
    project: str
    subject: str
    actor: str
    kind: str
    old: str | None
    new: str | None
    data: dict[str, Any]
    hash: str


@dataclass(frozen=True, slots=True)
class Timeline:
    """Every event of one review, oldest first."""

    review_id: str
    events: tuple[EventView, ...]
    cursor: str


@dataclass(frozen=True, slots=True)
class AuditPage:
    """Events of the log after a cursor, oldest first; `cursor` is where to go on."""

    events: tuple[EventView, ...]
    cursor: str
    changed: bool
    more: bool


@dataclass(frozen=True, slots=True)
class FeedEntry:
    """A review with the newest thing that happened to it."""

    review: ReviewRow
    last_event: EventView


@dataclass(frozen=True, slots=True)
class ActivityFeed:
    """Reviews by latest activity, newest first."""

    entries: tuple[FeedEntry, ...]
    next_page: str | None
    cursor: str
    changed: bool


@dataclass(frozen=True, slots=True)
class Tally:
    """Counts and mean times for one slice of the reviews; times are null where there were none."""

    submitted: int
    revised: int
    claimed: int
    approved: int
    changes_requested: int
    rejected: int
    comments: int
    closed: int
    withdrawn: int
    approval_rate: float | None
    mean_seconds_to_claim: float | None
    mean_seconds_to_verdict: float | None


@dataclass(frozen=True, slots=True)
class Statistics:
    """Counts per state now, and tallies over the asked time, whole and by slice; by day only since a day."""

    project: str | None
    since: str | None
    open: dict[str, int]
    total: Tally
    by_category: dict[str, Tally]
    by_reviewer: dict[str, Tally]
    by_day: dict[str, Tally]
    by_project: dict[str, Tally]


@dataclass(frozen=True, slots=True)
class PathDecision:
    """Why one path may pass the gate, or may not."""

    path: str
    allowed: bool
    review_id: str | None
    round: int | None
    reason: str
    kind: str | None = None


@dataclass(frozen=True, slots=True)
class GateDecision:
    """Whether everything that was asked about may pass, to the byte."""

    allowed: bool
    project: str
    reason: str
    review_ids: tuple[str, ...]
    paths: tuple[PathDecision, ...]


@dataclass(frozen=True, slots=True)
class ProjectView:
    """A registered project and its folder."""

    project: str
    root: str
    registered_at: str


@dataclass(frozen=True, slots=True)
class ProjectList:
    """All registered projects, by name."""

    projects: tuple[ProjectView, ...]


@dataclass(frozen=True, slots=True)
class ProjectRemoved:
    """The project is a label again; its reviews stay."""

    project: str
    removed: bool

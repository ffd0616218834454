"""What the operations on reviewer pools answer. Times are ISO 8601 in UTC."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class ReviewerView:
    """One reviewer of a pool.

    Attributes:
        state: `active`, `draining` or `terminated`.
        pid: Its process; null until its supervisor has started it.
        last_active_at: When it last gave a verdict or ended a run, or else when it was started.
        review_id: The review that it holds now.
        mean_review_seconds: From claim to verdict; null before its first.
        outcomes: How many of its runs ended how.
        cost_usd: What its runs cost, by the account of the programs that give one.
    """

    reviewer_id: str
    name: str
    project: str
    state: str
    provider: str
    mode: str
    model: str | None
    supervisor_id: str
    host: str
    pid: int | None
    spawned_at: str
    last_active_at: str
    drain_reason: str | None
    ended_at: str | None
    exit_code: int | None
    end_reason: str | None
    review_id: str | None
    reviews_completed: int
    approvals: int
    rejections: int
    approval_rate: float | None
    mean_review_seconds: float | None
    outcomes: dict[str, int]
    tokens_in: int
    tokens_out: int
    cost_usd: float


@dataclass(frozen=True, slots=True)
class PoolView:
    """The pool of one supervisor.

    Attributes:
        state: `running`, `paused`, `circuit_open`, `lost` (its supervisor was not heard of) or `ended`.
        why: Why nothing is started; null while it may be.
        active: Its reviewers that have not ended.
        circuit_open_until: Until when nothing is started after too many quick exits.
        spent_today_usd: What its runs cost since midnight UTC.
    """

    supervisor_id: str
    host: str
    provider: str
    mode: str
    model: str | None
    state: str
    why: str | None
    active: int
    max_pool_size: int
    circuit_open_until: str | None
    spent_today_usd: float
    tokens_today: int
    last_seen_at: str


@dataclass(frozen=True, slots=True)
class ReviewerList:
    """Reviewers that have not ended, then the newest of those that have; and the pools that they belong to."""

    reviewers: tuple[ReviewerView, ...]
    pools: tuple[PoolView, ...]


@dataclass(frozen=True, slots=True)
class PoolsChanged:
    """Pools as they are after they were paused or resumed."""

    pools: tuple[PoolView, ...]


@dataclass(frozen=True, slots=True)
class Registered:
    """A supervisor was registered; what reviewers of its earlier starts held is in the queue again."""

    supervisor_id: str
    incarnation: str
    cursor: str


@dataclass(frozen=True, slots=True)
class Order:
    """What a supervisor should have one reviewer do.

    Attributes:
        root: The project's folder as it was registered; null for one without.
        wanted: `run` (start it, if it is new), `drain` or `kill`.
        review_id: The review that it holds now.
        access: The token that it is started with, where the broker needs tokens; null once it runs.
    """

    reviewer_id: str
    name: str
    project: str
    root: str | None
    wanted: str
    drain_reason: str | None
    review_id: str | None
    access: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class Orders:
    """What a supervisor should do.

    Attributes:
        reviewers: All of its reviewers that have not ended.
        paused: Why nothing is started.
        circuit_open_until: Until when nothing is started.
        again_s: Look again after so many seconds at the latest: then something is due.
        changed: Whether the reviewers differ from what the supervisor said of them.
    """

    reviewers: tuple[Order, ...]
    paused: str | None
    circuit_open_until: str | None
    again_s: float
    changed: bool
    cursor: str


@dataclass(frozen=True, slots=True)
class OutcomeReported:
    """What became of a review after a run.

    Attributes:
        attempts: Runs in a row that ended without a verdict.
        not_before: When it is tried again; null for at once.
        attention: Why a person has to look first; null if nobody has to.
        paused: Why the reviewer's pool starts nothing more.
    """

    review_id: str
    status: str
    attempts: int
    not_before: str | None
    attention: str | None
    paused: str | None

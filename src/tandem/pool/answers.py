"""What the operations on reviewer pools answer, and the rules of a pool. Times are ISO 8601 in UTC."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from tandem.contract.fields import Attention, Cursor, ProjectName, ReviewId, StateName

Provider = Annotated[
    str, Field(description="The client program that reviews: `codex`, `claude`, `gemini`, `opencode` or `custom`.")
]
Host = Annotated[str, Field(description="The machine that it runs on.")]
Model = Annotated[str, Field(description="The model; null for the program's own default.")]
SupervisorId = Annotated[str, Field(description="The supervisor, and so the pool.")]
Mode = Annotated[str, Field(description="`worker` or `agent`.")]
CircuitOpenUntil = Annotated[
    str,
    Field(description="Until when nothing is started after too many quick exits; null while the circuit is closed."),
]
DrainReason = Annotated[str, Field(description="Why it is to end; see draining.")]
HeldReview = Annotated[str, Field(description="The review that it holds now.")]


Tokens = Annotated[int, Field(ge=0, le=10**12)]
Seconds = Annotated[float, Field(ge=0, le=31_536_000)]
Money = Annotated[float, Field(ge=0, le=1_000_000)]
_SETTING = Field(description="The setting of this name; see the pool's settings.")


class Rules(BaseModel):
    """The numbers that a pool is run by; from the supervisor's own configuration."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    max_pool_size: Annotated[int, Field(ge=1, le=10), _SETTING] = 3
    min_pool_size: Annotated[int, Field(ge=0, le=10), _SETTING] = 0
    scaling_ratio: Annotated[float, Field(gt=0, le=1000), _SETTING] = 3
    idle_timeout_seconds: Annotated[Seconds, _SETTING] = 300
    max_ttl_seconds: Annotated[Seconds, _SETTING] = 3600
    spawn_cooldown_seconds: Annotated[Seconds, _SETTING] = 10
    retry_delay_seconds: Annotated[Seconds, _SETTING] = 30
    budget_per_review: Annotated[Money | None, _SETTING] = None
    budget_per_day: Annotated[Money | None, _SETTING] = None
    token_budget_per_review: Annotated[Tokens | None, _SETTING] = None
    token_budget_per_day: Annotated[Tokens | None, _SETTING] = None


@dataclass(frozen=True, slots=True)
class ReviewerView:
    """One reviewer of a pool."""

    reviewer_id: Annotated[str, Field(description="Its id, with the letters of its supervisor's start.")]
    name: Annotated[
        str,
        Field(description="What people call it: the id without those letters. Numbers begin anew with each start."),
    ]
    project: Annotated[str, Field(description="The project whose reviews it takes.")]
    state: Annotated[str, Field(description="`active`, `draining` or `terminated`; see states.")]
    provider: Provider
    mode: Mode
    model: Model | None
    supervisor_id: SupervisorId
    host: Host
    pid: Annotated[int | None, Field(description="The process; null until it has been started.")]
    spawned_at: Annotated[str, Field(description="When it was decided that there should be this reviewer.")]
    last_active_at: Annotated[
        str, Field(description="When it last gave a verdict or ended a run, or else `spawned_at`.")
    ]
    drain_reason: DrainReason | None
    ended_at: Annotated[str | None, Field(description="When it ended; null while it has not.")]
    exit_code: Annotated[
        int | None,
        Field(
            description=(
                "Its exit status, or the negative number of a signal; see exit statuses. Null while it "
                "runs, and for one that never started or was lost."
            )
        ),
    ]
    end_reason: Annotated[str | None, Field(description="Why it ended, in words.")]
    review_id: HeldReview | None
    reviews_completed: Annotated[int, Field(description="Verdicts that it gave.")]
    approvals: Annotated[int, Field(description="Of these, approvals.")]
    rejections: Annotated[int, Field(description="Of these, rejections.")]
    approval_rate: Annotated[
        float | None, Field(description="Approvals in its verdicts, from 0 to 1; null without any.")
    ]
    mean_review_seconds: Annotated[
        float | None, Field(description="Mean time from claim to verdict; null before its first.")
    ]
    outcomes: Annotated[dict[str, int], Field(description="How many of its runs ended how; see outcomes.")]
    tokens_in: Annotated[int, Field(description="Tokens that the model read, where the program reports them.")]
    tokens_out: Annotated[int, Field(description="Tokens that the model wrote, where the program reports them.")]
    cost_usd: Annotated[
        float, Field(description="The cost in US dollars, by the program's own account, where it gives one.")
    ]


@dataclass(frozen=True, slots=True)
class PoolView:
    """The pool of one supervisor."""

    supervisor_id: SupervisorId
    host: Host
    provider: Provider
    mode: Mode
    model: Model | None
    state: Annotated[str, Field(description="`running`, `paused`, `circuit_open`, `lost` or `ended`; see states.")]
    why: Annotated[str | None, Field(description="Why nothing is started; null while it may be.")]
    active: Annotated[int, Field(description="How many of its reviewers have not ended, draining ones included.")]
    max_pool_size: Annotated[int, Field(description="Most reviewers at a time.")]
    circuit_open_until: CircuitOpenUntil | None
    spent_today_usd: Annotated[float, Field(description="What its runs cost since midnight UTC.")]
    tokens_today: Annotated[int, Field(description="Tokens that its runs read and wrote since midnight UTC.")]
    last_seen_at: Annotated[str, Field(description="When its supervisor was last heard of.")]


@dataclass(frozen=True, slots=True)
class ReviewerList:
    """Reviewers that have not ended, then the newest of those that have; and the pools that they belong to."""

    reviewers: Annotated[
        tuple[ReviewerView, ...], Field(description="Those that have not ended, then the newest that have.")
    ]
    pools: Annotated[tuple[PoolView, ...], Field(description="The pools, one for each supervisor.")]


@dataclass(frozen=True, slots=True)
class PoolsChanged:
    """Pools as they are after they were paused or resumed."""

    pools: Annotated[tuple[PoolView, ...], Field(description="The pools, one for each supervisor.")]


@dataclass(frozen=True, slots=True)
class Registered:
    """A supervisor was registered; what reviewers of its earlier starts held is in the queue again."""

    supervisor_id: SupervisorId
    incarnation: Annotated[str, Field(description="This start of the supervisor; a newer one invalidates it.")]
    cursor: Cursor


@dataclass(frozen=True, slots=True)
class Order:
    """What a supervisor should have one reviewer do."""

    reviewer_id: Annotated[str, Field(description="The reviewer.")]
    name: Annotated[str, Field(description="The id without the letters of the supervisor's start.")]
    project: ProjectName
    root: Annotated[
        str | None, Field(description="The project's folder as it was registered; null for a project without one.")
    ]
    wanted: Annotated[str, Field(description="`run` (start it, if it is new), `drain` or `kill`.")]
    drain_reason: DrainReason | None
    review_id: HeldReview | None
    access: Annotated[
        str | None,
        Field(
            description="The token that a reviewer is started with, where the broker needs tokens; null once it runs."
        ),
    ] = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class Orders:
    """What a supervisor should do."""

    reviewers: Annotated[
        tuple[Order, ...],
        Field(
            description="Every reviewer of this start that has not ended; one that is not known yet is to be started."
        ),
    ]
    paused: Annotated[str | None, Field(description="Why nothing is started; null while the pool is not paused.")]
    circuit_open_until: CircuitOpenUntil | None
    again_s: Annotated[
        float, Field(description="Look again after so many seconds at the latest: then something is due.")
    ]
    changed: Annotated[bool, Field(description="Whether the reviewers differ from what the supervisor said of them.")]
    cursor: Cursor


@dataclass(frozen=True, slots=True)
class OutcomeReported:
    """What became of a review after a run."""

    review_id: ReviewId
    status: StateName
    attempts: Annotated[int, Field(description="Runs in a row that ended without a verdict.")]
    not_before: Annotated[str | None, Field(description="When the review is tried again; null for at once.")]
    attention: Attention | None
    paused: Annotated[
        str | None, Field(description="Why the reviewer's pool starts nothing more; null while it is not paused.")
    ]


@dataclass(frozen=True, slots=True)
class ReviewerLog:
    """Lines of what a pool's reviewer and its program wrote."""

    reviewer_id: Annotated[str, Field(description="The reviewer.")]
    lines: Annotated[
        tuple[str, ...],
        Field(description="Whole lines, oldest first, with control and direction characters spelled out."),
    ]
    position: Annotated[str | None, Field(description="Where to go on; null where there is no log.")]
    available: Annotated[bool, Field(description="Whether the log is on the broker's machine.")]
    host: Annotated[str, Field(description="The machine that the reviewer runs, or ran, on.")]

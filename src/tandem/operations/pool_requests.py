"""The typed requests on reviewer pools: of operators, and of the supervisors that run them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from tandem.contract.request import (
    Generation,
    Id,
    Name,
    ProjectRequest,
    Request,
    Text,
    Token,
    WaitSeconds,
    WriteRequest,
)
from tandem.domain.access import Subject
from tandem.domain.reviewers import RunOutcome

_WORD = r"^[A-Za-z0-9][A-Za-z0-9._-]*$"
_LARGEST_COUNT = 2**53
_REASON_LENGTH = 2_000
_MOST_REVIEWERS = 200

Supervisor = Annotated[str, Field(pattern=_WORD, max_length=100)]
SupervisorSecret = Annotated[
    str, Field(pattern=r"^[A-Za-z0-9_-]{32,200}$", description="The supervisor's own, drawn at random; its id follows.")
]
ReviewerName = Annotated[Name, Field(description="As list_reviewers shows it, e.g. codex-r1-k3f9q2.")]
Count = Annotated[int, Field(ge=0, le=_LARGEST_COUNT)]
Tokens = Annotated[int, Field(ge=0, le=10**12)]
Seconds = Annotated[float, Field(ge=0, le=31_536_000)]
Money = Annotated[float, Field(ge=0, le=1_000_000)]
Reason = Annotated[Text, Field(max_length=_REASON_LENGTH)]


class ListReviewers(ProjectRequest):
    """The pool's reviewers: who runs, what each does and did, what it cost; and why none is started, if none is."""


class SpawnReviewer(WriteRequest):
    """Start a reviewer for a project now, whatever the queue."""


class KillReviewer(WriteRequest):
    """End a reviewer of the pool: after its current review, or with force at once."""

    is_about: ClassVar[Mapping[str, Subject]] = {"reviewer_id": "reviewer"}

    reviewer_id: ReviewerName
    force: Annotated[bool, Field(description="At once; its review goes back into the queue.")] = False


class PauseReviewers(WriteRequest):
    """Start no reviewer any more; those that run finish their review and end."""

    supervisor_id: Annotated[Supervisor | None, Field(description="One pool; default: all.")] = None
    reason: Annotated[Reason | None, Field(description="Shown to everybody who asks why nothing is reviewed.")] = None


class ResumeReviewers(WriteRequest):
    """Let reviewers be started again, whatever paused the pool; forgets failed starts too."""

    supervisor_id: Annotated[Supervisor | None, Field(description="One pool; default: all.")] = None


class Rules(Request):
    """The numbers that a pool is run by; from the supervisor's own configuration."""

    max_pool_size: Annotated[int, Field(ge=1, le=10)] = 3
    min_pool_size: Annotated[int, Field(ge=0, le=10)] = 0
    scaling_ratio: Annotated[float, Field(gt=0, le=1000)] = 3
    idle_timeout_seconds: Seconds = 300
    max_ttl_seconds: Seconds = 3600
    spawn_cooldown_seconds: Seconds = 10
    retry_delay_seconds: Seconds = 30
    budget_per_review: Money | None = None
    budget_per_day: Money | None = None
    token_budget_per_review: Tokens | None = None
    token_budget_per_day: Tokens | None = None


class SupervisorRegister(WriteRequest):
    """A supervisor starts: what its earlier starts left behind has ended, and its pool is run by these rules."""

    secret: SupervisorSecret
    incarnation: Annotated[str, Field(pattern=r"^[a-z0-9]{4,16}$", description="New at each start.")]
    host: Name
    provider: Annotated[str, Field(pattern=_WORD, max_length=40)]
    mode: Literal["worker", "agent"] = "worker"
    model: Name | None = None
    projects: Annotated[
        list[Name] | None, Field(max_length=1000, description="Those it serves; default: all registered.")
    ] = None
    rules: Rules = Field(default_factory=Rules)


class ReviewerSighting(Request):
    """What a supervisor says of one of its reviewers."""

    reviewer_id: Name
    wanted: Annotated[Literal["run", "drain", "kill"] | None, Field(description="What it was last told.")] = None
    state: Literal["running", "ended"]
    pid: Count | None = None
    started_us: Annotated[Count | None, Field(description="When its process began, microseconds since 1970.")] = None
    exit_code: Annotated[int | None, Field(ge=-(2**31), le=2**32)] = None
    quick: Annotated[bool, Field(description="It ended at once, or its program fails at once.")] = False
    error: Reason | None = None


class SupervisorHeartbeat(Request):
    """A supervisor says how its reviewers are, and hears what to do; with wait, once there is something to do."""

    secret: SupervisorSecret
    incarnation: Token
    reviewers: Annotated[list[ReviewerSighting], Field(max_length=_MOST_REVIEWERS)] = Field(
        default_factory=list[ReviewerSighting]
    )
    quiet: Annotated[bool, Field(description="These are its quiet hours.")] = False
    closing: Annotated[bool, Field(description="It stops: every reviewer is to end.")] = False
    wait: bool = False
    cursor: Token | None = None
    timeout_s: WaitSeconds | None = None


class ReportOutcome(WriteRequest):
    """How a run of a reviewer's program ended. Without a verdict the claim is taken back, to be tried later."""

    is_about: ClassVar[Mapping[str, Subject]] = {"review_id": "review", "reviewer_id": "reviewer"}

    reviewer_id: Name
    review_id: Id
    claim_generation: Generation
    outcome: RunOutcome
    reason: Annotated[Reason | None, Field(description="Why there is no verdict, in a line.")] = None
    seconds: Seconds | None = None
    tokens_in: Tokens | None = None
    tokens_out: Tokens | None = None
    cost_usd: Money | None = None
    exit_code: Annotated[int | None, Field(ge=-(2**31), le=2**32)] = None

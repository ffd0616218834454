"""The typed requests on reviewer pools: of operators, and of the supervisors that run them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from tandem.contract.access import Subject
from tandem.contract.request import (
    Generation,
    Name,
    ProjectRequest,
    Refusals,
    Request,
    ReviewerName,
    ReviewId,
    Text,
    Token,
    WaitSeconds,
    WriteRequest,
)
from tandem.errors import (
    InvalidSession,
    NotFound,
    PoolCapReached,
    PoolDisabled,
    SpawnCooldown,
    UnknownReviewer,
)
from tandem.pool.answers import Money, Rules, Seconds, Tokens
from tandem.pool.rules import RunOutcome

_WORD = r"^[A-Za-z0-9][A-Za-z0-9._-]*$"
_LARGEST_COUNT = 2**53
_REASON_LENGTH = 2_000
_MOST_REVIEWERS = 200

Supervisor = Annotated[str, Field(pattern=_WORD, max_length=100)]
SupervisorSecret = Annotated[
    str, Field(pattern=r"^[A-Za-z0-9_-]{32,200}$", description="The supervisor's own, drawn at random; its id follows.")
]
Count = Annotated[int, Field(ge=0, le=_LARGEST_COUNT)]
Reason = Annotated[Text, Field(max_length=_REASON_LENGTH)]


class ListReviewers(ProjectRequest):
    """The pool's reviewers: which run, their current and past work and cost; and why none is started."""

    refusals: ClassVar[Refusals] = ()


class SpawnReviewer(WriteRequest):
    """Start a reviewer for a project now, whatever the queue."""

    refusals: ClassVar[Refusals] = (PoolDisabled, PoolCapReached, SpawnCooldown)


class KillReviewer(WriteRequest):
    """End a reviewer of the pool: after its current review, or with force at once."""

    refusals: ClassVar[Refusals] = (UnknownReviewer,)
    is_about: ClassVar[Mapping[str, Subject]] = {"reviewer_id": "reviewer"}

    reviewer_id: ReviewerName
    force: Annotated[bool, Field(description="At once; its review goes back into the queue.")] = False


class PauseReviewers(WriteRequest):
    """Pause the pool: no reviewer is started; running ones finish their review and end."""

    refusals: ClassVar[Refusals] = (PoolDisabled, NotFound)

    supervisor_id: Annotated[Supervisor | None, Field(description="One pool; default: all.")] = None
    reason: Annotated[Reason | None, Field(description="Shown to everybody who asks why nothing is reviewed.")] = None


class ResumeReviewers(WriteRequest):
    """Resume the pool, whatever paused it; also closes the circuit breaker."""

    refusals: ClassVar[Refusals] = (PoolDisabled, NotFound)

    supervisor_id: Annotated[Supervisor | None, Field(description="One pool; default: all.")] = None


class SupervisorRegister(WriteRequest):
    """Register a supervisor at its start: reviewers of its earlier starts count as ended; the pool uses these rules."""

    refusals: ClassVar[Refusals] = ()

    secret: SupervisorSecret
    incarnation: Annotated[str, Field(pattern=r"^[a-z0-9]{4,16}$", description="New at each start.")]
    host: Annotated[Name, Field(description="The machine that it runs on.")]
    provider: Annotated[
        str,
        Field(
            pattern=_WORD,
            max_length=40,
            description="The client program that reviews: `codex`, `claude`, `gemini`, `opencode` or `custom`.",
        ),
    ]
    mode: Annotated[
        Literal["worker", "agent"],
        Field(description="Whether Tandem's worker or the program itself works through the queue."),
    ] = "worker"
    model: Annotated[Name | None, Field(description="The model; null for the program's own default.")] = None
    projects: Annotated[
        list[Name] | None, Field(max_length=1000, description="Those it serves; default: all registered.")
    ] = None
    rules: Annotated[Rules, Field(description="The numbers that the pool is run by; see the pool's settings.")] = Field(
        default_factory=Rules
    )


class ReviewerSighting(Request):
    """What a supervisor says of one of its reviewers."""

    reviewer_id: Annotated[Name, Field(description="The reviewer.")]
    wanted: Annotated[Literal["run", "drain", "kill"] | None, Field(description="What it was last told.")] = None
    state: Annotated[Literal["running", "ended"], Field(description="Whether its process runs.")]
    pid: Annotated[Count | None, Field(description="The process; null until it has been started.")] = None
    started_us: Annotated[Count | None, Field(description="When its process began, microseconds since 1970.")] = None
    exit_code: Annotated[
        int | None,
        Field(
            ge=-(2**31),
            le=2**32,
            description="Its exit status, or the negative number of a signal; null if it never started.",
        ),
    ] = None
    quick: Annotated[bool, Field(description="It ended at once, or its program fails at once.")] = False
    error: Annotated[Reason | None, Field(description="Why it ended, in words.")] = None


class SupervisorHeartbeat(Request):
    """A supervisor reports its reviewers' state and receives orders; with wait, when there are new ones."""

    refusals: ClassVar[Refusals] = (InvalidSession,)

    secret: SupervisorSecret
    incarnation: Annotated[Token, Field(description="This start of the supervisor; a newer one invalidates it.")]
    reviewers: Annotated[
        list[ReviewerSighting],
        Field(
            max_length=_MOST_REVIEWERS,
            description="Every reviewer that it has, and those that have ended since the last call.",
        ),
    ] = Field(default_factory=list[ReviewerSighting])
    quiet: Annotated[bool, Field(description="These are its quiet hours.")] = False
    closing: Annotated[bool, Field(description="The supervisor is stopping: end every reviewer.")] = False
    wait: Annotated[
        bool, Field(description="Answer only when the reviewers are to be others than was said, or something is due.")
    ] = False
    cursor: Annotated[Token | None, Field(description="The last answer's.")] = None
    timeout_s: WaitSeconds = None


class ReportOutcome(WriteRequest):
    """Report how a run of a reviewer's program ended. Without a verdict the review is tried again later."""

    refusals: ClassVar[Refusals] = (UnknownReviewer, NotFound)
    is_about: ClassVar[Mapping[str, Subject]] = {"review_id": "review", "reviewer_id": "reviewer"}

    reviewer_id: Annotated[Name, Field(description="The reviewer.")]
    review_id: ReviewId
    claim_generation: Generation
    outcome: Annotated[RunOutcome, Field(description="How the run ended; see outcomes.")]
    reason: Annotated[Reason | None, Field(description="Why there is no verdict, in a line.")] = None
    seconds: Annotated[Seconds | None, Field(description="How long the program ran.")] = None
    tokens_in: Annotated[
        Tokens | None, Field(description="Tokens that the model read, where the program reports them.")
    ] = None
    tokens_out: Annotated[
        Tokens | None, Field(description="Tokens that the model wrote, where the program reports them.")
    ] = None
    cost_usd: Annotated[
        Money | None, Field(description="The cost in US dollars, by the program's own account, where it gives one.")
    ] = None
    exit_code: Annotated[
        int | None,
        Field(ge=-(2**31), le=2**32, description="The program's exit status, or the negative number of a signal."),
    ] = None


_MOST_LOG_LINES = 5_000


class GetReviewerLog(ProjectRequest):
    """The log of a pool's reviewer and its program: the last lines, or those after a position."""

    refusals: ClassVar[Refusals] = (UnknownReviewer,)
    is_about: ClassVar[Mapping[str, Subject]] = {"reviewer_id": "reviewer"}

    reviewer_id: ReviewerName
    lines: Annotated[int, Field(ge=0, le=_MOST_LOG_LINES, description="The most lines to answer.")] = 200
    position: Annotated[Token | None, Field(description="From an earlier answer: what comes after it.")] = None

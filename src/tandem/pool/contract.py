"""The operations on reviewer pools: their requests and answers. Times are ISO 8601 in UTC."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field

from tandem.contract import answer
from tandem.contract.answer import Attention, Cursor, ProjectName, StateName
from tandem.contract.caller import Subject
from tandem.contract.operation import ADMIN, OPERATOR, READ, REPEATABLE_WRITE, REVIEWER, SUPERVISOR, WRITE, Operation
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
_SETTING = Field(description="The setting of this name; see the pool's settings.")
Seconds = Annotated[float, Field(ge=0, le=31_536_000)]
Money = Annotated[float, Field(ge=0, le=1_000_000)]
Tokens = Annotated[int, Field(ge=0, le=10**12)]
Provider = Annotated[
    str, Field(description="The client program that reviews: `codex`, `claude`, `gemini`, `opencode` or `custom`.")
]
Host = Annotated[str, Field(description="The machine that it runs on.")]
_MODEL = Field(description="The model; null for the program's own default.")
_TOKENS_IN = Field(description="Tokens that the model read, where the program reports them.")
_TOKENS_OUT = Field(description="Tokens that the model wrote, where the program reports them.")
_COST = Field(description="The cost in US dollars, by the program's own account, where it gives one.")
_INCARNATION = Field(description="This start of the supervisor; a newer one invalidates it.")
_ExitCode = Annotated[int, Field(ge=-(2**31), le=2**32)]
_RETRY_AFTER = Field(
    description=(
        "The provider's quota is used up: how long it asks to wait, 0 if it does not say. The pool is paused for so "
        "long, and the run is no try of the review."
    )
)
RunOutcome = Literal["verdict", "no_verdict", "unreadable", "timeout", "crashed", "cancelled"]


class ProfileRules(BaseModel):
    """What the broker has to know of a profile of a pool."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    name: Annotated[str, Field(pattern=r"^[a-z][a-z0-9-]{0,28}[a-z0-9]$"), _SETTING]
    provider: Annotated[Provider, Field(pattern=_WORD, max_length=40)]
    model: Annotated[Name | None, _MODEL] = None
    paths: Annotated[tuple[Text, ...], Field(max_length=1000), _SETTING] = ()
    projects: Annotated[tuple[Name, ...], Field(max_length=1000), _SETTING] = ()
    budget_per_review: Annotated[Money | None, _SETTING] = None
    budget_per_day: Annotated[Money | None, _SETTING] = None
    token_budget_per_review: Annotated[Tokens | None, _SETTING] = None
    token_budget_per_day: Annotated[Tokens | None, _SETTING] = None
    voting: Annotated[bool, _SETTING] = True
    allow_failure: Annotated[bool, _SETTING] = False


class PoolRules(BaseModel):
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
    budget_per_day: Annotated[Money | None, _SETTING] = 20
    token_budget_per_review: Annotated[Tokens | None, _SETTING] = None
    token_budget_per_day: Annotated[Tokens | None, _SETTING] = 20_000_000
    profile: Annotated[
        tuple[ProfileRules, ...], Field(max_length=20, description="The kinds of its reviewers; see profiles.")
    ] = ()


class ListReviewers(ProjectRequest):
    """The pool's reviewers: which run, their current and past work and cost; and why none is started."""

    refusals: ClassVar[Refusals] = ()


class SpawnReviewer(WriteRequest):
    """Start a reviewer for a project now, even if no review waits."""

    refusals: ClassVar[Refusals] = (PoolDisabled, PoolCapReached, SpawnCooldown)


class KillReviewer(WriteRequest):
    """End a reviewer of the pool: after its current review, or with force at once."""

    refusals: ClassVar[Refusals] = (UnknownReviewer,)
    subject_fields: ClassVar[Mapping[str, Subject]] = {"reviewer_id": "reviewer"}

    reviewer_id: ReviewerName
    force: Annotated[bool, Field(description="At once; its review goes back into the queue.")] = False


class PauseReviewers(WriteRequest):
    """Pause the pool: no reviewer is started; running ones finish their review and end."""

    refusals: ClassVar[Refusals] = (PoolDisabled, NotFound)

    supervisor_id: Annotated[Supervisor | None, Field(description="One pool; default: all.")] = None
    reason: Annotated[Reason | None, Field(description="Shown to everybody who asks why nothing is reviewed.")] = None


class ResumeReviewers(WriteRequest):
    """Resume the pool after a pause of any kind; also closes the circuit breaker."""

    refusals: ClassVar[Refusals] = (PoolDisabled, NotFound)

    supervisor_id: Annotated[Supervisor | None, Field(description="One pool; default: all.")] = None


class SupervisorRegister(WriteRequest):
    """Register a supervisor at its start: reviewers of its earlier starts count as ended; the pool uses these rules."""

    refusals: ClassVar[Refusals] = ()

    secret: SupervisorSecret
    incarnation: Annotated[
        str, Field(pattern=r"^[a-z0-9]{4,16}$", description="New at each start; the same when this is repeated.")
    ]
    host: Annotated[Name, Field(description="The machine that it runs on.")]
    provider: Annotated[Provider, Field(pattern=_WORD, max_length=40)]
    mode: Annotated[
        Literal["worker", "agent"],
        Field(description="Whether Tandem's worker or the program itself works through the queue."),
    ] = "worker"
    model: Annotated[Name | None, _MODEL] = None
    projects: Annotated[
        list[Name] | None, Field(max_length=1000, description="Those it serves; default: all registered.")
    ] = None
    rules: Annotated[PoolRules, Field(description="The numbers that the pool is run by; see the pool's settings.")] = (
        Field(default_factory=PoolRules)
    )


class ReviewerActivity(Request):
    """What a reviewer does, where that takes long."""

    checks: Annotated[bool, Field(description="It waits for the checks of its review.")] = False
    output_us: Annotated[
        Count | None, Field(description="When its program last wrote something, microseconds since 1970.")
    ] = None
    silent_us: Annotated[
        Count | None,
        Field(description="Since when its program neither writes nor uses the processor, once that is too long."),
    ] = None


class ReviewerSighting(Request):
    """What a supervisor says of one of its reviewers."""

    reviewer_id: Annotated[Name, Field(description="The reviewer.")]
    wanted: Annotated[Literal["run", "drain", "kill"] | None, Field(description="The last order for it.")] = None
    state: Annotated[Literal["running", "ended"], Field(description="Whether its process runs.")]
    pid: Annotated[Count | None, Field(description="The process; null until it has been started.")] = None
    started_us: Annotated[Count | None, Field(description="When its process began, microseconds since 1970.")] = None
    activity: Annotated[ReviewerActivity | None, Field(description="Its activity, where that is known.")] = None
    exit_code: Annotated[
        _ExitCode | None,
        Field(description="Its exit status, or the negative number of a signal; null if it never started."),
    ] = None
    quick: Annotated[bool, Field(description="It ended at once, or its program fails at once.")] = False
    error: Annotated[Reason | None, Field(description="Why it ended, in words.")] = None
    retry_after_s: Annotated[Seconds | None, _RETRY_AFTER] = None


class SupervisorHeartbeat(Request):
    """A supervisor reports its reviewers' state and receives orders; with wait, when there are new ones."""

    refusals: ClassVar[Refusals] = (InvalidSession,)

    secret: SupervisorSecret
    incarnation: Annotated[Token, _INCARNATION]
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
        bool, Field(description="Answer only when the orders differ from the last ones, or something is due.")
    ] = False
    cursor: Annotated[Token | None, Field(description="The last answer's.")] = None
    timeout_s: WaitSeconds = None


class ReportOutcome(WriteRequest):
    """Report how a run of a reviewer's program ended. Without a verdict the review is tried again later."""

    refusals: ClassVar[Refusals] = (UnknownReviewer, NotFound)
    subject_fields: ClassVar[Mapping[str, Subject]] = {"review_id": "review", "reviewer_id": "reviewer"}

    reviewer_id: Annotated[Name, Field(description="The reviewer.")]
    review_id: ReviewId
    claim_generation: Generation
    outcome: Annotated[RunOutcome, Field(description="How the run ended; see outcomes.")]
    reason: Annotated[Reason | None, Field(description="Why there is no verdict, in a line.")] = None
    retry_after_s: Annotated[Seconds | None, _RETRY_AFTER] = None
    seconds: Annotated[Seconds | None, Field(description="How long the program ran.")] = None
    tokens_in: Annotated[Tokens | None, _TOKENS_IN] = None
    tokens_out: Annotated[Tokens | None, _TOKENS_OUT] = None
    cost_usd: Annotated[Money | None, _COST] = None
    exit_code: Annotated[
        _ExitCode | None, Field(description="The program's exit status, or the negative number of a signal.")
    ] = None


_MOST_LOG_LINES = 5_000


class GetReviewerLog(ProjectRequest):
    """The log of a pool's reviewer and its program: the last lines, or those after a position."""

    refusals: ClassVar[Refusals] = (UnknownReviewer,)
    subject_fields: ClassVar[Mapping[str, Subject]] = {"reviewer_id": "reviewer"}

    reviewer_id: ReviewerName
    lines: Annotated[int, Field(ge=0, le=_MOST_LOG_LINES, description="The most lines to answer.")] = 200
    position: Annotated[Token | None, Field(description="From an earlier answer: the lines after it.")] = None


SupervisorId = Annotated[str, Field(description="The supervisor, and so the pool.")]

Mode = Annotated[str, Field(description="`worker` or `agent`.")]

CircuitOpenUntil = Annotated[
    str,
    Field(description="Until when nothing is started after too many quick exits; null while the circuit is closed."),
]

DrainReason = Annotated[str, Field(description="Why it must end; see draining.")]

Profile = Annotated[str, Field(description="The profile that it is of; null in a pool without any.")]

HeldReview = Annotated[str, Field(description="The review that it holds now.")]


@dataclass(frozen=True, slots=True)
class ReviewerView:
    """One reviewer of a pool."""

    reviewer_id: Annotated[str, Field(description="Its id, with the letters of its supervisor's start.")]
    name: Annotated[
        str,
        Field(description="What people call it: the id without those letters. Numbers begin again with each start."),
    ]
    project: Annotated[str, Field(description="The project whose reviews it takes.")]
    state: Annotated[str, Field(description="`active`, `draining` or `terminated`; see states.")]
    provider: Provider
    profile: Profile | None
    mode: Mode
    model: Annotated[str | None, _MODEL]
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
    end_cause: Annotated[
        str | None, Field(description="The same in a few words, which all that ended so share; null while it runs.")
    ]
    review_id: HeldReview | None
    review_title: Annotated[str | None, Field(description="The intent of that review.")]
    claimed_at: Annotated[str | None, Field(description="Since when it holds that; null without one.")]
    doing: Annotated[
        Literal["starts", "idle", "reviews", "waits_for_checks", "silent"] | None,
        Field(
            description=(
                "`starts`, `idle`, `reviews`, `waits_for_checks`, or `silent`: its program neither writes nor uses the "
                "processor. Null once it has ended."
            )
        ),
    ]
    doing_since: Annotated[str | None, Field(description="Since when; null once it has ended.")]
    last_output_at: Annotated[
        str | None, Field(description="When its program last wrote something; null if that is not known.")
    ]
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
    tokens_in: Annotated[int, _TOKENS_IN]
    tokens_out: Annotated[int, _TOKENS_OUT]
    cost_usd: Annotated[float, _COST]


@dataclass(frozen=True, slots=True)
class ProfileView:
    """A kind of a pool's reviewers."""

    name: Annotated[str, Field(description="Its name, by which a policy asks for it: `agent:NAME`.")]
    provider: Provider
    model: Annotated[str | None, _MODEL]
    voting: Annotated[bool, Field(description="Whether its verdicts count; else it only adds findings.")]
    why: Annotated[str | None, Field(description="Why none of its reviewers is started; null while one may be.")]


@dataclass(frozen=True, slots=True)
class PoolView:
    """The pool of one supervisor."""

    supervisor_id: SupervisorId
    host: Host
    provider: Provider
    mode: Mode
    model: Annotated[str | None, _MODEL]
    state: Annotated[
        str, Field(description="`running`, `paused`, `rate_limited`, `circuit_open`, `lost` or `ended`; see states.")
    ]
    why: Annotated[str | None, Field(description="Why nothing is started; null while it may be.")]
    active: Annotated[int, Field(description="How many of its reviewers have not ended, draining ones included.")]
    max_pool_size: Annotated[int, Field(description="Most reviewers at a time.")]
    circuit_open_until: CircuitOpenUntil | None
    spent_today_usd: Annotated[
        float | None, Field(description="What its runs cost since midnight UTC; null where none said its cost.")
    ]
    tokens_today: Annotated[int, Field(description="Tokens that its runs read and wrote since midnight UTC.")]
    last_seen_at: Annotated[str, Field(description="When its supervisor was last heard of.")]
    profiles: Annotated[tuple[ProfileView, ...], Field(description="The kinds of its reviewers, if it has any.")] = ()


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
    incarnation: Annotated[str, _INCARNATION]
    cursor: Cursor


@dataclass(frozen=True, slots=True)
class Order:
    """What a supervisor should have one reviewer do."""

    reviewer_id: Annotated[str, Field(description="The reviewer.")]
    name: Annotated[str, Field(description="The id without the letters of the supervisor's start.")]
    project: ProjectName
    root: Annotated[
        str | None,
        Field(description="The project's folder as registered; empty if it is on other machines; null for a label."),
    ]
    wanted: Annotated[str, Field(description="`run` (start it, if it is new), `drain` or `kill`.")]
    drain_reason: DrainReason | None
    review_id: HeldReview | None
    profile: Profile | None = None
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
        Field(description="Every reviewer of this start that has not ended; start one that is not known yet."),
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

    review_id: answer.ReviewId
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


OPERATIONS = (
    Operation("list_reviewers", "reviewers", "list", ListReviewers, ReviewerList, OPERATOR, READ),
    Operation("spawn_reviewer", "reviewers", "spawn", SpawnReviewer, ReviewerView, OPERATOR, WRITE, blocking=True),
    Operation("kill_reviewer", "reviewers", "kill", KillReviewer, ReviewerView, OPERATOR, REPEATABLE_WRITE),
    Operation("pause_reviewers", "reviewers", "pause", PauseReviewers, PoolsChanged, ADMIN, REPEATABLE_WRITE),
    Operation("resume_reviewers", "reviewers", "resume", ResumeReviewers, PoolsChanged, ADMIN, REPEATABLE_WRITE),
    Operation("supervisor_register", "supervisor", "register", SupervisorRegister, Registered, SUPERVISOR, WRITE),
    Operation(
        "supervisor_heartbeat",
        "supervisor",
        "heartbeat",
        SupervisorHeartbeat,
        Orders,
        SUPERVISOR,
        REPEATABLE_WRITE,
        blocking=True,
    ),
    # A pool's reviewers report their own runs.
    Operation(
        "report_outcome",
        "supervisor",
        "outcome",
        ReportOutcome,
        OutcomeReported,
        SUPERVISOR | REVIEWER,
        WRITE,
        listed=False,
        for_agents=False,
    ),
    Operation(
        "get_reviewer_log",
        "reviewers",
        "output",
        GetReviewerLog,
        ReviewerLog,
        OPERATOR,
        READ,
        listed=False,
    ),
)

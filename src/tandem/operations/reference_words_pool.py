"""What the reference pages say of reviewer pools beyond what the declarations do."""

from __future__ import annotations

from typing import Final

from tandem.domain.events import Kind
from tandem.domain.reviewers import DrainReason, PauseKind, ReviewerState, RunOutcome

EVENTS: Final[dict[Kind, str]] = {
    Kind.ATTENTION_RAISED: (
        "Too many runs ended without a verdict, and the review left the queue until a person has looked; `reason` has "
        "the last."
    ),
    Kind.ATTENTION_CLEARED: (
        "Somebody looked: the review was claimed by its id, put back by hand (`retry_review`), revised or closed, or "
        "its counter-patch was accepted."
    ),
    Kind.POOL_REGISTERED: "A supervisor started; with its `incarnation`, host, provider and mode.",
    Kind.POOL_ENDED: "A supervisor stopped in order; none of its reviewers is left.",
    Kind.POOL_PAUSED: (
        "The pool starts nothing more, and its reviewers end after their reviews; `kind` and `reason` say why."
    ),
    Kind.POOL_RESUMED: "The pool may start reviewers again; `kind` and `reason` are those of the pause.",
    Kind.CIRCUIT_OPENED: (
        "Too many reviewers in a row failed at once: nothing is started until `until`. `reason` has the last failure."
    ),
    Kind.CIRCUIT_CLOSED: "A reviewer lasted, or a person resumed the pool: quick exits so far are forgotten.",
    Kind.REVIEWER_REQUESTED: "There is to be one reviewer more; `by` says who wants it: `scaling`, or who asked.",
    Kind.REVIEWER_SPAWNED: "Its process runs, as `pid` on `host`.",
    Kind.REVIEWER_DRAIN_START: "It is to end after its review, or with `at_once` now; `reason` says why.",
    Kind.REVIEWER_TERMINATED: (
        "Its process has ended, or was lost with its supervisor. `quick` says that it failed at once."
    ),
    Kind.REVIEWER_OUTCOME: (
        "A run ended: `outcome`, `review_id`, `reason`, and where they are known the seconds, tokens and cost. A "
        "verdict may have two: one with its own transaction, one with what it used up."
    ),
}

ADVICE: Final[dict[str, str]] = {
    "UNKNOWN_REVIEWER": "Use an id that `list_reviewers` shows, such as `codex-r1-k3f9q2`; the name alone is none.",
    "POOL_DISABLED": (
        "Read `details.why`. Enable a pool (`enabled = true` in `[reviewer_pool]`) and start the broker anew, let a "
        "paused one go on with `tandem reviewers resume`, or register the project's folder."
    ),
    "POOL_CAP_REACHED": (
        "Wait for a reviewer to end, end one with `kill_reviewer`, or raise `max_pool_size` (`details.limit`)."
    ),
    "SPAWN_COOLDOWN": (
        "Try again after `details.retry_after_s` seconds. If that is long, reviewers fail at once: `list_reviewers` "
        "says why."
    ),
}

CODES: Final[dict[str, tuple[str, ...]]] = {
    "retry_review": ("NOT_FOUND", "INVALID_TRANSITION"),
    "list_reviewers": (),
    "spawn_reviewer": ("POOL_DISABLED", "POOL_CAP_REACHED", "SPAWN_COOLDOWN"),
    "kill_reviewer": ("UNKNOWN_REVIEWER",),
    "pause_reviewers": ("POOL_DISABLED", "NOT_FOUND"),
    "resume_reviewers": ("POOL_DISABLED", "NOT_FOUND"),
    "supervisor_register": (),
    "supervisor_heartbeat": ("INVALID_SESSION",),
    "report_outcome": ("UNKNOWN_REVIEWER", "NOT_FOUND"),
}

_BACK = "back in the queue"
_COUNTED = "yes"
_UNCOUNTED = "no"

OUTCOMES: Final[dict[RunOutcome, tuple[str, str]]] = {
    "verdict": ("is decided: approved, changes requested or rejected", "no; it ends the count"),
    "no_verdict": (_BACK, _COUNTED),
    "unreadable": (_BACK, _COUNTED),
    "timeout": (_BACK, _COUNTED),
    "crashed": (_BACK, _COUNTED),
    "cancelled": (f"{_BACK} at once, unless somebody else has changed it already", _UNCOUNTED),
}
"""What each outcome does to the review, and whether it counts as a run without a verdict."""

REVIEWER_STATES: Final[dict[ReviewerState, str]] = {
    ReviewerState.ACTIVE: "It is to run; `pid` is null until its process does.",
    ReviewerState.DRAINING: "It finishes the review that it holds, takes nothing new, and ends.",
    ReviewerState.TERMINATED: "It has ended; `end_reason` and `exit_code` say how.",
}

DRAIN_REASONS: Final[dict[DrainReason, str]] = {
    DrainReason.TTL: "It is older than `max_ttl_seconds`.",
    DrainReason.IDLE: (
        "It holds nothing, has ended no run for `idle_timeout_seconds` (or none since its start), and the pool has "
        "more than `min_pool_size`."
    ),
    DrainReason.MANUAL: "A person asked for it: `kill_reviewer`.",
    DrainReason.SHUTDOWN: "Its supervisor stops.",
    DrainReason.STUCK: "It let its lease run out, so it does not even renew any more: it is ended at once.",
    DrainReason.PAUSED: "The pool is paused.",
}

POOL_STATES: Final[dict[str, str]] = {
    "running": "It starts reviewers when they are due.",
    "paused": "It starts nothing; `why` has the reason.",
    "circuit_open": "It starts nothing until `circuit_open_until`, because reviewers failed at once.",
    "lost": "Its supervisor was not heard of for too long. Nothing can be started; leases bring its reviews back.",
    "ended": "Its supervisor has stopped.",
}

PAUSES: Final[dict[PauseKind, tuple[str, str]]] = {
    "manual": ("`pause_reviewers`", "`resume_reviewers`"),
    "quiet_hours": ("the supervisor's clock is in a span of `quiet_hours`", "it leaves the span"),
    "budget_per_review": (
        "a run cost more than `budget_per_review` or used more than `token_budget_per_review`",
        "`resume_reviewers`",
    ),
    "budget_per_day": (
        "a day's runs reached `budget_per_day` or `token_budget_per_day`",
        "the next day (UTC), or `resume_reviewers`; the next run that reaches it pauses again",
    ),
}
"""How each pause begins and ends."""

TEMPLATE: Final[dict[str, str]] = {
    "proposal": (
        "Everything about the review, in frames that its text cannot close: facts, description, diff, the project's "
        "conventions, earlier verdicts, open comments, what changed since the last round."
    ),
    "answer": "The form of the answer: JSON schema, digest, example.",
    "guidance": "What to look for in a review of this category.",
    "reviewer_id": "The reviewer's id.",
    "project": "The project's name, in a frame.",
    "idle_seconds": "After how many seconds without a review the program ends itself.",
}
"""The variables of prompt templates."""

PROGRAMS: Final[dict[str, tuple[str, str, str, str, str]]] = {
    "codex": ("the program's default", "yes", "held to the schema", "tokens", "yes"),
    "claude": ("the program's default", "yes", "held to the schema", "tokens, cost", "no; as an agent yes"),
    "gemini": ("the program's default", "cannot be told", "told in the prompt", "tokens", "no"),
    "opencode": ("needed, as SERVICE/MODEL", "yes", "told in the prompt", "tokens; cost where it is known", "yes"),
    "custom": (
        "in `TANDEM_REVIEW_MODEL`",
        "in `TANDEM_REVIEW_EFFORT`",
        "in the prompt and in the file `TANDEM_REVIEW_SCHEMA`",
        "nothing",
        "not expected",
    ),
}
"""For each provider: model, effort, form of the answer, what it reports, whether it writes while it works."""

ANSWER: Final[dict[str, str]] = {
    "nonce": "What the prompt says to write here. It shows that the answer is this run's own, and quoted from nowhere.",
    "digest": "The digest of the round that was reviewed, as the prompt names it; null if it has none.",
    "verdict": "What is decided. There is no answer that decides nothing.",
}
"""Fields of a program's answer, where its schema (which is written for models) does not say it."""

# Where the declaration says nothing, by `Type.field`, else by the field's name alone.
FIELDS: Final[dict[str, str]] = {
    # Reviewers
    "ReviewerView.reviewer_id": "Its id, with the letters of its supervisor's start.",
    "ReviewerView.name": "What people call it: the id without those letters. Numbers begin anew with each start.",
    "ReviewerView.project": "The project whose reviews it takes.",
    "ReviewerView.state": "`active`, `draining` or `terminated`; see [states](reviewer-pool.md#states).",
    "provider": "The client program that reviews: `codex`, `claude`, `gemini`, `opencode` or `custom`.",
    "ReviewerView.mode": "`worker` or `agent`.",
    "model": "The model; null for the program's own default.",
    "supervisor_id": "The supervisor, and so the pool.",
    "host": "The machine that it runs on.",
    "pid": "The process; null until it has been started.",
    "spawned_at": "When it was decided that there should be this reviewer.",
    "last_active_at": "When it last gave a verdict or ended a run, or else `spawned_at`.",
    "drain_reason": "Why it is to end; see [draining](reviewer-pool.md#draining).",
    "ended_at": "When it ended; null while it has not.",
    "ReviewerView.exit_code": (
        "Its exit status, or the negative number of a signal; see [exit statuses](reviewer-pool.md#exit-statuses). "
        "Null while it runs, and for one that never started or was lost."
    ),
    "end_reason": "Why it ended, in words.",
    "ReviewerView.review_id": "The review that it holds now.",
    "reviews_completed": "Verdicts that it gave.",
    "approvals": "Of these, approvals.",
    "rejections": "Of these, rejections.",
    "ReviewerView.approval_rate": "Approvals in its verdicts, from 0 to 1; null without any.",
    "mean_review_seconds": "Mean time from claim to verdict; null before its first.",
    "outcomes": "How many of its runs ended how; see [outcomes](reviewer-pool.md#outcomes).",
    "tokens_in": "Tokens that the model read, where the program reports them.",
    "tokens_out": "Tokens that the model wrote, where the program reports them.",
    "cost_usd": "The cost in US dollars, by the program's own account, where it gives one.",
    "reviewers": "Those that have not ended, then the newest that have.",
    # Pools
    "pools": "The pools, one for each supervisor.",
    "PoolView.mode": "`worker` or `agent`.",
    "PoolView.state": (
        "`running`, `paused`, `circuit_open`, `lost` or `ended`; see [states](reviewer-pool.md#states)."
    ),
    "why": "Why nothing is started; null while it may be.",
    "active": "How many of its reviewers have not ended, draining ones included.",
    "max_pool_size": "Most reviewers at a time.",
    "circuit_open_until": "Until when nothing is started after too many quick exits; null while the circuit is closed.",
    "spent_today_usd": "What its runs cost since midnight UTC.",
    "tokens_today": "Tokens that its runs read and wrote since midnight UTC.",
    "last_seen_at": "When its supervisor was last heard of.",
    # Supervisors
    "incarnation": "This start of the supervisor; another one voids it.",
    "secret": "Shows who calls: the supervisor's id is made from it. It is stored nowhere.",
    "SupervisorRegister.mode": "Whether Tandem's worker or the program itself works through the queue.",
    "rules": "The numbers that the pool is run by; they are [settings](reviewer-pool.md#settings).",
    **{
        f"Rules.{name}": f"The setting [`{name}`](reviewer-pool.md#settings)."
        for name in (
            "max_pool_size", "min_pool_size", "scaling_ratio", "idle_timeout_seconds", "max_ttl_seconds",
            "spawn_cooldown_seconds", "retry_delay_seconds", "budget_per_review", "budget_per_day",
            "token_budget_per_review", "token_budget_per_day",
        )
    },
    "started_us": "When the process began, microseconds since 1970: with the number it names one process for ever.",
    "SupervisorHeartbeat.reviewers": "Every reviewer that it has, and those that have ended since the last call.",
    "SupervisorHeartbeat.wait": "Answer only when the reviewers are to be others than was said, or something is due.",
    "SupervisorHeartbeat.cursor": "The last answer's.",
    "ReviewerSighting.reviewer_id": "The reviewer.",
    "ReviewerSighting.state": "Whether its process runs.",
    "ReviewerSighting.exit_code": "Its exit status, or the negative number of a signal; null if it never started.",
    "error": "Why it ended, in words.",
    "Orders.reviewers": "Every reviewer of this start that has not ended; one that is not known yet is to be started.",
    "paused": "Why nothing is started; null while the pool is not paused.",
    "again_s": "Look again after so many seconds at the latest: then something is due.",
    "Orders.changed": "Whether the reviewers differ from what the supervisor said of them.",
    "Order.reviewer_id": "The reviewer.",
    "Order.name": "The id without the letters of the supervisor's start.",
    "Order.root": "The project's folder as it was registered; null for a project without one.",
    "wanted": "`run` (start it, if it is new), `drain` or `kill`.",
    "Order.review_id": "The review that it holds now.",
    "ReportOutcome.reviewer_id": "The reviewer.",
    "ReportOutcome.outcome": "How the run ended; see [outcomes](reviewer-pool.md#outcomes).",
    "seconds": "How long the program ran.",
    "ReportOutcome.exit_code": "The program's exit status, or the negative number of a signal.",
    "attempts": "Runs in a row that ended without a verdict.",
    "not_before": "When the review is tried again; null for at once.",
    "OutcomeReported.paused": "Why the reviewer's pool starts nothing more; null while it is not paused.",
}  # fmt: skip

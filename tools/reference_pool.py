"""The reference page of reviewer pools, from the settings, the rules and the forms that it describes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final, get_args

from reference_parts import (
    Undocumented,
    code,
    endpoints,
    limits,
    member_docs,
    page,
    shown_default,
    spaced,
    table,
    type_text,
)
from tandem.contract.operation import Role
from tandem.core.clock import MICROSECONDS
from tandem.pool import rules
from tandem.pool.contract import PoolRules, RunOutcome
from tandem.pool.reviewers import prompt, providers, verdicts
from tandem.pool.reviewers.job import WorkerExit
from tandem.pool.reviewers.lifecycle import QUICK_SECONDS
from tandem.pool.reviewers.outcomes import Outcome
from tandem.pool.reviewers.worker import AT_ONCE_SECONDS
from tandem.pool.rules import DrainReason, PauseKind, ProjectQueue, Reviewer, ReviewerState
from tandem.reviews import claim_rules as claims
from tandem.server.catalogue import REGISTRY
from tandem.settings import names
from tandem.settings.pool import PoolSettings

_SUBJECT: Final = "tandem.pool."
"""The package whose requests are those of pools."""
_OF_REVIEWS: Final = ("retry_review",)
"""Operations on reviews that only a pool makes necessary."""
_OWN_TYPES: Final = {"prompt_template_path": "file or null", "workspace_wsl_path": "folder or null"}
_SHOWN_OPENINGS: Final = 8
_SHOWN_PENDING: Final = (1, 2, 3, 4, 7, 10, 13)

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

POOL_STATES: Final[dict[str, str]] = {
    "running": "It starts reviewers when they are due.",
    "paused": "It starts nothing; `why` has the reason.",
    "rate_limited": "It is paused for its provider's quota, until a time that `why` names; then it goes on by itself.",
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
    "quota": (
        "a program says that its provider takes no more requests (HTTP 429, a usage limit)",
        "the wait that it names, a week at most, else after 1, 2, 4 … and at most 60 minutes; `resume_reviewers`",
    ),
}
"""How each pause begins and ends."""

PROGRAMS: Final[dict[str, tuple[str, str, str, str, str]]] = {
    "codex": ("the program's default", "yes", "held to the schema", "tokens", "yes"),
    "claude": ("the program's default", "yes", "held to the schema", "tokens, cost", "yes"),
    "gemini": ("the program's default", "cannot be told", "told in the prompt", "tokens", "yes"),
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

ANSWER: Final[dict[str, str]] = {
    "nonce": "What the prompt says to write here. It shows that the answer is this run's own, and quoted from nowhere.",
    "files": "What was read. An approval needs an entry for each file of the diff, or the text, by its number.",
    "digest": "The digest of the round that was reviewed, as the prompt names it; null if it has none.",
    "verdict": "What is decided. There is no answer that decides nothing.",
}
"""Fields of a program's answer, where its schema (which is written for models) does not say it."""


def reviewer_pool() -> str:
    """Everything that a reviewer pool keeps to."""
    _ensure_words()
    return page(
        "The reviewer pool",
        "The database says which reviewers there should be; a supervisor makes it so, in the broker's process or on "
        "another host. [The guide](../guide/reviewer-pool.md) says how to run one; [operations](operations.md) has "
        "every request and answer.",
        *_settings(),
        *_outcomes(),
        *_retries(),
        *_states(),
        *_scaling(),
        *_circuit(),
        *_draining(),
        *_pauses(),
        *_programs(),
        *_answer(),
        *_template(),
        *_exit_statuses(),
        *_operations(),
    )


def _ensure_words() -> None:
    """Insist that nothing goes without words.

    Raises:
        Undocumented: A setting, an outcome, a state, a reason or a variable does.
    """
    missing = [f"reviewer_pool.{name}" for name, field in PoolSettings.model_fields.items() if not field.description]
    missing += [f"outcome {one}" for one in get_args(RunOutcome) if one not in OUTCOMES]
    missing += [f"outcome {one}" for one in Outcome if one not in member_docs(Outcome)]
    missing += [f"state {one}" for one in ReviewerState if one not in member_docs(ReviewerState)]
    missing += [f"drain reason {one}" for one in DrainReason if one not in member_docs(DrainReason)]
    missing += [f"pause {one}" for one in get_args(PauseKind) if one not in PAUSES]
    variables = {*prompt.REVIEW.allowed, *prompt.AGENT.allowed}
    missing += [f"program {one}" for one in providers.NAMES if one not in PROGRAMS]
    missing += [f"answer {one}" for one in verdicts.SCHEMA["properties"] if not _about(one)]
    missing += [f"variable {one}" for one in sorted(variables) if one not in TEMPLATE]
    missing += [f"exit status {int(one)}" for one in WorkerExit if one not in member_docs(WorkerExit)]
    if missing:
        raise Undocumented(missing)


# -------------------------------------------------------------------------------------------- settings


def _settings() -> Iterator[str]:
    schema: dict[str, dict[str, Any]] = PoolSettings.model_json_schema()["properties"]
    head = ("setting", "type", "default", "limits", "description")
    rows = {
        advanced: [
            (
                f"`{name}`",
                _OWN_TYPES.get(name) or type_text(one),
                shown_default(one.get("default")),
                ", ".join(limits(one)),
                one["description"],
            )
            for name, one in schema.items()
            if names.has(PoolSettings, name, names.Mark.ADVANCED) is advanced
        ]
        for advanced in (False, True)
    }
    yield "## Settings"
    yield (
        "The table `[reviewer_pool]` of the user's `config.toml`. `TANDEM_REVIEWER_POOL` holds a whole table as JSON "
        "and takes the place of that one. The broker reads none of a repository's. Durations are seconds, sizes bytes, "
        "budgets US dollars. The broker reads them when it starts; a key that is unknown, or a value that cannot be "
        "used, stops the start (`CONFIG_INVALID`)."
    )
    yield table(head, rows[False])
    yield "Few need the others:"
    yield table(head, rows[True])
    yield (
        "A model's name has 1 to 100 letters, digits and `. _ : / -`, and no hyphen first; with `allowed_models` it "
        "has to be one of them. `min_pool_size` is not over `max_pool_size`. `workspace_path` and "
        "`prompt_template_path` may begin with `~`. `start_seconds` and `silence_seconds` are for [programs that "
        "write while they work](#programs). On Windows `workspace_wsl_path` is needed, as the distribution calls the "
        "folder. `claim_timeout_seconds` and `review_deadline_seconds` are [settings of the broker](settings.md) and "
        "stand outside this table."
    )


# -------------------------------------------------------------------------------- outcomes and tries


def _outcomes() -> Iterator[str]:
    meanings = member_docs(Outcome)
    rows = [(f"`{one}`", meanings[Outcome(one)], *OUTCOMES[one]) for one in get_args(RunOutcome)]
    yield "## Outcomes"
    yield "A run of a reviewer's program ends in one of six ways. Only a verdict changes what is decided."
    yield table(("outcome", "meaning", "the review", "counts as a failed run"), rows)
    yield (
        "How the program ended counts first: after an exit status other than 0 no answer is looked at. An answer that "
        "was cut, has another form, names another digest, or is two different ones is `unreadable`. So is a verdict "
        "that the broker refuses; one that comes when the claim is over is `cancelled`."
    )


def _retries() -> Iterator[str]:
    delay = PoolSettings().retry_delay_seconds
    rows = [
        (str(number), f"{_seconds(claims.retry_at(number, delay, 0) / MICROSECONDS)} later, by any reviewer")
        for number in range(1, claims.RETRIES + 1)
    ]
    rows.append((str(claims.RETRIES + 1), "not by itself: `attention` is raised"))
    growth = claims.retry_at(2, 1, 0) // claims.retry_at(1, 1, 0)
    yield "## Retries"
    yield (
        f"Failed runs in a row are counted for each review. After the first it waits for `retry_delay_seconds`, then "
        f"{growth} times as long; with the default of {_seconds(delay)}:"
    )
    yield table(("failed runs", "the review is tried again"), rows)
    yield (
        "A review with `attention` is out of the queue, does not count for scaling, and its turn is the proposer's, "
        "with `next_action` `escalate`. `retry_review` puts it back; claiming it by its id, a revision, an accepted "
        "counter-patch and closing it clear it too. A verdict and a new round end the count."
    )


# -------------------------------------------------------------------------------------------- states


def _states() -> Iterator[str]:
    yield "## States"
    yield "A reviewer:"
    yield table(("state", "meaning"), ((f"`{one}`", about) for one, about in member_docs(ReviewerState).items()))
    yield "A pool:"
    yield table(("state", "meaning"), ((f"`{name}`", about) for name, about in POOL_STATES.items()))
    yield f"A supervisor that was not heard of for {_seconds(rules.LIVE_SECONDS)} is `lost`; it calls much more often."


# ------------------------------------------------------------------------------ starting and ending


def _scaling() -> Iterator[str]:
    defaults = PoolRules()
    rows = [(str(pending), str(reviewers_for(pending, defaults))) for pending in _SHOWN_PENDING]
    yield "## Scaling"
    yield (
        "Decided for each project that is registered with a folder, at every event that changes the queue and at "
        "every call of the supervisor. One reviewer more is due when something waits and none is active, or when more "
        "reviews wait than `scaling_ratio` for each active reviewer. The project with the fewest reviewers comes "
        "first, then the one with the most waiting. Reviews that are held, put off, or wait for a person do not "
        "count. With the defaults, and as long as none is taken:"
    )
    yield table(("reviews that wait", "reviewers"), rows)
    yield (
        "A pool never has more than `max_pool_size` reviewers that have not ended, draining ones included, over all "
        "of its projects. When nothing is due and it has fewer than `min_pool_size` that are active, one is started. "
        "Between two starts lies `spawn_cooldown_seconds` at least. Every decision is one transaction, so that no two "
        "of them pass the limit together. `spawn_reviewer` keeps to the same limits."
    )


def reviewers_for(pending: int, pool_rules: PoolRules) -> int:
    """How many reviewers a pool starts for so many waiting reviews of one project, if none of them is taken."""
    active = 0
    while rules.next_start([ProjectQueue("any", pending, active, active)], pool_rules, active) is not None:
        active += 1
    return active


def _circuit() -> Iterator[str]:
    opened = list(dict.fromkeys(rules.circuit_seconds(times) for times in range(_SHOWN_OPENINGS)))
    rows = [(str(failures), _seconds(cooldown_after(failures))) for failures in range(rules.CIRCUIT_FAILURES)]
    rows.append((str(rules.CIRCUIT_FAILURES), f"{_seconds(opened[0])}: the circuit is open"))
    longer = ", ".join(spaced(seconds) for seconds in opened[1:-1])
    yield "## The circuit"
    yield (
        "A reviewer exits quickly when its program cannot be started, when a run of its program crashes within "
        f"{_seconds(AT_ONCE_SECONDS)} (in the mode `agent`: whenever it ends with an error, or "
        f"within {_seconds(rules.AT_ONCE_SECONDS)} without a review), or when its own process "
        f"ends out of order within {_seconds(QUICK_SECONDS)} of its start and nobody told it to. The time between two "
        "starts then doubles; by default:"
    )
    yield table(("quick exits in a row", "from one start to the next"), rows)
    yield (
        "When the circuit's time is up, one reviewer is tried. If it exits quickly too, the circuit opens again, for "
        f"{longer} and at most {_seconds(opened[-1])}. If it lasts {_seconds(rules.AT_ONCE_SECONDS)}, gives a verdict "
        "or ends in order, the circuit closes. `resume_reviewers` closes it by hand. `list_reviewers` says why it is "
        "open."
    )


def cooldown_after(failures: int) -> float:
    """How many seconds lie between two starts after so many quick exits, by default."""
    spawned = Reviewer._make([0] * len(Reviewer._fields))
    return rules.start_at(spawned, failures, PoolRules()) / MICROSECONDS


def _draining() -> Iterator[str]:
    yield "## Draining"
    yield "A reviewer that drains takes nothing new, finishes the review that it holds, and ends."
    yield table(("reason", "when"), ((f"`{one}`", about) for one, about in member_docs(DrainReason).items()))
    yield (
        "It is ended at once when a person asks for that (`force`), or when it takes longer than any review may "
        "(`review_deadline_seconds` and a minute). An agent is ended as soon as it holds no review, and after "
        "`attempt_seconds` at the latest. No process outlives `max_ttl_seconds`, `attempt_seconds` and `grace_seconds` "
        "together."
    )
    yield (
        "What a reviewer held that was ended, or that was lost with its supervisor, goes back into the queue at once "
        "and does not count as a failed run. What one held that ended by itself does count."
    )


def _pauses() -> Iterator[str]:
    yield "## Pauses"
    yield "A paused pool starts nothing and drains its reviewers. A pause outlasts restarts."
    rows = [(f"`{kind}`", *PAUSES[kind]) for kind in get_args(PauseKind)]
    yield table(("kind", "begins with", "ends with"), rows)
    yield (
        "A budget is looked at when a run has ended and reports what it used: no run is broken off for it. Tokens are "
        "those read and written together. [Programs](#programs) that report nothing use no budget up, and neither "
        "does any program in the mode `agent`."
    )


# ------------------------------------------------------------------------------------------ programs


def _programs() -> Iterator[str]:
    rows = ((f"`{name}`", *PROGRAMS[name]) for name in providers.NAMES)
    yield "## Programs"
    yield table(("provider", "model", "effort", "form of the answer", "reports", "writes while it works"), rows)


def _answer() -> Iterator[str]:
    fields: dict[str, dict[str, Any]] = verdicts.SCHEMA["properties"]
    inner: dict[str, dict[str, Any]] = fields["comments"]["items"]["properties"]
    yield "## The answer of a program"
    yield (
        "In the mode `worker` a program answers with one JSON object and nothing else. White space around it, and one "
        "Markdown fence around all of it, do no harm; with words beside it, or a second object, the run is "
        "`unreadable`. It has these fields and no others. `nonce`, `verdict` and `reason` have to be there; those "
        "that are null or empty may be left out. The nonce is drawn for each run and stands in its prompt, outside of "
        "the frames; it is not written to the log. Behind each file of the diff stands a nonce of its own: an approval "
        "that does not name each, with a few words on what was looked at, is `unreadable`. Only a file that is binary, "
        "or that `.gitattributes` of the base branch says is generated, may have `unread` instead, with "
        "the reason, which becomes part of the verdict's."
    )
    yield table(("field", "form", "meaning"), ((f"`{name}`", _form(one), _about(name)) for name, one in fields.items()))
    yield "Each entry of `files`:"
    read: dict[str, dict[str, Any]] = fields["files"]["items"]["properties"]
    yield table(
        ("field", "form", "meaning"), ((f"`{name}`", _form(one), one["description"]) for name, one in read.items())
    )
    yield "Each comment:"
    yield table(
        ("field", "form", "meaning"), ((f"`{name}`", _form(one), one["description"]) for name, one in inner.items())
    )
    yield (
        f"The whole answer and the counter-patch have at most {spaced(verdicts.ANSWER_LIMIT_BYTES)} bytes, the "
        f"reason and each comment {spaced(verdicts.TEXT_LIMIT_BYTES)}. A comment on a file that the change does "
        "not touch is added to the reason, and so is the summary. A counter-patch that the broker refuses is left "
        "out, and the reason says so. For example:"
    )
    yield f"```json\n{json.dumps(verdicts.EXAMPLE, indent=2, ensure_ascii=False)}\n```"


def _form(schema: dict[str, Any]) -> str:
    kinds: str | list[str] = schema["type"]
    return code(schema["enum"]) if "enum" in schema else kinds if isinstance(kinds, str) else " or ".join(kinds)


def _about(field: str) -> str:
    return ANSWER.get(field) or str(verdicts.SCHEMA["properties"][field].get("description", ""))


def _template() -> Iterator[str]:
    rows: list[tuple[str, ...]] = []
    for mode, form in (("worker", prompt.REVIEW), ("agent", prompt.AGENT)):
        for name in form.allowed:
            needed = "has to be there" if name in form.required else "may be there"
            once = ", once" if form.once else ""
            rows.append((f"`{mode}`", f"`{{{{{name}}}}}`", needed + once, TEMPLATE[name]))
    yield "## The prompt template"
    yield (
        f"A text file in UTF-8 of at most {spaced(prompt.TEMPLATE_LIMIT_BYTES)} bytes (`prompt_template_path`). "
        "Double braces stand around the name of a variable and nowhere else. It is checked when the supervisor "
        "starts, and again by each reviewer."
    )
    yield table(("mode", "variable", "in the template", "what it becomes"), rows)


def _exit_statuses() -> Iterator[str]:
    yield "## Exit statuses"
    yield "How a reviewer's own process ends (not the program that it runs):"
    meanings = member_docs(WorkerExit)
    yield table(("status", "meaning"), ((str(int(one)), meanings[one]) for one in WorkerExit))


# ---------------------------------------------------------------------------------------- operations


def _operations() -> Iterator[str]:
    found = [one for one in REGISTRY if one.request.__module__.startswith(_SUBJECT) or one.name in _OF_REVIEWS]
    rows = [
        (
            f"[`{one.name}`](operations.md#{one.name})",
            ", ".join(sorted(one.roles)),
            code(endpoints(one)) or "not offered",
            one.description,
        )
        for one in found
    ]
    yield "## Operations"
    yield table(("operation", "roles", "MCP", "what it does"), rows)
    yield (
        f"Those of the role `{Role.SUPERVISOR}` are how a supervisor, and the reviewers it runs, speak with the "
        "broker. A supervisor has a secret that stays (in its data folder) and an incarnation that is new at each "
        "start. Its id is made from the secret: nobody else registers or speaks in its name. Registering voids the "
        "incarnation before, whose reviewers have ended from then on. The supervisor ends what is left of them by the "
        "marks in their environment (`TANDEM_REVIEWER`, `TANDEM_SUPERVISOR`), whatever process numbers were reported."
    )


# -------------------------------------------------------------------------------------------- numbers


def _seconds(seconds: float) -> str:
    return f"{spaced(round(seconds))} s"

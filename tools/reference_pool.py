"""The tables and numbers of `pages/reviewer-pool.md`, from the settings, the rules and the forms that it describes."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final

from pydantic import BaseModel

from reference_parts import (
    Undocumented,
    code,
    limits,
    member_docs,
    rendered,
    shown_default,
    spaced,
    table,
    type_text,
)
from tandem.core.clock import MICROSECONDS
from tandem.pool import rules
from tandem.pool.contract import PoolRules
from tandem.pool.reviewers import prompt, verdicts
from tandem.pool.reviewers.job import WorkerExit
from tandem.pool.reviewers.lifecycle import QUICK_SECONDS
from tandem.pool.reviewers.outcomes import Outcome
from tandem.pool.reviewers.worker import AT_ONCE_SECONDS
from tandem.pool.rules import DrainReason, ProjectQueue, Reviewer, ReviewerState
from tandem.reviews import claim_rules as claims
from tandem.settings import names
from tandem.settings.pool import PoolSettings, ProfileSettings

_OWN_TYPES: Final = {
    "prompt_template_path": "file or null",
    "workspace_wsl_path": "folder or null",
    "profile": "list of [tables](#profiles)",
}
_SHOWN_OPENINGS: Final = 8
_SHOWN_PENDING: Final = (1, 2, 3, 4, 7, 10, 13)

TEMPLATE: Final[dict[str, str]] = {
    "proposal": (
        "Everything about the review, in frames that its text cannot close: facts, description, diff, the project's "
        "conventions, what changed since the last round, checks, earlier verdicts, messages and findings, false alarms."
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
    "files": "The files read. An approval needs an entry for each file of the diff, or the text, by its number.",
    "digest": "The digest of the round that was reviewed, as the prompt names it; null if it has none.",
    "verdict": "The decision. There is no answer without one.",
}
"""Fields of a program's answer, where its schema (which is written for models) does not say it."""


def reviewer_pool() -> str:
    """The page of reviewer pools.

    Raises:
        Undocumented: A setting, an outcome, a state, a reason, a field or a variable has no words.
    """
    fields = (*PoolSettings.model_fields.items(), *ProfileSettings.model_fields.items())
    missing = [f"reviewer_pool.{name}" for name, field in fields if not field.description]
    for kind in (Outcome, ReviewerState, DrainReason, WorkerExit):
        missing += [f"{kind.__name__} {one!r}" for one in kind if one not in member_docs(kind)]
    answer: dict[str, dict[str, Any]] = verdicts.SCHEMA["properties"]
    missing += [f"answer {name}" for name, one in answer.items() if name not in ANSWER and "description" not in one]
    variables = {*prompt.REVIEW.allowed, *prompt.AGENT.allowed}
    missing += [f"variable {one}" for one in sorted(variables) if one not in TEMPLATE]
    if missing:
        raise Undocumented(missing)
    return rendered(
        "reviewer-pool.md",
        settings=_settings(PoolSettings, advanced=False),
        advanced=_settings(PoolSettings, advanced=True),
        profiles=_settings(ProfileSettings, advanced=False),
        outcome={str(one): about for one, about in member_docs(Outcome).items()},
        states=_named("state", "meaning", member_docs(ReviewerState)),
        live=_seconds(rules.LIVE_SECONDS),
        scaling=table(
            ("reviews that wait", "reviewers"),
            ((str(pending), str(reviewers_for(pending, PoolRules()))) for pending in _SHOWN_PENDING),
        ),
        draining=_named("reason", "when", member_docs(DrainReason)),
        answer=_fields(
            {name: {**one, "description": ANSWER.get(name) or one["description"]} for name, one in answer.items()}
        ),
        files=_fields(answer["files"]["items"]["properties"]),
        findings=_fields(answer["findings"]["items"]["properties"]),
        answers=_fields(answer["answers"]["items"]["properties"]),
        answer_limit=spaced(verdicts.ANSWER_LIMIT_BYTES),
        text_limit=spaced(verdicts.TEXT_LIMIT_BYTES),
        example=json.dumps(verdicts.EXAMPLE, indent=2, ensure_ascii=False),
        template=_variables(),
        template_limit=spaced(prompt.TEMPLATE_LIMIT_BYTES),
        exit_statuses=table(
            ("status", "meaning"), ((str(int(one)), about) for one, about in member_docs(WorkerExit).items())
        ),
        **_retries(),
        **_circuit(),
    )


def _named(what: str, about: str, meanings: Mapping[Any, str]) -> str:
    return table((what, about), ((f"`{one}`", meaning) for one, meaning in meanings.items()))


def _settings(of: type[BaseModel], *, advanced: bool) -> str:
    schema: dict[str, dict[str, Any]] = of.model_json_schema()["properties"]
    rows = (
        (
            f"`{name}`",
            _OWN_TYPES.get(name) or type_text(one),
            shown_default(one.get("default")),
            ", ".join(limits(one)),
            one["description"],
        )
        for name, one in schema.items()
        if names.has(of, name, names.Mark.ADVANCED) is advanced
    )
    return table(("setting", "type", "default", "limits", "description"), rows)


def _retries() -> dict[str, Any]:
    delay = PoolSettings().retry_delay_seconds
    rows = [
        (str(number), f"{_seconds(claims.retry_at(number, delay, 0) / MICROSECONDS)} later, by any reviewer")
        for number in range(1, claims.RETRIES + 1)
    ]
    rows.append((str(claims.RETRIES + 1), "not by itself: `attention` is raised"))
    growth = claims.retry_at(2, 1, 0) // claims.retry_at(1, 1, 0)
    retries = table(("failed runs", "the review is tried again"), rows)
    return {"retries": retries, "delay": _seconds(delay), "growth": growth}


def reviewers_for(pending: int, pool_rules: PoolRules) -> int:
    """How many reviewers a pool starts for so many waiting reviews of one project, if none of them is taken."""
    active = 0
    while rules.next_start([ProjectQueue("any", pending, active, active)], pool_rules, active) is not None:
        active += 1
    return active


def _circuit() -> dict[str, str]:
    opened = list(dict.fromkeys(rules.circuit_seconds(times) for times in range(_SHOWN_OPENINGS)))
    rows = [(str(failures), _seconds(cooldown_after(failures))) for failures in range(rules.CIRCUIT_FAILURES)]
    rows.append((str(rules.CIRCUIT_FAILURES), f"{_seconds(opened[0])}: the circuit is open"))
    return {
        "circuit": table(("quick exits in a row", "from one start to the next"), rows),
        "at_once": _seconds(AT_ONCE_SECONDS),
        "agent_at_once": _seconds(rules.AT_ONCE_SECONDS),
        "quick": _seconds(QUICK_SECONDS),
        "longer": ", ".join(spaced(seconds) for seconds in opened[1:-1]),
        "longest": _seconds(opened[-1]),
    }


def cooldown_after(failures: int) -> float:
    """How many seconds lie between two starts after so many quick exits, by default."""
    spawned = Reviewer._make([0] * len(Reviewer._fields))
    return rules.start_at(spawned, failures, PoolRules()) / MICROSECONDS


def _fields(schemas: Mapping[str, dict[str, Any]]) -> str:
    rows = ((f"`{name}`", _form(one), one["description"]) for name, one in schemas.items())
    return table(("field", "form", "meaning"), rows)


def _form(schema: dict[str, Any]) -> str:
    kinds: str | list[str] = schema["type"]
    return code(schema["enum"]) if "enum" in schema else kinds if isinstance(kinds, str) else " or ".join(kinds)


def _variables() -> str:
    rows: list[Iterable[str]] = []
    for mode, form in (("worker", prompt.REVIEW), ("agent", prompt.AGENT)):
        for name in form.allowed:
            needed = "has to be there" if name in form.required else "may be there"
            once = ", once" if form.once else ""
            rows.append((f"`{mode}`", f"`{{{{{name}}}}}`", needed + once, TEMPLATE[name]))
    return table(("mode", "variable", "in the template", "value"), rows)


def _seconds(seconds: float) -> str:
    return f"{spaced(round(seconds))} s"

"""Writes the reference in `docs/reference` from the declarations, so that it cannot say anything else.

python tools/reference.py            write the pages
python tools/reference.py --check    exit status 1 if one is not current, or something has no words
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, Final

from reference_commands import commands
from reference_cycles import cycles
from reference_keys import keys
from reference_parts import (
    Field,
    Undocumented,
    answer_fields,
    code,
    endpoints,
    ensure_described,
    limits,
    linked,
    member_docs,
    page,
    paragraphs,
    refusal_codes,
    request_fields,
    shown_default,
    table,
    type_text,
)
from reference_pool import reviewer_pool
from tandem.audit.replay import EVENT_PARTS
from tandem.contract.operation import Operation
from tandem.errors import TandemError, by_code
from tandem.reviews.rules import TABLE, Action, Guard, State, Step
from tandem.server.catalogue import REGISTRY
from tandem.settings import names
from tandem.settings.config import PREFIX, Settings
from tandem.settings.names import Mark, Tighten
from tandem.settings.policy import DEFAULT_PATTERNS
from tandem.store.event import EventKind

FOLDER = Path(__file__).resolve().parent.parent / "docs" / "reference"

EVERYWHERE: Final = ("INVALID_INPUT", "UNAUTHENTICATED", "FORBIDDEN", "TOO_LARGE", "INTERNAL_ERROR", "UNAVAILABLE")
"""Codes that any operation can answer with."""

WITH_KEY: Final = ("IDEMPOTENCY_CONFLICT",)
"""Codes of every operation that takes an idempotency key."""

ELSEWHERE: Final[dict[str, str]] = {
    "RATE_LIMITED": "every request, where the broker needs access tokens",
    "CHECK_FAILED": "[`check_gate`](operations.md#check_gate), as the `code` of its answer",
    "CHECK_PENDING": "[`check_gate`](operations.md#check_gate), as the `code` of its answer",
    "INVALID_TOOL": "the endpoint `/mcp/handoff`; any MCP endpoint for an unknown name with a dot",
    "CONFIG_INVALID": "the command line, at start; supervisors, at theirs",
}
"""Who answers with a code beside the operations, or in their place."""

_PLAIN_ANSWERS: Final = {
    "handoff_read": "[The payload](cycles.md#the-payload) as it was written, or an empty object.",
}
"""What an answer is that is a plain object."""

_OWN_DEFAULTS: Final = {
    "data_dir": "`~/.local/state/tandem` on Linux, `~/Library/Application Support/tandem` on macOS, "
    "`%LOCALAPPDATA%\\tandem` on Windows",
    "archive_dir": "`archives` in `data_dir`",
    "secret_key_file": "`secret.key` in `data_dir`",
    "workflows": "none of your own",
    "gate_exempt": f"what GSD keeps up by itself: {code(DEFAULT_PATTERNS)}",
    "verify_command": "none",
    "reviewer_pool": "no pool",
}
_OWN_TYPES: Final = {
    "workflows": "tables, see [a workflow](cycles.md#a-workflow)",
    "reviewer_pool": "table, see [its settings](reviewer-pool.md#settings)",
}
_OWN_EFFECTS: Final = {
    "reviewer_pool": "partly at once ([which](reviewer-pool.md#settings))",
}
_TIGHTENED: Final = {
    Tighten.LOWER: "lower it",
    Tighten.FULL: "set it to `full`",
    Tighten.ON: "set it to `true`",
}


# ------------------------------------------------------------------------------------------ operations


def operations() -> str:
    """Every operation on its four interfaces."""
    types: dict[str, list[Field]] = {}
    sections = [_operation(operation, types) for operation in REGISTRY]
    index = table(
        ("operation", "roles", "description"),
        ([f"[`{one.name}`](#{one.name})", ", ".join(sorted(one.roles)), one.description] for one in REGISTRY),
    )
    return page(
        "Operations",
        "Every operation is declared once and offered unchanged over MCP, HTTP, the command line and Python. On each "
        'it answers with an envelope: `{"ok": true, "data": {…}}`, or `{"ok": false, "error": {"code", "message", '
        '"details", "retryable"}}`. Times are ISO 8601 in UTC; cursors and page names are opaque; unknown fields are '
        "refused.",
        f"Any operation can answer with {code(EVERYWHERE)}; one that takes an `idempotency_key` also with "
        f"{code(WITH_KEY)}. [Errors](errors.md) says what to do about each.",
        index,
        *sections,
        "## Types",
        *(f"### {name}\n\n{_answer_table(fields)}" for name, fields in sorted(types.items())),
    )


def _operation(operation: Operation, types: dict[str, list[Field]]) -> str:
    asked, inner = request_fields(operation)
    answered, shown = answer_fields(operation)
    types |= inner | shown
    for owner, fields in [
        (operation.request.__name__, asked),
        (operation.answer.__name__, answered),
        *(inner | shown).items(),
    ]:
        ensure_described(owner, fields)
    if not operation.description or not hasattr(operation.request, "refusals"):
        raise Undocumented([f"{operation.name}: the docstring or `refusals` of {operation.request.__name__}"])
    codes = [name for name in refusal_codes(operation) if name not in EVERYWHERE]
    return "\n\n".join(
        [
            f"## {operation.name}",
            operation.description,
            _interfaces(operation),
            f"Codes of its own: {code(codes)}." if codes else "It has no codes of its own.",
            "**Request**" if asked else "The request has no fields.",
            *([_request_table(asked)] if asked else []),
            "**Answer**",
            *([_PLAIN_ANSWERS[operation.name]] if operation.name in _PLAIN_ANSWERS else []),
            _answer_table(answered),
        ]
    )


def _interfaces(operation: Operation) -> str:
    offered = endpoints(operation)
    traits = ["reads only" if operation.hints.read_only else "writes"]
    traits += ["may be repeated"] if operation.hints.idempotent else []
    traits += ["may wait"] if operation.blocking else []
    rows = [
        ("roles", ", ".join(sorted(operation.roles))),
        ("nature", ", ".join(traits)),
        ("MCP", f"tool `{operation.name}` at {code(offered)}" if offered else "not offered"),
        ("HTTP", f"`POST /api/v1/{operation.name}`"),
        ("command line", f"`tandem {operation.noun} {operation.verb}`"),
        ("Python", f"`await client.{operation.name}(…)`"),
    ]
    return table(("interface", "how"), rows)


def _request_table(fields: list[Field]) -> str:
    head = ("field", "type", "default", "limits", "description")
    return table(head, ((f"`{one.name}`", one.type, one.default, one.limits, one.about) for one in fields))


def _answer_table(fields: list[Field]) -> str:
    return table(("field", "type", "description"), ((f"`{one.name}`", one.type, one.about) for one in fields))


# ---------------------------------------------------------------------------------------------- errors


def errors() -> str:
    """Every code: status, whether to try again, meaning, what to do."""
    known = by_code()
    missing = [name for name, error in known.items() if not all(paragraphs(error))]
    if missing:
        raise Undocumented(missing)
    users = _users(known)
    rows = [
        (
            f"`{name}`",
            str(error.status),
            "yes" if error.retryable else "no",
            *map(linked, paragraphs(error)),
            users[name],
        )
        for name, error in sorted(known.items(), key=lambda item: (item[1].status, item[0]))
    ]
    return page(
        "Errors",
        "The code is part of the contract and never changes meaning. The message is for people and models: it says "
        "what to do next. The details carry the facts. A retryable call may succeed later as it is.",
        table(("code", "HTTP", "retryable", "meaning", "what to do", "answered by"), rows),
        "An HTTP request to a path that does not exist answers `NOT_FOUND`; one with a method that the path does not "
        "take answers `INVALID_INPUT` with the status 405.",
    )


def _users(known: dict[str, type[TandemError]]) -> dict[str, str]:
    users: dict[str, str] = {}
    for name in known:
        by = [f"[`{one.name}`](operations.md#{one.name})" for one in REGISTRY if name in refusal_codes(one)]
        by += [ELSEWHERE[name]] if name in ELSEWHERE else []
        if name in EVERYWHERE:
            users[name] = "any operation"
        elif name in WITH_KEY:
            users[name] = "operations that take an `idempotency_key`"
        elif by:
            users[name] = ", ".join(by)
        else:
            raise Undocumented([f"{name}: who answers with it"])
    return users


# ---------------------------------------------------------------------------------------------- events


def events() -> str:
    """Every kind of event."""
    meanings = member_docs(EventKind)
    replayed = {kind for kinds in EVENT_PARTS.values() for kind in kinds}
    missing = [str(kind) for kind in EventKind if kind not in meanings]
    missing += [f"{kind}: EVENT_PARTS of audit/replay.py" for kind in EventKind if kind not in replayed]
    if missing:
        raise Undocumented(missing)
    return page(
        "Events",
        "Every change appends its event to the log in the same transaction. `get_audit_log` and `get_review_timeline` "
        "read them; each has a number in the order of commits, a time, a project, a subject, an actor, the state "
        "before and after, facts, and a hash that chains it to the event before it on the same subject. Renewed leases "
        "and the use of a session are not events.",
        table(("kind", "meaning"), ((f"`{kind}`", meanings[kind]) for kind in EventKind)),
    )


# -------------------------------------------------------------------------------------------- settings


def settings() -> str:
    """Every setting, where it is set, and whether a repository may tighten it."""
    schema = Settings.model_json_schema()["properties"]
    missing = [name for name, field in Settings.model_fields.items() if not field.description]
    if missing:
        raise Undocumented(missing)
    head = ("setting", "variable", "type", "default", "limits", "description", "a repository may", "takes effect")
    rows = {
        advanced: [
            (
                f"`{name}`",
                f"`{PREFIX}{name.upper()}`",
                *_setting(name, schema[name]),
                _OWN_EFFECTS.get(name) or names.takes_effect(Settings, name),
            )
            for name in Settings.model_fields
            if names.has(Settings, name, Mark.ADVANCED) is advanced
        ]
        for advanced in (False, True)
    }
    return page(
        "Settings",
        "Nearest wins: options of `tandem up`, then variables of the environment, then the project's "
        "`.tandem/config.toml`, then the user's `config.toml`, then the default. "
        "[Operating a broker](../guide/operating.md#configuration) says where the files are; `tandem config show` says "
        "where each value came from. Of a project's file only stricter values count, unless a person trusted the file "
        "as it is (`tandem trust`). The broker itself reads it for `gate_exempt` and `checks_on_tip` alone.",
        "A broker that runs reads the user's file again when it changes: settings that take effect at once need no "
        "restart. A file that cannot be used changes nothing; the log, `tandem doctor` and `tandem status` say why. "
        "Variables and options of `tandem up` stay as they were at the start.",
        "Durations are seconds, sizes are bytes. Options of `tandem up` exist for `host`, `port`, `data_dir` "
        "and `database_url` (`--database`). `tandem config show` also shows the three settings of "
        "[GSD](gsd.md#the-three-settings): `tandem_enabled`, `review_granularity` and `execution_mode`.",
        table(head, rows[False]),
        "## Advanced settings",
        "Few need these; `tandem config show --all` shows them.",
        table(head, rows[True]),
    )


def _setting(name: str, schema: dict[str, Any]) -> tuple[str, str, str, str, str]:
    default = _OWN_DEFAULTS.get(name) or shown_default(schema.get("default"))
    tighten = names.direction(Settings, name)
    permitted = _TIGHTENED[tighten] if tighten else "not set it"
    kind = _OWN_TYPES.get(name) or type_text(schema)
    return (
        kind.replace("folder", "file") if name.endswith("_file") else kind,
        default,
        ", ".join(limits(schema)),
        schema["description"],
        permitted,
    )


# ------------------------------------------------------------------------------------------ life cycle


def life_cycle() -> str:
    """The table of everything that may happen to a review."""
    actions = member_docs(Action)
    missing = [str(action) for action in Action if action not in actions or action not in TABLE]
    states = member_docs(State)
    missing += [str(state) for state in State if state not in states]
    if missing:
        raise Undocumented(missing)
    rows = [
        (f"{action} ({actions[action]})", *(_cell(state, row.get(state)) for state in State))
        for action, row in TABLE.items()
    ]
    guards = member_docs(Guard)
    return page(
        "The life cycle of a review",
        table(("state", "meaning"), ((f"`{state}`", states[state]) for state in State)),
        "A pair that is not in the table is refused with `INVALID_TRANSITION`, with the states that can follow. "
        "**g+1**: the claim generation rises, so that no earlier claim changes anything any more. **r+1**: a new round "
        "begins, and an approval ends.",
        table(("action", *(f"`{state}`" for state in State)), rows),
        table(("who", "meaning"), ((_guard(guard), guards[guard]) for guard in Guard if guard in guards)),
        "While a review is claimed, `claim_review` by its holder answers with the same claim, renewed; others are "
        "answered `ALREADY_CLAIMED`. Under a policy that needs more, or where its reviewer has no vote, others get a "
        "claim beside it (`claim_beside`, [the policy](policy.md#reviewers-at-the-same-time)): when one of several "
        "claims ends, the review stays held, and the last one ends it as an objection said. No one may give the "
        "verdict on content that they wrote, or accept their own counter-patch (`SELF_APPROVAL`).",
    )


def _cell(state: State, step: Step | None) -> str:
    if step is None:
        return "–"
    parts = ["stays" if step.to in (None, state) else f"`{step.to}`"]
    parts += [step.outcome] if step.outcome else []
    parts += ["r+1"] if step.new_round else []
    parts += ["g+1"] if step.new_generation else []
    parts += [_guard(step.guard)] if step.guard is not Guard.ANYONE else []
    return ", ".join(parts)


def _guard(guard: Guard) -> str:
    return f"{str(guard).replace('_', ' ')} only"


PAGES: Final = {
    "commands.md": commands,
    "cycles.md": cycles,
    "errors.md": errors,
    "events.md": events,
    "keys.md": keys,
    "life-cycle.md": life_cycle,
    "operations.md": operations,
    "reviewer-pool.md": reviewer_pool,
    "settings.md": settings,
}


def pages() -> dict[str, str]:
    """Every page's text by its file name.

    Raises:
        Undocumented: A part of the contract is not described.
    """
    return {name: render() for name, render in PAGES.items()}


BY_HAND = frozenset(
    {
        "broker.md",
        "checks.md",
        "clients.md",
        "command-line.md",
        "diffs.md",
        "findings.md",
        "gate.md",
        "gsd.md",
        "policy.md",
        "reviewer-programs.md",
    }
)
"""Pages of the reference that no generator writes."""


def stale(folder: Path, wanted: dict[str, str]) -> list[str]:
    """What in the folder differs from the pages as they should be, in words."""
    found = {path.name: path.read_text("utf-8") for path in folder.glob("*.md")}
    missing = [f"{name} is missing" for name in wanted if name not in found]
    changed = [f"{name} is not current" for name, text in wanted.items() if name in found and found[name] != text]
    foreign = [f"{name} is no generated page" for name in sorted(found.keys() - wanted.keys() - BY_HAND)]
    return [*missing, *changed, *foreign]


def main(arguments: list[str], folder: Path = FOLDER) -> int:
    """Write the pages, or compare them with the source; the exit status."""
    try:
        wanted = pages()
    except Undocumented as error:
        for name in error.names:
            sys.stderr.write(f"{name} has no description; write one where it is declared\n")
        return 1
    if "--check" not in arguments:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in wanted.items():
            (folder / name).write_text(text, encoding="utf-8", newline="\n")
        return 0
    faults = stale(folder, wanted)
    for fault in faults:
        sys.stderr.write(f"docs/reference: {fault}; run: make docs\n")
    return int(bool(faults))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""The reference page of hand-off cycles, from the rules and the workflows that it describes."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from reference_parts import Undocumented, code, endpoints, page, spaced, table
from tandem.contract.operation import Operation
from tandem.contract.request import Check
from tandem.cycles import payloads as handoffs
from tandem.cycles.rules import FEATURE_LENGTH
from tandem.reviews.rules import State
from tandem.server.catalogue import REGISTRY
from tandem.settings.workflows import BUILT_IN, COMPLETE, MAX_PHASES, MAX_ROLES, MAX_WORKFLOWS, Workflow

_SUBJECT: Final = "tandem.cycles."
"""The package whose requests are those of cycles."""
_NOWHERE: Final = "–"

PROOFS: Final[dict[str, tuple[str, str, str]]] = {
    "session_open": ("the role's key", "no", "any role"),
    "cycle_start": ("nothing; but every role has to have a key", "no", "anybody"),
    "cycle_status": ("nothing", "no", "anybody"),
    "lock_acquire": ("a session", "no", "the active role"),
    "handoff_write": ("a session", "yes", "the active role, to a target of its phase"),
    "handoff_read": ("nothing", "no", "anybody"),
    "cycle_complete": ("a session", "yes", "the active role, in a phase that completes"),
    "cycle_archive": ("a session", "yes", "the archiver, once the cycle is complete"),
    "session_close": ("the session itself", "no", "whoever has its token"),
    "cycle_init": ("nothing", "no", "who administers the broker"),
    "cycle_rotate": ("nothing", "no", "who administers the broker"),
    "cycle_revoke": ("nothing", "no", "who administers the broker"),
    "list_cycles": ("nothing", "no", "the operator"),
    "get_cycle": ("nothing", "no", "the operator"),
}
"""What a caller has to show for each operation, whether a lock token is asked for, and whose it is to do."""

GATED: Final[dict[State, tuple[str, str]]] = {
    State.PENDING: ("`INVALID_PHASE` with the `review_id`", "waits"),
    State.CLAIMED: ("`INVALID_PHASE` with the `review_id`", "waits"),
    State.IN_REVIEW: ("`INVALID_PHASE` with the `review_id`", "waits"),
    State.CHANGES_REQUESTED: (
        "the next round of the same review; to another target: closes it and begins a new one",
        "is the producer's",
    ),
    State.APPROVED: ("as for any hand-off in the new phase", "has advanced, in the verdict's transaction"),
    State.REJECTED: ("a new review, whose `parent_id` is the rejected one", "is the producer's"),
    State.CLOSED: ("a new review", "is the producer's, if the review was withdrawn"),
}
"""In approval mode: what `handoff_write` does while the review is in a state, and where the cycle is."""

WORKFLOW: Final[dict[str, str]] = {
    "roles": "Names of everybody who takes part. Each is active in at least one phase, or archives.",
    "start": "The phase in which a cycle begins.",
    "phases": "A table for each phase.",
    "archiver": "The role that archives a complete cycle. Default: the role that completed it.",
    "mode": "`direct`: a hand-off advances the cycle at once. `approval`: its review does. Default: `direct`.",
    "like": "Another workflow that this one is a copy of; beside it only `archiver` and `mode` may stand.",
}
"""The keys of a workflow's table."""

PHASE: Final[dict[str, str]] = {
    "role": "The role that is active in it.",
    "handoff": "To whom this role may hand off, and the phase that then begins, which has to be one of the target's.",
    "complete": "Whether this role may complete the cycle here. Default: `false`.",
}
"""The keys of a phase's table."""

ARCHIVE: Final[dict[str, str]] = {
    "manifest.json": (
        "Format, ids and times, the list of hand-offs with everything but their payloads, and the SHA-256 of every "
        "other file."
    ),
    "state.json": "The cycle as it ended: the same fields as in `list_cycles`.",
    "lock.json": "Who held the lock last; never a token.",
    "workflow.json": "The workflow that the cycle ran by, without keys.",
    "handoffs/NNN-ROLE.json": "One payload each, numbered in the order of writing; ROLE is the target.",
}
"""The files of an archive."""


def cycles() -> str:
    """Everything that hand-off cycles keep to."""
    operations = [one for one in REGISTRY if one.request.__module__.startswith(_SUBJECT)]
    _ensure_words(operations)
    return page(
        "Hand-off cycles",
        "A cycle takes one feature through the phases of a workflow, one active role at a time. "
        "[The guide](../guide/cycles.md) says how to run one; [operations](operations.md) has every request and "
        "answer.",
        *_built_in(),
        *_declared(),
        *_payload(),
        *_proofs(operations),
        *_checks(operations),
        *_lock(),
        *_gated(),
        *_archive(),
    )


def _ensure_words(operations: list[Operation]) -> None:
    """Insist that nothing goes without words.

    Raises:
        Undocumented: An operation does.
    """
    missing = [one.name for one in operations if one.name not in PROOFS or not _checks_of(one)]
    if missing:
        raise Undocumented(missing)


# ------------------------------------------------------------------------------------------- workflows


def _built_in() -> Iterator[str]:
    yield "## The built-in workflow"
    yield (
        f"`{BUILT_IN.name}` is there without any configuration. Its roles are {code(BUILT_IN.roles)}; its mode is "
        f"`{BUILT_IN.mode}`."
    )
    yield transitions(BUILT_IN)
    yield (
        "Every other pair of phase and target is `INVALID_PHASE`, with `details.allowed`. The lock gets a new token "
        f"where it says so. `{COMPLETE}` is the phase after completion in every workflow; the archive ends the cycle."
    )


def transitions(workflow: Workflow) -> str:
    """What can happen to a cycle of a workflow, as a table."""
    first = workflow.phase(workflow.start)
    rows = [(_NOWHERE, "`cycle_start`", "anybody", f"`{first.name}`", f"{first.role} holds it")]
    for phase in workflow.phases.values():
        for target, following in phase.handoffs.items():
            step = f"`handoff_write` to `{target}`"
            rows.append((f"`{phase.name}`", step, phase.role, f"`{following}`", _rotation(phase.role, target)))
        if phase.completes:
            lock = _rotation(phase.role, workflow.archiver_after(phase.name))
            rows.append((f"`{phase.name}`", "`cycle_complete`", phase.role, f"`{COMPLETE}`", lock))
    archivers = dict.fromkeys(workflow.archiver_after(name) for name in workflow.completing_phases)
    rows.append((f"`{COMPLETE}`", "`cycle_archive`", " or ".join(archivers), "idle", "nobody holds it"))
    return table(("phase", "step", "by", "then", "lock"), rows)


def _rotation(holder: str, following: str) -> str:
    return f"stays with {holder}" if holder == following else f"new token, for {following}"


def _declared() -> Iterator[str]:
    yield "## A workflow"
    yield (
        "Workflows are tables `[workflows.NAME]` of the user's `config.toml`. The broker reads them when it starts, "
        "and does not start with one that cannot be used. A table under the built-in's name without `roles`, `start` "
        "and `phases` adjusts the built-in one."
    )
    yield _words(WORKFLOW, "key")
    yield "Each phase:"
    yield _words(PHASE, "key")
    yield (
        f"At most {MAX_WORKFLOWS} workflows, of 2 to {MAX_ROLES} roles and 1 to {MAX_PHASES} phases. A name begins "
        "with a small letter and has at most 40 small letters, digits, `-` and `_`. From each phase hand-offs lead to "
        "one that may complete, and each is reached from the start. A cycle keeps the workflow that it began with; a "
        "change of the configuration counts for the next one."
    )


# ------------------------------------------------------------------------------------------- hand-offs


def _payload() -> Iterator[str]:
    limit = f"list of any values, at most {spaced(handoffs.ARRAY_LIMIT)}; may be empty"
    rows = [(f"`{name}`", "text, not empty", "yes", about) for name, about in handoffs.TEXTS.items()]
    rows += [(f"`{name}`", limit, "yes", about) for name, about in handoffs.ARRAYS.items()]
    rows += [(f"`{handoffs.EXTRAS}`", "object", "no", handoffs.EXTRAS_ABOUT)]
    yield "## The payload"
    yield table(("field", "form", "required", "meaning"), rows)
    yield (
        f"{code(handoffs.TEXTS)} have to be exactly those of this cycle and this direction. A field that is not in the "
        "table is refused, and so is a payload that contains the caller's lock token or session token. As indented "
        "JSON it has at most `text_limit_bytes`. A refusal is `SCHEMA_INVALID` and lists every complaint in "
        "`details.problems`. The feature has at most "
        f"{FEATURE_LENGTH} characters. For example:"
    )
    yield f"```json\n{json.dumps(example(), indent=2)}\n```"


def example() -> dict[str, Any]:
    """A payload of the built-in workflow's first hand-off."""
    return {
        "cycle_id": "20261122T101500Z_login-page_k3f9q2",
        "feature": "login page",
        "producer": "gemini",
        "consumer": "codex",
        "files_modified": ["web/login.tsx", "web/api.ts"],
        "endpoints": ["POST /api/login"],
        "data_shapes": [{"LoginRequest": {"email": "string", "password": "string"}}],
        "assumptions": ["The session is a cookie."],
        "todos": ["Build POST /api/login; 401 with a message for a wrong password."],
        "notes": [],
        "extras": {"mock": "web/mocks/login.json"},
    }


# ---------------------------------------------------------------------------------------- authorisation


def _proofs(operations: list[Operation]) -> Iterator[str]:
    rows = [(_link(one), code(endpoints(one)) or "not offered", *PROOFS[one.name]) for one in operations]
    yield "## Who may do what"
    yield table(("operation", "MCP", "has to show", "lock token", "whose it is to do"), rows)
    yield (
        "A session is opened with a role's key and stands for that role, in one project and one workflow. The other "
        "faces (HTTP, command line, Python) have every operation. `/mcp` takes the tools of `/mcp/handoff` too, and "
        "does not list them. Over MCP and HTTP a name may be written with a dot, as in `handoff.write`."
    )


def _checks(operations: list[Operation]) -> Iterator[str]:
    rows: list[tuple[str, str, str]] = []
    for one in operations:
        for number, check in enumerate(_checks_of(one), 1):
            rows.append(("" if number > 1 else _link(one), f"{number}. `{check.error.code}`", check.when))
    yield "## Checks, in their order"
    yield (
        "The first check that fails is the answer. Before them come the form of the request, the project and the "
        "workflow (`INVALID_INPUT`)."
    )
    yield table(("operation", "code", "answered when"), rows)


def _checks_of(operation: Operation) -> list[Check]:
    return [one for one in operation.request.refusals if isinstance(one, Check)]


def _link(operation: Operation) -> str:
    return f"[`{operation.name}`](operations.md#{operation.name})"


# ----------------------------------------------------------------------------- lock, sessions, approval


def _lock() -> Iterator[str]:
    yield "## Tokens"
    rows = [
        ("key", "`psk_…`", "`cycle_init`, `cycle_rotate`", "it is rotated or revoked", "a salted hash (scrypt)"),
        (
            "session token",
            "`sess_…`",
            "`session_open`",
            "`session_close`; its key is rotated or revoked; nobody uses it for `session_idle_seconds`",
            "nothing of the token; the session itself is",
        ),
        (
            "lock token",
            "`lock_…`",
            "`cycle_start`, `lock_acquire`",
            "the active role changes; the cycle is archived",
            "nothing",
        ),
    ]
    yield table(("what", "form", "given by", "valid until", "stored"), rows)
    yield (
        "Session and lock tokens are derived from the key in `secret_key_file` "
        "([0009](../decisions/0009-tokens-are-derived.md)). `lock_acquire` gives the current token again, as often as "
        "asked; it does not change it. No token is in the log, in an event, in an archive or in a refusal."
    )


def _gated() -> Iterator[str]:
    rows = [(f"`{state}`", *cells) for state, cells in GATED.items()]
    yield "## Approval mode"
    yield (
        'With `mode = "approval"`, `handoff_write` makes a review of the category `handoff`. Its proposer is the '
        "producing role, and the payload as indented JSON is its description. The phase stays until the verdict "
        "`approved`, which advances the cycle in its own transaction. The last hand-off's review:"
    )
    yield table(("state", "`handoff_write`", "the cycle"), rows)
    yield (
        "`cycle_complete` is refused with `INVALID_PHASE` while the review is undecided, and closes one that is not. "
        "Neither the producer nor the caller who wrote it can approve it (`SELF_APPROVAL`). "
        "A counter-patch has to be the whole payload as JSON "
        "(`SCHEMA_INVALID`); once it is accepted and approved, it is what `handoff_read` gives. `create_review` cannot "
        "revise such a review (`INVALID_TRANSITION`)."
    )


def _archive() -> Iterator[str]:
    yield "## The archive"
    yield "`cycle_archive` writes a folder `CYCLE_ID` in `archive_dir`, whole or not at all:"
    yield _words(ARCHIVE, "file")


def _words(about: Mapping[str, str], noun: str) -> str:
    rows: Iterable[tuple[str, str]] = ((f"`{name}`", meaning) for name, meaning in about.items())
    return table((noun, "meaning"), rows)

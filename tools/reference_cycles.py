"""The tables and numbers of `pages/cycles.md`, from the rules and the workflows that it describes."""

from __future__ import annotations

import json
from typing import Any, Final

from reference_parts import Undocumented, code, endpoints, rendered, spaced, table
from tandem.contract.operation import Operation
from tandem.contract.request import Check
from tandem.cycles import payloads as handoffs
from tandem.cycles.rules import FEATURE_LENGTH
from tandem.server.catalogue import REGISTRY
from tandem.settings.workflows import BUILT_IN, COMPLETE, MAX_PHASES, MAX_ROLES, MAX_WORKFLOWS, Workflow

_SUBJECT: Final = "tandem.cycles."
"""The package whose requests are those of cycles."""
_NOWHERE: Final = "–"


def cycles() -> str:
    """The page of hand-off cycles.

    Raises:
        Undocumented: An operation has no checks.
    """
    operations = [one for one in REGISTRY if one.request.__module__.startswith(_SUBJECT)]
    missing = [one.name for one in operations if not _checks_of(one)]
    if missing:
        raise Undocumented(missing)
    return rendered(
        "cycles.md",
        built_in=BUILT_IN,
        roles=code(BUILT_IN.roles),
        transitions=transitions(BUILT_IN),
        most={"workflows": MAX_WORKFLOWS, "roles": MAX_ROLES, "phases": MAX_PHASES},
        payload=_payload(),
        texts=code(handoffs.TEXTS),
        feature_length=FEATURE_LENGTH,
        example=json.dumps(example(), indent=2),
        mcp={one.name: code(endpoints(one)) or "not offered" for one in operations},
        checks=_checks(operations),
    )


def transitions(workflow: Workflow) -> str:
    """The steps of a cycle of a workflow, as a table."""
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
    rows.append((f"`{COMPLETE}`", "`cycle_archive`", " or ".join(archivers), "idle", "free"))
    return table(("phase", "step", "by", "then", "lock"), rows)


def _rotation(holder: str, following: str) -> str:
    return f"stays with {holder}" if holder == following else f"new token, for {following}"


def _payload() -> str:
    limit = f"list of any values, at most {spaced(handoffs.ARRAY_LIMIT)}; may be empty"
    rows = [(f"`{name}`", "text, not empty", "yes", about) for name, about in handoffs.TEXTS.items()]
    rows += [(f"`{name}`", limit, "yes", about) for name, about in handoffs.ARRAYS.items()]
    rows += [(f"`{handoffs.EXTRAS}`", "object", "no", handoffs.EXTRAS_ABOUT)]
    return table(("field", "form", "required", "meaning"), rows)


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


def _checks(operations: list[Operation]) -> str:
    rows: list[tuple[str, str, str]] = []
    for one in operations:
        for number, check in enumerate(_checks_of(one), 1):
            link = "" if number > 1 else f"[`{one.name}`](operations.md#{one.name})"
            rows.append((link, f"{number}. `{check.error.code}`", check.when))
    return table(("operation", "code", "answered when"), rows)


def _checks_of(operation: Operation) -> list[Check]:
    return [one for one in operation.request.refusals if isinstance(one, Check)]

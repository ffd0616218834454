"""What a hand-off has to say: the payload's schema, with a precise complaint for each field.

An archived cycle keeps the payloads in a folder, with everything else that a reader needs later, and no secret.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict
from typing import Any, cast

import orjson

from tandem.core.texts import json_kind, storable_json
from tandem.cycles.answers import CycleHistory, HandoffView
from tandem.cycles.rules import Cycle, Transition
from tandem.errors import SchemaInvalid

TEXTS = {
    "cycle_id": "The cycle, as `cycle_status` says it.",
    "feature": "The feature, as `cycle_status` says it.",
    "producer": "The role that hands off.",
    "consumer": "The next role: the target.",
}
"""Fields of a payload that are texts, and their meaning."""

ARRAYS = {
    "files_modified": "Files that were added, changed or removed.",
    "endpoints": "Interfaces that the consumer will build or use, such as routes and functions.",
    "data_shapes": "The data that they exchange: requests, answers, records, messages.",
    "assumptions": "Assumptions that may be wrong.",
    "todos": "Work that is left for the consumer.",
    "notes": "Anything else in words.",
}
"""Fields that are lists, and their meaning."""

EXTRAS = "extras"
EXTRAS_ABOUT = "Further facts, by name; the only place for fields of your own."

ARRAY_LIMIT = 2_000
"""Entries of one array; a payload's size has a limit of its own."""

Problem = dict[str, str]


def checked(payload: object, cycle: Cycle, step: Transition) -> dict[str, Any]:
    """A payload that has its form and speaks of this cycle and this hand-off.

    Raises:
        SchemaInvalid: It does not; `details.problems` lists every complaint, `details.field` names the first.
    """
    if not isinstance(payload, dict):
        raise _refusal([{"field": "payload", "problem": f"must be an object, not {json_kind(payload)}"}])
    fields = cast("dict[str, Any]", payload)
    problems = [*_form(fields), *_consistency(fields, cycle, step)]
    if problems:
        raise _refusal(problems)
    return fields


def parsed(text: str, cycle: Cycle, step: Transition) -> dict[str, Any]:
    """A payload from JSON text, as a counter-patch has it.

    Raises:
        SchemaInvalid: It is no JSON, or not a payload for this hand-off.
    """
    try:
        # Not the standard library's reader, which takes NaN, and numbers without end.
        payload: object = storable_json(orjson.loads(text))
    except orjson.JSONDecodeError:
        raise _refusal([{"field": "payload", "problem": "must be the whole payload as JSON"}]) from None
    except ValueError as error:
        raise _refusal([{"field": "payload", "problem": str(error)}]) from None
    return checked(payload, cycle, step)


def text_of(payload: dict[str, Any]) -> str:
    """The payload as it is kept, reviewed and archived: JSON, indented, one field after the other as it was sent."""
    return json.dumps(payload, indent=2, ensure_ascii=False) + "\n"


def _form(payload: dict[str, Any]) -> list[Problem]:
    problems: list[Problem] = []
    fields = {
        **dict.fromkeys(TEXTS, (str, "a text", "a text that is not empty")),
        **dict.fromkeys(ARRAYS, (list, "an array", "an array, which may be empty")),
        EXTRAS: (dict, "an object", None),
    }
    for name, (kind, words, missing) in fields.items():
        value = payload.get(name)
        if name not in payload:
            problem = f"is missing: {missing}" if missing else None
        elif not isinstance(value, kind):
            problem = f"must be {words}, not {json_kind(value)}"
        elif isinstance(value, str):
            problem = None if value.strip() else "must not be empty"
        else:
            too_long = name in ARRAYS and len(cast("list[Any]", value)) > ARRAY_LIMIT
            problem = f"must have at most {ARRAY_LIMIT} entries" if too_long else None
        if problem is not None:
            problems.append({"field": name, "problem": problem})
    problems += [
        {"field": name[:100], "problem": "is no field of a hand-off; put further facts into extras"}
        for name in payload
        if name not in fields
    ]
    return problems


def _consistency(payload: dict[str, Any], cycle: Cycle, step: Transition) -> list[Problem]:
    expected = {
        "cycle_id": cycle.id,
        "feature": cycle.feature,
        "producer": step.producer,
        "consumer": step.target,
    }
    return [
        {"field": name, "problem": f"must be '{value}' for this hand-off", "expected": value}
        for name, value in expected.items()
        if isinstance(payload.get(name), str) and payload[name].strip() and payload[name] != value
    ]


def _refusal(problems: list[Problem]) -> SchemaInvalid:
    first = problems[0]
    more = f" ({len(problems) - 1} more in details.problems)" if len(problems) > 1 else ""
    where = first["field"] if first["field"] == "payload" else f"payload.{first['field']}"
    return SchemaInvalid(f"{where} {first['problem']}.{more}", field=first["field"], problems=problems[:30])


_ARCHIVE_FORMAT = 1
_MANIFEST = "manifest.json"
_ABOUT = ("cycle_id", "project", "workflow", "feature", "created_at", "completed_at", "archived_at")


def archive_files(history: CycleHistory) -> dict[str, bytes]:
    """The files by name: manifest, state, lock, workflow, and each hand-off's payload.

    The manifest has every other file's SHA-256, so that a copy can be checked.
    """
    files = {
        "state.json": _json(asdict(history.cycle)),
        "lock.json": _json(asdict(history.lock)),
        "workflow.json": _json({"name": history.cycle.workflow, **history.definition}),
        **{_file_name(handoff): _json(handoff.payload) for handoff in history.handoffs},
    }
    manifest = {
        "format": _ARCHIVE_FORMAT,
        **{name: getattr(history.cycle, name) for name in _ABOUT},
        "handoffs": [{"file": _file_name(handoff), **_facts(handoff)} for handoff in history.handoffs],
        "sha256": {name: hashlib.sha256(content).hexdigest() for name, content in files.items()},
    }
    return {_MANIFEST: _json(manifest), **files}


def _file_name(handoff: HandoffView) -> str:
    return f"handoffs/{handoff.number:03}-{handoff.target}.json"


def _facts(handoff: HandoffView) -> dict[str, Any]:
    return {name: value for name, value in asdict(handoff).items() if name != "payload"}


def _json(value: dict[str, Any]) -> bytes:
    return text_of(value).encode()

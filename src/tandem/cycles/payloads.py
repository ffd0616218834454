"""What a hand-off has to say: the payload's schema, with a precise complaint for each field."""

from __future__ import annotations

import json
from typing import Any, cast

import orjson

from tandem.core.texts import json_kind, storable_json
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

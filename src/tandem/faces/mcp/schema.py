"""Slims JSON Schemas of requests for tool listings, which every agent pays for in tokens."""

from __future__ import annotations

from typing import Any

Schema = dict[str, Any]

# What a model does not need to fill in a call. The broker checks all of it nevertheless.
_DROPPED = frozenset({"title", "minLength", "maxLength", "maxItems", "additionalProperties", "exclusiveMinimum"})


def slim(schema: Schema) -> Schema:
    """The schema without titles, limits, null alternatives and references; objects and names stay as they are."""
    definitions: dict[str, Schema] = schema.get("$defs", {})
    slimmed = _slim(schema, definitions)
    slimmed.pop("description", None)  # the tool's own description says it
    slimmed.setdefault("properties", {})
    return slimmed


def _slim(schema: Schema, definitions: dict[str, Schema]) -> Schema:
    schema = _without_null(_resolved(schema, definitions))
    slimmed: Schema = {}
    for key, value in schema.items():
        if key in _DROPPED or key == "$defs" or (key == "default" and value is None):
            continue
        slimmed[key] = _slim_value(key, value, definitions)
    if slimmed.get("maximum", 0) >= 2**31:
        del slimmed["maximum"]
    return slimmed


def _slim_value(key: str, value: Any, definitions: dict[str, Schema]) -> Any:
    match key:
        case "properties":
            return {name: _slim_field(name, inner, definitions) for name, inner in value.items()}
        case "items" | "not":
            return _slim(value, definitions)
        case "anyOf" | "oneOf" | "allOf" | "prefixItems":
            return [_slim(inner, definitions) for inner in value]
        case _:
            return value


def _slim_field(name: str, schema: Schema, definitions: dict[str, Schema]) -> Schema:
    """A field without words that only repeat its name, such as "The review." of `review_id`."""
    slimmed = _slim(schema, definitions)
    if slimmed.get("description") == f"The {name.removesuffix('_id').replace('_', '-')}.":
        del slimmed["description"]
    return slimmed


def _resolved(schema: Schema, definitions: dict[str, Schema]) -> Schema:
    """What a reference stands for, with what was said beside it; a definition's own description is dropped."""
    reference = schema.get("$ref")
    if reference is None:
        return schema
    target = {key: value for key, value in definitions[reference.rpartition("/")[2]].items() if key != "description"}
    return {**_resolved(target, definitions), **{key: value for key, value in schema.items() if key != "$ref"}}


def _without_null(schema: Schema) -> Schema:
    """`X or null` is `X`: leaving an argument out says the same."""
    alternatives = schema.get("anyOf")
    if alternatives is None or {"type": "null"} not in alternatives:
        return schema
    kept = [alternative for alternative in alternatives if alternative != {"type": "null"}]
    rest = {key: value for key, value in schema.items() if key != "anyOf"}
    return {**kept[0], **rest} if len(kept) == 1 else {**rest, "anyOf": kept}

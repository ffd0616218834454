"""Example requests, made from their schemas."""

from __future__ import annotations

from typing import Any

_SAMPLES = {
    "review_id": "rv_4k2m8q0x7c1d5n3p",
    "token_id": "tok_1m824bnajk7cjb5vw7",
    "counter_patch_id": "cp_4k2m8q0x7c1d5n3p",
    "reviewer_id": "reviewer-1",
    "intent": "Refuse empty names when a project is registered",
    "agent_type": "claude-code",
    "body": "Is an empty list meant to pass here?",
    "project": "shop",
    "name": "shop",
    "root": "/home/me/shop",
    "path": "src/shop/names.py",
    "secret": "a-supervisors-own-drawn-at-random-x7Kq",
}
_COMMIT_ID = r"^[0-9a-f]{40}([0-9a-f]{24})?$"
_BY_PATTERN = {_COMMIT_ID: "9d2f0c4b7e1a6853f2c9d0b4a7e8135c6f0b2d94"}
_BY_TYPE: dict[str, Any] = {"integer": 1, "number": 1.0, "boolean": True, "object": {}, "array": []}


def example_of(schema: dict[str, Any], definitions: dict[str, Any], name: str = "") -> Any:
    """A value that the schema accepts: required fields only.

    Args:
        schema: A JSON Schema as pydantic makes them.
        definitions: What its references name.
        name: The field's name, for a telling sample.
    """
    match schema:
        case {"$ref": reference}:
            example = example_of(definitions[reference.rpartition("/")[2]], definitions, name)
        case {"const": value} | {"enum": [value, *_]}:
            example = value
        case {"anyOf": [first, *_]}:
            example = example_of(first, definitions, name)
        case {"properties": properties}:
            example = {key: example_of(properties[key], definitions, key) for key in schema.get("required", ())}
        case {"type": "string"}:
            stated = _BY_PATTERN.get(schema.get("pattern", ""))
            example = stated or _SAMPLES.get(name, name.replace("_", "-") or "text")
        case {"type": "array", "minItems": least, "items": items} if least:
            example = [example_of(items, definitions, name)]
        case _:
            example = _BY_TYPE.get(schema.get("type", ""), {})
    return example

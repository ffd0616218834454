"""The form of a reviewer program's answer: its JSON schema, an example, and its limits."""

from __future__ import annotations

from typing import Any, Final, Literal

Decision = Literal["approved", "changes_requested", "rejected"]

DECISIONS: Final[tuple[Decision, ...]] = ("approved", "changes_requested", "rejected")
WITH_COUNTER_PATCH: Final[Decision] = "changes_requested"
"""The only one that a counter-patch goes with."""

ANSWER_LIMIT_BYTES: Final = 1_000_000
TEXT_LIMIT_BYTES: Final = 64_000
"""Of the reason and of each comment; a counter-patch has the whole answer's limit."""

COMMENT_LIMIT: Final = 200


def _closed(properties: dict[str, Any]) -> dict[str, Any]:
    """An object with exactly these properties, as the strictest of the providers wants it declared."""
    return {"type": "object", "properties": properties, "required": [*properties], "additionalProperties": False}


_COMMENT: dict[str, Any] = _closed(
    {
        "file": {"type": "string", "description": "The file's path from the root of the repository."},
        "line": {
            "type": ["integer", "null"],
            "description": "The line, from 1, as the change leaves the file; null for the file as a whole.",
        },
        "body": {"type": "string", "description": "What is wrong, what follows from it, and what to do."},
    }
)

# What leads to the verdict stands before it: a model writes the fields in this order.
SCHEMA: Final[dict[str, Any]] = _closed(
    {
        # Its value stands in the prompt alone: a schema is an argument of some programs, which others can read.
        "nonce": {"type": "string", "description": "The nonce that the task tells you to name, exactly."},
        "digest": {
            "type": ["string", "null"],
            "description": "The digest that the task tells you to name, exactly; null if it says null.",
        },
        "summary": {
            "type": ["string", "null"],
            "description": "What you read and checked, in a sentence or two.",
        },
        "comments": {
            "type": "array",
            "description": f"Every finding that has a place, at most {COMMENT_LIMIT}; empty if there is none.",
            "items": _COMMENT,
        },
        "reason": {
            "type": "string",
            "description": "Why, so that the proposer can act on it; never empty unless the verdict is approved.",
        },
        "verdict": {"type": "string", "enum": [*DECISIONS]},
        "counter_patch": {
            "type": ["string", "null"],
            "description": "Only with changes_requested: the full replacement of what was proposed. Else null.",
        },
    }
)
"""Within what structured outputs of all providers support: no lengths, no ranges."""

FIELDS: Final[tuple[str, ...]] = tuple(SCHEMA["properties"])
COMMENT_FIELDS: Final[tuple[str, ...]] = tuple(_COMMENT["properties"])


EXAMPLE: Final[dict[str, Any]] = {
    "nonce": "the nonce of that task",
    "digest": "the digest of that change",
    "summary": "Read the change and the three callers of parse_amount; no test passes a comma.",
    "comments": [
        {
            "file": "src/amounts.py",
            "line": 42,
            "body": "parse_amount('1,50') raises ValueError here, which the import in orders.py no longer catches: "
            "one such line stops the whole import. Catch it there and count the line as refused.",
        }
    ],
    "reason": "An amount with a comma now stops the import of orders (see src/amounts.py:42). "
    "Handle it, and add a test that imports one.",
    "verdict": "changes_requested",
    "counter_patch": None,
}
"""For the prompt. Whoever only copies it names a nonce and a digest that are nobody's."""

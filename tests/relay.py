"""A sound workflow for tests to change: three roles, one after the other, with a way back for rework."""

from __future__ import annotations

from typing import Any

DELETED = object()


def relay(**changes: Any) -> dict[str, Any]:
    """A sound definition; `phases__test__role="x"` changes the value at that place, `DELETED` removes it."""
    table: dict[str, Any] = {
        "roles": ["planner", "builder", "tester"],
        "start": "plan",
        "phases": {
            "plan": {"role": "planner", "handoff": {"builder": "build"}},
            "build": {"role": "builder", "handoff": {"tester": "test"}},
            "test": {"role": "tester", "handoff": {"builder": "build"}, "complete": True},
        },
    }
    for place, value in changes.items():
        *path, last = place.split("__")
        inner = table
        for key in path:
            inner = inner[key]
        if value is DELETED:
            del inner[last]
        else:
            inner[last] = value
    return table

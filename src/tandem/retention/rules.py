"""What reviews and cycles lose with their contents, in rows and events alike: a replay still gives the rows."""

from __future__ import annotations

from typing import Any, Final, cast

import orjson

from tandem.store.event import REMOVED, Event
from tandem.store.ledger import content_id

EMPTY: Final = content_id("")
"""The content that stands for one that was removed, where a row has to have one."""

_SAID: Final = "(removed)"

BLANK: Final[dict[str, dict[str, Any]]] = {
    "reviews": {"intent": _SAID, "verdict_reason": None},
    "rounds": {"intent": _SAID, "description_id": None, "diff_id": None, "base_files_id": None, "metadata": "{}"},
    "verdicts": {"reason": None},
    "messages": {"body": _SAID, "metadata": "{}", "file": None, "line": None},
    "counter_patches": {"content_id": EMPTY, "reason": None},
    "checks": {"reason": None, "log_id": None},
    "handoffs": {"content_id": EMPTY},
}
"""By table, what columns with contents have afterwards. What a gate, statistics or a replay needs is not among them."""

_PARTS: Final = {
    "review": "reviews",
    "round": "rounds",
    "verdict": "verdicts",
    "messages": "messages",
    "counter_patch": "counter_patches",
    "decision": "counter_patches",
    "checks": "checks",
    "handoff": "handoffs",
}
"""The parts of a delta that are such rows, or changed columns of them."""


def without_contents(event: Event) -> Event:
    """What is left of an event; the hash stays, for the chains it is in."""
    delta: dict[str, Any] = orjson.loads(event.delta)
    for part, table in _PARTS.items():
        if part in delta:
            delta[part] = _blanked(table, delta[part])
    return event._replace(data=REMOVED, delta=orjson.dumps(delta).decode())


def _blanked(table: str, value: Any) -> Any:
    if isinstance(value, list):
        return [_blanked(table, row) for row in cast("list[dict[str, Any]]", value)]
    return {name: BLANK[table].get(name, old) for name, old in value.items()}

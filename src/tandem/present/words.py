"""The words for codes and for spans of time, the same on pages, at a terminal and in exports."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_MINUTE, _HOUR, _DAY = 60, 3_600, 86_400

PRIORITIES = ("critical", "normal", "low")
"""In the order of the queue."""

WHY = {
    "review": "not taken yet",
    "approve": "asks for a person",
    "verdict": "your verdict is asked for",
    "answer": "a question to you",
    "decide": "a counter-patch to decide on",
    "revise": "changes are asked of you",
    "apply": "approved: apply and close it",
    "draft": "you wrote something and did not send it",
    "queued": "queued for the pool",
    "reviewing": "being reviewed",
    "proposer": "back with its proposer",
    "attention": "needs a person",
    "escalate": "three rounds without agreement",
    "revert": "rejected after it was committed",
    "owed": "a review is owed",
}
"""What the codes of an inbox's `why` mean, of reviews."""

_LEAST_LETTERS = 6


def reviewer_name(reviewer_id: str) -> str:
    """What people call a reviewer: of a pool's without what tells it from those of earlier starts."""
    name, _, start = reviewer_id.rpartition("-")
    _, mark, number = name.rpartition("-r")
    return name if mark and number.isdigit() and len(start) >= _LEAST_LETTERS else reviewer_id


def draft_name(draft: Mapping[str, Any]) -> str:
    """What a draft is called where it is not shown: `a.py, line 10 (blocker)`."""
    if draft["kind"] != "finding":
        return "a message" if draft["kind"] == "message" else "the reason of a verdict"
    first, last = draft["line"], draft["end_line"]
    lines = f", lines {first}-{last}" if last else f", line {first}" if first else ""
    return f"{draft['file'] or 'the whole change'}{lines} ({draft['severity'] or 'minor'})"


def duration(seconds: float | None) -> str:
    """A length of time in its two largest units at most."""
    if seconds is None:
        return "–"
    whole = int(seconds)
    if whole < _MINUTE:
        return f"{whole} s"
    if whole < _HOUR:
        return f"{whole // _MINUTE} min"
    large, unit, small, rest = (_HOUR, "h", _MINUTE, "min") if whole < _DAY else (_DAY, "d", _HOUR, "h")
    left = whole % large // small
    return f"{whole // large} {unit}" + (f" {left} {rest}" if left else "")

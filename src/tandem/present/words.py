"""The words for codes and for spans of time, the same on pages, at a terminal and in exports."""

from __future__ import annotations

_MINUTE, _HOUR, _DAY = 60, 3_600, 86_400

WHY = {
    "review": "not taken yet",
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
    "stuck": "nothing has happened for long",
    "paused": "the pool is paused",
    "rate_limited": "the pool's provider takes no more requests",
    "circuit_open": "too many reviewers ended at once",
    "overridden": "the gate was overridden",
    "lost": "the pool's supervisor was not heard of",
}
"""What the codes of an inbox's `why` mean."""


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

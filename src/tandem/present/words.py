"""The words for codes, the same on pages, at a terminal and in exports."""

from __future__ import annotations

WHY = {
    "review": "nobody has taken it",
    "verdict": "your verdict is asked for",
    "answer": "a question to you",
    "decide": "a counter-patch to decide on",
    "revise": "changes are asked of you",
    "apply": "approved: apply and close it",
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
    "lost": "the pool's supervisor was not heard of",
}
"""What the codes of an inbox's `why` mean."""

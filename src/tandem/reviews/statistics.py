"""Statistics as they happen: which counters an event moves. Pure, so that a replay can recount them."""

from __future__ import annotations

from tandem.core.clock import utc_day
from tandem.reviews.rules import Review
from tandem.store.event import ALL_TIME, CounterMove, EventKind

OPEN_PREFIX = "open:"
"""Metrics that say how many reviews are in a state now, rather than how often something happened."""


def moves(before: Review | None, after: Review, kind: str) -> list[CounterMove]:
    """What an event of `kind` counts, in lock order.

    Args:
        before: The review before the event; None when it was created by it.
        after: The review after the event; its `updated_at` is the event's time.
        kind: The event's kind.
    """
    day = utc_day(after.updated_at)
    found: list[CounterMove] = []
    metric = _metric(before, after, kind)
    if metric:
        name, reviewer, total = metric
        found += [
            CounterMove(after.project, bucket, after.category, reviewer, name, 1, total) for bucket in (ALL_TIME, day)
        ]
    was = before.state if before else None
    if was != after.state:
        found.append(CounterMove(after.project, ALL_TIME, after.category, "", OPEN_PREFIX + after.state, 1))
        if was:
            found.append(CounterMove(after.project, ALL_TIME, after.category, "", OPEN_PREFIX + was, -1))
    return sorted(found)


def _metric(  # noqa: PLR0911 one line a kind reads best
    before: Review | None, after: Review, kind: str
) -> tuple[str, str, int] | None:
    """The metric that an event counts for, the reviewer it is about, and microseconds for its mean."""
    match kind:
        case EventKind.REVIEW_CREATED:
            return "submitted", "", 0
        case EventKind.REVIEW_REVISED | EventKind.COUNTER_PATCH_ACCEPTED:
            return "revised", "", 0
        case EventKind.REVIEW_CLAIMED:
            first = before is not None and before.first_claimed_at is None
            waited = after.updated_at - after.created_at if first else 0
            return ("first_claimed" if first else "claimed"), after.reviewer_id or "", waited
        case EventKind.VERDICT_SUBMITTED:
            since = before.claimed_at if before and before.claimed_at else after.updated_at
            return after.verdict or "", after.verdict_by or "", after.updated_at - since
        case EventKind.VERDICT_COMMENT:
            return "comment", after.reviewer_id or "", 0
        case EventKind.REVIEW_CLOSED:
            return f"closed:{after.outcome}", "", 0
        case _:
            return None

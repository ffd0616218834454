"""Taking the contents from reviews that were closed long ago."""

from __future__ import annotations

import asyncio
from typing import Final

from tandem.core.clock import MICROSECONDS
from tandem.retention import queries
from tandem.retention.rules import BLANK, EMPTY, without_contents
from tandem.reviews import queries as reviews
from tandem.reviews.rules import State
from tandem.reviews.writing import change_review
from tandem.store import events, log
from tandem.store.base import Unit
from tandem.store.context import Services
from tandem.store.event import EventKind
from tandem.store.ledger import keep_content

AT_ONCE: Final = 20
"""Reviews that one sweep looks at."""
_SECONDS_A_DAY: Final = 86_400
_EVENT_LIMIT: Final = 10_000
"""Events that a review may have; one with more keeps its contents, as its unit would hold up others."""


async def remove_contents(services: Services, after: int) -> int:
    """Take the contents from the next few reviews that are closed for longer than `retention_days`.

    Args:
        services: What the services share.
        after: What the last call answered; 0 at first.

    Returns:
        Where the next call goes on.
    """
    kept_us = round(services.policy.retention_days * _SECONDS_A_DAY * MICROSECONDS)
    if not kept_us:
        return 0
    now = services.clock.now_us()
    found = await services.store.read(lambda unit: queries.list_closed(unit, after, AT_ONCE))
    for review in found:
        if review.updated_at > now - kept_us:
            # What follows is younger still.
            return 0
        removed = await services.store.write(lambda unit, one=review: _remove(unit, one, now))
        if removed:
            services.waits.expire(removed)
            # Others' writes first: nothing is urgent here.
            await asyncio.sleep(0)
        after = review.event_seq
    return after if len(found) == AT_ONCE else 0


def _remove(unit: Unit, found: queries.ClosedReview, now_us: int) -> int:
    """Take one review's contents; the number of the newest event that lost its own, 0 if none did."""
    before = reviews.get(unit, found.id, lock=True)
    if (before.state, before.event_seq, before.removed_at) != (State.CLOSED, found.event_seq, None):
        return 0
    history = events.list_after(unit, 0, _EVENT_LIMIT + 1, subject=found.id)
    # Of events from before hashes were keyed, a checkpoint vouches for every word.
    if len(history) > _EVENT_LIMIT or history[0].seq < events.read_head(unit).keyed_from:
        return 0
    named = queries.list_contents(unit, found.id)
    left = [without_contents(event) for event in history]
    for event in left:
        queries.blank_event(unit, event)
    keep_content(unit, "")
    queries.blank_rows(unit, found.id)
    change_review(
        unit,
        before,
        before._replace(**BLANK["reviews"], updated_at=now_us, removed_at=now_us, removed_seq=before.event_seq),
        actor="broker",
        kind=EventKind.CONTENTS_REMOVED,
        data={"events": len(left), "last": before.event_seq, "chain": log.content_chain(left)},
    )
    for name in named:
        if name != EMPTY:
            queries.delete_content(unit, name)
    return before.event_seq

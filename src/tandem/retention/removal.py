"""Taking the contents from reviews that were closed, and from cycles that were archived, long ago."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Final, NamedTuple

from tandem.core.clock import MICROSECONDS
from tandem.cycles import queries as cycles
from tandem.cycles.rules import Cycle
from tandem.retention import queries
from tandem.retention.queries import BLANK, Closed, Kind, without_contents
from tandem.reviews import queries as reviews
from tandem.reviews.context import Services
from tandem.reviews.reading import close_in
from tandem.reviews.rules import Review, State
from tandem.reviews.writing import change_review
from tandem.store import events, log
from tandem.store.base import Unit
from tandem.store.event import Event, EventKind
from tandem.store.ledger import keep_content

AT_ONCE: Final = 20
"""Reviews, and cycles, that one sweep looks at."""
_SECONDS_A_DAY: Final = 86_400
_EVENT_LIMIT: Final = 10_000
"""Events that a review or a cycle may have; one with more keeps its contents, as its unit would hold up others."""


class Place(NamedTuple):
    """Where a sweep goes on: after which event's number."""

    reviews: int = 0
    cycles: int = 0


async def remove_contents(services: Services, after: Place) -> Place:
    """Take the contents from the next few that are closed for longer than `retention_days`.

    Args:
        services: What the services share.
        after: What the last call answered.

    Returns:
        Where the next call goes on.
    """
    kept_us = round(services.policy.retention_days * _SECONDS_A_DAY * MICROSECONDS)
    if not kept_us:
        return Place()
    return Place(
        await _sweep(services, after.reviews, kept_us, queries.REVIEWS, _of_review),
        await _sweep(services, after.cycles, kept_us, queries.CYCLES, partial(_of_cycle, services)),
    )


async def _sweep(
    services: Services,
    after: int,
    kept_us: int,
    kind: Kind,
    remove: Callable[[Unit, Closed, int], int],
) -> int:
    now = services.clock.now_us()
    found = await services.store.read(lambda unit: queries.list_closed(unit, kind, after, AT_ONCE))
    for one in found:
        if one.updated_at > now - kept_us:
            # What follows is younger still.
            return 0
        removed = await services.store.write(lambda unit, one=one: remove(unit, one, now))
        if removed:
            services.waits.expire(removed)
            # Others' writes first: nothing is urgent here.
            await asyncio.sleep(0)
        after = one.event_seq
    return after if len(found) == AT_ONCE else 0


def _of_review(unit: Unit, found: Closed, now_us: int) -> int:
    """Take one review's contents; the number of the newest event that lost its own, 0 if none did."""
    before = reviews.get(unit, found.id, lock=True)
    left = _left(unit, found, before) if before.state == State.CLOSED else []
    if not left:
        return 0
    after = before._replace(**BLANK["reviews"], updated_at=now_us, removed_at=now_us, removed_seq=before.event_seq)
    return _take(unit, queries.REVIEWS, left, before, partial(change_review, unit, before, after))


def _of_cycle(services: Services, unit: Unit, found: Closed, now_us: int) -> int:
    """Take one cycle's payloads; the number of the newest event that lost its contents, 0 if none did.

    The reviews of its hand-offs are never closed: they end here, and lose the same texts when it is their turn.
    """
    before = cycles.find(unit, found.id, lock=True)
    left = [] if before is None else _left(unit, found, before)
    if before is None or not left:
        return 0
    for review_id in sorted({one.review_id for one in cycles.list_handoffs(unit, found.id) if one.review_id}):
        close_in(unit, services, reviews.get(unit, review_id, lock=True), "broker", "Its cycle was archived long ago.")
    after = before._replace(updated_at=now_us, removed_at=now_us, removed_seq=before.event_seq)
    return _take(unit, queries.CYCLES, left, before, partial(cycles.change, unit, before, after))


def _take(unit: Unit, kind: Kind, left: list[Event], before: Review | Cycle, change: Callable[..., object]) -> int:
    """Take the contents from the rows of one, and write what became of it; the number of its newest event before."""
    named = queries.blank_rows(unit, kind, before.id)
    facts = {"events": len(left), "last": left[-1].seq, "chain": log.content_chain(left)}
    change(actor="broker", kind=EventKind.CONTENTS_REMOVED, data=facts)
    queries.delete_contents(unit, named)
    return before.event_seq


def _left(unit: Unit, found: Closed, before: Review | Cycle) -> list[Event]:
    """Take the contents from the events of one; returns the emptied events, none if they keep theirs."""
    if (before.event_seq, before.removed_at) != (found.event_seq, None):
        return []
    history = events.list_after(unit, 0, _EVENT_LIMIT + 1, subject=before.subject)
    # Of events with hashes of a lost key, a checkpoint vouches for every word.
    if len(history) > _EVENT_LIMIT or history[0].seq < events.read_head(unit).keyed_from:
        return []
    left = [without_contents(event) for event in history]
    for event in left:
        queries.blank_event(unit, event)
    keep_content(unit, "")
    return left

"""From records to the answers that show them."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from inspect import signature
from operator import attrgetter
from typing import Any, TypeVar

import orjson

from tandem.clock import isoformat
from tandem.domain.answers import CounterPatchView, EventView, Proposal, ReviewRow, ReviewStatus
from tandem.domain.events import Event
from tandem.domain.patches import AffectedFile, CounterPatch, Round
from tandem.domain.reviews import PRIORITIES, Review, next_action
from tandem.services.waits import WaitHub
from tandem.store import discussion, reviews
from tandem.store.base import Unit

T = TypeVar("T")
Row = TypeVar("Row", bound=ReviewRow)


def time_or_none(instant_us: int | None) -> str | None:
    """ISO time, or null."""
    return None if instant_us is None else isoformat(instant_us)


def shown(kind: type[T], record: Any, /, **stated: Any) -> T:
    """An answer from a record: what both call the same, times as ISO 8601, and what is stated of the rest.

    Args:
        kind: The answer's type.
        record: The record. Its times are microseconds, and their names end in `_at`.
        stated: Fields that the record does not have, or has in another form.
    """
    plain, values, times = _common(kind, record.__class__, tuple(stated))
    stated.update(zip(plain, values(record), strict=False))
    for name in times:
        stated[name] = time_or_none(getattr(record, name))
    return kind(**stated)


@cache
def _common(
    kind: type[Any], record: type[Any], stated: tuple[str, ...]
) -> tuple[list[str], Callable[[Any], tuple[Any, ...]], list[str]]:
    """Fields that an answer takes from a record as they are, what reads them, and the times among them."""
    common = [name for name in signature(kind).parameters if name not in stated and hasattr(record, name)]
    plain = [name for name in common if not name.endswith("_at")]
    # With two more, as of a single attribute it would read the value instead of a tuple.
    return plain, attrgetter(*plain, "__class__", "__class__"), [name for name in common if name.endswith("_at")]


def files_from(text: str) -> tuple[AffectedFile, ...]:
    """Affected files from their stored form."""
    return tuple(AffectedFile(**item) for item in orjson.loads(text))


def status(review: Review, cursor: str, *, changed: bool) -> ReviewStatus:
    """Where a review stands."""
    return shown(
        ReviewStatus,
        review,
        review_id=review.id,
        status=review.state,
        reviewer_id=review.reviewer_id or review.verdict_by,
        next_action=next_action(review),
        changed=changed,
        cursor=cursor,
    )


def row(review: Review) -> ReviewRow:
    """One line of a list."""
    return row_as(ReviewRow, review)


def row_as(kind: type[Row], review: Review, **more: Any) -> Row:
    """One line of a list that says more of each review."""
    return shown(
        kind,
        review,
        review_id=review.id,
        status=review.state,
        priority=PRIORITIES[review.priority],
        reviewer_id=review.reviewer_id or review.verdict_by,
        **more,
    )


def event(record: Event, hub: WaitHub) -> EventView:
    """One event of the log, without the rows that only a replay reads."""
    number, data = hub.number(record.seq), orjson.loads(record.data)
    return shown(EventView, record, seq=number, at=isoformat(record.at), data=data)


def counter_patch(unit: Unit, record: CounterPatch) -> CounterPatchView:
    """A counter-patch with its content."""
    body = reviews.find_content(unit, record.content_id)
    return shown(
        CounterPatchView,
        record,
        diff=None if record.is_text else body,
        description=body if record.is_text else None,
        affected_files=files_from(record.affected_files),
    )


def proposal(unit: Unit, review: Review, found: Round) -> Proposal:
    """A round's whole content, read in the unit."""
    pending = None
    if review.counter_patch_status == "pending" and review.counter_patch_id:
        pending = discussion.find_counter_patch(unit, review.id, review.counter_patch_id)
    return shown(
        Proposal,
        found,
        project=review.project,
        status=review.state,
        current_round=review.round,
        category=review.category,
        priority=PRIORITIES[review.priority],
        proposer_id=review.proposer_id,
        description=reviews.find_content(unit, found.description_id),
        diff=reviews.find_content(unit, found.diff_id),
        metadata=orjson.loads(found.metadata),
        validated=bool(found.validated),
        affected_files=files_from(found.affected_files),
        parent_id=review.parent_id,
        child_ids=reviews.list_children(unit, review.id),
        counter_patch=counter_patch(unit, pending) if pending else None,
        submitter=reviews.submitter(unit, found),
    )

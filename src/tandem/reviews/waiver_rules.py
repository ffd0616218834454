"""Waivers: requirements of the policy that a person let a change pass without, each a debt until it is reviewed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

import orjson

from tandem.core.clock import DAY_US, instant_us, isoformat
from tandem.errors import InvalidInput
from tandem.reviews.rules import Review
from tandem.rulings.policy import in_words

MOST_DAYS: Final = 90
"""A debt may stay open no longer."""


class Waiver(NamedTuple):
    """One requirement that was waived for a round's content; times are microseconds since the epoch, UTC.

    Attributes:
        need: The policy's word for it.
        by: Who waived it.
        reason: Why.
        waived_at: When.
        until: When the review after the fact is due.
        settled_by: Who reviewed it then; None while it is owed.
        settled_at: When.
        objection: Who looked at it and objects, and why; None if no one does.
    """

    need: str
    by: str
    reason: str
    waived_at: int
    until: int
    settled_by: str | None = None
    settled_at: int | None = None
    objection: str | None = None

    def words(self, now_us: int) -> str:
        """The debt as a sentence without its end."""
        due = isoformat(self.until)[: len("2026-12-01T09:30")].replace("T", " ")
        overdue = ", overdue" if self.until < now_us else ""
        objection = f"; {self.objection}" if self.objection else ""
        need = in_words(self.need)
        return f"{need} is owed until {due} UTC{overdue}: {self.by} waived it ({self.reason}){objection}"


def waived(review: Review) -> tuple[Waiver, ...]:
    """The waivers of a review's content."""
    return tuple(Waiver(*one) for one in orjson.loads(review.waived or "[]"))


def owed(review: Review) -> tuple[Waiver, ...]:
    """Those that are still owed: of content whose approval stands."""
    return tuple(one for one in waived(review) if one.settled_at is None and review.approved_round is not None)


def having(review: Review, waivers: Sequence[Waiver]) -> Review:
    """The review with these waivers."""
    due = (one.until for one in waivers if one.settled_at is None)
    return review._replace(waived=orjson.dumps(list(map(tuple, waivers))).decode(), owed_until=min(due, default=None))


def with_changed(review: Review, changed: Waiver) -> Review:
    """The review with another record of a need's waiver; an objection to one of them asks for a person."""
    every = [changed if one.need == changed.need else one for one in waived(review)]
    return having(review, every)._replace(attention=objections(every) or None)


def objections(waivers: Iterable[Waiver]) -> str:
    """What those say who objected after the fact."""
    return "; ".join(one.objection for one in waivers if one.objection)


def due_us(text: str, now_us: int) -> int:
    """Microseconds since the epoch of an ISO 8601 time to come, UTC unless it says otherwise.

    Raises:
        InvalidInput: It is none, has been, or is too far away.
    """
    try:
        found = instant_us(text)
    except ValueError as error:
        raise InvalidInput("until must be an ISO 8601 time, such as 2026-12-01T09:30:00Z.", field="until") from error
    if not now_us < found <= now_us + MOST_DAYS * DAY_US:
        raise InvalidInput(f"until must be a time to come, at most {MOST_DAYS} days from now.", field="until")
    return found

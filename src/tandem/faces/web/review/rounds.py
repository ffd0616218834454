"""The rounds of a review: who made each, what was decided on it, and which two of them are compared."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tandem.faces.web.review.view import ReviewView

_MADE = {
    "review_created": "put up",
    "review_revised": "revised",
    "counter_patch_accepted": "counter-patch taken over",
}
MOST_SHOWN = 8
"""Rounds that have a link of their own; older ones are in a list that opens."""


@dataclass(frozen=True, slots=True)
class Round:
    """One round, for the selector.

    Attributes:
        number: From 1.
        how: How it came to be, in words.
        by: Who made it.
        at: When, ISO 8601.
        verdict: The last verdict on it; null if there was none.
    """

    number: int
    how: str
    by: str
    at: str | None
    verdict: str | None


@dataclass(frozen=True, slots=True)
class RoundSelector:
    """Which rounds there are and which are shown.

    Attributes:
        rounds: All, oldest first.
        before: The round before the shown one; null for the first.
        after: The round after it; null for the newest.
    """

    rounds: tuple[Round, ...]
    before: int | None
    after: int | None

    @property
    def older(self) -> tuple[Round, ...]:
        """Those that have no link of their own."""
        return self.rounds[:-MOST_SHOWN]

    @property
    def recent(self) -> tuple[Round, ...]:
        """Those that do."""
        return self.rounds[-MOST_SHOWN:]


def selector(view: ReviewView) -> RoundSelector:
    """The rounds of a review, as its events tell."""
    made: dict[int, Mapping[str, Any]] = {}
    verdicts: dict[int, str] = {}
    for event in view.timeline:
        number = event["data"].get("round")
        if not isinstance(number, int):
            continue
        if event["kind"] in _MADE:
            made[number] = event
        elif event["kind"] in ("verdict_submitted", "verdict_comment"):
            verdicts[number] = str(event["data"].get("verdict"))
    rounds = tuple(
        _round(number, made.get(number), verdicts.get(number)) for number in range(1, view.current_round + 1)
    )
    return RoundSelector(
        rounds=rounds,
        before=view.round - 1 if view.round > 1 else None,
        after=view.round + 1 if view.round < view.current_round else None,
    )


def _round(number: int, event: Mapping[str, Any] | None, verdict: str | None) -> Round:
    if event is None:
        return Round(number, "", "", None, verdict)
    return Round(number, _MADE[event["kind"]], event["actor"], event["at"], verdict)

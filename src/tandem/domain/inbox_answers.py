"""What the inbox, the search and the marks on files answer. Times are ISO 8601 in UTC."""

from __future__ import annotations

from dataclasses import dataclass

from tandem.domain.answers import ReviewRow
from tandem.domain.pool_answers import PoolView

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
    "circuit_open": "too many reviewers ended at once",
    "lost": "the pool's supervisor was not heard of",
}
"""What the codes of `InboxItem.why` mean, in words for people."""


@dataclass(frozen=True, slots=True)
class InboxItem:
    """One thing in an inbox.

    Attributes:
        kind: What it is: `review`, `cycle` (the review of a cycle's hand-off) or `pool`.
        why: Why it is there, as a code.
        since: Since when.
        review: The review; null for a pool.
        pool: The pool; null for a review.
        who: Whom it waits for, where that is known.
        detail: What there is to say beyond the code.
    """

    kind: str
    why: str
    since: str
    review: ReviewRow | None
    pool: PoolView | None
    who: str | None
    detail: str | None


@dataclass(frozen=True, slots=True)
class InboxCounts:
    """How many there are of each kind, at most one more than the limit that was asked for."""

    your_turn: int
    waiting: int
    problems: int


@dataclass(frozen=True, slots=True)
class Inbox:
    """What waits for a person, what waits for others, and what is wrong.

    In each list first what the person put up, holds or decided, then the rest, by priority and age.
    """

    person: str
    your_turn: tuple[InboxItem, ...]
    waiting: tuple[InboxItem, ...]
    problems: tuple[InboxItem, ...]
    counts: InboxCounts
    cursor: str


@dataclass(frozen=True, slots=True)
class FoundReview(ReviewRow):
    """A review that was found.

    Attributes:
        files: How many files its current round touches.
    """

    files: int


@dataclass(frozen=True, slots=True)
class SearchPage:
    """Reviews that were found.

    Attributes:
        searched_back_to: Where a search stopped that has not looked at all; null for one that has, or whose page is
            full.
    """

    reviews: tuple[FoundReview, ...]
    next_page: str | None
    searched_back_to: str | None
    cursor: str


@dataclass(frozen=True, slots=True)
class ViewedFiles:
    """The files of a round that a person has marked as viewed, in path order."""

    review_id: str
    round: int
    person: str
    paths: tuple[str, ...]

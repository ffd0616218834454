"""One review as it is read from the broker: where it stands, a round's content, what was said."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from tandem.client import TandemClient
from tandem.domain.answers import DiscussionEntry, Proposal, ReviewStatus

_HELD = frozenset({"claimed", "in_review"})
_PAGE = 200
_PAGES = 5
"""A longer discussion than this is shown in its beginning; the rest is for `tandem review discussion`."""


@dataclass(frozen=True, slots=True)
class Reading:
    """A review as it was read.

    Attributes:
        status: Where it stands now.
        proposal: The round that is shown.
        entries: The discussion of all rounds, oldest first.
        is_whole: Whether that is all of the discussion.
    """

    status: ReviewStatus
    proposal: Proposal
    entries: tuple[DiscussionEntry, ...]
    is_whole: bool

    @property
    def is_current(self) -> bool:
        """Whether the round that is shown is the one that a verdict is for."""
        return self.proposal.round == self.status.round

    @property
    def is_held(self) -> bool:
        """Whether somebody holds a claim."""
        return self.status.status in _HELD

    def is_held_by(self, person: str) -> bool:
        """Whether it is this person who does."""
        return self.is_held and self.status.reviewer_id == person

    def side_of(self, person: str) -> str:
        """The side for which a person's message is."""
        is_proposer = person in {self.proposal.proposer_id, self.proposal.author}
        is_others = self.status.status != "pending" and self.status.reviewer_id != person
        return "proposer" if is_proposer or is_others else "reviewer"


async def read(client: TandemClient, review_id: str, shown: int | None, since: int | None) -> Reading:
    """Ask the broker for a review.

    Args:
        client: The broker's client.
        review_id: The review.
        shown: The round; null for the current one.
        since: The earlier round to compare with; null for the whole round.

    Raises:
        TandemError: It refuses, or none answers.
    """
    status, proposal, (entries, is_whole) = await asyncio.gather(
        client.get_review_status(review_id),
        client.get_proposal(review_id, round=shown, since_round=since),
        _discussion(client, review_id),
    )
    return Reading(status, proposal, entries, is_whole)


async def _discussion(client: TandemClient, review_id: str) -> tuple[tuple[DiscussionEntry, ...], bool]:
    entries: list[DiscussionEntry] = []
    page: str | None = None
    for _ in range(_PAGES):
        found = await client.get_discussion(review_id, limit=_PAGE, page=page)
        entries += found.entries
        page = found.next_page
        if page is None:
            break
    return tuple(entries), page is None

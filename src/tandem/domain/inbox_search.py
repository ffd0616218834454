"""Whether a review is what somebody looks for. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tandem.domain.patches import AffectedFile
from tandem.domain.reviews import PRIORITIES, Priority, Review, Side


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is looked for; null for anything.

    Attributes:
        proposer: Who put it up.
        reviewer: Who holds it, or decided it last.
        text: Words that all have to occur in what a review says of itself.
        path: Part of the path of a file that its current round touches.
    """

    project: str | None = None
    status: str | None = None
    category: str | None = None
    priority: Priority | None = None
    turn: Side | None = None
    attention: bool | None = None
    proposer: str | None = None
    reviewer: str | None = None
    text: str | None = None
    path: str | None = None

    @property
    def words(self) -> tuple[str, ...]:
        """The words to look for, whatever their case."""
        return tuple(dict.fromkeys((self.text or "").casefold().split()))

    def has_row(self, review: Review) -> bool:
        """Whether a review's own columns are as wanted."""
        exact = (
            (self.project, review.project),
            (self.status, review.state),
            (self.category, review.category),
            (self.priority, PRIORITIES[review.priority]),
            (self.turn, review.turn),
            (self.attention, review.attention is not None),
            (self.proposer, review.proposer_id),
            (self.reviewer, review.reviewer_id or review.verdict_by),
        )
        return all(wanted is None or wanted == actual for wanted, actual in exact)

    def has_path(self, files: Sequence[AffectedFile]) -> bool:
        """Whether one of the files has the path that is looked for, before or after the change."""
        if self.path is None:
            return True
        part = self.path.casefold()
        return any(part in file.path.casefold() or part in (file.old_path or "").casefold() for file in files)


def missing_words(words: Sequence[str], review: Review) -> list[str]:
    """The words that a review's own columns do not have."""
    names = (review.id, review.parent_id, review.proposer_id, review.reviewer_id or review.verdict_by)
    work = (review.intent, review.phase, review.plan, review.task)
    # A line break is in no word, so that none is found across two columns.
    whole = "\n".join(part for part in (*names, *work) if part).casefold()
    return [word for word in words if word not in whole]

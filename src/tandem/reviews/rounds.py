"""The records of a review's rounds and counter-patches."""

from __future__ import annotations

from dataclasses import dataclass

import orjson

from tandem.contract.work import Work
from tandem.git.changes import Change


@dataclass(frozen=True, slots=True, kw_only=True)
class Round(Work):
    """One immutable round of a review, under the names of its table's columns."""

    review_id: str
    """The review."""
    round: int
    """Its number, from 1."""
    origin: str
    """`proposal`, `revision` or `counter_patch`."""
    author: str
    """Who wrote the content."""
    intent: str
    """What the change is for."""
    agent_type: str
    """The proposing agent."""
    agent_role: str
    """What the agent was doing."""
    description_id: str | None
    """The content with the description, or with the whole text of `path`."""
    diff_id: str | None
    """The content with the diff; None for a text."""
    base: str | None
    """What the diff is against, as the proposer named it."""
    base_commit: str | None
    """The commit that the diff was validated against."""
    path: str | None
    """The file whose whole content was proposed; None for another change."""
    metadata: str
    """Further facts for readers, as JSON."""
    digest: str | None
    """What an approval binds to; None if nothing was validated."""
    validated: int
    """1 if the broker computed the digest from a repository."""
    affected_files: str
    """The files that it touches, as JSON."""
    changes: str
    """Its raw changes by path and blob, as JSON."""
    created_at: int
    """Microseconds since the epoch, UTC."""
    accepted_by: str | None = None
    """Who accepted the counter-patch that it was; None where that may have been its author."""
    base_files_id: str | None = None
    """The content with the touched files as the base has them, as JSON, where the proposer sent them along."""
    notes: str | None = None
    """What git did that the diff as it was sent did not say, as JSON; None for a diff that is as it was sent."""
    ground: str | None = None
    """What it stood on when it was validated, as `grounds` writes it; None where there was no repository."""

    def entries(self) -> tuple[Change, ...]:
        """Its raw changes. There may be 80,000: call it in a thread."""
        return tuple(Change(**change) for change in orjson.loads(self.changes))


@dataclass(frozen=True, slots=True)
class CounterPatch:
    """A reviewer's replacement for a round's content. Field order is the column order of its table."""

    id: str
    """`cp_…`."""
    review_id: str
    """The review."""
    seq: int
    """The number of the event that brought it."""
    round: int
    """The round that it would replace."""
    author: str
    """The reviewer who wrote it."""
    content_id: str
    """The content with its diff or text."""
    is_text: int
    """1 if it replaces a text."""
    digest: str | None
    """What an approval would bind to; None if it was not validated."""
    affected_files: str
    """The files that it touches, as JSON."""
    status: str
    """`pending` until it is `accepted`, `rejected` or `superseded`."""
    reason: str | None
    """Why it was decided so, in words."""
    created_at: int
    """Microseconds since the epoch, UTC."""
    decided_at: int | None
    """Likewise; None while it is pending."""
    sent_by: str | None = None
    """What its author's client calls itself; None if it did not say."""

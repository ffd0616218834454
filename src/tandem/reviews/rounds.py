"""The records of a review's rounds and counter-patches."""

from __future__ import annotations

from dataclasses import dataclass

import orjson

from tandem.contract.work import Work
from tandem.git.changes import Change


@dataclass(frozen=True, slots=True, kw_only=True)
class Round(Work):
    """One immutable round of a review, under the names of its table's columns.

    `origin` is proposal, revision or counter_patch; `affected_files`, `changes` and `metadata` are JSON text;
    `description_id` and `diff_id` name the texts in the content store. `accepted_by` is who accepted a counter-patch,
    and made it the round; null where that may have been its author. `base_files_id` names the touched files as the base
    has them, where the proposer sent them along; JSON text. `notes` says what git did that the diff as it was sent did
    not say, as JSON; None where the diff was not drawn by the broker, but is as it was sent. `ground` is what it stood
    on when it was validated, as `grounds` writes it; None where there was no repository.
    """

    review_id: str
    round: int
    origin: str
    author: str
    intent: str
    agent_type: str
    agent_role: str
    description_id: str | None
    diff_id: str | None
    base: str | None
    base_commit: str | None
    path: str | None
    metadata: str
    digest: str | None
    validated: int
    affected_files: str
    changes: str
    created_at: int
    accepted_by: str | None = None
    base_files_id: str | None = None
    notes: str | None = None
    ground: str | None = None

    def entries(self) -> tuple[Change, ...]:
        """Its raw changes. There may be 80,000: call it in a thread."""
        return tuple(Change(**change) for change in orjson.loads(self.changes))


@dataclass(frozen=True, slots=True)
class CounterPatch:
    """A reviewer's replacement for a round's content. Field order is the column order of its table.

    `status` is pending until it is accepted, rejected or superseded. `sent_by` is what its author's client calls
    itself; null if it did not say.
    """

    id: str
    review_id: str
    seq: int
    round: int
    author: str
    content_id: str
    is_text: int
    digest: str | None
    affected_files: str
    status: str
    reason: str | None
    created_at: int
    decided_at: int | None
    sent_by: str | None = None

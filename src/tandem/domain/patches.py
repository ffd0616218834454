"""What a round contains once it is understood: the files it touches and the bytes it fixes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Literal

from tandem.domain.gates import Change

FileOperation = Literal["added", "modified", "deleted", "renamed", "mode"]


@dataclass(frozen=True, slots=True)
class AffectedFile:
    """One file that a change touches, as a reviewer wants to see it listed."""

    # The schema of answers has the words below the fields, without pydantic in here.
    __pydantic_config__: ClassVar = {"use_attribute_docstrings": True}

    path: str
    """The file after the change; of a deleted one, before it."""
    operation: FileOperation
    """What happens to it; `mode` if nothing but the file mode changes."""
    added: int | None = None
    """Lines added; null for a binary file."""
    removed: int | None = None
    """Lines removed; null for a binary file."""
    old_path: str | None = None
    """Where a renamed file came from."""


@dataclass(frozen=True, slots=True)
class ValidatedContent:
    """The content of a round as the broker has validated it.

    Attributes:
        content: The diff or text to keep (a lost final newline is put back).
        base_commit: The tree-ish the diff was validated against, resolved to an object id.
        digest: What an approval binds to; null when nothing was validated.
        validated: Whether the digest was computed from a real repository.
        affected_files: The files, in path order.
        changes: The raw index entries behind the digest, in path order; what a gate compares.
        registration: Which registration of the project's folder it was validated in; null if in none.
    """

    content: str
    base_commit: str | None = None
    digest: str | None = None
    validated: bool = False
    affected_files: tuple[AffectedFile, ...] = field(default=())
    changes: tuple[Change, ...] = field(default=())
    registration: int | None = None


@dataclass(frozen=True, slots=True)
class Round:
    """One immutable round of a review. Field order is the column order of its table.

    `origin` is proposal, revision or counter_patch; `affected_files`, `changes` and `metadata` are JSON text;
    `description_id` and `diff_id` name the texts in the content store. `accepted_by` is who accepted a counter-patch,
    and made it the round; null where that may have been its author.
    """

    review_id: str
    round: int
    origin: str
    author: str
    intent: str
    agent_type: str
    agent_role: str
    phase: str | None
    plan: str | None
    task: str | None
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

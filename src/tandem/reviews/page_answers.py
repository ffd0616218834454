"""What the operations on files of rounds, drafts, logs and settings answer. Times are ISO 8601 in UTC."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from tandem.contract.fields import Cursor, NextPage, ReviewId, RoundNumber
from tandem.git.changes import AffectedFile
from tandem.present.shape import Shown
from tandem.reviews.answers import ReviewRow


@dataclass(frozen=True, slots=True)
class RoundFile:
    """Lines of one file as it is before or after a round's change.

    Joined by line feeds, with one more at the end if it ends with one, all its lines are exactly its content.
    """

    review_id: ReviewId
    round: Annotated[int, Field(description="The round.")]
    path: Annotated[str, Field(description="The file.")]
    side: Annotated[str, Field(description="`before` or `after` the round's change, or at the `tip`.")]
    exists: Annotated[bool, Field(description="Whether the file is there on that side.")]
    binary: Annotated[bool, Field(description="Whether it is no text in UTF-8; then there are no lines.")]
    lines: Annotated[
        tuple[str, ...],
        Field(description="The lines, without the line feeds that end them; a carriage return stays."),
    ]
    first_line: Annotated[int, Field(description="The number of the first of the lines, from 1.")]
    total_lines: Annotated[int, Field(description="How many lines the file has.")]
    ends_with_newline: Annotated[bool, Field(description="Whether its last line is ended.")]
    size_bytes: Annotated[int, Field(description="Its size; 0 where it is not there.")]
    sha256: Annotated[
        str | None, Field(description="The SHA-256 of its content in hexadecimal; null where it is not there.")
    ]
    base64: Annotated[
        str | None,
        Field(description="Its content in base64; null if it was not asked for, is not there, or is too large."),
    ]


@dataclass(frozen=True, slots=True)
class CounterPatchCheck:
    """What a verdict with this counter-patch would be told, without giving one."""

    review_id: ReviewId
    round: Annotated[int, Field(description="The round that it would replace.")]
    affected_files: Annotated[
        tuple[AffectedFile, ...], Field(description="The files that it touches; none if it does not apply.")
    ]
    digest: Annotated[str | None, Field(description="What an approval would be bound to; null if not validated.")]
    applies: Annotated[bool, Field(description="Whether `submit_verdict` would take it.")]
    problem: Annotated[str | None, Field(description="Why it would not.")]


@dataclass(frozen=True, slots=True)
class CounterPatchDraft:
    """A counter-patch made from edits, and what a verdict with it would be told."""

    review_id: ReviewId
    round: Annotated[int, Field(description="The round that it replaces.")]
    counter_patch: Annotated[
        str,
        Field(
            description=(
                "What to send with `submit_verdict`: the whole diff or text; empty if nothing is left of the change."
            )
        ),
    ]
    affected_files: Annotated[
        tuple[AffectedFile, ...], Field(description="The files that it touches; none if it does not apply.")
    ]
    digest: Annotated[str | None, Field(description="What an approval would be bound to; null if not validated.")]
    applies: Annotated[bool, Field(description="Whether `submit_verdict` would take it.")]
    problem: Annotated[str | None, Field(description="Why it would not.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundReview(ReviewRow):
    """A review that was found."""

    files: Annotated[int, Field(description="How many files the current round touches.")]


@dataclass(frozen=True, slots=True)
class SearchPage:
    """Reviews that were found."""

    reviews: Annotated[tuple[FoundReview, ...], Field(description="The reviews that were found.")]
    next_page: NextPage | None
    searched_back_to: Annotated[
        str | None,
        Field(
            description=(
                "The time at which the search stopped because it had looked through enough; null if the "
                "page is full, or if it has looked through everything."
            )
        ),
        Shown("time"),
    ]
    cursor: Cursor


@dataclass(frozen=True, slots=True)
class ViewedFiles:
    """The files of a round that a person has marked as viewed, in path order."""

    review_id: ReviewId
    round: RoundNumber
    person: Annotated[str, Field(description="Whose it is.")]
    paths: Annotated[
        tuple[str, ...],
        Field(description="The files that are marked, in order."),
        Shown(empty="No file of this round is marked as viewed."),
    ]

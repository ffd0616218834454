"""Files of rounds, drafts of counter-patches, searches and marks, for the pages and the terminal: none is listed.

Times are ISO 8601 in UTC.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Final, Literal

from pydantic import Field

from tandem.contract import answer
from tandem.contract.answer import Cursor, NextPage
from tandem.contract.operation import ALL, OPERATOR, READ, REPEATABLE_WRITE, Unlisted
from tandem.contract.request import (
    AttentionFilter,
    FilePath,
    FullText,
    Name,
    PageLimit,
    PageToken,
    Person,
    ProjectRequest,
    Refusals,
    Request,
    ReviewId,
    RoundNumber,
    StateFilter,
    Text,
    WriteRequest,
)
from tandem.errors import NotFound, StaleRound
from tandem.git.changes import AffectedFile
from tandem.present.shape import Shown
from tandem.reviews.answers import ReviewRow
from tandem.reviews.requests import CategoryFilter, PriorityFilter, TurnFilter

_LARGEST_LINE = 2**31 - 1
_MOST_EDITS = 500

LineNumber = Annotated[int, Field(ge=1, le=_LARGEST_LINE)]
AnyRound = Annotated[RoundNumber | None, Field(description="Default: the current round.")]
CurrentRound = Annotated[RoundNumber | None, Field(description="The intended round; refused if there is a newer one.")]


class GetRoundFile(ProjectRequest):
    """Lines of a file before or after a round's change, at most 2,000 per call.

    A file that the change leaves alone is that of what the round stands on.
    """

    refusals: ClassVar[Refusals] = (NotFound,)

    review_id: ReviewId
    path: Annotated[FilePath, Field(description="The file, from the repository's root.")]
    round: AnyRound = None
    side: Annotated[
        Literal["after", "before", "tip"],
        Field(
            description=(
                "After the round's change, before it, or as the base branch has it by now, with or without the change; "
                "where the project has none, as the base has it."
            )
        ),
    ] = "after"
    first_line: Annotated[LineNumber, Field(description="The first line to answer, from 1.")] = 1
    last_line: Annotated[LineNumber | None, Field(description="Default: as many as there are.")] = None
    as_base64: Annotated[bool, Field(description="With the whole content in base64, if it has at most 4 MB.")] = False


class FileEdit(Request):
    """The new content of one file."""

    path: Annotated[FilePath, Field(description="The file: one that the round leaves, or a new one.")]
    content: Annotated[Text | None, Field(description="Its whole text; null deletes the file.")]


class DraftCounterPatch(ProjectRequest):
    """Create a counter-patch from edits to a round's files, or from a text; nothing is submitted or stored."""

    refusals: ClassVar[Refusals] = (NotFound, StaleRound)

    review_id: ReviewId
    round: CurrentRound = None
    edits: Annotated[
        list[FileEdit] | None,
        Field(min_length=1, max_length=_MOST_EDITS, description="For a diff: the files to change."),
    ] = None
    text: Annotated[FullText | None, Field(description="For a text: all of it.")] = None


class CheckCounterPatch(ProjectRequest):
    """Whether submit_verdict would accept a counter-patch; nothing is submitted or stored."""

    refusals: ClassVar[Refusals] = (NotFound, StaleRound)

    review_id: ReviewId
    counter_patch: Annotated[Text, Field(description="Full replacement of the round's diff or text.")]
    round: CurrentRound = None


_TEXT_LENGTH = 500

SearchText = Annotated[FullText, Field(max_length=_TEXT_LENGTH)]


class SearchReviews(ProjectRequest):
    """Reviews by text and path; searches at most 2,000 per call, and continues with next_page."""

    refusals: ClassVar[Refusals] = ()

    status: StateFilter = None
    category: CategoryFilter = None
    priority: PriorityFilter = None
    turn: TurnFilter = None
    attention: AttentionFilter = None
    proposer: Annotated[Name | None, Field(description="Only reviews that this proposer created.")] = None
    reviewer: Annotated[Name | None, Field(description="Only reviews that they hold, or decided last.")] = None
    text: Annotated[
        SearchText | None,
        Field(description="Words that all occur in intent, description, names or ids; case does not matter."),
    ] = None
    path: Annotated[
        SearchText | None, Field(description="Part of the path of a file that the current round touches.")
    ] = None
    sort: Annotated[
        Literal["queue", "newest", "oldest", "updated"],
        Field(description="By priority and age, by age, or by latest activity."),
    ] = "queue"
    limit: PageLimit = 50
    page: PageToken = None


class MarkViewed(WriteRequest):
    """Mark a file of a round as viewed by a person, or as not viewed; not recorded in the log."""

    refusals: ClassVar[Refusals] = (NotFound,)
    actor_field: ClassVar[str | None] = "person"

    review_id: ReviewId
    round: RoundNumber
    path: Annotated[FilePath, Field(description="A file that the round touches.")]
    viewed: Annotated[bool, Field(description="Whether it is viewed.")]
    person: Person


class ListViewed(ProjectRequest):
    """The files of a round that a person has marked as viewed."""

    refusals: ClassVar[Refusals] = (NotFound,)
    actor_field: ClassVar[str | None] = "person"

    review_id: ReviewId
    round: RoundNumber
    person: Person


@dataclass(frozen=True, slots=True)
class RoundFile:
    """Lines of one file as it is before or after a round's change.

    Joined by line feeds, with one more at the end if it ends with one, all its lines are exactly its content.
    """

    review_id: answer.ReviewId
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

    review_id: answer.ReviewId
    round: Annotated[int, Field(description="The round that it would replace.")]
    affected_files: Annotated[
        tuple[AffectedFile, ...], Field(description="The files that it touches; none if it does not apply.")
    ]
    digest: Annotated[str | None, Field(description="What an approval would be bound to; null if not validated.")]
    applies: Annotated[bool, Field(description="Whether `submit_verdict` would take it.")]
    problem: Annotated[str | None, Field(description="Why it would not.")]


@dataclass(frozen=True, slots=True)
class CounterPatchDraft(CounterPatchCheck):
    """A counter-patch made from edits, and what a verdict with it would be told."""

    counter_patch: Annotated[
        str,
        Field(
            description=(
                "What to send with `submit_verdict`: the whole diff or text; empty if nothing is left of the change."
            )
        ),
        Shown("diff"),
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundReview(ReviewRow):
    """A review that was found."""

    files: Annotated[int, Field(description="How many files the current round touches.")]


@dataclass(frozen=True, slots=True)
class SearchPage:
    """Reviews that were found."""

    reviews: Annotated[
        tuple[FoundReview, ...], Field(description="The reviews that were found."), Shown(empty="Found nothing.")
    ]
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

    review_id: answer.ReviewId
    round: answer.RoundNumber
    person: Annotated[str, Field(description="Whose it is.")]
    paths: Annotated[
        tuple[str, ...],
        Field(description="The files that are marked, in order."),
        Shown(empty="No file of this round is marked as viewed."),
    ]


OPERATIONS: Final = (
    Unlisted("get_round_file", "review", "file", GetRoundFile, RoundFile, ALL, READ),
    Unlisted("draft_counter_patch", "review patch", "draft", DraftCounterPatch, CounterPatchDraft, ALL, READ),
    Unlisted("check_counter_patch", "review patch", "check", CheckCounterPatch, CounterPatchCheck, ALL, READ),
    Unlisted("search_reviews", "review", "search", SearchReviews, SearchPage, OPERATOR, READ),
    Unlisted("mark_viewed", "review", "mark", MarkViewed, ViewedFiles, OPERATOR, REPEATABLE_WRITE),
    Unlisted("list_viewed", "review", "viewed", ListViewed, ViewedFiles, OPERATOR, READ),
)

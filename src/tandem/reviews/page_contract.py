"""Files of rounds, counter-patches, drafts of what a person writes, searches and marks: for pages and the terminal.

Times are ISO 8601 in UTC.
"""

from __future__ import annotations

from dataclasses import dataclass
from textwrap import indent
from typing import Annotated, ClassVar, Final, Literal

from pydantic import Field

from tandem.contract import answer
from tandem.contract.answer import Cursor, NextPage
from tandem.contract.operation import ALL, OPERATOR, READ, REPEATABLE_WRITE, ForPeople, Unlisted
from tandem.contract.request import (
    AttentionFilter,
    Check,
    FilePath,
    FullText,
    Id,
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
from tandem.errors import NotFound, StaleRound, TooLarge
from tandem.git.changes import AffectedFile
from tandem.present.shape import Shown
from tandem.reviews.answers import ReviewRow
from tandem.reviews.finding_contract import GivenFinding, PlaceView
from tandem.reviews.requests import CategoryFilter, PriorityFilter, TurnFilter

_LARGEST_LINE = 2**31 - 1
_MOST_EDITS = 500

_LineNumber = Annotated[int, Field(ge=1, le=_LARGEST_LINE)]
AnyRound = Annotated[RoundNumber | None, Field(description="Default: the current round.")]


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
    first_line: Annotated[_LineNumber, Field(description="The first line to answer, from 1.")] = 1
    last_line: Annotated[_LineNumber | None, Field(description="Default: as many as there are.")] = None
    as_base64: Annotated[bool, Field(description="With the whole content in base64, if it has at most 4 MB.")] = False


class FileEdit(Request):
    """The new content of one file."""

    path: Annotated[FilePath, Field(description="The file: one that the round leaves, or a new one.")]
    content: Annotated[Text | None, Field(description="Its whole text; null deletes the file.")]


class DraftCounterPatch(ProjectRequest):
    """Create a counter-patch, or try one, without sending it: whether submit_verdict would accept it."""

    refusals: ClassVar[Refusals] = (NotFound, StaleRound)

    review_id: ReviewId
    round: Annotated[RoundNumber | None, Field(description="The intended round; refused if there is a newer one.")] = (
        None
    )
    edits: Annotated[
        list[FileEdit] | None,
        Field(min_length=1, max_length=_MOST_EDITS, description="The files to change of a round that is a diff."),
    ] = None
    text: Annotated[
        Text | None, Field(description="In place of edits: the full replacement of the round's diff or text.")
    ] = None


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
class CounterPatchDraft:
    """A counter-patch, and what a verdict with it would be told."""

    review_id: answer.ReviewId
    round: Annotated[int, Field(description="The round that it would replace.")]
    affected_files: Annotated[
        tuple[AffectedFile, ...], Field(description="The files that it touches; none if it does not apply.")
    ]
    digest: Annotated[str | None, Field(description="What an approval would be bound to; null if not validated.")]
    applies: Annotated[bool, Field(description="Whether `submit_verdict` would take it.")]
    problem: Annotated[str | None, Field(description="Why it would not.")]
    interdiff: Annotated[
        str | None, Field(description="Its changes to the round; null for a text, and where git cannot tell.")
    ]
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


MOST_DRAFTS: Final = 500
"""Of one person on one review."""

_CODE: Final = "    "
Kind = Literal["finding", "message", "verdict"]
Expected = Annotated[
    str | None,
    Field(max_length=64, description="The newest `updated_at` that was seen; empty for none. Words saved later stay."),
]


class SaveDraft(WriteRequest):
    """Keep what a person is writing about a review, in the place of their draft of that id; not recorded in the log.

    With `expected`, other words that were saved there later stay, behind these.
    """

    refusals: ClassVar[Refusals] = (NotFound, Check(TooLarge, "The person has 500 drafts on this review already."))
    actor_field: ClassVar[str | None] = "person"

    review_id: ReviewId
    draft_id: Annotated[Id, Field(description="The person's own name for it.")]
    person: Person
    round: Annotated[RoundNumber, Field(description="The round that it was begun on.")]
    kind: Annotated[Kind, Field(description="Its kind once it is sent.")]
    body: Annotated[Text, Field(description="The text; may be empty where another text of a finding is not.")]
    file: Annotated[FilePath | None, Field(description="The file that it is about.")] = None
    line: Annotated[_LineNumber | None, Field(description="The line, or the first of several.")] = None
    end_line: Annotated[_LineNumber | None, Field(description="The last line, if it is about several.")] = None
    side: Annotated[
        Literal["after", "before"] | None, Field(description="Which version of the file has these line numbers.")
    ] = None
    severity: Annotated[Name | None, Field(description="How serious a finding is.")] = None
    category: Annotated[Name | None, Field(description="What kind of fault a finding is.")] = None
    failure: Annotated[Text | None, Field(description="How it fails.")] = None
    suggestion: Annotated[Text | None, Field(description="What the lines should be instead.")] = None
    pre_existing: Annotated[bool, Field(description="Whether it was there before the change.")] = False
    expected: Expected = None


class ListDrafts(ProjectRequest):
    """A person's drafts, of one review or of all, by review."""

    refusals: ClassVar[Refusals] = (NotFound,)
    actor_field: ClassVar[str | None] = "person"

    person: Person
    review_id: Annotated[Id | None, Field(description="Only on this review.")] = None
    page: PageToken = None


class DiscardDraft(WriteRequest):
    """Remove drafts of a person on a review; those that are gone already do not matter."""

    refusals: ClassVar[Refusals] = (NotFound,)
    actor_field: ClassVar[str | None] = "person"

    review_id: ReviewId
    draft_ids: Annotated[list[Id], Field(min_length=1, max_length=MOST_DRAFTS, description="The drafts.")]
    person: Person
    expected: Expected = None


@dataclass(frozen=True, slots=True)
class Draft:
    """What a person has written about a review and not sent yet."""

    review_id: answer.ReviewId
    draft_id: Annotated[str, Field(description="The person's own name for it."), Shown("id")]
    person: Annotated[str, Field(description="Whose it is.")]
    round: Annotated[int, Field(description="The round that it was begun on.")]
    kind: Annotated[str, Field(description="Its kind once it is sent: `finding`, `message` or `verdict`.")]
    file: Annotated[str | None, Field(description="The file that it is about.")]
    line: Annotated[int | None, Field(description="The line, or the first of several.")]
    end_line: Annotated[int | None, Field(description="The last line, if it is about several.")]
    side: Annotated[str | None, Field(description="Which version of the file has these line numbers.")]
    severity: Annotated[str | None, Field(description="How serious a finding is.")]
    body: Annotated[str, Field(description="The text.")]
    category: Annotated[str | None, Field(description="What kind of fault a finding is.")]
    failure: Annotated[str | None, Field(description="How it fails.")]
    suggestion: Annotated[str | None, Field(description="What the lines should be instead.")]
    pre_existing: Annotated[bool, Field(description="Whether it was there before the change.")]
    updated_at: Annotated[str, Field(description="When it was saved.")]
    place: Annotated[
        PlaceView | None,
        Field(description="In a review's list: where it belongs if it is of an earlier round, or has no such lines."),
    ] = None
    quote: Annotated[
        str | None,
        Field(description="The lines that it begins with there, as they are no longer as they were."),
    ] = None


def as_finding(draft: Draft) -> GivenFinding:
    """What a draft is sent as with a verdict on the current round; the broker refuses one that has no text yet."""
    at, claim, suggestion = draft.place or draft, draft.body, draft.suggestion
    if draft.quote is not None:
        # It would replace other lines than it was written for.
        instead = indent(suggestion or "(nothing)", _CODE)
        claim = "\n\n".join([draft.quote, claim, *([] if suggestion is None else ["Suggested instead:", instead])])
        suggestion = None
    return GivenFinding.model_construct(
        file=at.file,
        line=at.line,
        end_line=at.end_line,
        side="old" if draft.side == "before" and at.line else "new",
        severity=draft.severity or "minor",
        category=draft.category,
        claim=claim,
        failure=draft.failure,
        suggestion=suggestion,
        pre_existing=draft.pre_existing,
    )


def quoted(draft: Draft, lines: str | None) -> str:
    """What a finding begins with that cannot stand at its lines any more."""
    numbers = f":{draft.line}" if draft.line else ""
    numbers += f"-{draft.end_line}" if draft.end_line else ""
    before = " before its change" if draft.side == "before" else ""
    head = f"On {draft.file}{numbers} of round {draft.round}{before}:"
    return f"{head}\n\n{indent(lines, _CODE, lambda _: True)}" if lines else head


@dataclass(frozen=True, slots=True)
class DraftPage:
    """A person's drafts, which only they can read."""

    person: Annotated[str, Field(description="Whose they are.")]
    drafts: Annotated[tuple[Draft, ...], Field(description="The drafts."), Shown(empty="There are no drafts.")]
    next_page: NextPage | None


@dataclass(frozen=True, slots=True)
class DraftsDiscarded:
    """The drafts are gone."""

    review_id: answer.ReviewId
    person: Annotated[str, Field(description="Whose they were.")]
    discarded: Annotated[int, Field(description="How many were there.")]


OPERATIONS: Final = (
    Unlisted("get_round_file", "review", "file", GetRoundFile, RoundFile, ALL, READ),
    Unlisted("draft_counter_patch", "review patch", "draft", DraftCounterPatch, CounterPatchDraft, ALL, READ),
    Unlisted("search_reviews", "review", "search", SearchReviews, SearchPage, OPERATOR, READ),
    Unlisted("mark_viewed", "review", "mark", MarkViewed, ViewedFiles, OPERATOR, REPEATABLE_WRITE),
    ForPeople("save_draft", "review draft", "save", SaveDraft, Draft, OPERATOR, REPEATABLE_WRITE),
    ForPeople("list_drafts", "review draft", "list", ListDrafts, DraftPage, OPERATOR, READ),
    ForPeople("discard_draft", "review draft", "discard", DiscardDraft, DraftsDiscarded, OPERATOR, REPEATABLE_WRITE),
)

"""The typed requests on files of rounds, drafts of counter-patches, reviewers' logs and projects' settings."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

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
                "After the round's change, before it, or as the base branch has it by now, whatever the change; where "
                "the project has none, as the base has it."
            )
        ),
    ] = "after"
    first_line: Annotated[LineNumber, Field(description="The first line to answer, from 1.")] = 1
    last_line: Annotated[LineNumber | None, Field(description="Default: as many as there are.")] = None
    as_base64: Annotated[bool, Field(description="With the whole content in base64, if it has at most 4 MB.")] = False


class FileEdit(Request):
    """What one file is to hold."""

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

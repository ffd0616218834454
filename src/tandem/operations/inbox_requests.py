"""The typed requests of the inbox, the search and the marks on files."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from tandem.contract.request import (
    AttentionFilter,
    CategoryFilter,
    FilePath,
    FullText,
    Name,
    PageLimit,
    PageToken,
    PriorityFilter,
    ProjectRequest,
    Refusals,
    ReviewId,
    RoundNumber,
    StateFilter,
    TurnFilter,
    WriteRequest,
)
from tandem.errors import NotFound

_TEXT_LENGTH = 500

Person = Annotated[Name, Field(description="Who asks, as proposer and reviewer alike.")]
SearchText = Annotated[FullText, Field(max_length=_TEXT_LENGTH)]


class GetInbox(ProjectRequest):
    """What waits for a person, what waits for others, and what is wrong; of every project unless one is named."""

    refusals: ClassVar[Refusals] = ()
    speaks_as: ClassVar[str | None] = "person"

    person: Person
    limit: Annotated[int, Field(ge=1, description="Rows of each list, at most 200.")] = 50


class SearchReviews(ProjectRequest):
    """Reviews by what they say and touch; looks through at most 2,000 a call, and goes on with next_page."""

    refusals: ClassVar[Refusals] = ()

    status: StateFilter = None
    category: CategoryFilter = None
    priority: PriorityFilter = None
    turn: TurnFilter = None
    attention: AttentionFilter = None
    proposer: Annotated[Name | None, Field(description="Only reviews that they put up.")] = None
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
    """Mark a file of a round as viewed by a person, or as not; it stands in no log."""

    refusals: ClassVar[Refusals] = (NotFound,)
    speaks_as: ClassVar[str | None] = "person"

    review_id: ReviewId
    round: RoundNumber
    path: Annotated[FilePath, Field(description="A file that the round touches.")]
    viewed: Annotated[bool, Field(description="Whether it is viewed.")]
    person: Person


class ListViewed(ProjectRequest):
    """The files of a round that a person has marked as viewed."""

    refusals: ClassVar[Refusals] = (NotFound,)
    speaks_as: ClassVar[str | None] = "person"

    review_id: ReviewId
    round: RoundNumber
    person: Person

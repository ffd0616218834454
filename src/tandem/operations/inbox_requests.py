"""The typed requests of the inbox, the search and the marks on files."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from tandem.contract.request import (
    FilePath,
    FullText,
    Id,
    Name,
    PageLimit,
    ProjectRequest,
    RoundNumber,
    StatusName,
    Token,
    WriteRequest,
)
from tandem.domain.reviews import Category, Priority, Side

_TEXT_LENGTH = 500

Person = Annotated[Name, Field(description="Who asks, as proposer and reviewer alike.")]
SearchText = Annotated[FullText, Field(max_length=_TEXT_LENGTH)]


class GetInbox(ProjectRequest):
    """What waits for a person, what waits for others, and what is wrong; of every project unless one is named."""

    speaks_as: ClassVar[str | None] = "person"

    person: Person
    limit: Annotated[int, Field(ge=1, description="Rows of each list, at most 200.")] = 50


class SearchReviews(ProjectRequest):
    """Reviews by what they say and touch; looks through at most 2,000 a call, and goes on with next_page."""

    status: StatusName | None = None
    category: Category | None = None
    priority: Priority | None = None
    turn: Side | None = None
    attention: Annotated[bool | None, Field(description="Only those that do, or do not, wait for a person.")] = None
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
    page: Annotated[Token | None, Field(description="next_page of the page before.")] = None


class MarkViewed(WriteRequest):
    """Mark a file of a round as viewed by a person, or as not; it stands in no log."""

    speaks_as: ClassVar[str | None] = "person"

    review_id: Id
    round: RoundNumber
    path: Annotated[FilePath, Field(description="A file that the round touches.")]
    viewed: Annotated[bool, Field(description="Whether it is viewed.")]
    person: Person


class ListViewed(ProjectRequest):
    """The files of a round that a person has marked as viewed."""

    speaks_as: ClassVar[str | None] = "person"

    review_id: Id
    round: RoundNumber
    person: Person

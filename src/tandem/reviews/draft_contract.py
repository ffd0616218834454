"""Drafts of what a person writes about a review: requests and answers. Times are ISO 8601 in UTC."""

from __future__ import annotations

from dataclasses import dataclass
from textwrap import indent
from typing import Annotated, ClassVar, Final, Literal

from pydantic import Field

from tandem.contract import answer
from tandem.contract.answer import NextPage
from tandem.contract.operation import OPERATOR, READ, REPEATABLE_WRITE, ForPeople
from tandem.contract.request import (
    Check,
    FilePath,
    Id,
    Name,
    PageToken,
    Person,
    ProjectRequest,
    Refusals,
    ReviewId,
    RoundNumber,
    Text,
    WriteRequest,
)
from tandem.errors import NotFound, TooLarge
from tandem.present.shape import Shown
from tandem.reviews.finding_contract import GivenFinding, PlaceView
from tandem.reviews.page_contract import LineNumber

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
    line: Annotated[LineNumber | None, Field(description="The line, or the first of several.")] = None
    end_line: Annotated[LineNumber | None, Field(description="The last line, if it is about several.")] = None
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
    ForPeople("save_draft", "review draft", "save", SaveDraft, Draft, OPERATOR, REPEATABLE_WRITE),
    ForPeople("list_drafts", "review draft", "list", ListDrafts, DraftPage, OPERATOR, READ),
    ForPeople("discard_draft", "review draft", "discard", DiscardDraft, DraftsDiscarded, OPERATOR, REPEATABLE_WRITE),
)

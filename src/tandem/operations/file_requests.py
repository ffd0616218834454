"""The typed requests on files of rounds, drafts of counter-patches, reviewers' logs and projects' settings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from tandem.contract.request import (
    FilePath,
    FullText,
    Name,
    ProjectRequest,
    Refusals,
    Request,
    ReviewerName,
    ReviewId,
    RoundNumber,
    Text,
    Token,
)
from tandem.domain.access import Subject
from tandem.errors import ConfigInvalid, NotFound, StaleRound, UnknownReviewer

_LARGEST_LINE = 2**31 - 1
_MOST_EDITS = 500
_MOST_LOG_LINES = 5_000

LineNumber = Annotated[int, Field(ge=1, le=_LARGEST_LINE)]
AnyRound = Annotated[RoundNumber | None, Field(description="Default: the current round.")]
CurrentRound = Annotated[RoundNumber | None, Field(description="The round that you mean; refused if it is over.")]


class GetRoundFile(ProjectRequest):
    """Lines of a file as a round's change found it or leaves it, at most 2,000 a call."""

    refusals: ClassVar[Refusals] = (NotFound,)

    review_id: ReviewId
    path: Annotated[FilePath, Field(description="The file, from the repository's root.")]
    round: AnyRound = None
    side: Annotated[Literal["after", "before"], Field(description="With the round's change, or without it.")] = "after"
    first_line: Annotated[LineNumber, Field(description="The first line to answer, from 1.")] = 1
    last_line: Annotated[LineNumber | None, Field(description="Default: as many as there are.")] = None
    as_base64: Annotated[bool, Field(description="With the whole content in base64, if it has at most 4 MB.")] = False


class FileEdit(Request):
    """What one file is to hold."""

    path: Annotated[FilePath, Field(description="The file: one that the round leaves, or a new one.")]
    content: Annotated[Text | None, Field(description="Its whole text; null deletes the file.")]


class DraftCounterPatch(ProjectRequest):
    """Make a counter-patch from edits to the files that a round leaves, or from a text; nothing is sent or kept."""

    refusals: ClassVar[Refusals] = (NotFound, StaleRound)

    review_id: ReviewId
    round: CurrentRound = None
    edits: Annotated[
        list[FileEdit] | None,
        Field(min_length=1, max_length=_MOST_EDITS, description="For a diff: the files to change."),
    ] = None
    text: Annotated[FullText | None, Field(description="For a text: all of it.")] = None


class CheckCounterPatch(ProjectRequest):
    """What submit_verdict would say of a counter-patch; nothing is sent or kept."""

    refusals: ClassVar[Refusals] = (NotFound, StaleRound)

    review_id: ReviewId
    counter_patch: Annotated[Text, Field(description="Full replacement of the round's diff or text.")]
    round: CurrentRound = None


class GetReviewerLog(ProjectRequest):
    """What a pool's reviewer and its program wrote: the last lines, or those after a position."""

    refusals: ClassVar[Refusals] = (UnknownReviewer,)
    is_about: ClassVar[Mapping[str, Subject]] = {"reviewer_id": "reviewer"}

    reviewer_id: ReviewerName
    lines: Annotated[int, Field(ge=0, le=_MOST_LOG_LINES, description="The most lines to answer.")] = 200
    position: Annotated[Token | None, Field(description="From an earlier answer: what comes after it.")] = None


class GetProjectSettings(Request):
    """The settings that hold for a project and where each comes from, and its gate."""

    refusals: ClassVar[Refusals] = (NotFound, ConfigInvalid)

    project: Annotated[Name, Field(description="The project.")]

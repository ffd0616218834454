"""Findings on the wire: how they are given, answered and listed, and the lessons that come of them."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from tandem.contract.answer import (
    CreatedAt,
    Cursor,
    NextPage,
    ProjectName,
    ReviewId,
    RoundNumber,
    StateName,
    Turn,
    shown,
)
from tandem.contract.operation import (
    ADMIN,
    ALL,
    HANDOFF,
    OPERATOR,
    PROPOSER,
    READ,
    REVIEWER,
    WRITE,
    Operation,
    Unlisted,
)
from tandem.contract.request import (
    LARGEST,
    UNLISTED,
    FilePath,
    FullText,
    Generation,
    Id,
    Name,
    PageLimit,
    PageToken,
    ProjectRequest,
    Reason,
    Refusals,
    Request,
    Text,
    Token,
    WriteRequest,
)
from tandem.contract.request import ReviewId as NamedReview
from tandem.errors import (
    Forbidden,
    InvalidTransition,
    NotClaimant,
    NotFound,
    ReasonRequired,
    SelfApproval,
    StaleClaim,
)
from tandem.present.shape import Shown
from tandem.reviews.finding_rules import ANSWERS, Answer, Finding, Settling, blocks, severity_of
from tandem.reviews.rules import Review

_Line = Annotated[int, Field(ge=1, le=LARGEST)]
_Reason = Annotated[Reason, Field(description="Why; `refuted`, `deferred` and `reopened` need it.")]
_FindingId = Annotated[Id, Field(description="The finding.")]


class GivenFinding(Request):
    """A fault at one place of the change, or of the whole of it."""

    file: Annotated[FilePath | None, Field(description="The file; null for the whole change.")] = None
    line: Annotated[_Line | None, Field(description="The first line, from 1; null for the whole file.")] = None
    end_line: Annotated[_Line | None, Field(description="The last line; default: the first.")] = None
    side: Annotated[Literal["new", "old"], Field(description="Lines after the change (`new`) or before it.")] = "new"
    severity: Annotated[
        Name, Field(description="`blocker`, `major`, `minor` or `nit`; P0 to P3, critical … low are synonyms.")
    ]
    category: Annotated[Name | None, Field(description="What kind of fault, such as `security` or `tests`.")] = None
    claim: Annotated[FullText, Field(description="The fault, in words.")]
    failure: Annotated[Text | None, Field(description="How it fails: what triggers it, and what then happens.")] = None
    suggestion: Annotated[Text | None, Field(description="What would replace the lines, exactly.")] = None
    pre_existing: Annotated[bool, Field(description="It was there before this change: it never blocks.")] = False


class GivenSettling(Request):
    """What a reviewer says of an earlier finding."""

    finding_id: _FindingId
    answer: Annotated[Settling, Field(description="`verified`: it is corrected. `upheld`: the proposer is right.")]
    reason: _Reason = None


class AnswerFinding(WriteRequest):
    """Answer a finding (proposer: fixed, refuted, deferred), or settle it (reviewer: verified, reopened, upheld)."""

    refusals: ClassVar[Refusals] = (
        NotFound,
        Forbidden,
        StaleClaim,
        NotClaimant,
        SelfApproval,
        ReasonRequired,
        InvalidTransition,
    )
    actor_field: ClassVar[str | None] = "reviewer_id"

    review_id: NamedReview
    finding_id: _FindingId
    answer: Annotated[Literal[Answer, Settling], Field(description="What you say of it.")]
    reason: _Reason = None
    claim_generation: Annotated[Generation | None, Field(description="To settle: your claim's number.")] = None
    reviewer_id: Annotated[Name | None, Field(description="Who reviews; to settle without `claim_generation`.")] = None


FindingStatus = Literal["open", "blocking", "all"]


class ListFindings(ProjectRequest):
    """The findings of a review with their places in its current round, or those of a project."""

    refusals: ClassVar[Refusals] = (NotFound, Forbidden)

    review_id: Annotated[Id | None, Field(description="Only those of this review.")] = None
    status: Annotated[
        FindingStatus, Field(description="`open`: not settled. `blocking`: what keeps the approval back.")
    ] = "all"
    round: Annotated[int | None, Field(ge=1, le=LARGEST, description="Their places in this round.")] = None
    at: Annotated[
        Token | None,
        Field(description="Their places in the files of this branch or commit, as after landing."),
        UNLISTED,
    ] = None
    limit: PageLimit = 50
    page: PageToken = None


class ListLessons(ProjectRequest):
    """The false alarms that a project's reviewers are told of."""

    refusals: ClassVar[Refusals] = ()

    files: Annotated[list[FilePath] | None, Field(max_length=1000, description="Only those of these files.")] = None
    limit: PageLimit = 50
    page: PageToken = None


class RemoveLesson(WriteRequest):
    """Remove a lesson: the same finding counts again."""

    refusals: ClassVar[Refusals] = (NotFound, Forbidden)

    finding_id: _FindingId


@dataclass(frozen=True, slots=True)
class PlaceView:
    """Where a finding stands in a round."""

    file: Annotated[str | None, Field(description="The file; null where it is gone, or for the whole change.")]
    line: Annotated[int | None, Field(description="The first line; null for the whole file.")]
    end_line: Annotated[int | None, Field(description="The last line.")]
    changed: Annotated[
        bool | None, Field(description="Whether its lines were changed since; null where no one can tell.")
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class FindingView:
    """A finding."""

    finding_id: Annotated[str, Field(description="The finding.")]
    review_id: ReviewId
    round: RoundNumber
    state: Annotated[
        str,
        Field(
            description="`open`; answered: `fixed`, `refuted`, `deferred`; settled: `verified`, `upheld`; `reopened`;"
            " `late` or `suppressed`, which keep nothing back."
        ),
    ]
    severity: Annotated[str, Field(description="`blocker`, `major`, `minor` or `nit`."), Shown("name")]
    blocking: Annotated[bool, Field(description="Whether it keeps the approval back.")]
    source: Annotated[
        str,
        Field(description="Who found it: `person`, `agent`, `check`, or `advice` (a reviewer without a vote)."),
        Shown("name"),
    ]
    author: Annotated[str, Field(description="Who found it.")]
    file: Annotated[str | None, Field(description="The file; null for the whole change."), Shown("path")]
    line: Annotated[int | None, Field(description="The first line, from 1; null for the whole file.")]
    end_line: Annotated[int | None, Field(description="The last line.")]
    side: Annotated[str, Field(description="Lines after the change (`new`) or before it (`old`)."), Shown("hidden")]
    category: Annotated[str | None, Field(description="What kind of fault it is.")]
    claim: Annotated[str, Field(description="The fault, in words."), Shown("block")]
    failure: Annotated[str | None, Field(description="How it fails."), Shown("block")]
    suggestion: Annotated[str | None, Field(description="What would replace the lines."), Shown("block")]
    pre_existing: Annotated[bool, Field(description="Whether it was there before the change.")]
    lines: Annotated[str | None, Field(description="The lines that it was written on."), Shown("block")]
    answer: Annotated[str | None, Field(description="The reason of the proposer's latest answer.")]
    answered_by: Annotated[str | None, Field(description="Who gave it."), Shown("person")]
    settled_by: Annotated[str | None, Field(description="Who settled or reopened it last."), Shown("person")]
    settled_reason: Annotated[str | None, Field(description="Their reason.")]
    suppressed_by: Annotated[str | None, Field(description="The lesson that it repeats."), Shown("id")]
    fingerprint: Annotated[str | None, Field(description="By which the same finding is known again."), Shown("hidden")]
    created_at: CreatedAt
    found_in: Annotated[
        str | None, Field(description="The review that it was found in, if it came from there; else null."), Shown("id")
    ] = None
    place: Annotated[PlaceView | None, Field(description="Where it stands in the round."), Shown("hidden")] = None


@dataclass(frozen=True, slots=True)
class FindingCounts:
    """How many findings there are."""

    total: Annotated[int, Field(description="All.")]
    open: Annotated[int, Field(description="Those that no one settled.")]
    blocking: Annotated[int, Field(description="Those that keep the approval back.")]
    answered: Annotated[int, Field(description="Those that wait for a reviewer to settle them.")]


@dataclass(frozen=True, slots=True)
class FindingPage:
    """A page of findings, oldest first; of a review with their numbers."""

    findings: Annotated[tuple[FindingView, ...], Field(description="The findings."), Shown(empty="No such findings.")]
    counts: Annotated[FindingCounts | None, Field(description="The numbers of the review; null for a project.")]
    next_page: NextPage | None


@dataclass(frozen=True, slots=True)
class FindingAnswered:
    """The answer stands."""

    review_id: ReviewId
    finding_id: Annotated[str, Field(description="The finding.")]
    state: Annotated[str, Field(description="What the finding is now.")]
    status: StateName
    round: RoundNumber
    turn: Turn | None
    counts: Annotated[FindingCounts, Field(description="The findings of the review.")]
    cursor: Cursor


@dataclass(frozen=True, slots=True)
class LessonView:
    """A finding that was refuted, and a reviewer agreed."""

    finding_id: Annotated[str, Field(description="The finding.")]
    project: ProjectName
    file: Annotated[str, Field(description="Its file."), Shown("path")]
    category: Annotated[str | None, Field(description="What kind of fault it was called.")]
    claim: Annotated[str, Field(description="The fault that was claimed."), Shown("block")]
    answer: Annotated[str | None, Field(description="Why it is no fault.")]
    settled_by: Annotated[str | None, Field(description="Who agreed."), Shown("person")]
    lines: Annotated[str | None, Field(description="The lines that it is about; others end it."), Shown("block")]
    created_at: CreatedAt


@dataclass(frozen=True, slots=True)
class LessonPage:
    """A page of lessons, oldest first."""

    lessons: Annotated[tuple[LessonView, ...], Field(description="The lessons."), Shown(empty="No lessons.")]
    next_page: NextPage | None


@dataclass(frozen=True, slots=True)
class LessonRemoved:
    """The lesson is gone."""

    finding_id: Annotated[str, Field(description="The finding.")]


def new_finding(given: GivenFinding, review: Review, **stated: Any) -> Finding:
    """A finding on the current round of a review; who found it, and what else is known of it, is stated."""
    said: dict[str, Any] = dict.fromkeys(("verdict_id", "lines", "fingerprint"))
    said |= {"review_id": review.id, "project": review.project, "seq": 0, "round": review.round, "state": "open"}
    said |= given.model_dump() | {"severity": severity_of(given.severity), "pre_existing": int(given.pre_existing)}
    return Finding(**(said | stated))


def view(finding: Finding, threshold: str, place: PlaceView | None = None) -> FindingView:
    """A finding as it is answered."""
    return shown(
        FindingView,
        finding,
        finding_id=finding.id,
        blocking=blocks(finding, threshold),
        pre_existing=bool(finding.pre_existing),
        place=place,
    )


def counted(findings: Collection[Finding], threshold: str) -> FindingCounts:
    """The numbers that every interface says."""
    return FindingCounts(
        total=len(findings),
        open=sum(one.is_open for one in findings),
        blocking=sum(blocks(one, threshold) for one in findings),
        answered=sum(one.state in ANSWERS for one in findings),
    )


def lesson_view(finding: Finding) -> LessonView:
    """A lesson as it is answered."""
    return shown(LessonView, finding, finding_id=finding.id)


OPERATIONS = (
    Operation("list_findings", "findings", "list", ListFindings, FindingPage, ALL | HANDOFF, READ),
    Operation("answer_finding", "findings", "answer", AnswerFinding, FindingAnswered, PROPOSER | REVIEWER, WRITE),
    Unlisted("list_lessons", "lessons", "list", ListLessons, LessonPage, ALL, READ),
    Unlisted("remove_lesson", "lessons", "remove", RemoveLesson, LessonRemoved, OPERATOR | ADMIN, WRITE),
)
"""On findings and lessons."""

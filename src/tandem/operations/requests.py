"""The typed requests on reviews, projects and the gate's question."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from tandem.contract.request import (
    LARGEST,
    Digest,
    FilePath,
    FullText,
    Generation,
    Id,
    Metadata,
    Name,
    PageLimit,
    ProjectRequest,
    Request,
    RoundNumber,
    StatusName,
    Text,
    Token,
    WaitSeconds,
    WriteRequest,
)
from tandem.domain.access import Subject
from tandem.domain.reviews import Category, Priority, Side


class CreateReview(WriteRequest):
    """Put a change up for review; with review_id, revise one; with parent_id, resubmit a rejected one."""

    speaks_as: ClassVar[str | None] = "proposer_id"

    intent: Annotated[FullText, Field(description="What the change is for, in a sentence.")]
    agent_type: Annotated[Name, Field(description="The proposing agent, e.g. claude-code or gsd-executor.")]
    agent_role: Name = "proposer"
    phase: Name | None = None
    plan: Name | None = None
    task: Name | None = None
    category: Category | None = None
    description: Annotated[Text | None, Field(description="Details; or the whole text of `path`.")] = None
    diff: Annotated[Text | None, Field(description="Unified git diff against `base`.")] = None
    base: Annotated[Token | None, Field(description="Commit the diff is against; default HEAD.")] = None
    path: Annotated[FilePath | None, Field(description="The file whose whole content `description` is.")] = None
    metadata: Metadata | None = None
    proposer_id: Annotated[Name | None, Field(description="Default: the session, else agent_type.")] = None
    review_id: Annotated[Id | None, Field(description="Revise this review: a new round.")] = None
    parent_id: Annotated[Id | None, Field(description="Resubmit: the rejected review this one follows.")] = None
    skip_diff_validation: Annotated[bool, Field(description="Leaves it without a digest: opens no gate.")] = False


class GetReviewStatus(ProjectRequest):
    """Where a review stands; with wait, answers when it is your turn."""

    review_id: Id
    wait: Annotated[bool, Field(description="Wait until there is something new for you.")] = False
    cursor: Annotated[Token | None, Field(description="From an earlier answer: wait for what comes after it.")] = None
    wake_on: Annotated[Literal["turn", "any"], Field(description="Wake when it is your turn, or on any event.")] = (
        "turn"
    )
    timeout_s: WaitSeconds | None = None


class GetProposal(ProjectRequest):
    """A round's whole content, and the pending counter-patch."""

    review_id: Id
    round: Annotated[RoundNumber | None, Field(description="Default: the current round.")] = None
    since_round: Annotated[RoundNumber | None, Field(description="Add the interdiff since this round.")] = None
    files: Annotated[list[FilePath] | None, Field(max_length=1000, description="Only these files of the diff.")] = None


class ListReviews(ProjectRequest):
    """Reviews by priority and age, a page at a time; with wait, answers when the list may have changed."""

    status: StatusName | None = None
    category: Category | None = None
    priority: Priority | None = None
    turn: Side | None = None
    attention: Annotated[bool | None, Field(description="Only those that do, or do not, wait for a person.")] = None
    wait: bool = False
    cursor: Token | None = None
    timeout_s: WaitSeconds | None = None
    limit: PageLimit = 50
    page: Annotated[Token | None, Field(description="next_page of the page before.")] = None


class ClaimReview(WriteRequest):
    """Claim a review, or the next in the queue; answers with the proposal, or review: null."""

    speaks_as: ClassVar[str | None] = "reviewer_id"

    reviewer_id: Annotated[Name, Field(description="Who reviews; keep it the same for the whole review.")]
    review_id: Annotated[Id | None, Field(description="Default: the next in the queue.")] = None
    category: Category | None = None


class RenewClaim(WriteRequest):
    """Extend your lease while you work."""

    review_id: Id
    claim_generation: Generation


class ReleaseClaim(WriteRequest):
    """Give your claim back: the review returns to the queue."""

    review_id: Id
    claim_generation: Generation
    reason: Text | None = None


class LineComment(Request):
    """A remark on one line of the change."""

    file: FilePath
    line: Annotated[int | None, Field(ge=1, le=LARGEST)] = None
    body: FullText


class SubmitVerdict(WriteRequest):
    """Give your verdict on the claimed round; changes_requested and comment may carry a counter-patch."""

    speaks_as: ClassVar[str | None] = "reviewer_id"

    review_id: Id
    verdict: Literal["approved", "changes_requested", "rejected", "comment", "approve", "request_changes", "reject"]
    reason: Annotated[Text | None, Field(description="Required unless approved.")] = None
    counter_patch: Annotated[Text | None, Field(description="Full replacement of the round's diff or text.")] = None
    comments: Annotated[list[LineComment] | None, Field(max_length=500)] = None
    claim_generation: Annotated[Generation | None, Field(description="From claim_review.")] = None
    reviewer_id: Name | None = None
    round: Annotated[RoundNumber | None, Field(description="Default: the round you claimed.")] = None


class AcceptCounterPatch(WriteRequest):
    """Make the pending counter-patch the next round's content."""

    review_id: Id
    counter_patch_id: Id
    reason: Text | None = None


class RejectCounterPatch(WriteRequest):
    """Decline the pending counter-patch; the round's content stays."""

    review_id: Id
    counter_patch_id: Id
    reason: Text | None = None


class AddMessage(WriteRequest):
    """Say something in the discussion; the two sides alternate."""

    speaks_as: ClassVar[str | None] = "reviewer_id"
    speaks_for: ClassVar[str | None] = "sender_role"

    review_id: Id
    sender_role: Side
    body: FullText
    metadata: Annotated[Metadata | None, Field(description="Files, lines and the like.")] = None
    resolves: Annotated[Id | None, Field(description="A message or line comment that this settles.")] = None
    reviewer_id: Name | None = None
    claim_generation: Generation | None = None


class GetDiscussion(ProjectRequest):
    """Messages, line comments, verdicts and counter-patches, oldest first."""

    review_id: Id
    round: RoundNumber | None = None
    limit: PageLimit = 50
    page: Token | None = None


class CloseReview(WriteRequest):
    """End a review: approved, rejected, or withdrawn if it was undecided."""

    review_id: Id
    reason: Text | None = None


class GetReviewTimeline(ProjectRequest):
    """Every event of one review, oldest first."""

    review_id: Id


class GetActivityFeed(ProjectRequest):
    """Reviews by latest activity with their last event; with wait, answers on the next one."""

    status: StatusName | None = None
    category: Category | None = None
    wait: bool = False
    cursor: Token | None = None
    timeout_s: WaitSeconds | None = None
    limit: PageLimit = 50
    page: Token | None = None


class GetAuditLog(ProjectRequest):
    """Events after a cursor, oldest first; without a cursor, the newest page."""

    # It has any subject's events, of one project if that is named.
    is_about: ClassVar[Mapping[str, Subject]] = {}

    review_id: Annotated[Name | None, Field(description="A review, or another subject such as cycle:ID.")] = None
    kind: Name | None = None
    actor: Name | None = None
    wait: bool = False
    cursor: Token | None = None
    timeout_s: WaitSeconds | None = None
    limit: PageLimit = 50


class GetReviewStats(ProjectRequest):
    """Counts, approval rate and mean times, by category and reviewer."""

    since: Annotated[Name | None, Field(description="ISO date or time; whole days, UTC.")] = None


CommitId = Annotated[str, Field(pattern=r"^[0-9a-f]{40}([0-9a-f]{24})?$", max_length=64)]


class GateChange(Request):
    """One path's change, as `git diff-index --raw` reports it."""

    path: FilePath
    mode_before: Annotated[str, Field(pattern=r"^[0-7]{6}$")] = "000000"
    blob_before: Annotated[str, Field(pattern=r"^[0-9a-f]{40}([0-9a-f]{24})?$")] = "0" * 40
    mode_after: Annotated[str, Field(pattern=r"^[0-7]{6}$")] = "000000"
    blob_after: Annotated[str, Field(pattern=r"^[0-9a-f]{40}([0-9a-f]{24})?$")] = "0" * 40


class CheckGate(Request):
    """Is exactly this content approved? Give the raw changes or a digest."""

    has_long_list: ClassVar[bool] = True

    project: Name
    changes: Annotated[list[GateChange] | None, Field(max_length=100_000)] = None
    digest: Digest | None = None
    head: Annotated[
        CommitId | None, Field(description="What the changes go on top of; without it no rollback passes.")
    ] = None
    base: Annotated[
        CommitId | None, Field(description="Take back only what this lacks; default: what the base branches lack.")
    ] = None


class RegisterProject(Request):
    """Register a folder as a project; its name defaults to the folder's."""

    root: FilePath
    name: Name | None = None


class ListProjects(Request):
    """All registered projects; with a token of one project, that one."""

    keeps_to_caller: ClassVar[bool] = True


class RemoveProject(Request):
    """Forget a project's folder; its reviews stay."""

    name: Name


class RetryReview(WriteRequest):
    """Put a review that waits for a person's attention, or for a later try, back into the queue now."""

    review_id: Id

"""The operations on reviews, and their typed requests."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from tandem.contract.caller import Subject
from tandem.contract.operation import (
    ADMIN,
    ALL,
    OPERATOR,
    PROPOSER,
    READ,
    REPEATABLE_WRITE,
    REVIEWER,
    SUPERVISOR,
    WRITE,
    ForPeople,
    Operation,
    Unlisted,
)
from tandem.contract.request import (
    LARGEST,
    UNLISTED,
    AttentionFilter,
    FilePath,
    FullText,
    Generation,
    Id,
    Metadata,
    Name,
    OptionalReason,
    PageLimit,
    PageToken,
    ProjectRequest,
    Proof,
    Reason,
    Refusals,
    Request,
    ReviewId,
    RoundNumber,
    StateFilter,
    StatusName,
    Text,
    Token,
    WaitCursor,
    WaitFlag,
    WaitSeconds,
    Work,
    WriteRequest,
)
from tandem.errors import (
    AlreadyClaimed,
    AlreadyLanded,
    CursorExpired,
    Forbidden,
    InvalidDiff,
    InvalidPhase,
    InvalidTransition,
    NoCounterPatch,
    NotClaimant,
    NotFound,
    OpenFindings,
    ReasonRequired,
    RequirementMissing,
    SchemaInvalid,
    SelfApproval,
    StaleClaim,
    StaleRound,
    TimedOut,
    TurnViolation,
)
from tandem.reviews import answers
from tandem.reviews.finding_contract import GivenFinding, GivenSettling
from tandem.reviews.rules import Category, Priority, Side
from tandem.reviews.tally_contract import Statistics

CategoryFilter = Annotated[Category | None, Field(description="Only reviews of this kind.")]
PriorityFilter = Annotated[Priority | None, Field(description="Only reviews of this priority.")]
TurnFilter = Annotated[Side | None, Field(description="Only reviews where it is this side's turn.")]


class SentBaseFile(Request):
    """One of the files that a change touches, as its base has it: for a broker without the repository."""

    path: Annotated[FilePath, Field(description="The file, from the repository's root.")]
    mode: Annotated[Token, Field(description="Git's mode: 100644, 100755, 120000 or 160000.")]
    blob: Annotated[Token, Field(description="Git's id of the content; of a submodule, its commit.")]
    content: Annotated[Text, Field(description="In base64: what the file holds, or the link says.")]


class CreateReview(WriteRequest, Work):  # pyright: ignore[reportGeneralTypeIssues] frozen by its configuration
    """Propose a change for review; with review_id, revise one; with parent_id, resubmit a rejected one."""

    refusals: ClassVar[Refusals] = (InvalidDiff, NotFound, InvalidTransition, AlreadyLanded, TimedOut)
    actor_field: ClassVar[str | None] = "proposer_id"

    intent: Annotated[FullText, Field(description="What the change is for, in a sentence.")]
    agent_type: Annotated[Name, Field(description="The proposing agent, e.g. claude-code or gsd-executor.")]
    agent_role: Annotated[Name, Field(description="The agent's role, e.g. executor.")] = "proposer"
    category: Annotated[
        Category | None,
        Field(description="What kind of review it is. Default: `plan_review` without a diff, else `code_change`."),
    ] = None
    description: Annotated[Text | None, Field(description="Details; or the whole text of `path`.")] = None
    diff: Annotated[Text | None, Field(description="Unified git diff against `base`.")] = None
    base: Annotated[Token | None, Field(description="Commit the diff is against; default HEAD.")] = None
    path: Annotated[
        FilePath | None,
        Field(description="The file whose whole content `description` is; one that is no document becomes a diff."),
    ] = None
    base_files: Annotated[
        list[SentBaseFile] | None,
        Field(description="What base has at the paths that the change touches, for a broker without the repository."),
        UNLISTED,
    ] = None
    metadata: Annotated[Metadata | None, Field(description="Further facts for readers, stored as given.")] = None
    proposer_id: Annotated[Name | None, Field(description="Default: the session, else agent_type.")] = None
    review_id: Annotated[Id | None, Field(description="Revise this review: a new round.")] = None
    parent_id: Annotated[Id | None, Field(description="Resubmit: the rejected review this one follows.")] = None
    skip_diff_validation: Annotated[bool, Field(description="No digest: no gate accepts its approval.")] = False
    reuse: Annotated[bool, Field(description="Answer your open review of the same content, if there is one.")] = False


class GetReviewStatus(ProjectRequest):
    """The state of a review; with wait, returns when it is your turn."""

    refusals: ClassVar[Refusals] = (NotFound, CursorExpired)

    review_id: ReviewId
    wait: Annotated[bool, Field(description="Wait until there is something new for you.")] = False
    cursor: WaitCursor = None
    wake_on: Annotated[Literal["turn", "any"], Field(description="Wake when it is your turn, or on any event.")] = (
        "turn"
    )
    timeout_s: WaitSeconds = None


class GetProposal(ProjectRequest):
    """A round's whole content, and the pending counter-patch."""

    refusals: ClassVar[Refusals] = (NotFound, TimedOut)

    review_id: ReviewId
    round: Annotated[RoundNumber | None, Field(description="Default: the current round.")] = None
    since_round: Annotated[RoundNumber | None, Field(description="Add the interdiff since this round.")] = None
    files: Annotated[list[FilePath] | None, Field(max_length=1000, description="Only these files of the diff.")] = None


class GetBaseFiles(ProjectRequest):
    """What a round's base has at the paths that it touches: for reviewers who have not the repository."""

    refusals: ClassVar[Refusals] = (NotFound, TimedOut)

    review_id: ReviewId
    round: Annotated[RoundNumber | None, Field(description="Default: the current round.")] = None


class GetReview(GetProposal):
    """A whole review: its state, a round's content, all rounds, and the first page of the discussion."""

    actor_field: ClassVar[str | None] = "person"

    person: Annotated[Name | None, Field(description="Add the files that this person has marked as viewed.")] = None


class ListReviews(ProjectRequest):
    """Reviews by priority and age, a page at a time; with wait, answers when the list may have changed."""

    refusals: ClassVar[Refusals] = (CursorExpired,)

    status: Annotated[
        Literal["open", StatusName] | None, Field(description="Only reviews in this state; open: in any but closed.")
    ] = None
    category: CategoryFilter = None
    priority: PriorityFilter = None
    turn: TurnFilter = None
    attention: AttentionFilter = None
    order: Annotated[
        Literal["queue", "activity"], Field(description="activity: newest first, with no filter but status.")
    ] = "queue"
    wait: WaitFlag = False
    cursor: WaitCursor = None
    timeout_s: WaitSeconds = None
    limit: PageLimit = 50
    page: PageToken = None


class ClaimReview(WriteRequest):
    """Claim a review, or the next in the queue; answers with the proposal, or no review."""

    refusals: ClassVar[Refusals] = (NotFound, AlreadyClaimed, InvalidTransition, SelfApproval, RequirementMissing)
    actor_field: ClassVar[str | None] = "reviewer_id"

    reviewer_id: Annotated[Name, Field(description="Who reviews; keep it the same for the whole review.")]
    review_id: Annotated[Id | None, Field(description="Default: the next in the queue.")] = None
    category: Annotated[Category | None, Field(description="Only from the reviews of this kind.")] = None
    take_over: Annotated[
        bool, Field(description="For people: from a pool's reviewer that holds it, which is ended at once."), UNLISTED
    ] = False


class RenewClaim(WriteRequest):
    """Extend your lease while you work."""

    refusals: ClassVar[Refusals] = (NotFound, StaleClaim, NotClaimant, InvalidTransition)

    review_id: ReviewId
    claim_generation: Generation


class ReleaseClaim(WriteRequest):
    """Give your claim back: the review returns to the queue."""

    refusals: ClassVar[Refusals] = (NotFound, StaleClaim, NotClaimant, InvalidTransition)

    review_id: ReviewId
    claim_generation: Generation
    reason: OptionalReason = None


class LineComment(Request):
    """A minor finding, as clients gave them before there were findings."""

    file: Annotated[FilePath, Field(description="The file that a remark is about.")]
    line: Annotated[
        int | None, Field(ge=1, le=LARGEST, description="The line after the change, from 1; null for the whole file.")
    ] = None
    body: Annotated[FullText, Field(description="The text.")]


class SubmitVerdict(WriteRequest):
    """Give your verdict on the claimed round; changes_requested and comment may carry a counter-patch."""

    refusals: ClassVar[Refusals] = (
        NotFound,
        StaleClaim,
        NotClaimant,
        AlreadyClaimed,
        StaleRound,
        SelfApproval,
        Forbidden,
        OpenFindings,
        RequirementMissing,
        ReasonRequired,
        InvalidDiff,
        SchemaInvalid,
        InvalidTransition,
        InvalidPhase,
        TimedOut,
    )
    actor_field: ClassVar[str | None] = "reviewer_id"

    review_id: ReviewId
    verdict: Annotated[
        Literal["approved", "changes_requested", "rejected", "comment", "approve", "request_changes", "reject"],
        Field(description="`approve`, `request_changes` and `reject` are synonyms."),
    ]
    reason: Annotated[Reason, Field(description="Required unless approved.")] = None
    counter_patch: Annotated[Text | None, Field(description="Full replacement of the round's diff or text.")] = None
    findings: Annotated[
        list[GivenFinding] | None, Field(max_length=500, description="Every fault with its place, all at once.")
    ] = None
    answers: Annotated[
        list[GivenSettling] | None, Field(max_length=500, description="What became of earlier findings.")
    ] = None
    comments: Annotated[
        list[LineComment] | None,
        Field(max_length=500, description="Findings of `minor`, as older clients give them."),
        UNLISTED,
    ] = None
    read_all: Annotated[
        bool,
        Field(
            description="Every file was read to its end: then changes that are asked for only because of findings"
            " below the project's threshold are stored as approved, with notes."
        ),
        UNLISTED,
    ] = False
    claim: Annotated[
        bool,
        Field(description="Claim it for this verdict, as `reviewer_id`; if that is refused, all is as before."),
        UNLISTED,
    ] = False
    claim_generation: Annotated[Generation | None, Field(description="The claim's number, from `claim_review`.")] = None
    reviewer_id: Annotated[Name | None, Field(description="Who reviews; needed without `claim_generation`.")] = None
    round: Annotated[RoundNumber | None, Field(description="Default: the round you claimed.")] = None
    proof: Annotated[
        Proof | None,
        Field(description="What a command sealed that a person has run; a policy may ask for a person's approval."),
        UNLISTED,
    ] = None


class AcceptCounterPatch(WriteRequest):
    """Make the pending counter-patch the next round's content."""

    refusals: ClassVar[Refusals] = (NotFound, SelfApproval, NoCounterPatch, InvalidDiff, InvalidTransition, TimedOut)

    review_id: ReviewId
    counter_patch_id: Annotated[Id, Field(description="The counter-patch.")]
    reason: OptionalReason = None


class RejectCounterPatch(WriteRequest):
    """Decline the pending counter-patch; the round's content stays."""

    refusals: ClassVar[Refusals] = (NotFound, NoCounterPatch, InvalidTransition)

    review_id: ReviewId
    counter_patch_id: Annotated[Id, Field(description="The counter-patch.")]
    reason: OptionalReason = None


class AddMessage(WriteRequest):
    """Add a message to the discussion; the two sides alternate."""

    refusals: ClassVar[Refusals] = (NotFound, StaleClaim, NotClaimant, TurnViolation, InvalidTransition)
    actor_field: ClassVar[str | None] = "reviewer_id"
    side_field: ClassVar[str | None] = "sender_role"

    review_id: ReviewId
    sender_role: Annotated[Side, Field(description="The side that speaks.")]
    body: Annotated[FullText, Field(description="The text.")]
    metadata: Annotated[Metadata | None, Field(description="Files, lines and the like.")] = None
    resolves: Annotated[Id | None, Field(description="A message that this settles.")] = None
    reviewer_id: Annotated[
        Name | None, Field(description="Who reviews; for a reviewer's message without `claim_generation`.")
    ] = None
    claim_generation: Annotated[Generation | None, Field(description="The claim's number, from `claim_review`.")] = None


class GetDiscussion(ProjectRequest):
    """Messages, findings, verdicts and counter-patches, oldest first."""

    refusals: ClassVar[Refusals] = (NotFound,)

    review_id: ReviewId
    round: Annotated[RoundNumber | None, Field(description="Only what belongs to this round.")] = None
    limit: PageLimit = 50
    page: PageToken = None


_ONLY_IF_CURRENT = "Only if this is the current round. Default: any."


class WithdrawApproval(WriteRequest):
    """Withdraw an approval: the gate no longer opens for it; its commits stay.

    For the approver, and for operators. While others are missing, only its approver withdraws an approval; the others
    stay.
    """

    refusals: ClassVar[Refusals] = (NotFound, NotClaimant, ReasonRequired, StaleRound, InvalidTransition)
    actor_field: ClassVar[str | None] = "withdrawn_by"

    review_id: ReviewId
    reason: Annotated[Reason, Field(description="Why; required.")] = None
    round: Annotated[RoundNumber | None, Field(description=_ONLY_IF_CURRENT)] = None
    withdrawn_by: Annotated[
        Name | None, Field(description="Who withdraws it. Default: the session, else `operator`.")
    ] = None


class CloseReview(WriteRequest):
    """End a review: approved, rejected, or withdrawn if it was undecided."""

    refusals: ClassVar[Refusals] = (NotFound,)

    review_id: ReviewId
    reason: OptionalReason = None


class GetReviewTimeline(ProjectRequest):
    """Every event of one review, oldest first."""

    refusals: ClassVar[Refusals] = (NotFound,)

    review_id: ReviewId


class GetActivityFeed(ProjectRequest):
    """Reviews by latest activity with their last event; with wait, answers on the next one."""

    refusals: ClassVar[Refusals] = (CursorExpired,)

    status: StateFilter = None
    wait: WaitFlag = False
    cursor: WaitCursor = None
    timeout_s: WaitSeconds = None
    limit: PageLimit = 50
    page: PageToken = None


class GetAuditLog(ProjectRequest):
    """Events after a cursor, oldest first; without a cursor, the newest page."""

    refusals: ClassVar[Refusals] = (CursorExpired,)

    # It has any subject's events, of one project if that is named.
    subject_fields: ClassVar[Mapping[str, Subject]] = {}

    review_id: Annotated[
        Name | None, Field(description="Only events of this review, or of another subject such as cycle:ID.")
    ] = None
    kind: Annotated[Name | None, Field(description="Only events of this kind; see the kinds.")] = None
    actor: Annotated[Name | None, Field(description="Only events by this actor.")] = None
    wait: WaitFlag = False
    cursor: WaitCursor = None
    timeout_s: WaitSeconds = None
    limit: PageLimit = 50


class GetReviewStats(ProjectRequest):
    """Counts, approval rate and mean times, by category and reviewer."""

    refusals: ClassVar[Refusals] = ()

    since: Annotated[Name | None, Field(description="ISO date or time; whole days, UTC.")] = None


class RetryReview(WriteRequest):
    """Have a review that waits for a person, or for a later try, go on now."""

    refusals: ClassVar[Refusals] = (NotFound, InvalidTransition, RequirementMissing)

    review_id: ReviewId


_NEED_WORDS = "As the policy has it: `person`, `agent`, `agent:NAME`, `owner`, `review` or `checks`."
_SEALED = Field(description="What a command sealed that a person has run.", json_schema_extra={"unlisted": True})


class WaiveRequirement(WriteRequest):
    """Let a change go without something that the policy asks for: on record, and owed until it is reviewed after all.

    For persons. When nothing else is missing, it approves the review.
    """

    refusals: ClassVar[Refusals] = (NotFound, Forbidden, StaleRound, InvalidTransition, OpenFindings)
    actor_field: ClassVar[str | None] = "waived_by"

    review_id: ReviewId
    need: Annotated[Name, Field(description=_NEED_WORDS)]
    until: Annotated[Name, Field(description="When the review after the fact is due, ISO time; at most 90 days ahead.")]
    reason: Annotated[FullText, Field(description="Why it cannot wait.")]
    round: Annotated[RoundNumber, Field(description="The round that it is for.")]
    waived_by: Annotated[Name | None, Field(description="Who waives it. Default: the session, else `operator`.")] = None
    proof: Annotated[Proof | None, _SEALED] = None


class SettleWaiver(WriteRequest):
    """Review a waived requirement after the fact: the change is good, and the debt over; or not, and a person looks.

    For those whose approval the policy would have taken.
    """

    refusals: ClassVar[Refusals] = (
        *(NotFound, ReasonRequired, StaleRound, InvalidTransition, SelfApproval),
        *(Forbidden, RequirementMissing),
    )
    actor_field: ClassVar[str | None] = "reviewer_id"

    review_id: ReviewId
    verdict: Annotated[Literal["approved", "objects"], Field(description="Whether the change is good.")]
    need: Annotated[Name | None, Field(description=f"{_NEED_WORDS} Needed if several are owed.")] = None
    reason: Annotated[Reason, Field(description="Required to object.")] = None
    round: Annotated[RoundNumber | None, Field(description=_ONLY_IF_CURRENT)] = None
    reviewer_id: Annotated[Name | None, Field(description="Who reviewed it. Default: the session.")] = None
    proof: Annotated[Proof | None, _SEALED] = None


OPERATIONS = (
    Operation("create_review", "review", "create", CreateReview, answers.ReviewCreated, PROPOSER, WRITE),
    # Supervisors run checks on a proposal, until its review goes on.
    Operation(
        "get_review_status",
        "review",
        "status",
        GetReviewStatus,
        answers.ReviewStatus,
        ALL | SUPERVISOR,
        READ,
        blocking=True,
    ),
    Operation("get_proposal", "review", "proposal", GetProposal, answers.Proposal, ALL | SUPERVISOR, READ),
    ForPeople("get_base_files", "review", "base-files", GetBaseFiles, answers.BaseFiles, ALL, READ),
    Unlisted("get_review", "review", "show", GetReview, answers.FullReview, ALL, READ),
    Operation("list_reviews", "review", "list", ListReviews, answers.ReviewPage, ALL, READ, blocking=True),
    Operation("claim_review", "review", "claim", ClaimReview, answers.Claim, REVIEWER, WRITE),
    Operation("renew_claim", "review", "renew", RenewClaim, answers.ClaimRenewed, REVIEWER, REPEATABLE_WRITE),
    Operation("release_claim", "review", "release", ReleaseClaim, answers.ClaimReleased, REVIEWER, WRITE),
    Operation("submit_verdict", "review", "verdict", SubmitVerdict, answers.VerdictGiven, REVIEWER, WRITE),
    Operation(
        "accept_counter_patch",
        "review patch",
        "accept",
        AcceptCounterPatch,
        answers.CounterPatchDecided,
        PROPOSER,
        WRITE,
    ),
    Operation(
        "reject_counter_patch",
        "review patch",
        "reject",
        RejectCounterPatch,
        answers.CounterPatchDecided,
        PROPOSER,
        WRITE,
    ),
    Operation("add_message", "review", "message", AddMessage, answers.MessageSent, PROPOSER | REVIEWER, WRITE),
    Operation("get_discussion", "review", "discussion", GetDiscussion, answers.Discussion, ALL, READ),
    Unlisted(
        "withdraw_approval",
        "review",
        "withdraw",
        WithdrawApproval,
        answers.ApprovalWithdrawn,
        REVIEWER | OPERATOR | ADMIN,
        WRITE,
    ),
    ForPeople("waive_requirement", "review", "waive", WaiveRequirement, answers.ReviewStatus, OPERATOR | ADMIN, WRITE),
    Unlisted(
        "settle_waiver", "review", "settle", SettleWaiver, answers.ReviewStatus, REVIEWER | OPERATOR | ADMIN, WRITE
    ),
    Operation("close_review", "review", "close", CloseReview, answers.ReviewClosed, PROPOSER, REPEATABLE_WRITE),
    Operation("get_review_timeline", "review", "timeline", GetReviewTimeline, answers.Timeline, OPERATOR, READ),
    Operation(
        "get_activity_feed", "review", "feed", GetActivityFeed, answers.ActivityFeed, OPERATOR, READ, blocking=True
    ),
    Operation("get_audit_log", "audit", "log", GetAuditLog, answers.AuditPage, OPERATOR, READ, blocking=True),
    Operation("get_review_stats", "review", "stats", GetReviewStats, Statistics, OPERATOR, READ),
    ForPeople("retry_review", "review", "retry", RetryReview, answers.ReviewStatus, OPERATOR | ADMIN, REPEATABLE_WRITE),
)

"""What operations answer: the typed responses of the contract, declared once for every interface.

Times are ISO 8601 in UTC. Cursors and page tokens are opaque.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import Field

from tandem.contract.answer import (
    AcceptedBy,
    Attention,
    Changed,
    CreatedAt,
    Cursor,
    Digest,
    Metadata,
    NextPage,
    Notes,
    Outcome,
    ProjectName,
    QuestionId,
    RemovedAt,
    ReviewId,
    Revision,
    RoundNumber,
    StateName,
    TextPath,
    Turn,
    UpdatedAt,
    VerdictName,
)
from tandem.contract.request import Work
from tandem.git.changes import AffectedFile
from tandem.present.shape import Shown
from tandem.reviews.check_contract import CheckView, ConflictWith, GroundView, UnapprovedRange
from tandem.reviews.finding_contract import FindingCounts, FindingView, LessonView
from tandem.reviews.reviewer_contract import Holder, NoReviewer

Files = Annotated[tuple[AffectedFile, ...], Field(description="The files that the content touches.")]
LeaseEnd = Annotated[str, Field(description="When the claim ends unless it is renewed.")]
Author = Annotated[str, Field(description="Who wrote it.")]
Origin = Annotated[str, Field(description="Where the round came from: `proposal`, `revision` or `counter_patch`.")]
PriorityName = Annotated[str, Field(description="How urgent it is; inferred once, when the review is created.")]
CategoryName = Annotated[str, Field(description="What kind of review it is.")]
ParentId = Annotated[str, Field(description="The rejected review that this one follows.")]
Validated = Annotated[bool, Field(description="Whether the broker computed the digest from a real repository.")]
ReviewerId = Annotated[str, Field(description="Who reviews, or gave the latest verdict.")]
ClaimGeneration = Annotated[
    int,
    Field(description="The number of the claim, from `claim_review`; every later write of the reviewer names it."),
]


NextActionName = Annotated[
    str,
    Field(
        description="What the proposer does now: `wait`, `answer_message`, `decide_counter_patch`, `revise`, "
        "`apply_and_close`, `revert`, `escalate` or `none`; `message` says how."
    ),
]
NextMessage = Annotated[
    str, Field(description="`next_action` in words, with the operations that do it."), Shown("hidden")
]
NO_REVIEWER = Field(description="Why no reviewer takes it; null if one may come, or somebody has it.")


@dataclass(frozen=True, kw_only=True)
class ReviewPlace:
    """Which review it is, and where it stands; without slots, as `Work`, so that an answer can extend both."""

    review_id: ReviewId
    project: ProjectName
    status: StateName
    round: RoundNumber


@dataclass(frozen=True, slots=True, kw_only=True)
class Onward:
    """The next step after an act of the proposer's side; see `views.onward`."""

    next_action: NextActionName = "wait"
    message: NextMessage = ""
    no_reviewer: Annotated[NoReviewer | None, NO_REVIEWER, Shown("hidden")] = None
    missing: Annotated[
        tuple[str, ...],
        Field(description="What the project's policy still needs beside passed checks, in words; findings included."),
    ] = ()
    revision: Revision | None = None
    followed: Annotated[bool, Field(description="Whether the next commit is its next round."), Shown("hidden")] = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewCreated(Onward, ReviewPlace):
    """A change was proposed, or a proposal revised."""

    digest: Digest | None
    validated: Validated
    priority: PriorityName
    category: CategoryName
    affected_files: Files
    cursor: Cursor
    parent_id: ParentId | None = None
    existed: Annotated[bool, Field(description="Whether the review was there already: nothing was written.")] = False
    notes: Notes = ()
    path: TextPath | None = None


WaivedBy = Annotated[str, Field(description="Who waived the last missing requirement, which approved it; or null.")]


@dataclass(frozen=True, slots=True)
class DebtView:
    """A requirement that a person waived, still to be reviewed after the fact."""

    words: Annotated[str, Field(description="All of it, in a sentence."), Shown(label="owed")]
    need: Annotated[str, Field(description="The policy's word for it."), Shown("hidden")]
    until: Annotated[str, Field(description="When its review after the fact is due."), Shown("hidden")]
    overdue: Annotated[bool, Field(description="Whether that has been."), Shown("hidden")]
    waived_by: Annotated[str, Field(description="Who waived it."), Shown("hidden")]
    reason: Annotated[str, Field(description="Why."), Shown("hidden")]
    waived_at: Annotated[str, Field(description="When."), Shown("hidden")]
    objection: Annotated[str | None, Field(description="Who reviewed it and objects, and why."), Shown("hidden")] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewStatus(Onward, Work, ReviewPlace):
    """Where a review stands, and what the proposer should do next."""

    outcome: Outcome | None
    digest: Digest | None
    verdict: VerdictName | None
    verdict_reason: Annotated[str | None, Field(description="The reason that came with the verdict.")]
    reviewer_id: ReviewerId | None
    claim_generation: Annotated[
        int, Field(description="The number of the latest claim; it rises whenever the review changes hands.")
    ]
    lease_expires_at: LeaseEnd | None
    counter_patch_id: Annotated[str | None, Field(description="The latest counter-patch.")]
    counter_patch_status: Annotated[
        str | None, Field(description="The latest counter-patch: `pending`, `accepted`, `rejected` or `superseded`.")
    ]
    turn: Turn | None
    attention: Attention | None
    changed: Changed
    cursor: Cursor
    checks: Annotated[
        str | None,
        Field(
            description=(
                "What the round's required checks come to: `pending`, `failed`, `passed`, or `doubtful` where they "
                "passed on what does not count (yet, or any longer); null without any. Only `passed` opens the gate."
            )
        ),
    ] = None
    removed_at: RemovedAt | None = None
    findings: Annotated[
        FindingCounts | None, Field(description="How many findings it has; null without any."), Shown("hidden")
    ] = None
    closed_reason: Annotated[
        str | None, Field(description="Why it was closed, or its approval withdrawn after that; null for no reason.")
    ] = None
    path: TextPath | None = None
    unapproved_range: UnapprovedRange | None = None
    conflict_with: ConflictWith | None = None
    question_id: QuestionId | None = None
    objections: Annotated[
        int,
        Field(description="Rounds to which a reviewer objected, since a person last decided; after three one decides."),
        Shown("hidden"),
    ] = 0
    owed: Annotated[
        tuple[DebtView, ...], Field(description="Waived requirements that are still to be reviewed after the fact.")
    ] = ()
    waived_by: WaivedBy | None = None
    beside: Annotated[
        tuple[str, ...],
        Field(description="Who is at work on it beside `reviewer_id`, each for an approval that the policy asks for."),
        Shown(label="also at work"),
    ] = ()


@dataclass(frozen=True, slots=True)
class CounterPatchView:
    """A counter-patch as its proposer sees it."""

    id: Annotated[str, Field(description="The counter-patch.")]
    author: Author
    round: RoundNumber
    status: Annotated[str, Field(description="`pending`, `accepted`, `rejected` or `superseded`.")]
    diff: Annotated[str | None, Field(description="The replacement diff.")]
    description: Annotated[str | None, Field(description="The replacement text, for a review of a text.")]
    affected_files: Files
    digest: Digest | None
    created_at: CreatedAt
    reason: Annotated[str | None, Field(description="Why, in words.")] = None
    interdiff: Annotated[
        str | None, Field(description="Its changes to the round; null for a text, and where git cannot tell.")
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewHead(ReviewPlace):
    """What a review, each of its rounds and every line of a list say of themselves."""

    intent: Annotated[str, Field(description="What the change is for.")]
    category: CategoryName
    priority: PriorityName
    proposer_id: Annotated[str, Field(description="Who proposed the review.")]
    agent_type: Annotated[str, Field(description="The proposing agent, such as `claude-code`.")]
    agent_role: Annotated[str, Field(description="The agent's role, e.g. executor.")]
    digest: Digest | None
    parent_id: ParentId | None
    created_at: CreatedAt


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal(Work, ReviewHead):
    """A round's whole content with the identity of who made it."""

    created_at: Annotated[str, Field(description="When the round was submitted."), Shown(label="round submitted")]
    current_round: Annotated[int, Field(description="The review's current round.")]
    author: Author
    origin: Origin
    description: Annotated[str | None, Field(description="The details in words, or the whole text of `path`.")]
    diff: Annotated[
        str | None,
        Field(description="The change as a unified git diff, which Tandem draws from the files before and after."),
    ]
    base: Annotated[str | None, Field(description="What the diff is against, as the proposer named it.")]
    base_commit: Annotated[str | None, Field(description="The commit that the diff was validated against.")]
    path: Annotated[str | None, Field(description="The file whose whole content `description` is.")]
    metadata: Metadata
    validated: Validated
    affected_files: Files
    child_ids: Annotated[tuple[str, ...], Field(description="The reviews that follow this one.")]
    counter_patch: Annotated[CounterPatchView | None, Field(description="The pending counter-patch, if there is one.")]
    submitter: Annotated[
        str,
        Field(
            description=(
                "Who sent the newest content that was no counter-patch; as the proposer, they give no verdict on it."
            )
        ),
    ]
    accepted_by: AcceptedBy | None = None
    drawn: Annotated[
        bool,
        Field(
            description=(
                "Whether Tandem drew the diff. If not, it is shown as it was sent, and need not be what an approval "
                "binds to: its files were never known here, or an earlier version kept it."
            )
        ),
    ] = True
    notes: Notes = ()
    ground: Annotated[
        GroundView | None, Field(description="What the round stands on; null where no repository is known.")
    ] = None
    interdiff: Annotated[str | None, Field(description="What changed since the round that was asked for.")] = None
    diff_left_out: Annotated[
        str | None, Field(description="Over MCP, why a long diff is not here, and how to get it file by file.")
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewRow(Work, ReviewHead):
    """One line of a list."""

    outcome: Outcome | None
    reviewer_id: ReviewerId | None
    verdict: VerdictName | None
    turn: Turn | None
    attention: Attention | None
    updated_at: UpdatedAt
    waived_by: WaivedBy | None = None
    owed: Annotated[str | None, Field(description="Each review that is still owed, and who waived it.")] = None


@dataclass(frozen=True, slots=True)
class ReviewPage:
    """A page of reviews, highest priority and oldest first."""

    reviews: Annotated[
        tuple[ReviewRow, ...],
        Field(description="The reviews of the page."),
        Shown(empty="No such reviews. All there are: tandem review list --all"),
    ]
    next_page: NextPage | None
    cursor: Cursor
    changed: Changed


@dataclass(frozen=True, slots=True)
class Claim:
    """A granted claim with its proposal; without a proposal if the queue is empty."""

    review: Annotated[Proposal | None, Field(description="The proposal; null with an empty queue.")]
    review_id: Annotated[str | None, Field(description="The review; null with an empty queue.")] = None
    status: StateName | None = None
    reviewer_id: Annotated[str | None, Field(description="Who holds the claim.")] = None
    claim_generation: ClaimGeneration | None = None
    lease_expires_at: LeaseEnd | None = None
    round: RoundNumber | None = None
    findings: Annotated[
        tuple[FindingView, ...], Field(description="The open findings of earlier rounds: your verdict answers each.")
    ] = ()
    lessons: Annotated[
        tuple[LessonView, ...], Field(description="False alarms in these files, which count for nothing again.")
    ] = ()
    applies_to_head: Annotated[
        bool | None,
        Field(description="Whether the round still applies to the project's HEAD; null if unknown."),
    ] = None
    cursor: Cursor | None = None


@dataclass(frozen=True, slots=True)
class ClaimRenewed:
    """The lease's new end."""

    review_id: ReviewId
    claim_generation: ClaimGeneration
    lease_expires_at: LeaseEnd


@dataclass(frozen=True, slots=True)
class ClaimReleased:
    """The review is back in the queue."""

    review_id: ReviewId
    status: StateName
    cursor: Cursor


@dataclass(frozen=True, slots=True)
class VerdictGiven:
    """The verdict stands."""

    review_id: ReviewId
    status: StateName
    round: RoundNumber
    verdict: VerdictName
    verdict_id: Annotated[str, Field(description="The verdict."), Shown(label="verdict id")]
    counter_patch_id: Annotated[str | None, Field(description="The counter-patch that came with it.")]
    cursor: Cursor
    notes: Notes = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CounterPatchDecided(Onward):
    """A counter-patch was accepted (it is now the round's content) or rejected."""

    review_id: ReviewId
    counter_patch_id: Annotated[str, Field(description="The counter-patch.")]
    status: StateName
    round: RoundNumber
    digest: Digest | None
    cursor: Cursor


@dataclass(frozen=True, slots=True)
class MessageSent:
    """The message is part of the discussion."""

    review_id: ReviewId
    message_id: Annotated[str, Field(description="The message.")]
    status: StateName
    round: RoundNumber
    turn: Turn | None
    cursor: Cursor
    next_action: NextActionName = "wait"
    message: NextMessage = ""
    no_reviewer: Annotated[NoReviewer | None, NO_REVIEWER, Shown("hidden")] = None


@dataclass(frozen=True, slots=True)
class DiscussionEntry:
    """A message, finding, verdict or counter-patch, in the order it happened.

    `kind` is one of `message`, `finding`, `verdict`, `counter_patch`.
    """

    kind: Annotated[str, Field(description="`message`, `finding`, `verdict` or `counter_patch`.")]
    id: Annotated[str, Field(description="The message, finding, verdict or counter-patch.")]
    round: RoundNumber
    at: Annotated[str, Field(description="When it happened.")]
    author: Author
    sender_role: Annotated[str, Field(description="The side that speaks.")]
    body: Annotated[
        str | None, Field(description="The text: a message, a finding, or the reason of a verdict or of a decision.")
    ]
    verdict: VerdictName | None = None
    verdict_id: Annotated[
        str | None, Field(description="The verdict that a finding came with."), Shown(label="verdict id")
    ] = None
    file: Annotated[str | None, Field(description="The file that a finding is about.")] = None
    line: Annotated[int | None, Field(description="Its first line, from 1; null for the whole file.")] = None
    severity: Annotated[str | None, Field(description="How grave a finding is."), Shown("name")] = None
    found_in: Annotated[str | None, Field(description="Another review that a finding is from."), Shown("hidden")] = None
    status: Annotated[
        str | None,
        Field(
            description="What a finding is now; or a counter-patch: `pending`, `accepted`, `rejected` or `superseded`."
        ),
    ] = None
    diff: Annotated[str | None, Field(description="A counter-patch's replacement diff.")] = None
    description: Annotated[str | None, Field(description="A counter-patch's replacement text.")] = None
    metadata: Metadata | None = None
    resolves: Annotated[str | None, Field(description="The message that this one settles.")] = None
    resolved_by: Annotated[str | None, Field(description="The message that settled this one."), Shown("id")] = None


@dataclass(frozen=True, slots=True)
class Discussion:
    """A page of a review's discussion, oldest first."""

    review_id: ReviewId
    round: RoundNumber
    turn: Turn | None
    entries: Annotated[tuple[DiscussionEntry, ...], Field(description="The rows of the page.")]
    next_page: NextPage | None
    cursor: Cursor


@dataclass(frozen=True, slots=True)
class RoundRow:
    """A round without its content."""

    round: RoundNumber
    origin: Origin
    author: Author
    accepted_by: AcceptedBy | None
    digest: Digest | None
    created_at: CreatedAt
    verdict: Annotated[
        str | None, Field(description="The last verdict on the round, `comment` included; null without one.")
    ]
    decision: Annotated[str | None, Field(description="The last verdict that decided on the round; null without one.")]


@dataclass(frozen=True, slots=True)
class BaseFileView:
    """A file as the base has it."""

    path: Annotated[str, Field(description="The file, from the repository's root.")]
    mode: Annotated[str, Field(description="Git's mode: 100644, 100755, 120000 or 160000.")]
    blob: Annotated[str, Field(description="Git's id of the content; of a submodule, its commit.")]
    content: Annotated[str, Field(description="In base64: what the file holds, or the link says."), Shown("hidden")]


@dataclass(frozen=True, slots=True)
class BaseFiles:
    """What a round touches, as its base has it. All else of the base is not here."""

    review_id: ReviewId
    round: RoundNumber
    base: Annotated[str, Field(description="The commit that the round was made against.")]
    only_touched: Annotated[
        bool, Field(description="Always true: of files that the change does not touch, nothing is known.")
    ]
    files: Annotated[tuple[BaseFileView, ...], Field(description="Those of the touched paths that the base has.")]


@dataclass(frozen=True, slots=True)
class FullReview:
    """A whole review, read at one moment: its status, one round's content, all rounds, findings and discussion."""

    status: Annotated[ReviewStatus, Field(description="Where the review stands, as `get_review_status` answers.")]
    proposal: Annotated[Proposal, Field(description="The round's content, as `get_proposal` answers.")]
    rounds: Annotated[tuple[RoundRow, ...], Field(description="All rounds, oldest first.")]
    findings: Annotated[
        tuple[FindingView, ...], Field(description="Its findings, with their places in the round, oldest first.")
    ]
    discussion: Annotated[
        Discussion,
        Field(description="Its first entries, as many as a page has; `get_discussion` goes on with `next_page`."),
    ]
    actions: Annotated[
        tuple[str, ...],
        Field(description="What its state allows; who may do it is in [the life cycle](life-cycle.md)."),
    ]
    speaker: Annotated[
        str | None, Field(description="The side that spoke last in this round and claim; null if neither did.")
    ]
    viewed: Annotated[
        tuple[str, ...], Field(description="The files of the round that `person` has marked as viewed, in order.")
    ]
    checks: Annotated[tuple[CheckView, ...], Field(description="The round's checks, as `list_checks` answers.")]
    holder: Annotated[Holder | None, Field(description="Who holds it, if anybody does.")]
    cursor: Cursor


@dataclass(frozen=True, slots=True)
class ApprovalWithdrawn:
    """The approval counts no more; commits that rest on it stay."""

    review_id: ReviewId
    status: StateName
    outcome: Outcome | None
    round: RoundNumber
    commits: Annotated[
        tuple[str, ...], Field(description="The recorded commits that hold the content, which stay; the first 20.")
    ]
    branches: Annotated[tuple[str, ...], Field(description="The base branches that hold the content already.")]
    cursor: Cursor


@dataclass(frozen=True, slots=True)
class ReviewClosed:
    """The review is over."""

    review_id: ReviewId
    status: StateName
    outcome: Outcome
    cursor: Cursor


@dataclass(frozen=True, slots=True)
class EventView:
    """One event of the log."""

    seq: Annotated[
        int | None,
        Field(
            description="The event's number; given in the order of commits. Null for a token of one project, as it "
            "counts all projects' events."
        ),
    ]
    at: Annotated[str, Field(description="When it happened.")]
    project: Annotated[str, Field(description="The project; empty for the log's own events.")]
    subject: Annotated[
        str,
        Field(
            description="The subject: a review, `cycle:<id>`, `session:<id>`, "
            "`key:<project>/<workflow>/<role>`, `project:<name>`, `pool:<supervisor>`, `reviewer:<id>` "
            "or `log`."
        ),
        Shown("id"),
    ]
    actor: Annotated[str, Field(description="Who did it.")]
    kind: Annotated[str, Field(description="What happened; see the kinds."), Shown("name")]
    old: Annotated[str | None, Field(description="The state before, where there is one."), Shown("name")]
    new: Annotated[str | None, Field(description="The state after, where there is one."), Shown("name")]
    data: Annotated[dict[str, Any], Field(description="The facts; which ones depends on the kind."), Shown("details")]
    hash: Annotated[
        str,
        Field(description="SHA-256 over the event and the hash of the one before it on the same subject."),
        Shown("id"),
    ]


@dataclass(frozen=True, slots=True)
class Timeline:
    """Every event of one review, oldest first."""

    review_id: ReviewId
    events: Annotated[tuple[EventView, ...], Field(description="The events, oldest first."), Shown(empty="No events.")]
    cursor: Cursor


@dataclass(frozen=True, slots=True)
class AuditPage:
    """Events of the log after a cursor, oldest first; `cursor` is where to go on."""

    events: Annotated[tuple[EventView, ...], Field(description="The events, oldest first."), Shown(empty="No events.")]
    cursor: Cursor
    changed: Changed
    more: Annotated[bool, Field(description="Whether there are further events already.")]
    titles: Annotated[
        dict[str, str], Field(description="The intents of the reviews that the events name, by id."), Shown("hidden")
    ]


@dataclass(frozen=True, slots=True)
class FeedEntry:
    """A review with the newest thing that happened to it."""

    review: Annotated[ReviewRow, Field(description="The review.")]
    last_event: Annotated[EventView, Field(description="The newest thing that happened to it.")]


@dataclass(frozen=True, slots=True)
class ActivityFeed:
    """Reviews by latest activity, newest first."""

    entries: Annotated[
        tuple[FeedEntry, ...], Field(description="The rows of the page."), Shown(empty="Nothing has happened yet.")
    ]
    next_page: NextPage | None
    cursor: Cursor
    changed: Changed

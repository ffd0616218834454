"""What the reference pages say beyond what the declarations do; a missing word fails the build."""

from __future__ import annotations

from typing import Final

from tandem.domain.events import Kind
from tandem.domain.reviews import Action
from tandem.operations import reference_words_access as of_access
from tandem.operations import reference_words_cycles as of_cycles
from tandem.operations import reference_words_files as of_files
from tandem.operations import reference_words_gates as of_gates
from tandem.operations import reference_words_inbox as of_inbox
from tandem.operations import reference_words_pool as of_pool

EVENTS: Final[dict[Kind, str]] = {
    Kind.REVIEW_CREATED: "A change was put up: round 1.",
    Kind.REVIEW_REVISED: "The proposer put up a new round; an approval of an earlier round ends.",
    Kind.REVIEW_CLAIMED: (
        "A reviewer took the review. With `again: true` the holder was given a round that came up under its claim."
    ),
    Kind.CLAIM_RELEASED: (
        "The holder gave its claim back, or a pool's reviewer had no verdict to give; the review is in the queue "
        "again. With `not_before` it is tried again then."
    ),
    Kind.REVIEW_RECLAIMED: (
        "The broker took the claim back as its lease ran out, or as the pool's reviewer that held it has ended; the "
        "review is in the queue again."
    ),
    Kind.VERDICT_SUBMITTED: "The holder decided: approved, changes requested or rejected, on one round.",
    Kind.VERDICT_COMMENT: "The holder gave remarks without deciding, and keeps the claim.",
    Kind.COUNTER_PATCH_PROPOSED: "A verdict came with a replacement for the round's content.",
    Kind.COUNTER_PATCH_ACCEPTED: "The proposer took the counter-patch: it is the new round's content.",
    Kind.COUNTER_PATCH_REJECTED: "The proposer declined the counter-patch; the round's content stays.",
    Kind.COUNTER_PATCH_SUPERSEDED: (
        "A pending counter-patch was overtaken by a newer one, a revision, a verdict or the close."
    ),
    Kind.MESSAGE_SENT: "One side said something in the discussion.",
    Kind.MESSAGE_RESOLVED: "A message settled an earlier message or line comment.",
    Kind.REVIEW_CLOSED: "The review is over; `outcome` says how.",
    Kind.PROJECT_REGISTERED: "A project was registered for a folder, or its folder was forgotten.",
    **of_gates.EVENTS,
    **of_cycles.EVENTS,
    **of_pool.EVENTS,
    Kind.CHECKPOINT: "One hash over all events since the last checkpoint: no whole review can vanish unnoticed.",
}

ADVICE: Final[dict[str, str]] = {
    "INVALID_INPUT": "Correct the field that `details.field` names; `details.problems` lists every complaint.",
    "INVALID_DIFF": "Make the diff again against the base that you name (`git diff BASE`); the message quotes git.",
    "REASON_REQUIRED": "Send the verdict again with a `reason` that the proposer can act on.",
    "UNAUTHENTICATED": (
        "Send an access token as `Authorization: Bearer …`, or set `TANDEM_TOKEN` to it. `details.reason` says what is "
        "wrong with the one that came: `missing`, `malformed`, `repeated`, `unknown`, `expired` or `revoked`."
    ),
    "FORBIDDEN": (
        "Use an endpoint of a role that has the operation, or a token of such a role (`details.allowed`), and one of "
        "the right project. Address the broker as 127.0.0.1 or localhost, or by a name in the setting `allowed_hosts`."
    ),
    "SELF_APPROVAL": (
        "Release the claim and let another reviewer take it. Of a counter-patch: let the proposer decide about it."
    ),
    "NOT_CLAIMANT": "Claim the review first, and send the same `reviewer_id`, with the same token, throughout.",
    "NOT_FOUND": (
        "Look the name up: `list_reviews`, `get_proposal`, `get_discussion`, `list_projects`, `list_cycles` or "
        "`list_reviewers`."
    ),
    "INVALID_TRANSITION": "Read the state with `get_review_status`; `details.allowed_actions` says what it takes.",
    "ALREADY_CLAIMED": "Claim another review, or wait until `details.reviewer_id` releases this one.",
    "STALE_CLAIM": "Claim the review again if it is still open, and send the generation that you are then given.",
    "STALE_ROUND": "Read the current round with `get_proposal`, and send the verdict with its number as `round`.",
    "TURN_VIOLATION": "Wait until the other side has answered (`get_review_status` with `wait`).",
    "NO_COUNTER_PATCH": "Read the pending counter-patch, if there is one, with `get_proposal`.",
    "IDEMPOTENCY_CONFLICT": "Choose a new `idempotency_key` for a new call.",
    "CURSOR_EXPIRED": "Call again without a cursor; the log is another one, or was restored from a copy.",
    "TOO_LARGE": "Stay under `details.limit`: split the change, ask by pages, or raise the limit in the configuration.",
    "RATE_LIMITED": "Try the same call again later.",
    "CONFIG_INVALID": (
        "Correct the setting that `details.setting` names, at the place that `details.origin` names; for `keys`, give "
        "the roles in `details.missing` theirs with `tandem cycle init`."
    ),
    "INTERNAL_ERROR": "Look up `details.reference` in the broker's log (`tandem logs`), and report it.",
    "UNAVAILABLE": "Try the same call again in a moment; if no broker runs, `tandem up --background`.",
    "TIMEOUT": "Try the same call again; raise the setting `git_timeout_seconds` if the repository is that slow.",
    **of_cycles.ADVICE,
    **of_pool.ADVICE,
}

EVERYWHERE: Final = ("INVALID_INPUT", "UNAUTHENTICATED", "FORBIDDEN", "TOO_LARGE", "INTERNAL_ERROR", "UNAVAILABLE")
"""Codes that any operation can answer with."""

WITH_KEY: Final = ("IDEMPOTENCY_CONFLICT",)
"""Codes of every operation that takes an idempotency key."""

ELSEWHERE: Final[dict[str, str]] = {
    "RATE_LIMITED": "nothing in this release",
    "INVALID_TOOL": "the endpoint `/mcp/handoff`; any MCP endpoint for an unknown name with a dot",
    "CONFIG_INVALID": "the command line, at start; supervisors, at theirs",
}
"""Who answers with a code beside the operations, or in their place."""

CODES: Final[dict[str, tuple[str, ...]]] = {
    "create_review": ("INVALID_DIFF", "NOT_FOUND", "INVALID_TRANSITION", "TIMEOUT"),
    "get_review_status": ("NOT_FOUND", "CURSOR_EXPIRED"),
    "get_proposal": ("NOT_FOUND", "TIMEOUT"),
    "list_reviews": ("CURSOR_EXPIRED",),
    "claim_review": ("NOT_FOUND", "ALREADY_CLAIMED", "INVALID_TRANSITION"),
    "renew_claim": ("NOT_FOUND", "STALE_CLAIM", "NOT_CLAIMANT", "INVALID_TRANSITION"),
    "release_claim": ("NOT_FOUND", "STALE_CLAIM", "NOT_CLAIMANT", "INVALID_TRANSITION"),
    "submit_verdict": (
        "NOT_FOUND",
        "STALE_CLAIM",
        "NOT_CLAIMANT",
        "STALE_ROUND",
        "SELF_APPROVAL",
        "REASON_REQUIRED",
        "INVALID_DIFF",
        "SCHEMA_INVALID",
        "INVALID_TRANSITION",
        "INVALID_PHASE",
        "TIMEOUT",
    ),
    "accept_counter_patch": (
        "NOT_FOUND",
        "SELF_APPROVAL",
        "NO_COUNTER_PATCH",
        "INVALID_DIFF",
        "INVALID_TRANSITION",
        "TIMEOUT",
    ),
    "reject_counter_patch": ("NOT_FOUND", "NO_COUNTER_PATCH", "INVALID_TRANSITION"),
    "add_message": ("NOT_FOUND", "STALE_CLAIM", "NOT_CLAIMANT", "TURN_VIOLATION", "INVALID_TRANSITION"),
    "get_discussion": ("NOT_FOUND",),
    "close_review": ("NOT_FOUND",),
    "get_review_timeline": ("NOT_FOUND",),
    "get_activity_feed": ("CURSOR_EXPIRED",),
    "get_audit_log": ("CURSOR_EXPIRED",),
    "get_review_stats": (),
    "check_gate": (),
    "register_project": ("TIMEOUT",),
    "list_projects": (),
    "remove_project": ("NOT_FOUND",),
    **{
        name: tuple(dict.fromkeys(code for code, _ in checks if code not in EVERYWHERE))
        for name, checks in of_cycles.CHECKS.items()
    },
    **of_access.CODES,
    **of_files.CODES,
    **of_gates.CODES,
    **of_inbox.CODES,
    **of_pool.CODES,
}
"""Codes of each operation beside those of `EVERYWHERE` and `WITH_KEY`."""

PLAIN_ANSWERS: Final[dict[str, str]] = {
    "handoff_read": "[The payload](cycles.md#the-payload) as it was written, or an empty object.",
}
"""What an answer is that is a plain object."""

ACTIONS: Final[dict[Action, str]] = {
    Action.REVISE: "proposer: `create_review` with `review_id`",
    Action.CLAIM: "reviewer: `claim_review` with `review_id`",
    Action.CLAIM_NEXT: "reviewer: `claim_review` without `review_id`",
    Action.RENEW: "reviewer: `renew_claim`",
    Action.RELEASE: "reviewer: `release_claim`",
    Action.EXPIRE: "broker: the lease ran out, or a pool's reviewer gave no verdict",
    Action.PROPOSER_MESSAGE: "proposer: `add_message`",
    Action.REVIEWER_MESSAGE: "reviewer: `add_message`",
    Action.COMMENT: "reviewer: `submit_verdict` with `comment`",
    Action.APPROVE: "reviewer: `submit_verdict` with `approved`",
    Action.REQUEST_CHANGES: "reviewer: `submit_verdict` with `changes_requested`",
    Action.REJECT: "reviewer: `submit_verdict` with `rejected`",
    Action.ACCEPT_COUNTER_PATCH: "proposer: `accept_counter_patch`",
    Action.REJECT_COUNTER_PATCH: "proposer: `reject_counter_patch`",
    Action.CLOSE: "proposer: `close_review`",
}

# Where the declaration says nothing, by `Type.field`, else by the field's name alone.
FIELDS: Final[dict[str, str]] = {
    # Who and what
    "project": "The project.",
    "review_id": "The review.",
    "Claim.review_id": "The review; null with an empty queue.",
    "PathDecision.review_id": "The review whose approval covers the path.",
    "intent": "What the change is for.",
    "agent_type": "The proposing agent, such as `claude-code`.",
    "agent_role": "What the agent is within its workflow.",
    "phase": "The workflow's phase that the change belongs to.",
    "plan": "The workflow's plan that the change belongs to.",
    "task": "The workflow's task that the change belongs to.",
    "category": "What kind of review it is. Default: `plan_review` without a diff, else `code_change`.",
    "ReviewCreated.category": "What kind of review it is.",
    "Proposal.category": "What kind of review it is.",
    "ReviewRow.category": "What kind of review it is.",
    "ListReviews.category": "Only reviews of this kind.",
    "ClaimReview.category": "Only from the reviews of this kind.",
    "GetActivityFeed.category": "Only reviews of this kind.",
    "metadata": "Whatever else a reader should see, as the sender gave it.",
    "priority": "How urgent it is; inferred once, when the review is put up.",
    "ListReviews.priority": "Only reviews of this priority.",
    "proposer_id": "Who put the review up.",
    "reviewer_id": "Who reviews, or gave the latest verdict.",
    "SubmitVerdict.reviewer_id": "Who reviews; needed without `claim_generation`.",
    "AddMessage.reviewer_id": "Who reviews; for a reviewer's message without `claim_generation`.",
    "Claim.reviewer_id": "Who holds the claim.",
    "author": "Who wrote it.",
    "parent_id": "The rejected review that this one follows.",
    "child_ids": "The reviews that follow this one.",
    # Where it stands
    "status": "The review's state; see [the life cycle](life-cycle.md).",
    "ListReviews.status": "Only reviews in this state.",
    "GetActivityFeed.status": "Only reviews in this state.",
    "CounterPatchView.status": "`pending`, `accepted`, `rejected` or `superseded`.",
    "DiscussionEntry.status": "A counter-patch's status: `pending`, `accepted`, `rejected` or `superseded`.",
    "outcome": "How a closed review ended: `approved`, `rejected` or `withdrawn`.",
    "round": "The round's number.",
    "GetDiscussion.round": "Only what belongs to this round.",
    "current_round": "The review's current round.",
    "turn": "The side that has something to do, `proposer` or `reviewer`; null when the review is over.",
    "ListReviews.turn": "Only reviews where it is this side's turn.",
    "attention": "Why a person should look; null if nobody has to.",
    "next_action": (
        "What the proposer does now: `wait`, `answer_message`, `decide_counter_patch`, `revise`, `apply_and_close`, "
        "`revert`, `escalate` or `none`."
    ),
    "created_at": "When it was made.",
    "updated_at": "When it last changed.",
    # Content
    "description": "The details in words, or the whole text of `path`.",
    "CounterPatchView.description": "The replacement text, for a review of a text.",
    "DiscussionEntry.description": "A counter-patch's replacement text.",
    "diff": "The change as a unified git diff.",
    "CounterPatchView.diff": "The replacement diff.",
    "DiscussionEntry.diff": "A counter-patch's replacement diff.",
    "base": "What the diff is against, as the proposer named it.",
    "base_commit": "The commit that the diff was validated against.",
    "path": "The file whose whole content `description` is.",
    "AffectedFile.path": "The file after the change; of a deleted one, before it.",
    "GateChange.path": "The file.",
    "PathDecision.path": "The file.",
    "digest": (
        "What an approval binds to: SHA-256 over exactly this change, or blob id and path of a text; null if nothing "
        "was validated."
    ),
    "CheckGate.digest": "A round's digest instead of changes.",
    "validated": "Whether the broker computed the digest from a real repository.",
    "affected_files": "The files that the content touches.",
    "AffectedFile.operation": "What happens to it; `mode` if nothing but the file mode changes.",
    "AffectedFile.added": "Lines added; null for a binary file.",
    "AffectedFile.removed": "Lines removed; null for a binary file.",
    "AffectedFile.old_path": "Where a renamed file came from.",
    "origin": "Where the round came from: `proposal`, `revision` or `counter_patch`.",
    "accepted_by": "Who accepted the counter-patch that this round is; null if that may have been its author.",
    "submitter": "Who sent the newest content that was no counter-patch; as the proposer, they give no verdict on it.",
    "interdiff": "What changed since the round that was asked for.",
    "counter_patch": "The pending counter-patch, if there is one.",
    "SubmitVerdict.counter_patch": "Full replacement of the round's diff or text.",
    # Claims and verdicts
    "Claim.review": "The proposal; null with an empty queue.",
    "claim_generation": "The number of the claim, from `claim_review`; every later write of the reviewer names it.",
    "ReviewStatus.claim_generation": "The number of the latest claim; it rises whenever the review changes hands.",
    "lease_expires_at": "When the claim ends unless it is renewed.",
    "applies_to_head": "Whether the round still applies to the project's HEAD; null if nobody can tell.",
    "reason": "Why, in words.",
    "PathDecision.reason": "Which approval covers it, or why none does.",
    "GateDecision.reason": "The decision in words.",
    "verdict": "The verdict: `approved`, `changes_requested`, `rejected` or `comment`; null without one.",
    "SubmitVerdict.verdict": "`approve`, `request_changes` and `reject` are synonyms.",
    "verdict_id": "The verdict.",
    "DiscussionEntry.verdict_id": "The verdict that a line comment came with.",
    "verdict_reason": "The reason that came with the verdict.",
    "SubmitVerdict.comments": "Remarks on lines of the change.",
    "file": "The file that a remark is about.",
    "line": "The line after the change, from 1; null for the whole file.",
    "body": "The text.",
    "DiscussionEntry.body": "The text: a message, a remark, or the reason of a verdict or of a decision.",
    "counter_patch_id": "The counter-patch.",
    "ReviewStatus.counter_patch_id": "The latest counter-patch.",
    "VerdictGiven.counter_patch_id": "The counter-patch that came with it.",
    "counter_patch_status": "The latest counter-patch: `pending`, `accepted`, `rejected` or `superseded`.",
    # Discussion
    "sender_role": "The side that speaks.",
    "message_id": "The message.",
    "resolves": "The message or line comment that this one settles.",
    "resolved_by": "The message that settled this one.",
    "entries": "The rows of the page.",
    "DiscussionEntry.kind": "`message`, `comment` (on a line), `verdict` or `counter_patch`.",
    "DiscussionEntry.id": "The message, verdict or counter-patch.",
    "CounterPatchView.id": "The counter-patch.",
    # Waiting and pages
    "wait": "Wait until there is something new.",
    "timeout_s": "How long to wait, in seconds.",
    "cursor": "Where the log stood; a later wait sends it to go on from there.",
    "changed": "Whether there is something new since the cursor that was sent.",
    "page": "`next_page` of the page before.",
    "next_page": "Sent as `page` it gives the next page; null at the end.",
    "more": "Whether there are further events already.",
    # Events
    "events": "The events, oldest first.",
    "reviews": "The reviews of the page.",
    "EventView.seq": "The event's number; given in the order of commits.",
    "at": "When it happened.",
    "EventView.project": "The project; empty for the log's own events.",
    "subject": (
        "What it happened to: a review, `cycle:<id>`, `session:<id>`, `key:<project>/<workflow>/<role>`, "
        "`project:<name>`, `pool:<supervisor>`, `reviewer:<id>` or `log`."
    ),
    "actor": "Who did it.",
    "GetAuditLog.review_id": "Only events of this review.",
    "GetAuditLog.actor": "Only events by this actor.",
    "kind": "Only events of this kind; see [the kinds](events.md).",
    "EventView.kind": "What happened; see [the kinds](events.md).",
    "old": "The state before, where there is one.",
    "new": "The state after, where there is one.",
    "data": "The facts; which ones depends on the kind.",
    "hash": "SHA-256 over the event and the hash of the one before it on the same subject.",
    "FeedEntry.review": "The review.",
    "last_event": "The newest thing that happened to it.",
    # Statistics
    "since": "The day that the tallies begin with; null for all time.",
    "open": "How many reviews are in each state now.",
    "total": "The tally of everything.",
    "by_category": "A tally for each category.",
    "by_reviewer": "A tally for each reviewer.",
    "submitted": "Reviews put up.",
    "revised": "Later rounds put up.",
    "claimed": "Claims.",
    "approved": "Verdicts `approved`.",
    "changes_requested": "Verdicts `changes_requested`.",
    "rejected": "Verdicts `rejected`.",
    "Tally.comments": "Verdicts `comment`.",
    "closed": "Reviews closed.",
    "withdrawn": "Reviews closed undecided.",
    "approval_rate": "Approvals in all deciding verdicts, from 0 to 1; null without any.",
    "mean_seconds_to_claim": "Mean time from being put up to the first claim.",
    "mean_seconds_to_verdict": "Mean time from the claim to the deciding verdict.",
    # Gate and projects
    "changes": "The raw changes of the commit: every path once.",
    "mode_before": "File mode before; `000000` if there was no file.",
    "blob_before": "Blob id before; zeros if there was no file.",
    "mode_after": "File mode after; `000000` if there is no file.",
    "blob_after": "Blob id after; zeros if there is no file.",
    "allowed": "Whether it may pass.",
    "review_ids": "The reviews whose approvals were used.",
    "paths": "The decision for each path; empty when a digest was asked about.",
    "PathDecision.round": "The approved round.",
    "root": "The folder: absolute, in a git repository.",
    "ProjectView.root": "The top level of its git repository.",
    "name": "The project's name.",
    "registered_at": "When it was registered.",
    "projects": "The projects, by name.",
    "removed": "Always true.",
    **of_cycles.FIELDS,
    **of_access.FIELDS,
    **of_files.FIELDS,
    **of_gates.FIELDS,
    **of_inbox.FIELDS,
    **of_pool.FIELDS,
}

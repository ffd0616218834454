"""The operations on reviews and projects."""

from __future__ import annotations

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
from tandem.reviews import answers
from tandem.reviews import requests as ask
from tandem.reviews.tally_contract import Statistics
from tandem.reviews.waiver_contract import SettleWaiver, WaiveRequirement

OPERATIONS = (
    Operation("create_review", "review", "create", ask.CreateReview, answers.ReviewCreated, PROPOSER, WRITE),
    # Supervisors run checks on a proposal, until its review goes on.
    Operation(
        "get_review_status",
        "review",
        "status",
        ask.GetReviewStatus,
        answers.ReviewStatus,
        ALL | SUPERVISOR,
        READ,
        blocking=True,
    ),
    Operation("get_proposal", "review", "proposal", ask.GetProposal, answers.Proposal, ALL | SUPERVISOR, READ),
    ForPeople("get_base_files", "review", "base-files", ask.GetBaseFiles, answers.BaseFiles, ALL, READ),
    Unlisted("get_review", "review", "show", ask.GetReview, answers.FullReview, ALL, READ),
    Operation("list_reviews", "review", "list", ask.ListReviews, answers.ReviewPage, ALL, READ, blocking=True),
    Operation("claim_review", "review", "claim", ask.ClaimReview, answers.Claim, REVIEWER, WRITE),
    Operation("renew_claim", "review", "renew", ask.RenewClaim, answers.ClaimRenewed, REVIEWER, REPEATABLE_WRITE),
    Operation("release_claim", "review", "release", ask.ReleaseClaim, answers.ClaimReleased, REVIEWER, WRITE),
    Operation("submit_verdict", "review", "verdict", ask.SubmitVerdict, answers.VerdictGiven, REVIEWER, WRITE),
    Operation(
        "accept_counter_patch",
        "review patch",
        "accept",
        ask.AcceptCounterPatch,
        answers.CounterPatchDecided,
        PROPOSER,
        WRITE,
    ),
    Operation(
        "reject_counter_patch",
        "review patch",
        "reject",
        ask.RejectCounterPatch,
        answers.CounterPatchDecided,
        PROPOSER,
        WRITE,
    ),
    Operation("add_message", "review", "message", ask.AddMessage, answers.MessageSent, PROPOSER | REVIEWER, WRITE),
    Operation("get_discussion", "review", "discussion", ask.GetDiscussion, answers.Discussion, ALL, READ),
    Unlisted(
        "withdraw_approval",
        "review",
        "withdraw",
        ask.WithdrawApproval,
        answers.ApprovalWithdrawn,
        REVIEWER | OPERATOR | ADMIN,
        WRITE,
    ),
    ForPeople("waive_requirement", "review", "waive", WaiveRequirement, answers.ReviewStatus, OPERATOR | ADMIN, WRITE),
    Unlisted(
        "settle_waiver", "review", "settle", SettleWaiver, answers.ReviewStatus, REVIEWER | OPERATOR | ADMIN, WRITE
    ),
    Operation("close_review", "review", "close", ask.CloseReview, answers.ReviewClosed, PROPOSER, REPEATABLE_WRITE),
    Operation("get_review_timeline", "review", "timeline", ask.GetReviewTimeline, answers.Timeline, OPERATOR, READ),
    Operation(
        "get_activity_feed", "review", "feed", ask.GetActivityFeed, answers.ActivityFeed, OPERATOR, READ, blocking=True
    ),
    Operation("get_audit_log", "audit", "log", ask.GetAuditLog, answers.AuditPage, OPERATOR, READ, blocking=True),
    Operation("get_review_stats", "review", "stats", ask.GetReviewStats, Statistics, OPERATOR, READ),
    ForPeople(
        "retry_review", "review", "retry", ask.RetryReview, answers.ReviewStatus, OPERATOR | ADMIN, REPEATABLE_WRITE
    ),
)

"""Every operation of the product, declared once."""

from __future__ import annotations

from tandem.domain import answers
from tandem.operations import handlers as do
from tandem.operations import requests as ask
from tandem.operations.registry import ALL, READ, REPEATABLE_WRITE, WRITE, Operation, Registry, Role

_PROPOSER = frozenset({Role.PROPOSER})
_REVIEWER = frozenset({Role.REVIEWER})
_BOTH = frozenset({Role.PROPOSER, Role.REVIEWER})
_OPERATOR = frozenset({Role.OPERATOR})
_ADMIN = frozenset({Role.ADMIN})

REGISTRY = Registry(
    (
        Operation(
            "create_review",
            "review",
            "create",
            ask.CreateReview,
            answers.ReviewCreated,
            _PROPOSER,
            WRITE,
            do.create_review,
        ),
        Operation(
            "get_review_status",
            "review",
            "status",
            ask.GetReviewStatus,
            answers.ReviewStatus,
            ALL,
            READ,
            do.get_review_status,
            blocking=True,
        ),
        Operation("get_proposal", "review", "proposal", ask.GetProposal, answers.Proposal, ALL, READ, do.get_proposal),
        Operation(
            "list_reviews",
            "review",
            "list",
            ask.ListReviews,
            answers.ReviewPage,
            ALL,
            READ,
            do.list_reviews,
            blocking=True,
        ),
        Operation("claim_review", "review", "claim", ask.ClaimReview, answers.Claim, _REVIEWER, WRITE, do.claim_review),
        Operation(
            "renew_claim",
            "review",
            "renew",
            ask.RenewClaim,
            answers.ClaimRenewed,
            _REVIEWER,
            REPEATABLE_WRITE,
            do.renew_claim,
        ),
        Operation(
            "release_claim",
            "review",
            "release",
            ask.ReleaseClaim,
            answers.ClaimReleased,
            _REVIEWER,
            WRITE,
            do.release_claim,
        ),
        Operation(
            "submit_verdict",
            "review",
            "verdict",
            ask.SubmitVerdict,
            answers.VerdictGiven,
            _REVIEWER,
            WRITE,
            do.submit_verdict,
        ),
        Operation(
            "accept_counter_patch",
            "review",
            "accept",
            ask.AcceptCounterPatch,
            answers.CounterPatchDecided,
            _PROPOSER,
            WRITE,
            do.accept_counter_patch,
        ),
        Operation(
            "reject_counter_patch",
            "review",
            "reject",
            ask.RejectCounterPatch,
            answers.CounterPatchDecided,
            _PROPOSER,
            WRITE,
            do.reject_counter_patch,
        ),
        Operation(
            "add_message", "review", "message", ask.AddMessage, answers.MessageSent, _BOTH, WRITE, do.add_message
        ),
        Operation(
            "get_discussion",
            "review",
            "discussion",
            ask.GetDiscussion,
            answers.Discussion,
            ALL,
            READ,
            do.get_discussion,
        ),
        Operation(
            "close_review",
            "review",
            "close",
            ask.CloseReview,
            answers.ReviewClosed,
            _PROPOSER,
            REPEATABLE_WRITE,
            do.close_review,
        ),
        Operation(
            "get_review_timeline",
            "review",
            "timeline",
            ask.GetReviewTimeline,
            answers.Timeline,
            _OPERATOR,
            READ,
            do.get_review_timeline,
        ),
        Operation(
            "get_activity_feed",
            "review",
            "feed",
            ask.GetActivityFeed,
            answers.ActivityFeed,
            _OPERATOR,
            READ,
            do.get_activity_feed,
            blocking=True,
        ),
        Operation(
            "get_audit_log",
            "audit",
            "log",
            ask.GetAuditLog,
            answers.AuditPage,
            _OPERATOR,
            READ,
            do.get_audit_log,
            blocking=True,
        ),
        Operation(
            "get_review_stats",
            "review",
            "stats",
            ask.GetReviewStats,
            answers.Statistics,
            _OPERATOR,
            READ,
            do.get_review_stats,
        ),
        Operation("check_gate", "gate", "check", ask.CheckGate, answers.GateDecision, ALL, READ, do.check_gate),
        Operation(
            "register_project",
            "project",
            "add",
            ask.RegisterProject,
            answers.ProjectView,
            _ADMIN,
            REPEATABLE_WRITE,
            do.register_project,
        ),
        Operation(
            "list_projects", "project", "list", ask.ListProjects, answers.ProjectList, _ADMIN, READ, do.list_projects
        ),
        Operation(
            "remove_project",
            "project",
            "remove",
            ask.RemoveProject,
            answers.ProjectRemoved,
            _ADMIN,
            WRITE,
            do.remove_project,
        ),
    )
)

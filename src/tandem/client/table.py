"""What each operation is. Written by `python -m tandem.client.generate`; do not edit."""

# ruff: noqa: E501 - a line each.
# It is compared with the registry byte for byte, so that no formatter may touch it:
# fmt: off

from __future__ import annotations

from tandem.client.described import Described
from tandem.domain import answers, cycle_answers, gate_answers, pool_answers
from tandem.operations import cycle_requests, gate_requests, pool_requests, requests

OPERATIONS: dict[str, Described] = {
    "create_review": Described("create_review", "review", "create", requests.CreateReview, answers.ReviewCreated, blocking=False),
    "get_review_status": Described("get_review_status", "review", "status", requests.GetReviewStatus, answers.ReviewStatus, blocking=True),
    "get_proposal": Described("get_proposal", "review", "proposal", requests.GetProposal, answers.Proposal, blocking=False),
    "list_reviews": Described("list_reviews", "review", "list", requests.ListReviews, answers.ReviewPage, blocking=True),
    "claim_review": Described("claim_review", "review", "claim", requests.ClaimReview, answers.Claim, blocking=False),
    "renew_claim": Described("renew_claim", "review", "renew", requests.RenewClaim, answers.ClaimRenewed, blocking=False),
    "release_claim": Described("release_claim", "review", "release", requests.ReleaseClaim, answers.ClaimReleased, blocking=False),
    "submit_verdict": Described("submit_verdict", "review", "verdict", requests.SubmitVerdict, answers.VerdictGiven, blocking=False),
    "accept_counter_patch": Described("accept_counter_patch", "review", "accept", requests.AcceptCounterPatch, answers.CounterPatchDecided, blocking=False),
    "reject_counter_patch": Described("reject_counter_patch", "review", "reject", requests.RejectCounterPatch, answers.CounterPatchDecided, blocking=False),
    "add_message": Described("add_message", "review", "message", requests.AddMessage, answers.MessageSent, blocking=False),
    "get_discussion": Described("get_discussion", "review", "discussion", requests.GetDiscussion, answers.Discussion, blocking=False),
    "close_review": Described("close_review", "review", "close", requests.CloseReview, answers.ReviewClosed, blocking=False),
    "get_review_timeline": Described("get_review_timeline", "review", "timeline", requests.GetReviewTimeline, answers.Timeline, blocking=False),
    "get_activity_feed": Described("get_activity_feed", "review", "feed", requests.GetActivityFeed, answers.ActivityFeed, blocking=True),
    "get_audit_log": Described("get_audit_log", "audit", "log", requests.GetAuditLog, answers.AuditPage, blocking=True),
    "get_review_stats": Described("get_review_stats", "review", "stats", requests.GetReviewStats, answers.Statistics, blocking=False),
    "check_gate": Described("check_gate", "gate", "check", requests.CheckGate, answers.GateDecision, blocking=False),
    "register_project": Described("register_project", "project", "add", requests.RegisterProject, answers.ProjectView, blocking=False),
    "list_projects": Described("list_projects", "project", "list", requests.ListProjects, answers.ProjectList, blocking=False),
    "remove_project": Described("remove_project", "project", "remove", requests.RemoveProject, answers.ProjectRemoved, blocking=False),
    "retry_review": Described("retry_review", "review", "retry", requests.RetryReview, answers.ReviewStatus, blocking=False),
    "set_gate": Described("set_gate", "gate", "set", gate_requests.SetGate, gate_answers.GateState, blocking=False),
    "get_gate": Described("get_gate", "gate", "show", gate_requests.GetGate, gate_answers.GateState, blocking=False),
    "override_gate": Described("override_gate", "gate", "record-override", gate_requests.OverrideGate, gate_answers.GateOverridden, blocking=False),
    "record_commit": Described("record_commit", "commit", "record", gate_requests.RecordCommit, gate_answers.CommitRecord, blocking=False),
    "list_commits": Described("list_commits", "commit", "list", gate_requests.ListCommits, gate_answers.CommitPage, blocking=False),
    "record_rollback": Described("record_rollback", "commit", "rolled-back", gate_requests.RecordRollback, gate_answers.RollbackRecorded, blocking=False),
    "session_open": Described("session_open", "session", "open", cycle_requests.SessionOpen, cycle_answers.SessionOpened, blocking=False),
    "cycle_start": Described("cycle_start", "cycle", "start", cycle_requests.CycleStart, cycle_answers.CycleStarted, blocking=False),
    "cycle_status": Described("cycle_status", "cycle", "status", cycle_requests.CycleStatus, cycle_answers.CycleStatus, blocking=True),
    "lock_acquire": Described("lock_acquire", "lock", "acquire", cycle_requests.LockAcquire, cycle_answers.LockAcquired, blocking=False),
    "handoff_write": Described("handoff_write", "handoff", "write", cycle_requests.HandoffWrite, cycle_answers.HandoffWritten, blocking=False),
    "handoff_read": Described("handoff_read", "handoff", "read", cycle_requests.HandoffRead, dict, blocking=False),
    "cycle_complete": Described("cycle_complete", "cycle", "complete", cycle_requests.CycleComplete, cycle_answers.CycleCompleted, blocking=False),
    "cycle_archive": Described("cycle_archive", "cycle", "archive", cycle_requests.CycleArchive, cycle_answers.CycleArchived, blocking=False),
    "session_close": Described("session_close", "session", "close", cycle_requests.SessionClose, cycle_answers.SessionClosed, blocking=False),
    "cycle_init": Described("cycle_init", "cycle", "init", cycle_requests.CycleInit, cycle_answers.KeysMade, blocking=False),
    "cycle_rotate": Described("cycle_rotate", "cycle", "rotate", cycle_requests.CycleRotate, cycle_answers.KeysMade, blocking=False),
    "cycle_revoke": Described("cycle_revoke", "cycle", "revoke", cycle_requests.CycleRevoke, cycle_answers.KeyRevoked, blocking=False),
    "list_cycles": Described("list_cycles", "cycle", "list", cycle_requests.ListCycles, cycle_answers.CyclePage, blocking=False),
    "get_cycle": Described("get_cycle", "cycle", "show", cycle_requests.GetCycle, cycle_answers.CycleHistory, blocking=False),
    "list_reviewers": Described("list_reviewers", "reviewers", "list", pool_requests.ListReviewers, pool_answers.ReviewerList, blocking=False),
    "spawn_reviewer": Described("spawn_reviewer", "reviewers", "spawn", pool_requests.SpawnReviewer, pool_answers.ReviewerView, blocking=True),
    "kill_reviewer": Described("kill_reviewer", "reviewers", "kill", pool_requests.KillReviewer, pool_answers.ReviewerView, blocking=False),
    "pause_reviewers": Described("pause_reviewers", "reviewers", "pause", pool_requests.PauseReviewers, pool_answers.PoolsChanged, blocking=False),
    "resume_reviewers": Described("resume_reviewers", "reviewers", "resume", pool_requests.ResumeReviewers, pool_answers.PoolsChanged, blocking=False),
    "supervisor_register": Described("supervisor_register", "supervisor", "register", pool_requests.SupervisorRegister, pool_answers.Registered, blocking=False),
    "supervisor_heartbeat": Described("supervisor_heartbeat", "supervisor", "heartbeat", pool_requests.SupervisorHeartbeat, pool_answers.Orders, blocking=True),
    "report_outcome": Described("report_outcome", "supervisor", "outcome", pool_requests.ReportOutcome, pool_answers.OutcomeReported, blocking=False),
}

"""The operations on reviewer pools."""

from __future__ import annotations

from tandem.contract.operation import ADMIN, OPERATOR, READ, REPEATABLE_WRITE, REVIEWER, SUPERVISOR, WRITE, Operation
from tandem.pool import answers
from tandem.pool import requests as ask

OPERATIONS = (
    Operation("list_reviewers", "reviewers", "list", ask.ListReviewers, answers.ReviewerList, OPERATOR, READ),
    Operation(
        "spawn_reviewer", "reviewers", "spawn", ask.SpawnReviewer, answers.ReviewerView, OPERATOR, WRITE, blocking=True
    ),
    Operation("kill_reviewer", "reviewers", "kill", ask.KillReviewer, answers.ReviewerView, OPERATOR, REPEATABLE_WRITE),
    Operation(
        "pause_reviewers", "reviewers", "pause", ask.PauseReviewers, answers.PoolsChanged, ADMIN, REPEATABLE_WRITE
    ),
    Operation(
        "resume_reviewers", "reviewers", "resume", ask.ResumeReviewers, answers.PoolsChanged, ADMIN, REPEATABLE_WRITE
    ),
    Operation(
        "supervisor_register", "supervisor", "register", ask.SupervisorRegister, answers.Registered, SUPERVISOR, WRITE
    ),
    Operation(
        "supervisor_heartbeat",
        "supervisor",
        "heartbeat",
        ask.SupervisorHeartbeat,
        answers.Orders,
        SUPERVISOR,
        REPEATABLE_WRITE,
        blocking=True,
    ),
    # A pool's reviewers report their own runs.
    Operation(
        "report_outcome",
        "supervisor",
        "outcome",
        ask.ReportOutcome,
        answers.OutcomeReported,
        SUPERVISOR | REVIEWER,
        WRITE,
        listed=False,
        for_agents=False,
    ),
    Operation(
        "get_reviewer_log",
        "reviewers",
        "output",
        ask.GetReviewerLog,
        answers.ReviewerLog,
        OPERATOR,
        READ,
        listed=False,
    ),
)

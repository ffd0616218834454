"""The operations on reviewer pools."""

from __future__ import annotations

from tandem.contract.operation import READ, REPEATABLE_WRITE, WRITE, Operation, Role
from tandem.domain import pool_answers as answers
from tandem.operations import pool_handlers as do
from tandem.operations import pool_requests as ask

_OPERATOR = frozenset({Role.OPERATOR})
_SUPERVISOR = frozenset({Role.SUPERVISOR})
_ADMIN = frozenset({Role.ADMIN})

OPERATIONS = (
    Operation(
        "list_reviewers",
        "reviewers",
        "list",
        ask.ListReviewers,
        answers.ReviewerList,
        _OPERATOR,
        READ,
        do.list_reviewers,
    ),
    Operation(
        "spawn_reviewer",
        "reviewers",
        "spawn",
        ask.SpawnReviewer,
        answers.ReviewerView,
        _OPERATOR,
        WRITE,
        do.spawn_reviewer,
        blocking=True,
    ),
    Operation(
        "kill_reviewer",
        "reviewers",
        "kill",
        ask.KillReviewer,
        answers.ReviewerView,
        _OPERATOR,
        REPEATABLE_WRITE,
        do.kill_reviewer,
    ),
    Operation(
        "pause_reviewers",
        "reviewers",
        "pause",
        ask.PauseReviewers,
        answers.PoolsChanged,
        _ADMIN,
        REPEATABLE_WRITE,
        do.pause_reviewers,
    ),
    Operation(
        "resume_reviewers",
        "reviewers",
        "resume",
        ask.ResumeReviewers,
        answers.PoolsChanged,
        _ADMIN,
        REPEATABLE_WRITE,
        do.resume_reviewers,
    ),
    Operation(
        "supervisor_register",
        "supervisor",
        "register",
        ask.SupervisorRegister,
        answers.Registered,
        _SUPERVISOR,
        WRITE,
        do.supervisor_register,
    ),
    Operation(
        "supervisor_heartbeat",
        "supervisor",
        "heartbeat",
        ask.SupervisorHeartbeat,
        answers.Orders,
        _SUPERVISOR,
        REPEATABLE_WRITE,
        do.supervisor_heartbeat,
        blocking=True,
    ),
    Operation(
        "report_outcome",
        "supervisor",
        "outcome",
        ask.ReportOutcome,
        answers.OutcomeReported,
        # A pool's reviewers report their own runs.
        frozenset({Role.SUPERVISOR, Role.REVIEWER}),
        WRITE,
        do.report_outcome,
        listed=False,
        for_agents=False,
    ),
)

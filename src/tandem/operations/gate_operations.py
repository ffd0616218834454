"""The operations on gates. Hooks call them, not agents: over MCP there is `check_gate` alone."""

from __future__ import annotations

from tandem.contract.operation import ADMIN, ALL, OPERATOR, PROPOSER, READ, REPEATABLE_WRITE, Operation
from tandem.domain import gate_answers as answers
from tandem.domain.gate_answers import GateDecision
from tandem.operations import gate_requests as ask
from tandem.operations.gate_requests import CheckGate

OPERATIONS = (
    Operation("check_gate", "gate", "check", CheckGate, GateDecision, ALL, READ),
    Operation("set_gate", "gate", "set", ask.SetGate, answers.GateState, ADMIN, REPEATABLE_WRITE),
    Operation("get_gate", "gate", "show", ask.GetGate, answers.GateState, ALL, READ, listed=False),
    Operation(
        "override_gate", "gate", "record-override", ask.OverrideGate, answers.GateOverridden, ADMIN, REPEATABLE_WRITE
    ),
    Operation(
        "record_commit",
        "commit",
        "record",
        ask.RecordCommit,
        answers.CommitRecord,
        PROPOSER,
        REPEATABLE_WRITE,
        listed=False,
    ),
    Operation("list_commits", "commit", "list", ask.ListCommits, answers.CommitPage, ALL, READ, listed=False),
    Operation(
        "record_rollback",
        "commit",
        "rolled-back",
        ask.RecordRollback,
        answers.RollbackRecorded,
        PROPOSER,
        REPEATABLE_WRITE,
        listed=False,
    ),
    Operation(
        "get_project_settings",
        "project",
        "settings",
        ask.GetProjectSettings,
        answers.ProjectSettings,
        OPERATOR | ADMIN,
        READ,
        listed=False,
        for_agents=False,
    ),
)

"""The operations on gates. Hooks call them, not agents: over MCP there is `check_gate` alone."""

from __future__ import annotations

from tandem.contract.operation import ALL, READ, REPEATABLE_WRITE, Operation, Role
from tandem.domain import gate_answers as answers
from tandem.domain.answers import GateDecision
from tandem.operations import gate_handlers as do
from tandem.operations import gate_requests as ask
from tandem.operations.requests import CheckGate

_PROPOSER = frozenset({Role.PROPOSER})
_ADMIN = frozenset({Role.ADMIN})

CHECK_GATE = Operation("check_gate", "gate", "check", CheckGate, GateDecision, ALL, READ, do.check_gate)

OPERATIONS = (
    Operation("set_gate", "gate", "set", ask.SetGate, answers.GateState, _ADMIN, REPEATABLE_WRITE, do.set_gate),
    Operation("get_gate", "gate", "show", ask.GetGate, answers.GateState, ALL, READ, do.get_gate, listed=False),
    Operation(
        "override_gate",
        "gate",
        "record-override",
        ask.OverrideGate,
        answers.GateOverridden,
        _ADMIN,
        REPEATABLE_WRITE,
        do.override_gate,
    ),
    Operation(
        "record_commit",
        "commit",
        "record",
        ask.RecordCommit,
        answers.CommitRecord,
        _PROPOSER,
        REPEATABLE_WRITE,
        do.record_commit,
        listed=False,
    ),
    Operation(
        "list_commits",
        "commit",
        "list",
        ask.ListCommits,
        answers.CommitPage,
        ALL,
        READ,
        do.list_commits,
        listed=False,
    ),
    Operation(
        "record_rollback",
        "commit",
        "rolled-back",
        ask.RecordRollback,
        answers.RollbackRecorded,
        _PROPOSER,
        REPEATABLE_WRITE,
        do.record_rollback,
        listed=False,
    ),
)

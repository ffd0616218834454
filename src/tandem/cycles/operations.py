"""The operations on hand-off cycles."""

from __future__ import annotations

from typing import Any

from tandem.contract.operation import ADMIN, HANDOFF, OPERATOR, READ, REPEATABLE_WRITE, WRITE, Operation
from tandem.core.secret_key import Tokens
from tandem.cycles import answers
from tandem.cycles import requests as ask


def _reveal_session(tokens: Tokens, data: dict[str, Any]) -> dict[str, Any]:
    """The session's token, derived again."""
    return {**data, "session_token": tokens.session_token(data["session_id"])}


def _reveal_lock(tokens: Tokens, data: dict[str, Any]) -> dict[str, Any]:
    """The lock's token as it was then, derived again from the rotation that was kept in its place."""
    return {**data, "lock_token": tokens.lock_token(data["cycle_id"], int(data["lock_token"]))}


OPERATIONS = (
    Operation(
        "session_open",
        "session",
        "open",
        ask.SessionOpen,
        answers.SessionOpened,
        HANDOFF,
        WRITE,
        reveal=_reveal_session,
    ),
    Operation(
        "cycle_start", "cycle", "start", ask.CycleStart, answers.CycleStarted, HANDOFF, WRITE, reveal=_reveal_lock
    ),
    Operation("cycle_status", "cycle", "status", ask.CycleStatus, answers.CycleStatus, HANDOFF, READ, blocking=True),
    Operation(
        "lock_acquire",
        "lock",
        "acquire",
        ask.LockAcquire,
        answers.LockAcquired,
        HANDOFF,
        REPEATABLE_WRITE,
        reveal=_reveal_lock,
    ),
    Operation("handoff_write", "handoff", "write", ask.HandoffWrite, answers.HandoffWritten, HANDOFF, WRITE),
    Operation("handoff_read", "handoff", "read", ask.HandoffRead, dict, HANDOFF, READ),
    Operation("cycle_complete", "cycle", "complete", ask.CycleComplete, answers.CycleCompleted, HANDOFF, WRITE),
    Operation("cycle_archive", "cycle", "archive", ask.CycleArchive, answers.CycleArchived, HANDOFF, WRITE),
    Operation("session_close", "session", "close", ask.SessionClose, answers.SessionClosed, ADMIN, REPEATABLE_WRITE),
    Operation("cycle_init", "cycle", "init", ask.CycleInit, answers.KeysMade, ADMIN, REPEATABLE_WRITE),
    Operation("cycle_rotate", "cycle", "rotate", ask.CycleRotate, answers.KeysMade, ADMIN, WRITE),
    Operation("cycle_revoke", "cycle", "revoke", ask.CycleRevoke, answers.KeyRevoked, ADMIN, WRITE),
    Operation("list_cycles", "cycle", "list", ask.ListCycles, answers.CyclePage, OPERATOR, READ, listed=False),
    Operation("get_cycle", "cycle", "show", ask.GetCycle, answers.CycleHistory, OPERATOR, READ, listed=False),
)

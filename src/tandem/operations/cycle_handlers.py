"""From a typed request on a cycle to the one service function that does it."""

from __future__ import annotations

from typing import Any

from tandem.contract.caller import Caller
from tandem.domain import cycle_answers as answers
from tandem.operations import cycle_requests as ask
from tandem.operations.handlers import call_of, wait_of
from tandem.services import cycle_history, cycle_keys, cycles, handoffs, sessions
from tandem.services.context import Services
from tandem.services.cycle_scope import Asked
from tandem.services.handoffs import NewHandoff


def _asked(request: Any, caller: Caller) -> Asked:
    return Asked(request.project, caller.project, request.workflow)


async def session_open(services: Services, request: ask.SessionOpen, caller: Caller) -> answers.SessionOpened:
    """Open a session."""
    return await sessions.open_session(services, call_of(caller), _asked(request, caller), request.role, request.psk)


async def session_close(services: Services, request: ask.SessionClose, caller: Caller) -> answers.SessionClosed:
    """End a session."""
    return await sessions.close_session(services, call_of(caller), request.session_token)


async def cycle_start(services: Services, request: ask.CycleStart, caller: Caller) -> answers.CycleStarted:
    """Begin a cycle."""
    return await cycles.start(services, call_of(caller), _asked(request, caller), request.feature)


async def cycle_status(services: Services, request: ask.CycleStatus, caller: Caller) -> answers.CycleStatus:
    """Where a cycle is."""
    return await cycles.status(
        services,
        _asked(request, caller),
        wait=wait_of(request),
        cursor=request.cursor,
        role=request.role,
    )


async def lock_acquire(services: Services, request: ask.LockAcquire, caller: Caller) -> answers.LockAcquired:
    """Take the lock's token."""
    return await cycles.acquire(services, call_of(caller), _asked(request, caller), request.session_token)


async def handoff_write(services: Services, request: ask.HandoffWrite, caller: Caller) -> answers.HandoffWritten:
    """Hand over."""
    sent = NewHandoff(request.target, request.payload, request.lock_token, request.session_token)
    return await handoffs.write(services, call_of(caller), _asked(request, caller), sent)


async def handoff_read(services: Services, request: ask.HandoffRead, caller: Caller) -> dict[str, Any]:
    """What was handed over."""
    return await handoffs.read(services, _asked(request, caller), request.target)


async def cycle_complete(services: Services, request: ask.CycleComplete, caller: Caller) -> answers.CycleCompleted:
    """Complete a cycle."""
    return await cycles.complete(
        services,
        call_of(caller),
        _asked(request, caller),
        lock_token=request.lock_token,
        session_token=request.session_token,
    )


async def cycle_archive(services: Services, request: ask.CycleArchive, caller: Caller) -> answers.CycleArchived:
    """Archive a cycle."""
    return await cycle_history.archive(
        services,
        call_of(caller),
        _asked(request, caller),
        lock_token=request.lock_token,
        session_token=request.session_token,
    )


async def cycle_init(services: Services, request: ask.CycleInit, caller: Caller) -> answers.KeysMade:
    """Make keys."""
    return await cycle_keys.init(services, call_of(caller), _asked(request, caller), request.keys)


async def cycle_rotate(services: Services, request: ask.CycleRotate, caller: Caller) -> answers.KeysMade:
    """Replace a key."""
    return await cycle_keys.rotate(services, call_of(caller), _asked(request, caller), request.role, request.key)


async def cycle_revoke(services: Services, request: ask.CycleRevoke, caller: Caller) -> answers.KeyRevoked:
    """Make a key void."""
    return await cycle_keys.revoke(services, call_of(caller), _asked(request, caller), request.role)


async def list_cycles(services: Services, request: ask.ListCycles, caller: Caller) -> answers.CyclePage:
    """A page of cycles."""
    return await cycle_history.list_page(services, _asked(request, caller), limit=request.limit, page=request.page)


async def get_cycle(services: Services, request: ask.GetCycle, caller: Caller) -> answers.CycleHistory:
    """A whole cycle."""
    return await cycle_history.history(services, _asked(request, caller), request.cycle_id)


def reveal_session(services: Services, data: dict[str, Any]) -> dict[str, Any]:
    """The session's token, derived again."""
    return {**data, "session_token": services.tokens.session_token(data["session_id"])}


def reveal_lock(services: Services, data: dict[str, Any]) -> dict[str, Any]:
    """The lock's token as it was then, derived again from the rotation that was kept in its place."""
    return {**data, "lock_token": services.tokens.lock_token(data["cycle_id"], int(data["lock_token"]))}

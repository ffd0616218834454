"""Sessions of roles: opened with a key, used, and ended."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace

from tandem.clock import MICROSECONDS
from tandem.contract.caller import Caller
from tandem.domain.cycle_answers import SessionClosed, SessionOpened
from tandem.domain.sessions import CycleKey, Session
from tandem.errors import AuthFailed, InvalidSession
from tandem.operations.cycle_requests import SessionClose, SessionOpen
from tandem.secret_key import check_key
from tandem.services import cycle_scope
from tandem.services.context import Services, transact
from tandem.services.cycle_keys import check_role
from tandem.services.cycle_scope import Standing
from tandem.store import events, sessions
from tandem.store.base import Unit

_log = logging.getLogger("tandem.sessions")


async def session_open(services: Services, caller: Caller, request: SessionOpen) -> SessionOpened:
    """Open a session for a role.

    Raises:
        ConfigInvalid: A role of the workflow has no key.
        InvalidRole: The workflow has no such role.
        AuthFailed: The key is not the role's.
    """
    role = request.role

    def look(unit: Unit) -> tuple[Standing, CycleKey | None]:
        standing = cycle_scope.look(unit, services, caller, request)
        cycle_scope.require_keys(unit, standing)
        check_role(standing.workflow, role)
        return standing, sessions.find_key(unit, standing.project, standing.workflow.name, role)

    standing, key = await services.store.read(look)
    # Slow on purpose, so neither here nor in the transaction; a few at a time, so that guesses cannot fill the memory.
    async with services.validations:
        fits = key is not None and await asyncio.to_thread(check_key, request.psk, key.key_hash)
    if key is None or not fits:
        _log.warning("a wrong key for the role %s of %s in %s", role, standing.workflow.name, standing.project)
        raise _auth_failed(role)
    session_id = services.clock.new_id("ss")

    def work(unit: Unit) -> SessionOpened:
        # Nobody replaces the key from here on, who would not find this session to end it.
        events.lock(unit)
        current = sessions.find_key(unit, key.project, key.workflow, role)
        if current is None or current.key_hash != key.key_hash:
            raise _auth_failed(role)
        now = services.clock.now_us()
        session = Session(session_id, key.project, key.workflow, role, now, now)
        sessions.open_session(unit, session, actor=role)
        token = services.tokens.session_token(session_id)
        return SessionOpened(token, role, session_id, key.project, key.workflow)

    return await transact(services, caller, work, kept=lambda answer: replace(answer, session_token=""))


async def session_close(services: Services, caller: Caller, request: SessionClose) -> SessionClosed:
    """End a session; ending it again gives the same answer.

    Raises:
        InvalidSession: There is no such session.
    """
    session_id = services.tokens.session_id_of(request.session_token)

    def work(unit: Unit) -> SessionClosed:
        events.lock(unit)
        session = sessions.find(unit, session_id, lock=True) if session_id else None
        if session is None:
            raise InvalidSession("There is no such session; it needs no closing.")
        if session.ended_at is None:
            sessions.end(unit, session, reason="closed", actor=session.role, now_us=services.clock.now_us())
        return SessionClosed(session.id, session.role, closed=True)

    return await transact(services, caller, work)


async def end_idle(services: Services, limit: int = 100) -> int:
    """End sessions that were not used for too long; how many there were."""
    since = services.clock.now_us() - round(services.policy.session_idle_seconds * MICROSECONDS)
    idle = await services.store.read(lambda unit: sessions.list_idle(unit, since, limit))
    return sum([await services.store.write(lambda unit, name=one.id: _end_idle(unit, services, name)) for one in idle])


def _end_idle(unit: Unit, services: Services, session_id: str) -> int:
    events.lock(unit)
    session = sessions.find(unit, session_id, lock=True)
    now = services.clock.now_us()
    if session is None or session.ended_at is not None or not session.idle(now, services.policy.session_idle_seconds):
        return 0
    sessions.end(unit, session, reason="idle", actor="broker", now_us=now)
    return 1


def _auth_failed(role: str) -> AuthFailed:
    return AuthFailed(
        f"This is not the key of {role}. `tandem cycle rotate {role}` makes a new one when it is lost.", role=role
    )

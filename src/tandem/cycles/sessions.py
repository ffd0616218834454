"""Sessions of roles, and the keys that open them.

A key is shown when it is made, and kept as a salted hash.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace

from tandem.contract.caller import Caller
from tandem.core.clock import MICROSECONDS
from tandem.core.secret_key import check_key, hash_key, new_key
from tandem.cycles import queries as cycles
from tandem.cycles import rules
from tandem.cycles import scope as cycle_scope
from tandem.cycles.answers import KeyRevoked, KeysMade, SessionClosed, SessionOpened
from tandem.cycles.requests import CycleInit, CycleRevoke, CycleRotate, SessionClose, SessionOpen
from tandem.cycles.rules import CycleKey, Session
from tandem.cycles.scope import CycleScope, WorkflowScope
from tandem.errors import AuthFailed, InvalidInput, InvalidSession, NotFound
from tandem.reviews.context import Services
from tandem.settings.workflows import Workflow
from tandem.store import events
from tandem.store.base import Unit
from tandem.store.context import transact

_log = logging.getLogger("tandem.sessions")
SHOWN_ONCE = "(shown once, when it was made)"
KEY_LENGTHS = (16, 200)
"""Characters that a key of one's own may have; keys that the broker makes have 256 random bits."""


async def session_open(services: Services, caller: Caller, request: SessionOpen) -> SessionOpened:
    """Open a session for a role.

    Raises:
        ConfigInvalid: A role of the workflow has no key.
        InvalidRole: The workflow has no such role.
        AuthFailed: The key is not the role's.
    """
    role = request.role

    def look(unit: Unit) -> tuple[CycleScope, CycleKey | None]:
        standing = cycle_scope.look(unit, services, caller, request)
        cycle_scope.require_keys(unit, standing)
        rules.check_known(standing.workflow, role)
        return standing, cycles.find_key(unit, standing.project, standing.workflow.name, role)

    standing, key = await services.store.read(look)
    # Slow on purpose, so neither here nor in the transaction; a few at a time, so that guesses cannot fill the memory.
    async with services.validations:
        fits = key is not None and await asyncio.to_thread(check_key, request.psk, key.key_hash)
    if key is None or not fits:
        _log.warning("a wrong key for the role %s of %s in %s", role, standing.workflow.name, standing.project)
        raise _auth_failed(role)
    session_id = services.clock.new_id("ss")

    def work(unit: Unit) -> SessionOpened:
        # From here on a replacement of the key finds this session, and ends it.
        events.lock(unit)
        current = cycles.find_key(unit, key.project, key.workflow, role)
        if current is None or current.key_hash != key.key_hash:
            raise _auth_failed(role)
        now = services.clock.now_us()
        session = Session(session_id, key.project, key.workflow, role, now, now)
        cycles.open_session(unit, session, actor=role)
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
        session = cycles.find_session(unit, session_id, lock=True) if session_id else None
        if session is None:
            raise InvalidSession("There is no such session; it needs no closing.")
        if session.ended_at is None:
            cycles.end_session(unit, session, reason="closed", actor=session.role, now_us=services.clock.now_us())
        return SessionClosed(session.id, session.role, closed=True)

    return await transact(services, caller, work)


async def end_idle(services: Services, limit: int = 100) -> int:
    """End sessions that were not used for too long; how many there were."""
    since = services.clock.now_us() - round(services.policy.session_idle_seconds * MICROSECONDS)
    idle = await services.store.read(lambda unit: cycles.list_idle_sessions(unit, since, limit))
    return sum([await services.store.write(lambda unit, name=one.id: _end_idle(unit, services, name)) for one in idle])


def _end_idle(unit: Unit, services: Services, session_id: str) -> int:
    events.lock(unit)
    session = cycles.find_session(unit, session_id, lock=True)
    now = services.clock.now_us()
    if session is None or session.ended_at is not None or not session.idle(now, services.policy.session_idle_seconds):
        return 0
    cycles.end_session(unit, session, reason="idle", actor="broker", now_us=now)
    return 1


def _auth_failed(role: str) -> AuthFailed:
    return AuthFailed(
        f"This is not the key of {role}. `tandem cycle rotate {role}` makes a new one when it is lost.", role=role
    )


async def cycle_init(services: Services, caller: Caller, request: CycleInit) -> KeysMade:
    """Give every role of a workflow that has none its key.

    Raises:
        InvalidInput: There is no such workflow, or a key that was given cannot be used.
        InvalidRole: A key is for no role of the workflow.
    """
    project, workflow = await _place(services, caller, request)
    own = dict(request.keys or {})
    for role in own:
        rules.check_known(workflow, role)
    existing = await services.store.read(lambda unit: cycles.list_keys(unit, project, workflow.name))
    needed = [role for role in workflow.roles if _is_missing(existing.get(role))]
    superfluous = sorted(own.keys() - set(needed))
    if superfluous:
        raise InvalidInput(
            f"{', '.join(superfluous)} has a key already; to replace it: tandem cycle rotate {superfluous[0]}.",
            field="keys",
        )
    made = {role: _checked(own[role]) if role in own else new_key() for role in needed}
    hashes = await asyncio.to_thread(lambda: {role: hash_key(key) for role, key in made.items()})

    def work(unit: Unit) -> KeysMade:
        events.lock(unit)
        now = services.clock.now_us()
        current = cycles.list_keys(unit, project, workflow.name)
        fresh = [role for role in needed if _is_missing(current.get(role))]
        for role in fresh:
            key = CycleKey(project, workflow.name, role, hashes[role], now)
            cycles.put_key(unit, current.get(role), key, actor=caller.operator)
        kept = tuple(role for role in workflow.roles if role not in fresh)
        return KeysMade(project, workflow.name, {role: made[role] for role in fresh}, kept)

    return await transact(services, caller, work, kept=_without_keys)


async def cycle_rotate(services: Services, caller: Caller, request: CycleRotate) -> KeysMade:
    """Replace a role's key; its sessions end.

    Raises:
        InvalidInput: There is no such workflow, or the key that was given cannot be used.
        InvalidRole: The workflow has no such role.
    """
    project, workflow = await _place(services, caller, request)
    role = request.role
    rules.check_known(workflow, role)
    key = _checked(request.key) if request.key is not None else new_key()
    key_hash = await asyncio.to_thread(hash_key, key)

    def work(unit: Unit) -> KeysMade:
        events.lock(unit)
        now = services.clock.now_us()
        before = cycles.find_key(unit, project, workflow.name, role)
        after = CycleKey(project, workflow.name, role, key_hash, now)
        ended = _put_in_place(unit, before, after, "rotated", caller, now)
        return KeysMade(project, workflow.name, {role: key}, sessions_ended=ended)

    return await transact(services, caller, work, kept=_without_keys)


async def cycle_revoke(services: Services, caller: Caller, request: CycleRevoke) -> KeyRevoked:
    """Make a role's key void; its sessions end.

    Raises:
        InvalidInput: There is no such workflow.
        InvalidRole: The workflow has no such role.
        NotFound: The role has no key.
    """
    project, workflow = await _place(services, caller, request)
    role = request.role
    rules.check_known(workflow, role)

    def work(unit: Unit) -> KeyRevoked:
        events.lock(unit)
        before = cycles.find_key(unit, project, workflow.name, role)
        if before is None or before.revoked_at is not None:
            raise NotFound(f"{role} has no key in '{project}' that could be revoked.", role=role, project=project)
        now = services.clock.now_us()
        after = before._replace(key_hash="", revoked_at=now)
        ended = _put_in_place(unit, before, after, "revoked", caller, now)
        return KeyRevoked(project, workflow.name, role, ended)

    return await transact(services, caller, work)


async def _place(services: Services, caller: Caller, request: WorkflowScope) -> tuple[str, Workflow]:
    # A running cycle's own workflow, not that of the configuration: its roles need keys to the end.
    standing = await services.store.read(lambda unit: cycle_scope.look(unit, services, caller, request))
    return standing.project, standing.workflow


def _is_missing(key: CycleKey | None) -> bool:
    return key is None or key.revoked_at is not None


def _checked(key: str) -> str:
    least, most = KEY_LENGTHS
    if not least <= len(key) <= most or key != key.strip() or not key.isprintable():
        raise InvalidInput(
            f"A key of your own has {least} to {most} printable characters and no space around it; leave it out and"
            " one is made for you.",
            field="key",
        )
    return key


def _put_in_place(
    unit: Unit, before: CycleKey | None, after: CycleKey, reason: str, caller: Caller, now_us: int
) -> int:
    """Write a role's key in place of the one before; how many sessions ended with that."""
    cycles.put_key(unit, before, after, actor=caller.operator)
    found = cycles.list_open_sessions(unit, after.project, after.workflow, after.role)
    for session in found:
        cycles.end_session(unit, session, reason=reason, actor=caller.operator, now_us=now_us)
    return len(found)


def _without_keys(answer: KeysMade) -> KeysMade:
    return replace(answer, keys=dict.fromkeys(answer.keys, SHOWN_ONCE))

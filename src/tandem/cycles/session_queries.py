"""Keys of roles and the sessions that they opened: reading, and writing together with the event."""

from __future__ import annotations

from sqlalchemy import bindparam, select, update

from tandem.cycles import tables
from tandem.cycles.rules import CycleKey, Session
from tandem.store import ledger
from tandem.store.base import Unit
from tandem.store.event import EventKind, sealed_value
from tandem.store.statement import Statement

_k = tables.cycle_keys.c
_s = tables.sessions.c


_of_workflow = select(tables.cycle_keys).where(_k.project == bindparam("project"), _k.workflow == bindparam("workflow"))
_keys = Statement(_of_workflow)
_key = Statement(_of_workflow.where(_k.role == bindparam("role")))
_with_keys = Statement(
    select(_k.workflow).distinct().where(_k.project == bindparam("project"), _k.revoked_at.is_(None))
)
_get = select(tables.sessions).where(_s.id == bindparam("session_id"))
_find = Statement(_get)
_find_locked = Statement(_get.with_for_update())
_touch = Statement(
    update(tables.sessions)
    .where(_s.id == bindparam("key"), _s.ended_at.is_(None))
    .values(last_seen_at=bindparam("new_last_seen_at"))
)
_open_of_role = Statement(
    select(tables.sessions).where(
        _s.project == bindparam("project"),
        _s.workflow == bindparam("workflow"),
        _s.role == bindparam("role"),
        _s.ended_at.is_(None),
    )
)
_idle = Statement(
    select(tables.sessions)
    .where(_s.ended_at.is_(None), _s.last_seen_at < bindparam("since"))
    .order_by(_s.last_seen_at)
    .limit(bindparam("limit"))
)


def list_keys(unit: Unit, project: str, workflow: str) -> dict[str, CycleKey]:
    """The keys of a workflow's roles in a project, by role; revoked ones included."""
    return {row[2]: CycleKey(*row) for row in unit.all(_keys, project=project, workflow=workflow)}


def find_key(unit: Unit, project: str, workflow: str, role: str) -> CycleKey | None:
    """The key of one role, revoked or not."""
    return unit.find(CycleKey, _key, project=project, workflow=workflow, role=role)


def list_workflows_with_keys(unit: Unit, project: str) -> list[str]:
    """The workflows that have keys in a project."""
    return sorted(row[0] for row in unit.all(_with_keys, project=project))


def put_key(unit: Unit, before: CycleKey | None, key: CycleKey, *, actor: str) -> CycleKey:
    """Write a role's key, new or in place of the one before, or its revocation; the event seals the hash of the key."""
    revoked = key.revoked_at is not None
    sealed = {"key_hash": sealed_value(unit.seal, key.key_hash)}
    return ledger.write(
        unit,
        tables.cycle_keys,
        before,
        key,
        at=key.revoked_at or key.created_at,
        actor=actor,
        kind=EventKind.TOKEN_REVOKED if revoked else EventKind.TOKEN_CREATED,
        old=None if before is None else "revoked" if before.revoked_at is not None else "valid",
        new="revoked" if revoked else "valid",
        data={"what": "key of a role", "workflow": key.workflow, "role": key.role},
        delta={"cycle_key": ledger.changes(None, key) | sealed},
    )


def find(unit: Unit, session_id: str, *, lock: bool = False) -> Session | None:
    """A session, open or ended; with `lock`, no other transaction ends it meanwhile."""
    return unit.find(Session, _find_locked if lock else _find, session_id=session_id)


def open_session(unit: Unit, session: Session, *, actor: str) -> Session:
    """Write a new session with its event."""
    return ledger.write(
        unit,
        tables.sessions,
        None,
        session,
        at=session.opened_at,
        actor=actor,
        kind=EventKind.SESSION_OPENED,
        old=None,
        new="open",
        data={"workflow": session.workflow, "role": session.role},
        delta={"session": ledger.changes(None, session)},
    )


def touch(unit: Unit, session_id: str, now_us: int) -> bool:
    """Note that a session is in use, which is no event; false if it has ended meanwhile."""
    return unit.execute(_touch, key=session_id, new_last_seen_at=now_us) == 1


def end(unit: Unit, session: Session, *, reason: str, actor: str, now_us: int) -> None:
    """End an open session, with its event."""
    ended = session._replace(ended_at=now_us, end_reason=reason)
    ledger.write(
        unit,
        tables.sessions,
        session,
        ended,
        at=now_us,
        actor=actor,
        kind=EventKind.SESSION_CLOSED,
        old="open",
        new="ended",
        data={"workflow": session.workflow, "role": session.role, "reason": reason},
        delta={"session_end": ledger.changes(session, ended)},
    )


def list_open(unit: Unit, project: str, workflow: str, role: str) -> list[Session]:
    """The open sessions of a role."""
    return unit.list_of(Session, _open_of_role, project=project, workflow=workflow, role=role)


def list_idle(unit: Unit, since_us: int, limit: int) -> list[Session]:
    """Open sessions that were last used before a time, longest idle first."""
    return unit.list_of(Session, _idle, since=since_us, limit=limit)

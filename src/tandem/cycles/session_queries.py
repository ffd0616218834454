"""Keys of roles and the sessions that they opened: reading, and writing together with the event."""

from __future__ import annotations

from typing import Any

import orjson
from sqlalchemy import bindparam, insert, select, update
from sqlalchemy.dialects import postgresql, sqlite

from tandem.cycles import tables
from tandem.cycles.session_rules import CycleKey, Session
from tandem.store import ledger
from tandem.store.base import Unit
from tandem.store.dialects import PerDialect
from tandem.store.event import GENESIS, Event, EventKind, sealed_value
from tandem.store.statement import Statement

_k = tables.cycle_keys.c
_s = tables.sessions.c


def _upsert(module: Any) -> Any:
    statement = module.insert(tables.cycle_keys)
    names = ("key_hash", "created_at", "revoked_at", "event_seq", "event_hash")
    return statement.on_conflict_do_update(
        index_elements=["project", "workflow", "role"], set_={name: statement.excluded[name] for name in names}
    )


_put_key = PerDialect(sqlite=_upsert(sqlite), postgresql=_upsert(postgresql))
_of_workflow = select(tables.cycle_keys).where(_k.project == bindparam("project"), _k.workflow == bindparam("workflow"))
_keys = Statement(_of_workflow)
_key = Statement(_of_workflow.where(_k.role == bindparam("role")))
_with_keys = Statement(
    select(_k.workflow).distinct().where(_k.project == bindparam("project"), _k.revoked_at.is_(None))
)
_get = select(tables.sessions).where(_s.id == bindparam("session_id"))
_find = Statement(_get)
_find_locked = Statement(_get.with_for_update())
_insert = Statement(insert(tables.sessions))
_touch = Statement(
    update(tables.sessions)
    .where(_s.id == bindparam("key"), _s.ended_at.is_(None))
    .values(last_seen_at=bindparam("new_last_seen_at"))
)
_end = Statement(
    update(tables.sessions)
    .where(_s.id == bindparam("key"), _s.ended_at.is_(None))
    .values(
        ended_at=bindparam("new_ended_at"),
        end_reason=bindparam("new_end_reason"),
        event_seq=bindparam("new_event_seq"),
        event_hash=bindparam("new_event_hash"),
    )
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
    row = unit.one_or_none(_key, project=project, workflow=workflow, role=role)
    return CycleKey(*row) if row else None


def list_workflows_with_keys(unit: Unit, project: str) -> list[str]:
    """The workflows that have keys in a project."""
    return sorted(row[0] for row in unit.all(_with_keys, project=project))


def put_key(unit: Unit, before: CycleKey | None, key: CycleKey, *, actor: str) -> CycleKey:
    """Write a role's key, new or in place of the one before, or its revocation; the event seals the hash of the key."""
    revoked = key.revoked_at is not None
    row = {name: value for name, value in key._asdict().items() if name not in {"event_seq", "event_hash"}}
    row["key_hash"] = sealed_value(unit.seal, key.key_hash)
    event = ledger.append(
        unit,
        Event(
            seq=0,
            at=key.revoked_at or key.created_at,
            project=key.project,
            subject=key.subject,
            actor=actor,
            kind=EventKind.TOKEN_REVOKED if revoked else EventKind.TOKEN_CREATED,
            old=None if before is None else "revoked" if before.revoked_at is not None else "valid",
            new="revoked" if revoked else "valid",
            data=orjson.dumps({"what": "key of a role", "workflow": key.workflow, "role": key.role}).decode(),
            delta=orjson.dumps({"cycle_key": row}).decode(),
            previous=before.event_hash if before else GENESIS,
        ),
    )
    written = key._replace(event_seq=event.seq, event_hash=event.hash)
    unit.execute(_put_key[unit.dialect], **written._asdict())
    return written


def find(unit: Unit, session_id: str, *, lock: bool = False) -> Session | None:
    """A session, open or ended; with `lock`, nobody else ends it before this transaction does."""
    row = unit.one_or_none(_find_locked if lock else _find, session_id=session_id)
    return Session(*row) if row else None


def open_session(unit: Unit, session: Session, *, actor: str) -> Session:
    """Write a new session with its event."""
    row = {name: value for name, value in session._asdict().items() if name not in {"event_seq", "event_hash"}}
    event = ledger.append(
        unit,
        Event(
            seq=0,
            at=session.opened_at,
            project=session.project,
            subject=session.subject,
            actor=actor,
            kind=EventKind.SESSION_OPENED,
            old=None,
            new="open",
            data=orjson.dumps({"workflow": session.workflow, "role": session.role}).decode(),
            delta=orjson.dumps({"session": row}).decode(),
            previous=GENESIS,
        ),
    )
    written = session._replace(event_seq=event.seq, event_hash=event.hash)
    unit.execute(_insert, **written._asdict())
    return written


def touch(unit: Unit, session_id: str, now_us: int) -> bool:
    """Note that a session is in use, which is no event; false if it has ended meanwhile."""
    return unit.execute(_touch, key=session_id, new_last_seen_at=now_us) == 1


def end(unit: Unit, session: Session, *, reason: str, actor: str, now_us: int) -> None:
    """End an open session, with its event."""
    event = ledger.append(
        unit,
        Event(
            seq=0,
            at=now_us,
            project=session.project,
            subject=session.subject,
            actor=actor,
            kind=EventKind.SESSION_CLOSED,
            old="open",
            new="ended",
            data=orjson.dumps({"workflow": session.workflow, "role": session.role, "reason": reason}).decode(),
            delta=orjson.dumps({"session_end": {"ended_at": now_us, "end_reason": reason}}).decode(),
            previous=session.event_hash,
        ),
    )
    touched = unit.execute(
        _end,
        key=session.id,
        new_ended_at=now_us,
        new_end_reason=reason,
        new_event_seq=event.seq,
        new_event_hash=event.hash,
    )
    if touched != 1:
        raise LookupError(f"the session {session.id} ended within its own transaction")


def list_open(unit: Unit, project: str, workflow: str, role: str) -> list[Session]:
    """The open sessions of a role."""
    return [Session(*row) for row in unit.all(_open_of_role, project=project, workflow=workflow, role=role)]


def list_idle(unit: Unit, since_us: int, limit: int) -> list[Session]:
    """Open sessions that were last used before a time, longest idle first."""
    return [Session(*row) for row in unit.all(_idle, since=since_us, limit=limit)]

"""Cycles, hand-offs, sessions and keys of roles: tables, reading, and writing together with the event."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, Final

from sqlalchemy import Index, bindparam, insert, select, update

from tandem.cycles.rules import Cycle, CycleKey, Handoff, Session
from tandem.store import ledger
from tandem.store.base import Unit
from tandem.store.event import EventKind
from tandem.store.statement import Statement, equal, stated
from tandem.store.tables import partial_index, record_table

ARCHIVED_WITH_CONTENTS = "archived_at IS NOT NULL AND removed_at IS NULL"

cycle_keys = record_table(
    "cycle_keys",
    CycleKey,
    key=("project", "workflow", "role"),
    comments={"key_hash": "a salted hash; empty once the key was revoked"},
)

sessions = record_table(
    "sessions",
    Session,
    partial_index("ix_sessions_open", "last_seen_at", where="ended_at IS NULL"),
    comments={
        "id": "the token is derived from it and a key outside the database",
        "end_reason": "closed, idle, rotated or revoked",
    },
)

cycles = record_table(
    "cycles",
    Cycle,
    Index("ix_cycles_newest", "project", "workflow", "event_seq"),
    Index("ix_cycles_created", "created_at", "id"),
    partial_index("ix_cycles_archived", "event_seq", where=ARCHIVED_WITH_CONTENTS),
    partial_index("ix_cycles_removed", "removed_seq", where="removed_seq IS NOT NULL"),
    partial_index("uq_cycles_active", "project", "workflow", where="archived_at IS NULL", unique=True),
    small=("rotation", "handoffs"),
    foreign={"review_id": "reviews.id"},
    comments={
        "mode": "direct or approval",
        "definition": "the workflow as it was at the start",
        "active_role": "who holds the lock",
        "rotation": "of the lock; its token is derived from it",
        "review_id": "of the hand-off that waits for approval",
        "handoffs": "how many were written",
        "status_seq": "the newest event that changed the status",
        "removed_at": "when its payloads were removed; null while they are there",
        "removed_seq": "the newest event whose contents were removed",
    },
)

handoffs = record_table(
    "handoffs",
    Handoff,
    Index("ix_handoffs_content", "content_id"),
    partial_index("ix_handoffs_review", "review_id", where="review_id IS NOT NULL"),
    key=("cycle_id", "number"),
    small=("number", "round"),
    foreign={"cycle_id": "cycles.id", "content_id": "contents.id", "review_id": "reviews.id"},
    comments={"advanced_at": "null until it was approved"},
)


_c = cycles.c
_h = handoffs.c
_STAMPS: Final = (*ledger.STAMPS, "status_seq")
"""Columns that follow from the event itself, and that its delta leaves out."""

_of_workflow = select(cycles).where(*equal(_c, "project", "workflow"))
_active = _of_workflow.where(_c.archived_at.is_(None))
_active_plain = Statement(_active)
_active_locked = Statement(_active.with_for_update())
# By the log's numbers, not by the clock, which may be set back; that of a removal says nothing of when it was archived.
_newest_whole = Statement(_of_workflow.where(_c.removed_at.is_(None)).order_by(_c.event_seq.desc()).limit(1))
_newest_removed = Statement(_of_workflow.where(_c.removed_seq.is_not(None)).order_by(_c.removed_seq.desc()).limit(1))
_get = select(cycles).where(_c.id == bindparam("cycle_id"))
_get_plain = Statement(_get)
_get_locked = Statement(_get.with_for_update())
_insert_handoff = Statement(insert(handoffs))
_advance_handoff = Statement(
    update(handoffs)
    .where(_h.cycle_id == bindparam("key"), _h.number == bindparam("key_number"))
    .values(advanced_at=bindparam("new_advanced_at"))
)
_list_handoffs = Statement(select(handoffs).where(_h.cycle_id == bindparam("cycle_id")).order_by(_h.number))
_newest_of_review = Statement(
    select(handoffs).where(_h.review_id == bindparam("review_id")).order_by(_h.number.desc()).limit(1)
)
_lock_of_review = Statement(
    select(_c.id)
    .where(_c.id.in_(select(_h.cycle_id).where(_h.review_id == bindparam("review_id")).scalar_subquery()))
    .with_for_update()
)


@cache
def _page(filters: tuple[str, ...], *, after: bool) -> Statement:
    statement = select(cycles).where(*(_c[name] == bindparam(name) for name in filters))
    if after:
        earlier = (_c.created_at == bindparam("before_created")) & (_c.id < bindparam("before_id"))
        statement = statement.where((_c.created_at < bindparam("before_created")) | earlier)
    return Statement(statement.order_by(_c.created_at.desc(), _c.id.desc()).limit(bindparam("limit")))


def find_newest(unit: Unit, project: str, workflow: str, *, lock: bool = False) -> Cycle | None:
    """The cycle of a project and workflow that is under way, or else the one that was archived last."""
    of = {"project": project, "workflow": workflow}
    active = unit.find(Cycle, _active_locked if lock else _active_plain, **of)
    if active is not None:
        return active
    archived = (unit.find(Cycle, one, **of) for one in (_newest_whole, _newest_removed))
    return max(filter(None, archived), key=lambda cycle: cycle.removed_seq or cycle.event_seq, default=None)


def find(unit: Unit, cycle_id: str, *, lock: bool = False) -> Cycle | None:
    """A cycle by its id."""
    return unit.find(Cycle, _get_locked if lock else _get_plain, cycle_id=cycle_id)


def list_page(
    unit: Unit, limit: int, *, project: str | None, workflow: str | None, before: tuple[int, str] | None
) -> list[Cycle]:
    """Cycles, newest first, from before a place (its `created_at` and id) on."""
    params: dict[str, Any] = stated(project=project, workflow=workflow)
    statement = _page(tuple(params), after=before is not None)
    if before is not None:
        params.update(before_created=before[0], before_id=before[1])
    return unit.list_of(Cycle, statement, limit=limit, **params)


def list_handoffs(unit: Unit, cycle_id: str) -> list[Handoff]:
    """All hand-offs of a cycle, in the order in which they were written."""
    return unit.list_of(Handoff, _list_handoffs, cycle_id=cycle_id)


def find_by_review(unit: Unit, review_id: str) -> Handoff | None:
    """The newest hand-off that a review is about; None for a review of anything else."""
    return unit.find(Handoff, _newest_of_review, review_id=review_id)


def lock_of_review(unit: Unit, review_id: str) -> None:
    """Lock the cycle that a review belongs to, before the review itself; SQLite has one writer and no locks of rows."""
    if unit.dialect == "postgresql":
        unit.put(_lock_of_review, review_id=review_id)


def change(
    unit: Unit,
    before: Cycle | None,
    after: Cycle,
    *,
    actor: str,
    kind: EventKind,
    data: Mapping[str, Any] = {},
    written: Handoff | None = None,
    advanced: Handoff | None = None,
) -> Cycle:
    """Write what an event made of a cycle, and the event.

    Args:
        unit: The unit of work.
        before: The cycle as it is stored; None for a new one.
        after: What becomes of it.
        actor: Who did it.
        kind: What happened.
        data: Facts for readers; no token, no key.
        written: A hand-off that the event adds.
        advanced: A hand-off that is there and now advanced the cycle, with its time.

    Raises:
        Conflict: Another cycle of the workflow is under way.
    """
    delta: dict[str, Any] = {"cycle": ledger.changes(before, after, _STAMPS)}
    # With the event's number already, which a status shows the newest of.
    seq = ledger.take_seq(unit)
    if written is not None:
        delta["handoff"] = written._asdict()
        unit.put(_insert_handoff, **written._asdict())
    if advanced is not None:
        number = (advanced.cycle_id, advanced.number)
        delta["advanced"] = [*number, advanced.advanced_at]
        unit.put(_advance_handoff, key=number[0], key_number=number[1], new_advanced_at=advanced.advanced_at)
    return ledger.write(
        unit,
        cycles,
        before,
        after if kind is EventKind.LOCK_ACQUIRED else after._replace(status_seq=seq),
        seq=seq,
        at=after.updated_at,
        actor=actor,
        kind=kind,
        old=before.phase if before else None,
        new="archived" if after.archived_at is not None else after.phase,
        data={"workflow": after.workflow, **data},
        delta=delta,
    )


_k = cycle_keys.c
_s = sessions.c


_keys_of_workflow = select(cycle_keys).where(_k.project == bindparam("project"), _k.workflow == bindparam("workflow"))
_keys = Statement(_keys_of_workflow)
_key = Statement(_keys_of_workflow.where(_k.role == bindparam("role")))
_with_keys = Statement(
    select(_k.workflow).distinct().where(_k.project == bindparam("project"), _k.revoked_at.is_(None))
)
_session = select(sessions).where(_s.id == bindparam("session_id"))
_find_session = Statement(_session)
_find_session_locked = Statement(_session.with_for_update())
_touch = Statement(
    update(sessions)
    .where(_s.id == bindparam("key"), _s.ended_at.is_(None))
    .values(last_seen_at=bindparam("new_last_seen_at"))
)
_open_of_role = Statement(select(sessions).where(*equal(_s, "project", "workflow", "role"), _s.ended_at.is_(None)))
_idle = Statement(
    select(sessions)
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
    """Write a role's key, new or in place of the one before, or its revocation."""
    revoked = key.revoked_at is not None
    return ledger.write(
        unit,
        cycle_keys,
        before,
        key,
        at=key.revoked_at or key.created_at,
        actor=actor,
        kind=EventKind.TOKEN_REVOKED if revoked else EventKind.TOKEN_CREATED,
        old=None if before is None else "revoked" if before.revoked_at is not None else "valid",
        new="revoked" if revoked else "valid",
        data={"what": "key of a role", "workflow": key.workflow, "role": key.role},
    )


def find_session(unit: Unit, session_id: str, *, lock: bool = False) -> Session | None:
    """A session, open or ended; with `lock`, no other transaction ends it meanwhile."""
    return unit.find(Session, _find_session_locked if lock else _find_session, session_id=session_id)


def open_session(unit: Unit, session: Session, *, actor: str) -> Session:
    """Write a new session with its event."""
    return ledger.write(
        unit,
        sessions,
        None,
        session,
        at=session.opened_at,
        actor=actor,
        kind=EventKind.SESSION_OPENED,
        new="open",
        data={"workflow": session.workflow, "role": session.role},
    )


def touch_session(unit: Unit, session_id: str, now_us: int) -> bool:
    """Note that a session is in use, which is no event; false if it has ended meanwhile."""
    return unit.execute(_touch, key=session_id, new_last_seen_at=now_us) == 1


def end_session(unit: Unit, session: Session, *, reason: str, actor: str, now_us: int) -> None:
    """End an open session, with its event."""
    ended = session._replace(ended_at=now_us, end_reason=reason)
    ledger.write(
        unit,
        sessions,
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


def list_open_sessions(unit: Unit, project: str, workflow: str, role: str) -> list[Session]:
    """The open sessions of a role."""
    return unit.list_of(Session, _open_of_role, project=project, workflow=workflow, role=role)


def list_idle_sessions(unit: Unit, since_us: int, limit: int) -> list[Session]:
    """Open sessions that were last used before a time, longest idle first."""
    return unit.list_of(Session, _idle, since=since_us, limit=limit)

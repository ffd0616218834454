"""Access tokens: reading, and writing together with the event."""

from __future__ import annotations

from typing import Any

import orjson
from sqlalchemy import bindparam, insert, select, update

from tandem.access import tables
from tandem.contract.access import AccessToken
from tandem.store import ledger
from tandem.store.base import Unit
from tandem.store.event import GENESIS, Event, EventKind, sealed_value
from tandem.store.statement import Statement

_t = tables.access_tokens.c
_UNLOGGED = frozenset({"event_seq", "event_hash"})

_by_id = select(tables.access_tokens).where(_t.id == bindparam("token_id"))
_find = Statement(_by_id)
_find_locked = Statement(_by_id.with_for_update())
_insert = Statement(insert(tables.access_tokens))
_revoke = Statement(
    update(tables.access_tokens)
    .where(_t.id == bindparam("key"), _t.revoked_at.is_(None))
    .values(
        revoked_at=bindparam("new_revoked_at"),
        event_seq=bindparam("new_event_seq"),
        event_hash=bindparam("new_event_hash"),
    )
)
_newest_first = select(tables.access_tokens).order_by(_t.id.desc()).limit(bindparam("limit"))
_first_page = Statement(_newest_first)
_next_page = Statement(_newest_first.where(_t.id < bindparam("before")))


def find(unit: Unit, token_id: str, *, lock: bool = False) -> AccessToken | None:
    """A token, valid or not; with `lock`, nobody else revokes it before this transaction ends."""
    row = unit.one_or_none(_find_locked if lock else _find, token_id=token_id)
    return AccessToken(*row) if row else None


def list_page(unit: Unit, *, before: str | None, limit: int) -> list[AccessToken]:
    """Tokens, the newest first: those before an id, or from the beginning."""
    if before is None:
        return [AccessToken(*row) for row in unit.all(_first_page, limit=limit)]
    return [AccessToken(*row) for row in unit.all(_next_page, before=before, limit=limit)]


def add(unit: Unit, token: AccessToken) -> AccessToken:
    """Write a new token; the event has a keyed hash of its hash."""
    event = ledger.append(unit, _event(unit, token, EventKind.TOKEN_CREATED, None, "valid", actor=token.created_by))
    written = token._replace(event_seq=event.seq, event_hash=event.hash)
    unit.execute(_insert, **written._asdict())
    return written


def revoke(unit: Unit, token: AccessToken, *, actor: str, now_us: int) -> AccessToken:
    """Make a token void that is not yet; its row is locked already."""
    revoked = token._replace(revoked_at=now_us)
    event = ledger.append(unit, _event(unit, revoked, EventKind.TOKEN_REVOKED, "valid", "revoked", actor=actor))
    touched = unit.execute(
        _revoke, key=token.id, new_revoked_at=now_us, new_event_seq=event.seq, new_event_hash=event.hash
    )
    if touched != 1:
        raise LookupError(f"the token {token.id} was revoked within its own transaction")
    return revoked._replace(event_seq=event.seq, event_hash=event.hash)


def _event(unit: Unit, token: AccessToken, kind: EventKind, old: str | None, new: str, *, actor: str) -> Event:
    row: dict[str, Any] = {name: value for name, value in token._asdict().items() if name not in _UNLOGGED}
    row["token_hash"] = sealed_value(unit.seal, token.token_hash)
    facts = {"what": "access token", "name": token.name, "roles": token.roles.split(","), "project": token.project}
    return Event(
        seq=0,
        at=token.revoked_at or token.created_at,
        project=token.project or "",
        subject=token.subject,
        actor=actor,
        kind=kind,
        old=old,
        new=new,
        data=orjson.dumps(facts).decode(),
        delta=orjson.dumps({"access_token": row}).decode(),
        previous=token.event_hash or GENESIS,
    )

"""Idempotency keys: one effect and one answer, in the same transaction as the effect."""

from __future__ import annotations

from dataclasses import asdict
from typing import Final

from sqlalchemy import bindparam, delete, select, update

from tandem.contract.caller import Key
from tandem.errors import IdempotencyConflict
from tandem.store import tables
from tandem.store.base import Unit
from tandem.store.statement import Statement, insert_if_new

PLAIN = "sent:"
SEALED = "sealed:"
"""How hashes of requests begin; the second where the request or its answer has a secret."""
_i = tables.idempotency.c
_SAME: Final = ("principal", "project", "operation", "key")
_same = tuple(_i[name] == bindparam(f"of_{name}") for name in _SAME)
_find = Statement(select(_i.body_hash, _i.answer).where(*_same))
_keep = insert_if_new(tables.idempotency)
_amend = Statement(update(tables.idempotency).where(*_same).values(answer=bindparam("new_answer")))
_purge = Statement(delete(tables.idempotency).where(_i.created_at < bindparam("before")))


def _of(key: Key) -> dict[str, str]:
    return {f"of_{name}": getattr(key, name) for name in _SAME}


def find(unit: Unit, key: Key) -> str | None:
    """The answer that a key was used with; None if it was not.

    Raises:
        IdempotencyConflict: It was used with another body.
    """
    row = unit.one_or_none(_find, **_of(key))
    if row is None:
        return None
    body_hash, answer = row
    if body_hash != key.body_hash:
        raise IdempotencyConflict(
            "This idempotency_key was used with another body; choose a new one for a new call.",
            idempotency_key=key.key,
            operation=key.operation,
        )
    return str(answer)


def find_first(unit: Unit, key: Key) -> str | None:
    """As `find`, but locks the key first: for a transaction that will use it if no other one has."""
    unit.lock(key.name)
    return find(unit, key)


def keep(unit: Unit, key: Key, answer: str, now_us: int) -> None:
    """Keep the first answer for the next call with this key."""
    unit.put_one(_keep, **asdict(key), answer=answer, created_at=now_us)


def amend(unit: Unit, key: Key, answer: str) -> None:
    """Keep another answer in place of the first one."""
    unit.put(_amend, new_answer=answer, **_of(key))


def purge(unit: Unit, before_us: int) -> int:
    """Forget keys from before a time; how many there were."""
    return unit.execute(_purge, before=before_us)

"""Idempotency keys: one effect and one answer, in the same transaction as the effect."""

from __future__ import annotations

from sqlalchemy import bindparam, delete, select, update

from tandem.contract.caller import Key
from tandem.store import tables
from tandem.store.base import Unit
from tandem.store.statement import Statement, insert_if_new

_i = tables.idempotency.c
_reserve = insert_if_new(tables.idempotency)
_same = (
    _i.principal == bindparam("of_principal"),
    _i.project == bindparam("of_project"),
    _i.operation == bindparam("of_operation"),
    _i.key == bindparam("of_key"),
)
_find = Statement(select(_i.body_hash, _i.answer).where(*_same))
_complete = Statement(update(tables.idempotency).where(*_same).values(answer=bindparam("new_answer")))
_purge = Statement(delete(tables.idempotency).where(_i.created_at < bindparam("before")))


def _of(key: Key) -> dict[str, str]:
    return {
        "of_principal": key.principal,
        "of_project": key.project,
        "of_operation": key.operation,
        "of_key": key.key,
    }


def reserve(unit: Unit, key: Key, now_us: int) -> bool:
    """Take the key for this transaction; false when it was used before.

    On PostgreSQL this waits for a concurrent call with the same key to end.
    """
    touched = unit.execute(
        _reserve,
        principal=key.principal,
        project=key.project,
        operation=key.operation,
        key=key.key,
        body_hash=key.body_hash,
        answer=None,
        created_at=now_us,
    )
    return touched == 1


def find(unit: Unit, key: Key) -> tuple[str, str | None] | None:
    """The body hash and answer that a key was used with, if it was."""
    row = unit.one_or_none(_find, **_of(key))
    return (row[0], row[1]) if row else None


def complete(unit: Unit, key: Key, answer: str) -> None:
    """Keep the answer for the next call with this key."""
    unit.put(_complete, new_answer=answer, **_of(key))


def purge(unit: Unit, before_us: int) -> int:
    """Forget keys from before a time; how many there were."""
    return unit.execute(_purge, before=before_us)

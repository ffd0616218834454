"""Logins of browsers that were ended, and codes that were used. No event tells of it: no review depends on it."""

from __future__ import annotations

from sqlalchemy import bindparam, delete, select

from tandem.access.tables import ended_logins
from tandem.store.base import Unit
from tandem.store.statement import Statement, insert_if_new

_e = ended_logins.c
_insert = insert_if_new(ended_logins)
_find = Statement(select(_e.until).where(_e.login_hash == bindparam("login_hash")))
_purge = Statement(delete(ended_logins).where(_e.until < bindparam("now")))


def end(unit: Unit, login_hash: str, until_us: int) -> bool:
    """Take a login, or the code for one, for over at every node; it would be over by itself at that time.

    Returns:
        Whether it was not over yet.
    """
    return unit.execute(_insert, login_hash=login_hash, until=until_us) > 0


def has_ended(unit: Unit, login_hash: str) -> bool:
    """Whether somebody ended that login."""
    return unit.one_or_none(_find, login_hash=login_hash) is not None


def purge(unit: Unit, now_us: int) -> int:
    """Forget those that would be over by now anyway; how many there were."""
    return unit.execute(_purge, now=now_us)

"""Access tokens, read, and written together with the event; and logins of browsers that were ended."""

from __future__ import annotations

from typing import Final

from sqlalchemy import BigInteger, Column, Table, Text, bindparam, delete, select

from tandem.contract.caller import AccessToken
from tandem.store import ledger
from tandem.store.base import Unit
from tandem.store.event import EventKind
from tandem.store.statement import Statement, insert_if_new
from tandem.store.tables import metadata, record_table

access_tokens = record_table(
    "access_tokens",
    AccessToken,
    comments={
        "roles": "separated by commas, sorted",
        "project": "null for all",
        "token_hash": "SHA-256 of the token's text, hexadecimal",
    },
)
ended_logins = Table(
    "ended_logins",
    metadata,
    Column("login_hash", Text, primary_key=True, comment="SHA-256 of what the browser's cookie names, hexadecimal"),
    Column("until", BigInteger, nullable=False, comment="the cookie is void by itself from then on"),
    sqlite_with_rowid=False,
    comment="Browsers that were logged out; no event tells of it.",
)
_t = access_tokens.c

_by_id = select(access_tokens).where(_t.id == bindparam("token_id"))
_find = Statement(_by_id)
_find_locked = Statement(_by_id.with_for_update())
_AFTER_ALL: Final = "u"
"""Greater than every id, which all begin with `tok_`."""
_page = Statement(
    select(access_tokens).where(_t.id < bindparam("before")).order_by(_t.id.desc()).limit(bindparam("limit"))
)
_e = ended_logins.c
_insert_ended = insert_if_new(ended_logins)
_find_ended = Statement(select(_e.until).where(_e.login_hash == bindparam("login_hash")))
_purge_ended = Statement(delete(ended_logins).where(_e.until < bindparam("now")))


def find(unit: Unit, token_id: str, *, lock: bool = False) -> AccessToken | None:
    """A token, valid or not; with `lock`, no other transaction revokes it before this one ends."""
    return unit.find(AccessToken, _find_locked if lock else _find, token_id=token_id)


def list_page(unit: Unit, *, before: str | None, limit: int) -> list[AccessToken]:
    """Tokens, the newest first: those before an id, or from the beginning."""
    return unit.list_of(AccessToken, _page, before=before or _AFTER_ALL, limit=limit)


def add(unit: Unit, token: AccessToken) -> AccessToken:
    """Write a new token."""
    return _write(unit, None, token, EventKind.TOKEN_CREATED, "valid", actor=token.created_by)


def revoke(unit: Unit, token: AccessToken, *, actor: str, now_us: int) -> AccessToken:
    """Make a token void that is not yet; its row is locked already."""
    return _write(unit, token, token._replace(revoked_at=now_us), EventKind.TOKEN_REVOKED, "revoked", actor=actor)


def _write(
    unit: Unit, before: AccessToken | None, token: AccessToken, kind: EventKind, new: str, *, actor: str
) -> AccessToken:
    return ledger.write(
        unit,
        access_tokens,
        before,
        token,
        at=token.revoked_at or token.created_at,
        actor=actor,
        kind=kind,
        old=None if before is None else "valid",
        new=new,
        data={"what": "access token", "name": token.name, "roles": token.roles.split(","), "project": token.project},
    )


# Logins of browsers that were ended, and codes that were used. No event tells of it: no review depends on it.


def end_login(unit: Unit, login_hash: str, until_us: int) -> bool:
    """Take a login, or the code for one, for over at every node; it would be over by itself at that time.

    Returns:
        Whether it was not over yet.
    """
    return unit.execute(_insert_ended, login_hash=login_hash, until=until_us) > 0


def has_login_ended(unit: Unit, login_hash: str) -> bool:
    """Whether somebody ended that login."""
    return unit.one_or_none(_find_ended, login_hash=login_hash) is not None


def purge_logins(unit: Unit, now_us: int) -> int:
    """Forget those that would be over by now anyway; how many there were."""
    return unit.execute(_purge_ended, now=now_us)

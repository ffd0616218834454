"""Access tokens: made, listed and revoked. A token is shown when it is made, and kept as a hash."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tandem.clock import MICROSECONDS, isoformat
from tandem.domain.access import NAME_LENGTH, OWNER, ROLES, UNBOUND_ROLES, AccessToken, is_token_name
from tandem.domain.access_answers import TokenCreated, TokenList, TokenRevoked, TokenView
from tandem.errors import InvalidInput, NotFound
from tandem.services import pages
from tandem.services.access import TOKEN_PREFIX, hash_of, new_token
from tandem.services.context import Call, Services, transact
from tandem.services.views import time_or_none
from tandem.store import access_tokens, events
from tandem.store.base import Unit

SHOWN_ONCE = "(shown once, when it was made)"
_DAY_SECONDS = 86_400


@dataclass(frozen=True, slots=True)
class NewToken:
    """A token as it was asked for.

    Attributes:
        days: How long it is good for; null for until it is revoked.
    """

    name: str
    roles: Sequence[str]
    project: str | None = None
    days: float | None = None


async def create(services: Services, call: Call, wanted: NewToken) -> TokenCreated:
    """Make a token.

    Raises:
        InvalidInput: The name cannot be used, no role was named, or the project does not go with the roles.
    """
    _check(wanted)
    roles = tuple(role for role in ROLES if role in wanted.roles)
    now = services.clock.now_us()
    token_id = services.clock.new_id(TOKEN_PREFIX.rstrip("_"))
    text = new_token(token_id)
    token = AccessToken(
        id=token_id,
        name=wanted.name,
        roles=",".join(sorted(roles)),
        project=wanted.project,
        token_hash=hash_of(text),
        created_at=now,
        created_by=_actor(call),
        expires_at=None if wanted.days is None else now + round(wanted.days * _DAY_SECONDS * MICROSECONDS),
        revoked_at=None,
        event_seq=0,
        event_hash="",
    )

    def work(unit: Unit) -> TokenCreated:
        events.lock(unit)
        access_tokens.add(unit, token)
        return TokenCreated(token.id, token.name, roles, token.project, time_or_none(token.expires_at), text)

    return await transact(services, call, work, kept=lambda answer: replace(answer, token=SHOWN_ONCE))


async def list_page(services: Services, *, limit: int, page: str | None) -> TokenList:
    """A page of tokens, the newest first; void ones included.

    Raises:
        InvalidInput: The page is none of this list.
    """
    pages.check_limit(services, limit)
    before: str | None = pages.decode(services, page, str)[0] if page else None
    found = await services.store.read(lambda unit: access_tokens.list_page(unit, before=before, limit=limit + 1))
    now = services.clock.now_us()
    shown = found[:limit]
    following = pages.encode(services, shown[-1].id) if len(found) > limit else None
    return TokenList(tuple(_view(token, now) for token in shown), following)


async def revoke(services: Services, call: Call, token_id: str) -> TokenRevoked:
    """Make a token void; again, it is the same answer.

    Raises:
        NotFound: There is no such token.
    """

    def work(unit: Unit) -> TokenRevoked:
        events.lock(unit)
        token = access_tokens.find(unit, token_id, lock=True)
        if token is None:
            raise NotFound("There is no such access token; list_tokens shows what there is.", token_id=token_id)
        if token.revoked_at is None:
            token = access_tokens.revoke(unit, token, actor=_actor(call), now_us=services.clock.now_us())
        return TokenRevoked(token.id, isoformat(token.revoked_at or 0))

    return await transact(services, call, work)


def _check(wanted: NewToken) -> None:
    if not is_token_name(wanted.name):
        raise InvalidInput(
            f"A token's name has 1 to {NAME_LENGTH} letters, digits, dots, dashes or underscores; '{OWNER}' is taken.",
            field="name",
        )
    if not wanted.roles:
        raise InvalidInput(f"Say what the token is for: one or more of {', '.join(ROLES)}.", field="roles")
    unbound = sorted(UNBOUND_ROLES.intersection(wanted.roles))
    if unbound and wanted.project is not None:
        raise InvalidInput(
            f"A token with the role {unbound[0]} is for all projects: leave project out, or the role.", field="project"
        )


def _view(token: AccessToken, now_us: int) -> TokenView:
    return TokenView(
        token_id=token.id,
        name=token.name,
        roles=tuple(role for role in ROLES if role in token.access.roles),
        project=token.project,
        created_at=isoformat(token.created_at),
        created_by=token.created_by,
        expires_at=time_or_none(token.expires_at),
        revoked_at=time_or_none(token.revoked_at),
        state=token.state(now_us),
    )


def _actor(call: Call) -> str:
    return call.agent or "operator"

"""Access tokens made, listed and revoked, and logins of browsers. A token is shown once, and kept as a hash."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tandem.access import queries as access_tokens
from tandem.access.admission import LOGIN_SECONDS, TOKEN_PREFIX, Authenticator, hash_of, new_token
from tandem.access.contract import (
    CreateLogin,
    CreateToken,
    ListTokens,
    Login,
    RevokeToken,
    TokenCreated,
    TokenList,
    TokenRevoked,
    TokenView,
)
from tandem.contract.answer import shown, time_or_none
from tandem.contract.caller import NAME_LENGTH, OWNER, REVIEWER_PREFIX, ROLES, UNBOUND_ROLES, AccessToken, Caller
from tandem.core.clock import MICROSECONDS, isoformat
from tandem.errors import Forbidden, InvalidInput, NotFound
from tandem.store import events, pages
from tandem.store.base import Unit
from tandem.store.context import Context, transact

SHOWN_ONCE = "(shown once, when it was made)"
_DAY_SECONDS = 86_400
_LOGIN_PATH = "/login"


@dataclass(frozen=True)
class AccessContext(Context):
    """The foundation of logins, too.

    Attributes:
        authenticator: Tells who calls, and makes the passes of reviewers and the codes of logins.
    """

    authenticator: Authenticator


async def create_token(services: Context, caller: Caller, request: CreateToken) -> TokenCreated:
    """Make a token.

    Raises:
        InvalidInput: The name cannot be used, no role was named, or the project does not go with the roles.
    """
    _check(request)
    roles = tuple(role for role in ROLES if role in request.roles)
    now = services.clock.now_us()
    token_id = services.clock.new_id(TOKEN_PREFIX.rstrip("_"))
    text = new_token(token_id)
    token = AccessToken(
        id=token_id,
        name=request.name,
        roles=",".join(sorted(roles)),
        project=request.project,
        token_hash=hash_of(text),
        created_at=now,
        created_by=caller.operator,
        expires_at=None if request.days is None else now + round(request.days * _DAY_SECONDS * MICROSECONDS),
    )

    def work(unit: Unit) -> TokenCreated:
        events.lock(unit)
        access_tokens.add(unit, token)
        return TokenCreated(token.id, token.name, roles, token.project, time_or_none(token.expires_at), text)

    return await transact(services, caller, work, kept=lambda answer: replace(answer, token=SHOWN_ONCE))


async def list_tokens(services: Context, _caller: Caller, request: ListTokens) -> TokenList:
    """A page of tokens, the newest first; void ones included.

    Raises:
        InvalidInput: The page is none of this list.
    """
    limit = request.limit
    pages.check_limit(services, limit)
    before: str | None = pages.decode(services, request.page, str)[0] if request.page else None
    found = await services.store.read(lambda unit: access_tokens.list_page(unit, before=before, limit=limit + 1))
    now = services.clock.now_us()
    listed, following = pages.cut(services, found, limit, lambda token: (token.id,))
    return TokenList(tuple(_view(token, now) for token in listed), following)


async def revoke_token(services: Context, caller: Caller, request: RevokeToken) -> TokenRevoked:
    """Make a token void; again, it is the same answer.

    Raises:
        NotFound: There is no such token.
    """

    def work(unit: Unit) -> TokenRevoked:
        events.lock(unit)
        token = access_tokens.find(unit, request.token_id, lock=True)
        if token is None:
            raise NotFound("There is no such access token; list_tokens shows what there is.", token_id=request.token_id)
        if token.revoked_at is None:
            token = access_tokens.revoke(unit, token, actor=caller.operator, now_us=services.clock.now_us())
        return TokenRevoked(token.id, isoformat(token.revoked_at or 0))

    return await transact(services, caller, work)


async def create_login(services: AccessContext, caller: Caller, _request: CreateLogin) -> Login:
    """Where a browser logs in as somebody; on a trusted broker just where the pages are.

    Raises:
        Forbidden: It is a pool's reviewer, who has nothing to do in a browser.
    """
    access = caller.access
    if access is None:
        return Login("/", 0)
    if access.id.startswith(REVIEWER_PREFIX):
        raise Forbidden("A pool's reviewer has no pages to log in to; call the operations that it needs.")
    return Login(f"{_LOGIN_PATH}?code={services.authenticator.login_code(access)}", LOGIN_SECONDS)


def _check(request: CreateToken) -> None:
    if request.name.lower() == OWNER:
        raise InvalidInput(
            f"A token's name has 1 to {NAME_LENGTH} letters, digits, dots, dashes or underscores; '{OWNER}' is taken.",
            field="name",
        )
    unbound = sorted(UNBOUND_ROLES.intersection(request.roles))
    if unbound and request.project is not None:
        raise InvalidInput(
            f"A token with the role {unbound[0]} is for all projects: leave project out, or the role.", field="project"
        )


def _view(token: AccessToken, now_us: int) -> TokenView:
    roles = tuple(role for role in ROLES if role in token.access.roles)
    return shown(TokenView, token, token_id=token.id, roles=roles, state=token.state(now_us))

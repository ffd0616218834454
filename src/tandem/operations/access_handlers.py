"""From a typed request on access tokens and logins to the one service function that does it."""

from __future__ import annotations

from tandem.contract.caller import Caller
from tandem.domain import access_answers as answers
from tandem.operations import access_requests as ask
from tandem.operations.handlers import call_of
from tandem.services import access_tokens, logins
from tandem.services.access_tokens import NewToken
from tandem.services.context import Services


async def create_token(services: Services, request: ask.CreateToken, caller: Caller) -> answers.TokenCreated:
    """Make a token; the endpoint's project is not its project, which is named or none."""
    wanted = NewToken(request.name, tuple(request.roles), request.project, request.days)
    return await access_tokens.create(services, call_of(caller), wanted)


async def list_tokens(services: Services, request: ask.ListTokens, _caller: Caller) -> answers.TokenList:
    """A page of tokens."""
    return await access_tokens.list_page(services, limit=request.limit, page=request.page)


async def revoke_token(services: Services, request: ask.RevokeToken, caller: Caller) -> answers.TokenRevoked:
    """Make a token void."""
    return await access_tokens.revoke(services, call_of(caller), request.token_id)


async def create_login(services: Services, _request: ask.CreateLogin, caller: Caller) -> answers.Login:
    """Where a browser logs in."""
    return logins.create(services, caller.access)

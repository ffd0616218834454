"""The operations on access tokens and logins. None is a tool of agents."""

from __future__ import annotations

from tandem.contract.operation import READ, REPEATABLE_WRITE, WRITE, Operation, Role
from tandem.domain import access_answers as answers
from tandem.operations import access_handlers as do
from tandem.operations import access_requests as ask

_ADMIN = frozenset({Role.ADMIN})
_EVERY_ROLE = frozenset(Role)

OPERATIONS = (
    Operation(
        "create_token",
        "token",
        "create",
        ask.CreateToken,
        answers.TokenCreated,
        _ADMIN,
        WRITE,
        do.create_token,
        listed=False,
    ),
    Operation(
        "list_tokens", "token", "list", ask.ListTokens, answers.TokenList, _ADMIN, READ, do.list_tokens, listed=False
    ),
    Operation(
        "revoke_token",
        "token",
        "revoke",
        ask.RevokeToken,
        answers.TokenRevoked,
        _ADMIN,
        REPEATABLE_WRITE,
        do.revoke_token,
        listed=False,
    ),
    Operation(
        "create_login",
        "token",
        "login",
        ask.CreateLogin,
        answers.Login,
        _EVERY_ROLE,
        READ,
        do.create_login,
        listed=False,
        for_agents=False,
    ),
)

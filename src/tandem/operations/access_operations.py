"""The operations on access tokens and logins. None is a tool of agents."""

from __future__ import annotations

from tandem.contract.operation import ADMIN, EVERY_ROLE, READ, REPEATABLE_WRITE, WRITE, Operation
from tandem.domain import access_answers as answers
from tandem.operations import access_requests as ask

OPERATIONS = (
    Operation("create_token", "token", "create", ask.CreateToken, answers.TokenCreated, ADMIN, WRITE, listed=False),
    Operation("list_tokens", "token", "list", ask.ListTokens, answers.TokenList, ADMIN, READ, listed=False),
    Operation(
        "revoke_token", "token", "revoke", ask.RevokeToken, answers.TokenRevoked, ADMIN, REPEATABLE_WRITE, listed=False
    ),
    Operation(
        "create_login",
        "token",
        "login",
        ask.CreateLogin,
        answers.Login,
        EVERY_ROLE,
        READ,
        listed=False,
        for_agents=False,
    ),
)

"""Requests and answers of the operations on access tokens and logins. Times are ISO 8601 in UTC."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, ClassVar

from pydantic import Field

from tandem.contract.answer import CreatedAt, NextPage
from tandem.contract.caller import NAME_LENGTH, RoleName
from tandem.contract.operation import ADMIN, EVERY_ROLE, READ, REPEATABLE_WRITE, WRITE, ForPeople, Unlisted
from tandem.contract.request import (
    Name,
    PageLimit,
    PageToken,
    Refusals,
    Request,
    WriteRequest,
)
from tandem.errors import NotFound
from tandem.present.shape import Shown

_MOST_DAYS = 3650


class CreateToken(WriteRequest):
    """Create an access token for a person or program; it is shown once, and only a hash is stored."""

    refusals: ClassVar[Refusals] = ()

    project: Annotated[
        Name | None,
        Field(
            description="The one project that it is for; default: all. Roles supervisor, admin and monitor are for all."
        ),
    ] = None
    name: Annotated[
        str,
        Field(
            min_length=1,
            max_length=NAME_LENGTH,
            pattern=r"^[A-Za-z0-9._-]+$",
            description="Whose it is; they act under this name. Several tokens may have one name.",
        ),
    ]
    roles: Annotated[list[RoleName], Field(min_length=1, max_length=20, description="The roles that it grants.")]
    days: Annotated[
        float | None, Field(gt=0, le=_MOST_DAYS, description="How long it is valid; default: until it is revoked.")
    ] = None


class ListTokens(Request):
    """Access tokens, newest first, including invalid ones; never the secrets."""

    refusals: ClassVar[Refusals] = ()

    limit: PageLimit = 50
    page: PageToken = None


class RevokeToken(WriteRequest):
    """Revoke an access token at once."""

    refusals: ClassVar[Refusals] = (NotFound,)

    project: Annotated[Name | None, Field(description="Of no effect.")] = None
    token_id: Annotated[str, Field(pattern=r"^tok_[0-9a-z]{18}$", description="As list_tokens shows it.")]


class CreateLogin(Request):
    """A link that logs a browser in to the pages as you; works once, within a minute."""

    refusals: ClassVar[Refusals] = ()
    project_scoped: ClassVar[bool] = True


TokenId = Annotated[str, Field(description="The token's id, which is not secret.")]

OneProject = Annotated[
    str, Field(description="The one project that it is for; null for all."), Shown(empty="all projects")
]

ExpiresAt = Annotated[
    str, Field(description="Until when it is good; null for until it is revoked."), Shown(empty="never")
]

RevokedAt = Annotated[str, Field(description="Since when it is void.")]


@dataclass(frozen=True, slots=True)
class TokenFacts:
    """A token, as it was made."""

    token_id: TokenId
    name: Annotated[str, Field(description="Whose it is.")]
    roles: Annotated[tuple[str, ...], Field(description="The roles that it grants.")]
    project: OneProject | None


@dataclass(frozen=True, slots=True)
class TokenCreated(TokenFacts):
    """A token was made."""

    expires_at: ExpiresAt | None
    token: Annotated[str, Field(description="The token, shown this once; a repetition has a remark in its place.")] = (
        field(repr=False)
    )


@dataclass(frozen=True, slots=True)
class TokenView(TokenFacts):
    """One token, without what proves it."""

    created_at: CreatedAt
    created_by: Annotated[str, Field(description="Who made it.")]
    expires_at: ExpiresAt | None
    revoked_at: RevokedAt | None
    state: Annotated[str, Field(description="`valid`, `expired` or `revoked`.")]


@dataclass(frozen=True, slots=True)
class TokenList:
    """A page of tokens, the newest first."""

    tokens: Annotated[
        tuple[TokenView, ...],
        Field(description="The tokens."),
        Shown(empty="No tokens. Make one with: tandem token create NAME --role ROLE"),
    ]
    next_page: NextPage | None


@dataclass(frozen=True, slots=True)
class TokenRevoked:
    """A token is void from now on."""

    token_id: TokenId
    revoked_at: RevokedAt


@dataclass(frozen=True, slots=True)
class Login:
    """Where a browser logs in as the caller."""

    path: Annotated[
        str, Field(description="The address below the broker's own; `/` on a broker that trusts everybody.")
    ] = field(repr=False)
    expires_in_s: Annotated[int, Field(description="How many seconds it works; 0 where no login is needed.")]


OPERATIONS = (
    Unlisted("create_token", "token", "create", CreateToken, TokenCreated, ADMIN, WRITE),
    Unlisted("list_tokens", "token", "list", ListTokens, TokenList, ADMIN, READ),
    Unlisted("revoke_token", "token", "revoke", RevokeToken, TokenRevoked, ADMIN, REPEATABLE_WRITE),
    ForPeople("create_login", "token", "login", CreateLogin, Login, EVERY_ROLE, READ),
)

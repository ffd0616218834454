"""What the operations on access tokens and logins answer. Times are ISO 8601 in UTC."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

from pydantic import Field

from tandem.domain.fields import CreatedAt, NextPage

TokenId = Annotated[str, Field(description="The token's id, which proves nothing.")]
OneProject = Annotated[str, Field(description="The one project that it is for; null for all.")]
ExpiresAt = Annotated[str, Field(description="Until when it is good; null for until it is revoked.")]
RevokedAt = Annotated[str, Field(description="Since when it is void.")]
Owner = Annotated[str, Field(description="Whose it is.")]
Roles = Annotated[tuple[str, ...], Field(description="What it is for.")]


@dataclass(frozen=True, slots=True)
class TokenCreated:
    """A token was made."""

    token_id: TokenId
    name: Owner
    roles: Roles
    project: OneProject | None
    expires_at: ExpiresAt | None
    token: Annotated[str, Field(description="The token, shown this once; a repetition has a remark in its place.")] = (
        field(repr=False)
    )


@dataclass(frozen=True, slots=True)
class TokenView:
    """One token, without what proves it."""

    token_id: TokenId
    name: Owner
    roles: Roles
    project: OneProject | None
    created_at: CreatedAt
    created_by: Annotated[str, Field(description="Who made it.")]
    expires_at: ExpiresAt | None
    revoked_at: RevokedAt | None
    state: Annotated[str, Field(description="`valid`, `expired` or `revoked`.")]


@dataclass(frozen=True, slots=True)
class TokenList:
    """A page of tokens, the newest first."""

    tokens: Annotated[tuple[TokenView, ...], Field(description="The tokens.")]
    next_page: NextPage | None


@dataclass(frozen=True, slots=True)
class TokenRevoked:
    """A token is void from now on."""

    token_id: TokenId
    revoked_at: RevokedAt


@dataclass(frozen=True, slots=True)
class Login:
    """Where a browser logs in as whoever asked."""

    path: Annotated[
        str, Field(description="The address below the broker's own; `/` on a broker that trusts everybody.")
    ] = field(repr=False)
    expires_in_s: Annotated[int, Field(description="How many seconds it works; 0 where no login is needed.")]

"""What the operations on access tokens and logins answer. Times are ISO 8601 in UTC."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class TokenCreated:
    """A token was made.

    Attributes:
        project: The one project that it is for; null for all.
        expires_at: Until when it is good; null for until it is revoked.
        token: The token itself, shown this once; the answer to a repetition has a remark in its place.
    """

    token_id: str
    name: str
    roles: tuple[str, ...]
    project: str | None
    expires_at: str | None
    token: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class TokenView:
    """One token, without what proves it.

    Attributes:
        project: The one project that it is for; null for all.
        state: `valid`, `expired` or `revoked`.
    """

    token_id: str
    name: str
    roles: tuple[str, ...]
    project: str | None
    created_at: str
    created_by: str
    expires_at: str | None
    revoked_at: str | None
    state: str


@dataclass(frozen=True, slots=True)
class TokenList:
    """A page of tokens, the newest first."""

    tokens: tuple[TokenView, ...]
    next_page: str | None


@dataclass(frozen=True, slots=True)
class TokenRevoked:
    """A token is void from now on."""

    token_id: str
    revoked_at: str


@dataclass(frozen=True, slots=True)
class Login:
    """Where a browser logs in as whoever asked.

    Attributes:
        path: The address below the broker's own; the code in it works once.
        expires_in_s: How long it works; 0 where no login is needed.
    """

    path: str = field(repr=False)
    expires_in_s: int

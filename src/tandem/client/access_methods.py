"""The operations on access tokens and logins. Written by `python -m tandem.client.generate`; do not edit."""

# It is compared with the registry byte for byte, so that no formatter may touch it:
# fmt: off

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from tandem.client.file_methods import FileOperations

if TYPE_CHECKING:
    # Named in signatures only; to build the types would take longer than a call.
    from tandem.domain import access_answers


class AccessOperations(FileOperations):
    """The operations on access tokens and logins. Each raises the `TandemError` of the refusal's code."""

    async def create_token(
        self,
        *,
        name: str,
        roles: list[Literal["proposer", "reviewer", "operator", "handoff", "supervisor", "admin"]],
        project: str | None = None,
        idempotency_key: str | None = None,
        days: float | None = None,
    ) -> access_answers.TokenCreated:
        """Make an access token for a person or program; it is shown this once, and only a hash is kept."""
        arguments: dict[str, Any] = {
            "name": name, "roles": roles, "project": project, "idempotency_key": idempotency_key, "days": days,
        }
        return await self._operate("create_token", arguments)

    async def list_tokens(
        self,
        *,
        limit: int = 50,
        page: str | None = None,
    ) -> access_answers.TokenList:
        """Access tokens, newest first, those included that are void; never what proves them."""
        arguments: dict[str, Any] = {
            "limit": limit, "page": page,
        }
        return await self._operate("list_tokens", arguments)

    async def revoke_token(
        self,
        *,
        token_id: str,
        project: str | None = None,
        idempotency_key: str | None = None,
    ) -> access_answers.TokenRevoked:
        """Make an access token void at once."""
        arguments: dict[str, Any] = {
            "token_id": token_id, "project": project, "idempotency_key": idempotency_key,
        }
        return await self._operate("revoke_token", arguments)

    async def create_login(self) -> access_answers.Login:
        """Where to open a browser that is then logged in to the pages as you; works once, within a minute."""
        return await self._operate("create_login", {})

"""What callers with access tokens do."""

from __future__ import annotations

import json
from typing import Any, Self

import httpx

from tests.acceptance.reviewing import Desk
from tests.broker import BrokerProcess, fresh_project

TOKEN = {"auth": "token"}
EVERY_ROLE = ("proposer", "reviewer", "operator", "handoff")
"""Roles that a token of one project can have."""


def owner_token(broker: BrokerProcess) -> str:
    """The token that the running broker published for its owner."""
    return json.loads((broker.data_dir / "broker.json").read_text("utf-8"))["token"]


class Bearer(Desk):
    """A desk for the holder of a token.

    Attributes:
        token: The token.
        token_id: Its id, where the desk made it.
    """

    def __init__(self, url: str, project: str, token: str, agent: str | None = None, token_id: str = "") -> None:
        super().__init__(url, project, agent)
        self.token = token
        self.token_id = token_id
        self._http.headers["Authorization"] = f"Bearer {token}"

    @classmethod
    def owner(cls, broker: BrokerProcess, project: str | None = None) -> Self:
        """The owner's desk."""
        return cls(broker.url, project or fresh_project(), owner_token(broker))

    def give(
        self, name: str, *roles: str, bound: bool = False, agent: str | None = None, url: str | None = None, **more: Any
    ) -> Bearer:
        """Make a token, for this desk's project or for all; its desk."""
        project = self.project if bound else None
        made = self.do("create_token", name=name, roles=list(roles), project=project, **more)
        return Bearer(url or self.url, self.project, made["token"], agent, made["token_id"])

    def plain(self, operation: str, **arguments: Any) -> dict[str, Any]:
        """A call with these arguments and no others; its envelope."""
        return self.envelope_unscoped(operation, **arguments)

    def raw(self, operation: str, arguments: dict[str, Any], **query: str) -> httpx.Response:
        """A call with these arguments and this query."""
        return self._http.post(f"/api/v1/{operation}", json=arguments, params=query)

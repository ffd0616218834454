"""Each review as an MCP resource: everything about it in one JSON document."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, unquote

import orjson

from tandem.operations.caller import Caller
from tandem.operations.dispatch import Dispatcher

URI_PREFIX = "tandem://reviews/"
URI_TEMPLATE = URI_PREFIX + "{review_id}"
_PAGE_ROWS = 50
_PARTS: dict[str, tuple[str, dict[str, Any]]] = {
    "proposal": ("get_proposal", {}),
    "status": ("get_review_status", {}),
    "discussion": ("get_discussion", {"limit": 200}),
}


class ResourceRefused(Exception):
    """The broker did not give a resource.

    Attributes:
        error: The error object of the envelope.
        by_client: Whether the request was at fault, rather than the broker.
    """

    def __init__(self, error: dict[str, Any], *, by_client: bool) -> None:
        super().__init__(error["message"])
        self.error = error
        self.by_client = by_client


@dataclass(frozen=True, slots=True)
class ReviewLink:
    """A review in a list of resources."""

    uri: str
    name: str
    description: str


class ReviewResources:
    """Reviews by URI, read through the same operations as everything else."""

    def __init__(self, dispatcher: Dispatcher) -> None:
        self._dispatcher = dispatcher

    async def list_open(self, caller: Caller, page: str | None) -> tuple[list[ReviewLink], str | None]:
        """The reviews of one page that are not closed, and the next page's name.

        Raises:
            ResourceRefused: The list cannot be had, or there is no such page.
        """
        asked: dict[str, Any] = {"limit": _PAGE_ROWS, **({"page": page} if page else {})}
        answer = await self._ask("list_reviews", asked, caller)
        rows: list[dict[str, Any]] = answer["reviews"]
        return [_link(row) for row in rows if row["status"] != "closed"], answer["next_page"]

    async def read(self, uri: str, caller: Caller) -> str:
        """The review's proposal, status and discussion as JSON.

        Raises:
            ResourceRefused: There is no such review, or it cannot be had.
        """
        review_id = unquote(uri.removeprefix(URI_PREFIX))
        if not uri.startswith(URI_PREFIX) or not review_id:
            message = f"There is no resource {uri[:200]}; reviews are at {URI_TEMPLATE}."
            raise ResourceRefused({"code": "NOT_FOUND", "message": message}, by_client=True)
        document = {
            part: await self._ask(operation, {"review_id": review_id, **arguments}, caller)
            for part, (operation, arguments) in _PARTS.items()
        }
        return orjson.dumps(document).decode()

    async def _ask(self, operation: str, arguments: dict[str, Any], caller: Caller) -> dict[str, Any]:
        outcome = await self._dispatcher.dispatch(operation, arguments, caller)
        envelope: dict[str, Any] = orjson.loads(outcome.body)
        if not outcome.ok:
            raise ResourceRefused(envelope["error"], by_client=outcome.status < 500)  # noqa: PLR2004 - HTTP's classes
        return envelope["data"]


def _link(row: dict[str, Any]) -> ReviewLink:
    return ReviewLink(
        uri=URI_PREFIX + quote(row["review_id"], safe=""),
        name=row["review_id"],
        description=f"{row['category']}, {row['status']}, round {row['round']}: {row['intent']}",
    )

"""Reviews and hand-off cycles as MCP resources: everything about one of them in one JSON document."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, unquote

import orjson

from tandem.contract.caller import Caller
from tandem.domain.answers import ReviewPage, ReviewRow
from tandem.domain.cycle_answers import CyclePage, CycleRow
from tandem.errors import NotFound
from tandem.operations.dispatch import Dispatcher

_PAGE_ROWS = 50


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of resource.

    Attributes:
        name: What one of them is called.
        description: What its document has.
        prefix: The URI up to the id.
        parameter: What the id is called.
        lists: The operation that lists them; an endpoint whose role may not call both does not offer them.
        reads: The operation that reads one.
    """

    name: str
    description: str
    prefix: str
    parameter: str
    lists: str
    reads: str

    @property
    def template(self) -> str:
        """The URI with a blank for the id."""
        return f"{self.prefix}{{{self.parameter}}}"

    def uri(self, identity: str) -> str:
        """The URI of one of them."""
        return self.prefix + quote(identity, safe="")


REVIEW = Kind(
    "review",
    "A review's proposal, status, rounds and discussion.",
    "tandem://reviews/",
    "review_id",
    "list_reviews",
    "get_review",
)
CYCLE = Kind(
    "cycle",
    "A hand-off cycle: its state, its workflow, and every hand-off with its payload.",
    "tandem://cycles/",
    "cycle_id",
    "list_cycles",
    "get_cycle",
)


@dataclass(frozen=True, slots=True)
class Link:
    """A review or cycle in a list of resources."""

    uri: str
    name: str
    description: str


class Resources:
    """Reviews and cycles by URI, read through the same operations as everything else."""

    def __init__(self, dispatcher: Dispatcher) -> None:
        self._dispatcher = dispatcher

    def kinds(self, role: str | None) -> tuple[Kind, ...]:
        """What an endpoint offers: the kinds that its role may list and read."""
        return tuple(kind for kind in (REVIEW, CYCLE) if self._may_ask(kind, role))

    async def list_open(self, caller: Caller, page: str | None) -> tuple[list[Link], str | None]:
        """The reviews of one page that are not closed, and the next page's name; at the end, cycles under way.

        Raises:
            TandemError: The list cannot be had, or there is no such page.
        """
        asked: dict[str, Any] = {"limit": _PAGE_ROWS, **({"page": page} if page else {})}
        answer: ReviewPage = await self._dispatcher.call(REVIEW.lists, asked, caller)
        links = [_review_link(row) for row in answer.reviews if row.status != "closed"]
        if answer.next_page is None and CYCLE in self.kinds(caller.role):
            newest: CyclePage = await self._dispatcher.call(CYCLE.lists, {"limit": _PAGE_ROWS}, caller)
            links += [_cycle_link(row) for row in newest.cycles if row.archived_at is None]
        return links, answer.next_page

    async def read(self, uri: str, caller: Caller) -> str:
        """Everything about one review or cycle as JSON.

        Raises:
            TandemError: There is no such resource here, or it cannot be had.
        """
        kinds = self.kinds(caller.role)
        kind = next((kind for kind in kinds if uri.startswith(kind.prefix)), None)
        identity = unquote(uri.removeprefix(kind.prefix)) if kind else ""
        if kind is None or not identity:
            places = " and ".join(f"{kind.name}s are at {kind.template}" for kind in kinds)
            message = f"There is no resource {uri[:200]}; {places}."
            raise NotFound(message)
        return orjson.dumps(await self._dispatcher.call(kind.reads, {kind.parameter: identity}, caller)).decode()

    def _may_ask(self, kind: Kind, role: str | None) -> bool:
        found = [self._dispatcher.registry.find(name) for name in (kind.lists, kind.reads)]
        return all(operation is not None and (role is None or role in operation.roles) for operation in found)


def _review_link(row: ReviewRow) -> Link:
    return Link(
        uri=REVIEW.uri(row.review_id),
        name=row.review_id,
        description=f"{row.category}, {row.status}, round {row.round}: {row.intent}",
    )


def _cycle_link(row: CycleRow) -> Link:
    return Link(
        uri=CYCLE.uri(row.cycle_id),
        name=row.cycle_id,
        description=f"{row.workflow}, {row.phase} ({row.active_role}): {row.feature}",
    )

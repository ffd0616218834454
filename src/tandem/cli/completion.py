"""What the shell offers for ids and names, asked of the broker within a fraction of a second."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable

from tandem.cli.connection_options import ConnectionOptions
from tandem.client import TandemClient
from tandem.core.visible import visible_line
from tandem.errors import TandemError
from tandem.examples import examples

_LIMIT_SECONDS = 0.5
_ROWS = 50
Offers = list[tuple[str, str]]


async def _reviews(client: TandemClient) -> Offers:
    """Reviews, latest activity first, each with its intent."""
    feed = await client.get_activity_feed(limit=_ROWS)
    return [(entry.review.review_id, entry.review.intent) for entry in feed.entries]


async def _projects(client: TandemClient) -> Offers:
    """Registered projects, each with its folder."""
    return [(project.project, project.root) for project in (await client.list_projects()).projects]


async def _cycles(client: TandemClient) -> Offers:
    """Hand-off cycles, newest first, each with its feature."""
    return [(cycle.cycle_id, cycle.feature) for cycle in (await client.list_cycles(limit=_ROWS)).cycles]


async def _workflows(client: TandemClient) -> Offers:
    """Workflows, each with its roles."""
    return [(found.name, ", ".join(found.roles)) for found in (await client.list_cycles(limit=1)).workflows]


async def _roles(client: TandemClient) -> Offers:
    """Roles of all workflows, each with the workflows that have it."""
    having: dict[str, list[str]] = {}
    for workflow in (await client.list_cycles(limit=1)).workflows:
        for role in workflow.roles:
            having.setdefault(role, []).append(workflow.name)
    return [(role, ", ".join(names)) for role, names in having.items()]


async def _reviewers(client: TandemClient) -> Offers:
    """Reviewers of pools, those that run first, each with its state and project."""
    found = (await client.list_reviewers()).reviewers
    return [(one.reviewer_id, f"{one.state}, {one.project}") for one in found]


def _asking(question: Callable[[TandemClient], Awaitable[Offers]]) -> Callable[[str], Offers]:
    """Offers what of an answer begins so; nothing when the broker is away or slow: a shell must not be kept waiting."""

    async def ask() -> Offers:
        async with ConnectionOptions(os.environ.get("TANDEM_BROKER")).client() as client:
            return await asyncio.wait_for(question(client), _LIMIT_SECONDS)

    def complete(incomplete: str) -> Offers:
        try:
            offers = asyncio.run(ask())
        except (TandemError, TimeoutError):
            return []
        return [(visible_line(name), visible_line(about)) for name, about in offers if name.startswith(incomplete)]

    return complete


def _examples(incomplete: str) -> Offers:
    """Ready workflows whose name begins so, each with its first line."""
    return [(name, "") for name in examples() if name.startswith(incomplete)]


OFFERS: dict[str, Callable[[str], Offers]] = {
    "review": _asking(_reviews),
    "project": _asking(_projects),
    "cycle": _asking(_cycles),
    "workflow": _asking(_workflows),
    "role": _asking(_roles),
    "reviewer": _asking(_reviewers),
    "example": _examples,
}
"""What each kind of value is offered by."""

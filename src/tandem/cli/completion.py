"""What the shell offers for ids and names, asked of the broker within a fraction of a second."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable

from tandem.cli.whereabouts import Place
from tandem.client import TandemClient
from tandem.errors import TandemError

_LIMIT_SECONDS = 0.5
_ROWS = 50
Offers = list[tuple[str, str]]


def complete_review(incomplete: str) -> Offers:
    """Reviews whose id begins so, latest activity first, each with its intent."""
    return [offer for offer in _ask(_reviews) if offer[0].startswith(incomplete)]


def complete_project(incomplete: str) -> Offers:
    """Registered projects whose name begins so, each with its folder."""
    return [offer for offer in _ask(_projects) if offer[0].startswith(incomplete)]


async def _reviews(client: TandemClient) -> Offers:
    feed = await client.get_activity_feed(limit=_ROWS)
    return [(entry.review.review_id, entry.review.intent) for entry in feed.entries]


async def _projects(client: TandemClient) -> Offers:
    return [(project.project, project.root) for project in (await client.list_projects()).projects]


def _ask(question: Callable[[TandemClient], Awaitable[Offers]]) -> Offers:
    """The answer; nothing when the broker is away or slow, for a shell must not be kept waiting."""

    async def ask() -> Offers:
        async with Place(os.environ.get("TANDEM_BROKER")).client() as client:
            return await asyncio.wait_for(question(client), _LIMIT_SECONDS)

    try:
        return asyncio.run(ask())
    except (TandemError, TimeoutError):
        return []

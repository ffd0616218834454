"""What the shell offers for ids and names, asked of the broker within a fraction of a second."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable

from tandem.cli.connection_options import ConnectionOptions
from tandem.client import TandemClient
from tandem.errors import TandemError
from tandem.hooks.visible import visible_line

_LIMIT_SECONDS = 0.5
_ROWS = 50
Offers = list[tuple[str, str]]


def complete_review(incomplete: str) -> Offers:
    """Reviews whose id begins so, latest activity first, each with its intent."""
    return [offer for offer in _ask(_reviews) if offer[0].startswith(incomplete)]


def complete_project(incomplete: str) -> Offers:
    """Registered projects whose name begins so, each with its folder."""
    return [offer for offer in _ask(_projects) if offer[0].startswith(incomplete)]


def complete_cycle(incomplete: str) -> Offers:
    """Hand-off cycles whose id begins so, newest first, each with its feature."""
    return [offer for offer in _ask(_cycles) if offer[0].startswith(incomplete)]


def complete_workflow(incomplete: str) -> Offers:
    """Workflows whose name begins so, each with its roles."""
    return [offer for offer in _ask(_workflows) if offer[0].startswith(incomplete)]


def complete_role(incomplete: str) -> Offers:
    """Roles of all workflows whose name begins so, each with the workflows that have it."""
    return [offer for offer in _ask(_roles) if offer[0].startswith(incomplete)]


def complete_reviewer(incomplete: str) -> Offers:
    """Reviewers of pools whose id begins so, those that run first, each with its state and project."""
    return [offer for offer in _ask(_reviewers) if offer[0].startswith(incomplete)]


def complete_example(incomplete: str) -> list[str]:
    """Ready workflows whose name begins so."""
    from tandem.examples import examples

    return [name for name in examples() if name.startswith(incomplete)]


async def _reviews(client: TandemClient) -> Offers:
    feed = await client.get_activity_feed(limit=_ROWS)
    return [(entry.review.review_id, entry.review.intent) for entry in feed.entries]


async def _projects(client: TandemClient) -> Offers:
    return [(project.project, project.root) for project in (await client.list_projects()).projects]


async def _cycles(client: TandemClient) -> Offers:
    return [(cycle.cycle_id, cycle.feature) for cycle in (await client.list_cycles(limit=_ROWS)).cycles]


async def _workflows(client: TandemClient) -> Offers:
    return [(found.name, ", ".join(found.roles)) for found in (await client.list_cycles(limit=1)).workflows]


async def _roles(client: TandemClient) -> Offers:
    having: dict[str, list[str]] = {}
    for workflow in (await client.list_cycles(limit=1)).workflows:
        for role in workflow.roles:
            having.setdefault(role, []).append(workflow.name)
    return [(role, ", ".join(names)) for role, names in having.items()]


async def _reviewers(client: TandemClient) -> Offers:
    found = (await client.list_reviewers()).reviewers
    return [(one.reviewer_id, f"{one.state}, {one.project}") for one in found]


def _ask(question: Callable[[TandemClient], Awaitable[Offers]]) -> Offers:
    """The answer; nothing when the broker is away or slow, for a shell must not be kept waiting."""

    async def ask() -> Offers:
        async with ConnectionOptions(os.environ.get("TANDEM_BROKER")).client() as client:
            return await asyncio.wait_for(question(client), _LIMIT_SECONDS)

    try:
        return [(visible_line(name), visible_line(about)) for name, about in asyncio.run(ask())]
    except (TandemError, TimeoutError):
        return []

"""Where an approved round's content is committed already."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from tandem.errors import AlreadyLanded, TandemError
from tandem.reviews import queries as reviews
from tandem.reviews.context import Services
from tandem.reviews.rounds import Round
from tandem.reviews.rules import Review
from tandem.store.base import Unit


@dataclass(frozen=True, slots=True)
class Landing:
    """Where a content is committed.

    Attributes:
        commits: The recorded commits that hold it and were not rolled back.
        branches: The base branches that hold it and did not before.
    """

    commits: tuple[str, ...]
    branches: tuple[str, ...]


async def find(services: Services, review: Review) -> Landing:
    """Where the content that a review approves is committed; nowhere if it approves nothing.

    Base branches are those of a project whose gate is on.
    """
    number = review.approved_round
    if number is None:
        return Landing((), ())

    def look(unit: Unit) -> tuple[Round, tuple[str, ...], tuple[str, ...]]:
        current = reviews.get_round(unit, review.id, number)
        commits = (one for part in services.participants for one in part.commits_of(unit, services, review, current))
        branches = (one for part in services.participants for one in part.protected_branches(unit, review.project))
        return current, tuple(commits), tuple(branches)

    current, commits, branches = await services.store.read(look)
    return Landing(commits, await _branches(services, review.project, current, branches))


async def _branches(services: Services, project: str, current: Round, branches: tuple[str, ...]) -> tuple[str, ...]:
    repository = await services.projects.repository(project) if branches else None
    base = current.base_commit
    if repository is None or base is None:
        return ()

    def look() -> tuple[str, ...]:
        changes = current.entries()
        return repository.landed_on(changes, base, branches) if changes else ()

    try:
        async with services.validations:
            return await asyncio.to_thread(look)
    except TandemError:
        # The repository cannot tell: what was recorded still counts.
        return ()


async def refuse_if_landed(services: Services, review: Review) -> None:
    """Refuse to revise what is approved and committed: the revision would leave the commits without an approval.

    Raises:
        AlreadyLanded: It is.
    """
    landing = await find(services, review)
    if not landing.commits and not landing.branches:
        return
    places = [f"on {branch}" for branch in landing.branches] or [f"as {landing.commits[0][:10]}"]
    raise AlreadyLanded(
        f"What {review.id} approves is committed already ({', '.join(places)}), and a revision would end its approval."
        " Propose what comes next as a new review: tandem submit -m 'what it is for' (create_review without"
        " review_id).",
        review_id=review.id,
        commits=list(landing.commits),
        branches=list(landing.branches),
    )

"""Where findings stand in another round than the one that they were made in; outside of any transaction."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import Final, Literal, TypeVar

from tandem.core.recent import Recent
from tandem.errors import TandemError
from tandem.git.changes import AffectedFile, origins_of
from tandem.git.ground import Ground
from tandem.git.repository import Repository
from tandem.git.rounds import RoundPatch
from tandem.git.travel import Excerpt, Place, Spot, Version, as_said
from tandem.reviews import contents, files, grounds, views
from tandem.reviews import queries as reviews
from tandem.reviews.contents import Content
from tandem.reviews.context import Services
from tandem.reviews.finding_rules import Finding
from tandem.reviews.queries import RoundContent
from tandem.store.base import Unit

T = TypeVar("T")
_AT = 0
"""The number of no round: that of a commit."""
_kept = Recent[tuple[str, int, Spot], Place](20_000, lambda _: 1)
"""Places that were found, by review, round and spot: rounds do not change."""


SIDES: Final[dict[str, Literal["before", "after"]]] = {"old": "before", "new": "after"}
"""By the sides of findings."""


def spot_of(one: Finding) -> Spot:
    """The lines that a finding names."""
    return Spot(one.id, one.round, SIDES[one.side], one.file, one.line, one.end_line)


async def places(
    services: Services, review_id: str, spots: Iterable[Spot], target: int | None = None, at: str | None = None
) -> dict[str, Place]:
    """Where spots of a review stand in a round of it, by default the current one, or at a commit, by their ids.

    Where that cannot be found out a place is as it was said, with `changed` None.

    Raises:
        NotFound: There is no such review or round.
        InvalidInput: There is no such commit.
    """
    wanted = list(spots)
    if not wanted:
        return {}
    if at is not None:
        target = _AT
    elif target is None:
        target = (await services.store.read(lambda unit: reviews.get(unit, review_id))).round
    to = target
    kept = {spot.id: place for spot in wanted if at is None and (place := _kept.get((review_id, to, spot)))}
    asked = [spot for spot in wanted if spot.id not in kept]
    from_rounds = {spot.round for spot in asked if spot.file is not None} - {to}

    def find(repository: Repository, versions: Mapping[int, Version]) -> dict[str, Place]:
        if at is not None:
            commit = repository.resolve_base(at, "at")
            versions = {**versions, _AT: Version(RoundPatch(commit, None, ()), commit)}
        return repository.find_places(versions, asked, to)

    # Of spots that stay in their own round there is nothing to read.
    found = await _looked_at(services, review_id, {*from_rounds, to} - {_AT}, find) if from_rounds else None
    if found is None:
        return kept | {spot.id: as_said(spot, to) for spot in asked}
    for spot in asked if at is None else ():
        if found[spot.id].changed is not None:
            _kept.put((review_id, to, spot), found[spot.id])
    return kept | found


async def places_in(
    services: Services, review_id: str, spots: Iterable[Spot], content: Content, *, is_text: bool
) -> dict[str, Place]:
    """Where spots of a review stand in a content that is no round yet; as they were said where that is unknown."""
    asked = list(spots)
    numbers = {spot.round for spot in asked if spot.file is not None}
    found = None
    if numbers and content.validated:
        patch = RoundPatch(content.base_commit or "", None if is_text else content.content, content.changes)
        text = content.content if is_text else None

        def find(repository: Repository, versions: Mapping[int, Version]) -> dict[str, Place]:
            there = _version(repository, patch, content.ground, content.affected_files, text)
            return repository.find_places({**versions, _AT: there}, asked, _AT)

        found = await _looked_at(services, review_id, numbers, find)
    return found or {spot.id: as_said(spot, _AT) for spot in asked}


async def excerpts(services: Services, review_id: str, spots: Iterable[Spot], around: int) -> dict[str, Excerpt]:
    """The lines that spots name in their own rounds, by their ids; those that cannot be read are left out.

    At most 50 lines and 8,000 bytes of each, without the line feed that ends the last one; and those with so many more
    lines around them.

    Raises:
        NotFound: There is no such review or round.
    """
    asked = [spot for spot in spots if spot.file is not None]
    if not asked:
        return {}
    numbers = {spot.round for spot in asked}
    found = await _looked_at(services, review_id, numbers, lambda git, of: git.read_excerpts(of, asked, around))
    return found or {}


async def _looked_at(
    services: Services, review_id: str, numbers: set[int], work: Callable[[Repository, Mapping[int, Version]], T]
) -> T | None:
    """What git says of some rounds; None where their files cannot be read."""

    def look(unit: Unit) -> list[RoundContent]:
        return [reviews.get_content(unit, review_id, None, number) for number in sorted(numbers)]

    found = [one for one in await services.store.read(look) if one.round.validated and one.round.base_commit]
    if not found:
        return None
    try:
        rounds = (one.round for one in found)
        async with contents.repository_of(services, found[0].review.project, *rounds) as repository:
            if repository is None:
                return None
            async with services.validations:
                return await asyncio.to_thread(
                    lambda: work(repository, {one.round.round: _version_of(repository, one) for one in found})
                )
    except TandemError as error:
        if error.details.get("field") == "at":
            raise
        # A reader still sees the findings where they were made.
        return None


def _version_of(repository: Repository, found: RoundContent) -> Version:
    current = found.round
    patch = RoundPatch(current.base_commit or "", found.diff, current.entries())
    text = None if current.path is None else found.text
    return _version(repository, patch, grounds.parsed(current.ground), views.files_from(current.affected_files), text)


def _version(
    repository: Repository, patch: RoundPatch, ground: Ground | None, affected: Iterable[AffectedFile], text: str | None
) -> Version:
    commit, touched = files.beside(repository, patch, ground)
    return Version(patch, commit, touched, origins_of(affected), text)

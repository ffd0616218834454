"""Which files of a round a person has viewed."""

from __future__ import annotations

from dataclasses import dataclass

from tandem.domain.inbox_answers import ViewedFiles
from tandem.domain.patches import Round
from tandem.domain.reviews import check_project
from tandem.errors import NotFound
from tandem.services import views
from tandem.services.context import Call, Services, transact
from tandem.store import reviews, viewed
from tandem.store.base import Unit

_SHOWN_PATHS = 100


@dataclass(frozen=True, slots=True)
class Place:
    """Whose marks on what.

    Attributes:
        review_id: The review.
        round: The round's number.
        person: Who views.
        project: The project that the review must be of; null for any.
    """

    review_id: str
    round: int
    person: str
    project: str | None


async def mark(services: Services, call: Call, place: Place, path: str, *, is_viewed: bool) -> ViewedFiles:
    """Mark a file of a round as viewed, or take the mark away.

    Raises:
        NotFound: There is no such review (in that project), round, or file in it.
    """

    def work(unit: Unit) -> ViewedFiles:
        paths = _paths(_round(unit, place))
        if path not in paths:
            raise NotFound(
                f"Round {place.round} of '{place.review_id}' touches no such file; get_proposal lists those it does.",
                review_id=place.review_id,
                round=place.round,
                path=path,
                allowed=paths[:_SHOWN_PATHS],
            )
        if is_viewed:
            viewed.add(unit, place.review_id, place.round, place.person, path, services.clock.now_us())
        else:
            viewed.remove(unit, place.review_id, place.round, place.person, path)
        return _marks(unit, place)

    return await transact(services, call, work)


async def list_all(services: Services, place: Place) -> ViewedFiles:
    """The files of a round that are marked.

    Raises:
        NotFound: There is no such review (in that project), or round.
    """

    def work(unit: Unit) -> ViewedFiles:
        _round(unit, place)
        return _marks(unit, place)

    return await services.store.read(work)


def _round(unit: Unit, place: Place) -> Round:
    check_project(reviews.get(unit, place.review_id), place.project)
    return reviews.get_round(unit, place.review_id, place.round)


def _paths(found: Round) -> list[str]:
    paths = [file.path for file in views.files_from(found.affected_files)]
    return paths if found.path is None else list(dict.fromkeys((*paths, found.path)))


def _marks(unit: Unit, place: Place) -> ViewedFiles:
    paths = tuple(viewed.list_paths(unit, place.review_id, place.round, place.person))
    return ViewedFiles(place.review_id, place.round, place.person, paths)

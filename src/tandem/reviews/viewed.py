"""Which files of a round a person has viewed."""

from __future__ import annotations

from tandem.contract.caller import Caller
from tandem.errors import NotFound
from tandem.reviews import queries as reviews
from tandem.reviews import viewed_queries as viewed
from tandem.reviews import views
from tandem.reviews.context import Services
from tandem.reviews.page_contract import ListViewed, MarkViewed, ViewedFiles
from tandem.reviews.rounds import Round
from tandem.store.base import Unit
from tandem.store.context import transact

_SHOWN_PATHS = 100


async def mark_viewed(services: Services, caller: Caller, request: MarkViewed) -> ViewedFiles:
    """Mark a file of a round as viewed, or take the mark away.

    Raises:
        NotFound: There is no such review (in that project), round, or file in it.
    """

    def work(unit: Unit) -> ViewedFiles:
        paths = _paths(_round(unit, request))
        if request.path not in paths:
            raise NotFound(
                f"Round {request.round} of '{request.review_id}' touches no such file; get_proposal lists those it"
                " does.",
                review_id=request.review_id,
                round=request.round,
                path=request.path,
                allowed=paths[:_SHOWN_PATHS],
            )
        if request.viewed:
            viewed.add(unit, request.review_id, request.round, request.person, request.path, services.clock.now_us())
        else:
            viewed.remove(unit, request.review_id, request.round, request.person, request.path)
        return _marks(unit, request)

    return await transact(services, caller, work)


async def list_viewed(services: Services, _caller: Caller, request: ListViewed) -> ViewedFiles:
    """The files of a round that are marked.

    Raises:
        NotFound: There is no such review (in that project), or round.
    """

    def work(unit: Unit) -> ViewedFiles:
        _round(unit, request)
        return _marks(unit, request)

    return await services.store.read(work)


def _round(unit: Unit, request: MarkViewed | ListViewed) -> Round:
    review = reviews.get(unit, request.review_id, request.project)
    return reviews.get_round(unit, review.id, request.round)


def _paths(found: Round) -> list[str]:
    paths = [file.path for file in views.files_from(found.affected_files)]
    return paths if found.path is None else list(dict.fromkeys((*paths, found.path)))


def _marks(unit: Unit, request: MarkViewed | ListViewed) -> ViewedFiles:
    paths = tuple(viewed.list_paths(unit, request.review_id, request.round, request.person))
    return ViewedFiles(request.review_id, request.round, request.person, paths)

"""Search: reviews by their texts and files, a bounded piece of the history at a time."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

import orjson

from tandem.contract import answer
from tandem.contract.caller import Caller
from tandem.contract.request import WORK
from tandem.git.changes import AffectedFile
from tandem.present.words import PRIORITIES
from tandem.reviews import queries as reviews
from tandem.reviews import report_queries as search
from tandem.reviews import views
from tandem.reviews.context import Services
from tandem.reviews.page_contract import FoundReview, SearchPage, SearchReviews
from tandem.reviews.report_queries import KEYS, Key, SearchHit, Shape, place_of
from tandem.reviews.rules import Review, State
from tandem.store import pages
from tandem.store.base import Unit
from tandem.store.statement import stated

REVIEW_LIMIT: Final = 2_000
"""Reviews that one call looks through at most; beyond it the next page goes on."""
TEXT_LIMIT: Final = 20_000_000
"""Letters of descriptions and files after which a call stops as well."""
_PIECE: Final = 100


async def search_reviews(services: Services, caller: Caller, request: SearchReviews) -> SearchPage:
    """Reviews that are wanted, in an order, a page at a time; of every project unless one is named.

    Raises:
        TooLarge: More rows than a page may have.
        InvalidInput: The page token is none of ours.
    """
    pages.check_limit(services, request.limit)
    after: Key | None = pages.decode(services, request.page, *KEYS[request.sort]) if request.page else None
    project = request.project or caller.project

    def work(unit: Unit) -> SearchPage:
        newest = services.waits.newest(unit)
        found, following, stopped_us = _find(unit, request, project, after)
        return SearchPage(
            reviews=tuple(found),
            next_page=pages.encode(services, *following) if following else None,
            searched_back_to=answer.time_or_none(stopped_us),
            cursor=services.waits.cursor(newest),
        )

    return await services.store.read(work)


def _find(
    unit: Unit, wanted: SearchReviews, project: str | None, after: Key | None
) -> tuple[list[FoundReview], Key | None, int | None]:
    """The found reviews, the place to go on from, and the time at which a limit stopped the search."""
    words = {*(wanted.text or "").casefold().split()}
    shape, given = _shape(wanted, project)
    found: list[FoundReview] = []
    last: Review | None = None
    read = 0
    for looked, candidate in enumerate(_history(unit, shape, given, after)):
        if last is not None and (looked == REVIEW_LIMIT or read >= TEXT_LIMIT):
            stopped_us = last.updated_at if shape.sort == "updated" else last.created_at
            return found, place_of(last, shape.sort), stopped_us
        review, files = candidate.review, None
        if _has_row(wanted, project, review) and _has_words(words, candidate):
            files = candidate.affected_files or reviews.get_round(unit, review.id, review.round).affected_files
        if files is not None and (wanted.path is None or _has_path(wanted.path, views.files_from(files))):
            if len(found) == wanted.limit and last is not None:
                return found, place_of(last, shape.sort), None
            found.append(views.row_as(FoundReview, review, files=len(orjson.loads(files))))
        last = review
        read += len(candidate.description or "") + len(files or "")
    return found, None, None


def _shape(wanted: SearchReviews, project: str | None) -> tuple[Shape, dict[str, Any]]:
    # `_has_row` applies the filters that are left out here.
    of_category = wanted.category is not None and wanted.status == State.CLOSED and wanted.attention is not True
    of_category = of_category and wanted.turn is None and wanted.sort != "updated"
    status = None if of_category else wanted.status
    given = stated(
        project=project,
        state=status,
        category=wanted.category,
        priority=None if wanted.priority is None else PRIORITIES.index(wanted.priority),
        turn=wanted.turn,
    )
    shape = Shape(
        sort=wanted.sort,
        filters=frozenset(given),
        state=status,
        attention=wanted.attention is True,
        after=False,
        texts=bool(wanted.text),
    )
    if shape.sort == "updated" and not shape.is_open:
        given = {name: value for name, value in given.items() if name in ("project", "state")}
    return replace(shape, filters=frozenset(given)), given


def _history(unit: Unit, shape: Shape, given: dict[str, Any], after: Key | None) -> Iterator[SearchHit]:
    while True:
        asked = replace(shape, after=after is not None)
        piece = search.list_candidates(unit, asked, after=after, limit=_PIECE, given=given)
        yield from piece
        if len(piece) < _PIECE:
            return
        after = place_of(piece[-1].review, shape.sort)


def _has_words(words: Collection[str], candidate: SearchHit) -> bool:
    """Whether a review's own columns, or its description, have all the words."""
    review = candidate.review
    names = (review.id, review.parent_id, review.proposer_id, review.reviewer_id or review.verdict_by)
    work = (review.intent, *(getattr(review, name) for name in WORK))
    # A line break is in no word, so that none is found across two columns.
    whole = "\n".join(part for part in (*names, *work) if part).casefold()
    missing = [word for word in words if word not in whole]
    description = (candidate.description or "").casefold() if missing else ""
    return all(word in description for word in missing)


def _has_row(wanted: SearchReviews, project: str | None, review: Review) -> bool:
    """Whether a review's own columns are as wanted."""
    exact = (
        (project, review.project),
        (wanted.status, review.state),
        (wanted.category, review.category),
        (wanted.priority, PRIORITIES[review.priority]),
        (wanted.turn, review.turn),
        (wanted.attention, review.attention is not None),
        (wanted.proposer, review.proposer_id),
        (wanted.reviewer, review.reviewer_id or review.verdict_by),
    )
    return all(one is None or one == actual for one, actual in exact)


def _has_path(path: str, files: Sequence[AffectedFile]) -> bool:
    """Whether one of the files has a path with this part, before or after the change."""
    part = path.casefold()
    return any(part in file.path.casefold() or part in (file.old_path or "").casefold() for file in files)

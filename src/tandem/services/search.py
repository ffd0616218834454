"""Search: reviews by what they say and touch, a bounded piece of the history at a time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final

import orjson

from tandem.domain.inbox_answers import FoundReview, SearchPage
from tandem.domain.inbox_search import Wanted, missing_words
from tandem.domain.reviews import PRIORITIES, Review, State
from tandem.services import pages, views
from tandem.services.context import Services
from tandem.store import search
from tandem.store.base import Unit
from tandem.store.search import KEYS, Candidate, Key, Shape, Sort

REVIEW_LIMIT: Final = 2_000
"""Reviews that one call looks through at most; beyond it the next page goes on."""
TEXT_LIMIT: Final = 20_000_000
"""Letters of descriptions after which a call stops as well."""
_PIECE: Final = 100


async def find_page(services: Services, wanted: Wanted, *, sort: Sort, limit: int, page: str | None) -> SearchPage:
    """Reviews that are wanted, in an order, a page at a time.

    Raises:
        TooLarge: More rows than a page may have.
        InvalidInput: The page token is none of ours.
    """
    pages.check_limit(services, limit)
    after: Key | None = pages.decode(services, page, *KEYS[sort]) if page else None

    def work(unit: Unit) -> SearchPage:
        newest = services.waits.newest(unit)
        found, following, stopped_us = _find(unit, wanted, sort, limit, after)
        return SearchPage(
            reviews=tuple(found),
            next_page=pages.encode(services, *following) if following else None,
            searched_back_to=views.time_or_none(stopped_us),
            cursor=services.waits.cursor(newest),
        )

    return await services.store.read(work)


def _find(
    unit: Unit, wanted: Wanted, sort: Sort, limit: int, after: Key | None
) -> tuple[list[FoundReview], Key | None, int | None]:
    """What was found, the place to go on from, and the time at which a limit stopped the search."""
    shape, given = _shape(wanted, sort)
    rest: tuple[int, int] | None = None
    if sort == "updated" and not shape.is_open:
        before = after[0] if after else search.BEFORE_ALL
        rest = search.find_log_end(unit, project=wanted.project, before=before)
        walk = _log(unit, wanted.project, shape, before, rest[0] if rest else 0)
    else:
        walk = _history(unit, shape, given, after)
    found: list[FoundReview] = []
    last: Review | None = None
    read = 0
    for looked, candidate in enumerate(walk):
        if last is not None and (looked == REVIEW_LIMIT or read >= TEXT_LIMIT):
            return found, shape.place(last), last.updated_at if sort == "updated" else last.created_at
        if _fits(wanted, candidate):
            if len(found) == limit and last is not None:
                return found, shape.place(last), None
            found.append(_found(candidate))
        last = candidate.review
        read += len(candidate.description or "")
    return (found, None, None) if rest is None else (found, rest[:1], rest[1])


def _shape(wanted: Wanted, sort: Sort) -> tuple[Shape, dict[str, Any]]:
    # What is left out here is left to `Wanted.has_row`.
    of_category = wanted.category is not None and wanted.status == State.CLOSED and wanted.attention is not True
    status = None if of_category and wanted.turn is None else wanted.status
    columns = {
        "project": wanted.project,
        "state": status,
        "category": wanted.category,
        "priority": None if wanted.priority is None else PRIORITIES.index(wanted.priority),
        "turn": wanted.turn,
    }
    given = {name: value for name, value in columns.items() if value is not None}
    shape = Shape(
        sort=sort,
        filters=frozenset(given),
        state=status,
        attention=wanted.attention is True,
        after=False,
        texts=bool(wanted.words),
    )
    return shape, given


def _history(unit: Unit, shape: Shape, given: dict[str, Any], after: Key | None) -> Iterator[Candidate]:
    while True:
        asked = replace(shape, after=after is not None)
        piece = search.list_candidates(unit, asked, after=after, limit=_PIECE, given=given)
        yield from piece
        if len(piece) < _PIECE:
            return
        after = shape.place(piece[-1].review)


def _log(unit: Unit, project: str | None, shape: Shape, before: int, floor: int) -> Iterator[Candidate]:
    while True:
        piece = search.list_active(unit, project=project, texts=shape.texts, before=before, floor=floor, limit=_PIECE)
        yield from piece
        if len(piece) < _PIECE:
            return
        before = piece[-1].review.event_seq


def _fits(wanted: Wanted, candidate: Candidate) -> bool:
    if not wanted.has_row(candidate.review):
        return False
    if wanted.path is not None and not wanted.has_path(views.files_from(candidate.affected_files)):
        return False
    missing = missing_words(wanted.words, candidate.review)
    if not missing:
        return True
    description = (candidate.description or "").casefold()
    return all(word in description for word in missing)


def _found(candidate: Candidate) -> FoundReview:
    shown = views.row(candidate.review)
    columns = {name: getattr(shown, name) for name in shown.__dataclass_fields__}
    return FoundReview(**columns, files=len(orjson.loads(candidate.affected_files)))

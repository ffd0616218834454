"""Drafts: what a person writes about a review, kept until it is sent or discarded. No event tells of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from textwrap import indent
from typing import Any, Final

from sqlalchemy import bindparam, delete, func, select, tuple_

from tandem.contract.caller import Caller
from tandem.core.clock import isoformat
from tandem.core.visible import is_blank
from tandem.errors import InvalidInput, NotFound, TooLarge
from tandem.git.travel import Excerpt, Place, Spot
from tandem.reviews import contents, files, tables, views
from tandem.reviews import queries as reviews
from tandem.reviews.context import Services
from tandem.reviews.finding_contract import PlaceView
from tandem.reviews.page_contract import (
    MOST_DRAFTS,
    DiscardDraft,
    Draft,
    DraftPage,
    DraftsDiscarded,
    ListDrafts,
    SaveDraft,
    quoted,
)
from tandem.store import pages
from tandem.store.base import Unit
from tandem.store.context import transact
from tandem.store.statement import Statement, equal, stated, upsert

_d = tables.drafts.c
_KEY: Final = ("person", "review_id", "draft_id")
_save = upsert(tables.drafts)
_discard = Statement(delete(tables.drafts).where(*equal(_d, *_KEY)))
_others = Statement(select(func.count()).where(*equal(_d, "person", "review_id"), _d.draft_id != bindparam("draft_id")))
_COLUMNS: Final = tuple(one.name for one in tables.drafts.c)
_find = Statement(select(tables.drafts).where(*equal(_d, *_KEY)))
_LABELS: Final = {
    "body": "",
    "category": "Category: ",
    "failure": "How it fails: ",
    "suggestion": "Suggested instead:\n\n",
}
_ELSEWHERE: Final = "Also written in another window:"


@cache
def _list(*, of_review: bool, of_project: bool) -> Statement:
    statement = select(tables.drafts).where(*equal(_d, "person", *(["review_id"] if of_review else [])))
    if of_project:
        joined = tables.reviews.c
        statement = statement.join(tables.reviews, joined.id == _d.review_id).where(*equal(joined, "project"))
    place = tuple_(bindparam("after_review"), bindparam("after_draft"))
    statement = statement.where(tuple_(_d.review_id, _d.draft_id) > place)
    return Statement(statement.order_by(_d.review_id, _d.draft_id).limit(MOST_DRAFTS + 1))


async def save_draft(services: Services, caller: Caller, request: SaveDraft) -> Draft:
    """Keep a draft in the place of the person's draft of that id, with the words of an unexpected one behind it.

    Raises:
        NotFound: There is no such review (in that project) or round, or its contents were removed.
        InvalidInput: Its severity is none, or nothing is written in it.
        TooLarge: The text is too long, or they are too many.
    """
    contents.check_severity(request.severity, "severity")
    for name in ("body", "failure", "suggestion"):
        contents.check_text(services, name, getattr(request, name))
    texts = (request.body, *((request.category, request.failure) if request.kind == "finding" else ()))
    if all(is_blank(text or "") for text in texts) and (request.kind != "finding" or request.suggestion is None):
        raise InvalidInput("Nothing is written in the draft; give it a text.", field="body")

    def work(unit: Unit) -> Draft:
        # Locked, so that its contents are not removed meanwhile, and no draft stays behind them.
        review = reviews.get(unit, request.review_id, request.project, lock=True)
        if review.removed_at is not None:
            raise NotFound(
                f"The contents of the review '{review.id}' were removed; nothing is written about it any more.",
                review_id=review.id,
            )
        reviews.get_round(unit, review.id, request.round)
        own: dict[str, Any] = {name: getattr(request, name) for name in _KEY}
        others = unit.value(_others, **own) or 0
        if others >= MOST_DRAFTS:
            raise TooLarge(
                f"A person has at most {MOST_DRAFTS} drafts on one review; send or discard some.",
                field="draft_id",
                limit=MOST_DRAFTS,
                actual=others + 1,
            )
        row = {name: getattr(request, name) for name in _COLUMNS[:-1]}
        row |= {"pre_existing": int(request.pre_existing), "updated_at": services.clock.now_us()}
        stored = unit.one_or_none(_find, **own)
        if stored is not None and request.expected is not None and isoformat(stored[-1]) != request.expected:
            row |= _with_words_of(_shown(stored), request)
            contents.check_text(services, "body", row["body"])
        if stored is not None and (*row.values(),)[:-1] == tuple(stored)[:-1]:
            # Other windows have seen it.
            return _shown(stored)
        unit.execute(_save, **row)
        return _shown(tuple(row.values()))

    return await transact(services, caller, work)


async def list_drafts(services: Services, caller: Caller, request: ListDrafts) -> DraftPage:
    """A person's drafts, as many as there is room for.

    Raises:
        NotFound: There is no such review (in that project).
        InvalidInput: The page token is none of ours.
    """
    after = pages.decode(services, request.page, str, str) if request.page else ("", "")
    project = request.project or caller.project

    def work(unit: Unit) -> tuple[DraftPage, int]:
        current = 0
        if request.review_id is not None:
            current = reviews.get(unit, request.review_id, request.project).round
        params = stated(review_id=request.review_id, project=project)
        statement = _list(of_review=request.review_id is not None, of_project=project is not None)
        rows = unit.all(statement, person=request.person, after_review=after[0], after_draft=after[1], **params)
        found = views.fitting(map(_shown, rows[:MOST_DRAFTS]), _letters)
        is_cut = len(found) < len(rows)
        following = pages.encode(services, found[-1].review_id, found[-1].draft_id) if is_cut else None
        return DraftPage(request.person, tuple(found), following), current

    page, current = await services.store.read(work)
    if not current or request.review_id is None:
        return page
    return replace(page, drafts=await _placed(services, request.review_id, page.drafts, current))


async def _placed(services: Services, review_id: str, found: Sequence[Draft], current: int) -> tuple[Draft, ...]:
    """The drafts, with where those belong in the current round whose lines are of an earlier one, or not there."""
    in_files = [one for one in found if one.kind == "finding" and one.file is not None]
    spots = {
        one.draft_id: Spot(
            one.draft_id, one.round, "before" if one.side == "before" else "after", one.file, one.line, one.end_line
        )
        for one in in_files
    }
    there = await files.places(services, review_id, (one for one in spots.values() if one.round != current), current)
    looked_at = [spot for name, spot in spots.items() if name not in there or there[name].changed is not False]
    seen = await files.excerpts(services, review_id, looked_at, 0)

    def shown(one: Draft) -> Draft:
        place, own = there.get(one.draft_id), seen.get(one.draft_id)
        if place is None:
            if own is None or max(one.line or 0, one.end_line or 0) <= (-1 if own.total is None else own.total):
                return one
            place = Place(None if own.total is None else one.file, None, None, changed=True)
        if place.changed is None:
            # What cannot be looked at is not put on lines that may be others.
            place = Place(place.file, None, None, changed=None)
        is_same = place.changed is False or (one.line is None and place.file is not None)
        quote = None if is_same else quoted(one, seen.get(one.draft_id, Excerpt()).lines)
        return replace(one, place=PlaceView(*place), quote=quote)

    return tuple(shown(one) for one in found)


async def discard_draft(services: Services, caller: Caller, request: DiscardDraft) -> DraftsDiscarded:
    """Remove drafts of a person on a review.

    Raises:
        NotFound: There is no such review (in that project).
    """

    def work(unit: Unit) -> DraftsDiscarded:
        # Locked, so that none is saved between the look and the removal.
        reviews.get(unit, request.review_id, request.project, lock=True)
        found = 0
        for draft_id in dict.fromkeys(request.draft_ids):
            own = {"person": request.person, "review_id": request.review_id, "draft_id": draft_id}
            stored = unit.one_or_none(_find, **own) if request.expected is not None else None
            if stored is None or isoformat(stored[-1]) <= (request.expected or ""):
                found += unit.execute(_discard, **own)
        return DraftsDiscarded(request.review_id, request.person, found)

    return await transact(services, caller, work)


def _with_words_of(other: Draft, request: SaveDraft) -> dict[str, str]:
    """Those texts of a draft to which another one adds words, behind its own."""
    texts: dict[str, str] = {}
    left: list[str] = []
    for name, label in _LABELS.items():
        mine, theirs = getattr(request, name) or "", getattr(other, name)
        if not theirs or theirs in mine:
            continue
        if theirs.startswith(mine):
            texts[name] = theirs
        else:
            left.append(label + (indent(theirs, "    ") if name == "suggestion" else theirs))
    if left:
        texts["body"] = "\n\n".join([texts.get("body") or request.body, _ELSEWHERE, *left])
    return texts


def _shown(row: tuple[Any, ...]) -> Draft:
    found: dict[str, Any] = dict(zip(_COLUMNS, row, strict=True))
    found["updated_at"] = isoformat(found["updated_at"])
    found["pre_existing"] = bool(found["pre_existing"])
    return Draft(**found)


def _letters(draft: Draft) -> int:
    return len(draft.body) + len(draft.failure or "") + len(draft.suggestion or "")

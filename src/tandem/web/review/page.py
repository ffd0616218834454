"""`/reviews/{review_id}`: the whole page, the parts of it that follow the review, and the marks on its files."""

from __future__ import annotations

import asyncio
from typing import Any

from starlette.responses import JSONResponse, Response

from tandem.errors import InvalidInput
from tandem.reviews.page_contract import ViewedFiles
from tandem.web.page import PageRequest, PageResponse, PageRoute, in_worker, see
from tandem.web.review import discussion
from tandem.web.review.acting import NOTHING, FormResult
from tandem.web.review.checks import checks_of
from tandem.web.review.counter_patch import counter_patch_values
from tandem.web.review.fate import facts_of, next_review, spent
from tandem.web.review.files import listed, parts_of
from tandem.web.review.offers import MOST_FILES, whitespace_lines
from tandem.web.review.text import description_html, text_values
from tandem.web.review.view import ReviewView, load

_LONG_DIGEST = 16
_NO_CONTENT = 204


async def whole(request: PageRequest, acting: FormResult = NOTHING) -> PageResponse:
    """The page, also as the answer to a form that was refused.

    Args:
        request: The request; the review, the round and the form to show are taken from its address.
        acting: How the form came back.

    Raises:
        NotFound: There is no such review or round.
    """
    view = await load(request, events=True)
    if view.shape == "diff":
        content = await in_worker(_diff_values, view, request.number("first") or 0)
    else:
        content = await text_values(request, view)
    values = {**await _values(request, view), **content, "acting": acting}
    return PageResponse("review/page.html", values, acting.status, heavy=True)


async def parts(request: PageRequest, acting: FormResult = NOTHING) -> PageResponse:
    """All that changes when something happens to the review: to bring a page up to date, or to answer a form."""
    view = await load(request, events=True, interdiff=False)
    values = {**await _values(request, view), "acting": acting}
    return PageResponse("review/parts.html", values, acting.status, heavy=True, is_part=True)


async def _values(request: PageRequest, view: ReviewView) -> dict[str, Any]:
    digest = view.proposal.digest
    fate, cost, following = await asyncio.gather(
        facts_of(request, view), spent(request, view), next_review(request, view)
    )
    return {
        "view": view,
        "fate": fate,
        "cost": cost,
        "next_review": following,
        "checks": checks_of(view),
        # A text's digest has its path behind it, which the page says anyway.
        "digest": digest.partition(":")[0][:_LONG_DIGEST] if digest else None,
        **await in_worker(counter_patch_values, view),
        **discussion.values(view, request),
    }


def _diff_values(view: ReviewView, first: int) -> dict[str, Any]:
    found = listed(view.outline, first)
    made = parts_of(view, found)
    return {
        "outline": found,
        "hidden": whitespace_lines(view.diff, view.origins) if view.is_calm else 0,
        "first": first,
        "firsts": range(0, len(found.files), MOST_FILES),
        "parts": made,
        "by_index": {part.index: part for part in made},
        "by_path": {part.path: part for part in made},
        "about": description_html(view.proposal.description),
    }


async def mark(request: PageRequest) -> Response:
    """Mark a file as viewed, or as not; a script is told nothing, a browser goes back to where it was.

    Raises:
        InvalidInput: The form is not complete.
    """
    number, path, viewed = request.number("round"), request.form.get("path"), request.form.get("viewed")
    if number is None or path is None or viewed not in ("yes", "no"):
        raise InvalidInput(
            "Say which file of which round is viewed: round, path, and viewed=yes or no.", field="viewed"
        )
    await request.call(
        "mark_viewed",
        review_id=request.path("review_id"),
        round=number,
        path=path,
        viewed=viewed == "yes",
        person=request.person.name,
    )
    if request.form.get("quiet"):
        return Response(status_code=_NO_CONTENT)
    view = await load(request, interdiff=False)
    index = request.number("index")
    return see(view.link() + ("" if index is None else f"#f{index}"))


async def viewed_files(request: PageRequest) -> Response:
    """The paths that the person has marked in a round, for a window that was not looked at for a while."""
    paths: tuple[str, ...] = ()
    if request.person.known:
        review_id, number = request.path("review_id"), request.number("round") or 1
        found: ViewedFiles = await request.call(
            "list_viewed", review_id=review_id, round=number, person=request.person.name
        )
        paths = found.paths
    return JSONResponse({"paths": paths}, headers={"cache-control": "no-store"})


ROUTES = (
    PageRoute("/reviews/{review_id}", whole),
    PageRoute("/reviews/{review_id}/parts", parts, inbox_rows=0),
    PageRoute("/reviews/{review_id}/viewed", viewed_files, mark, inbox_rows=0),
)

"""`/reviews/{review_id}`: the whole page, its head by itself, and its addresses."""

from __future__ import annotations

from typing import Any

from tandem.faces.web.answering import Page
from tandem.faces.web.asking import Ask
from tandem.faces.web.review import discussion
from tandem.faces.web.review.about import about, metadata
from tandem.faces.web.review.counter_patch import counter_patch_values
from tandem.faces.web.review.files import change, parts
from tandem.faces.web.review.rounds import selector
from tandem.faces.web.review.text import text_values
from tandem.faces.web.review.view import ReviewView, load
from tandem.faces.web.routes import PageRoute
from tandem.faces.web.workers import in_worker

_LONG_DIGEST = 16


async def show(ask: Ask) -> Page:
    """The page."""
    return await whole(ask, ask.path("review_id"))


async def whole(ask: Ask, review_id: str, status: int = 200, **extra: Any) -> Page:
    """The page, also as the answer to a form that was refused.

    Args:
        ask: The request; the round and form to show are taken from its address.
        review_id: The review.
        status: The HTTP status.
        extra: What else the templates are given, such as what was typed.

    Raises:
        NotFound: There is no such review or round.
    """
    view = await load(ask, review_id)
    values = head_values(view) | await _content(ask, view) | await in_worker(counter_patch_values, view)
    return Page("review/page.html", {**values, **discussion.values(view, ask), **extra}, status, heavy=True)


async def head(ask: Ask) -> Page:
    """The page's head, brought up to date while the change below it stays."""
    view = await load(ask, ask.path("review_id"), content=False)
    return Page("review/head.html", head_values(view), bare=True)


def head_values(view: ReviewView) -> dict[str, Any]:
    """What the head is given."""
    return {"view": view, "rounds": selector(view), "digest": _short(view.proposal["digest"])}


async def _content(ask: Ask, view: ReviewView) -> dict[str, Any]:
    if view.shape == "diff":
        return await in_worker(_diff_values, view)
    return await text_values(ask, view)


def _diff_values(view: ReviewView) -> dict[str, Any]:
    found = change(view)
    made = parts(view, found)
    return {
        "outline": found,
        "parts": made,
        "by_index": {part.index: part for part in made},
        "about": about(view.proposal["description"]),
        "metadata": metadata(view.proposal["metadata"]),
    }


def _short(digest: str | None) -> str | None:
    """A digest's beginning; a text's has its path behind it, which the page says anyway."""
    return digest.partition(":")[0][:_LONG_DIGEST] if digest else None


ROUTES = (
    PageRoute("/reviews/{review_id}", show),
    PageRoute("/reviews/{review_id}/head", head),
)

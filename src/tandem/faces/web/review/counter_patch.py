"""The counter-patch that waits for its decision, as what it would change in the round."""

from __future__ import annotations

from typing import Any

from tandem.faces.web.answering import Page
from tandem.faces.web.asking import Ask
from tandem.faces.web.diffs.documents import compare
from tandem.faces.web.diffs.syntax import Budget
from tandem.faces.web.diffs.views import view as painted_view
from tandem.faces.web.review.against import between
from tandem.faces.web.review.view import ReviewView, load
from tandem.faces.web.routes import PageRoute
from tandem.faces.web.workers import in_worker

FIRST_INDEX = 100_000
"""Its files are counted from here, so that their lines have other names than those of the round's files."""
_LINES = 800
_HIGHLIGHT_SECONDS = 0.1
_LEVEL = 3


async def show(ask: Ask) -> Page:
    """The section by itself, brought up to date when something happens to the review."""
    view = await load(ask, ask.path("review_id"))
    values = await in_worker(counter_patch_values, view)
    return Page("review/counter_patch.html", {"view": view, **values}, heavy=True, bare=True)


def counter_patch_values(view: ReviewView) -> dict[str, Any]:
    """What the section is given. Takes a while: call it in a thread."""
    patch = view.counter_patch
    if patch is None or patch["round"] != view.round:
        return {"patch": None, "patch_files": (), "patch_changes": None}
    if patch["diff"] is None:
        before, after = view.proposal["description"] or "", patch["description"] or ""
        return {"patch": patch, "patch_files": (), "patch_changes": compare(before, after, heading=_LEVEL)}
    budget, left = Budget(_HIGHLIGHT_SECONDS), _LINES
    shown: list[Any] = []
    for index, file in enumerate(between(view.proposal["diff"] or "", patch["diff"])):
        made = painted_view(file, FIRST_INDEX + index, limit=max(left, 1), budget=budget)
        left -= made.lines
        shown.append(made)
    return {"patch": patch, "patch_files": tuple(shown), "patch_changes": None}


ROUTES = (PageRoute("/reviews/{review_id}/counter-patch", show),)

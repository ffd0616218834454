"""`/`: what waits for the person, what waits for others, and what went wrong."""

from __future__ import annotations

from typing import Any

from starlette.responses import Response

from tandem.inbox.contract import Inbox
from tandem.present.words import WHY
from tandem.web import login
from tandem.web.page import PageRequest, PageResponse, PageRoute, see

_ROWS = 100
_SECTIONS = (
    ("your_turn", "Your turn", "Nothing waits for you."),
    ("problems", "Problems", "Nothing is stuck."),
    ("waiting", "Waiting on others", "Nobody else is at work."),
)


async def show(request: PageRequest) -> PageResponse | Response:
    """The inbox; first the name is asked, because what waits depends on for whom."""
    found, project = request.inbox, request.query("project")
    if found is None:
        return see(login.YOU)
    if project:  # the navigation counts all projects
        found = await request.call("get_inbox", person=request.person.name, project=project, limit=_ROWS)
    return PageResponse("inbox.html", {"found": found, "sections": _SECTIONS, "limit": _ROWS, "why": WHY})


def waiting(found: Inbox | None) -> dict[str, Any]:
    """What the navigation says of an inbox; of none, nothing."""
    if found is None:
        return {"your_turn": 0, "problems": 0, "reviews": {}}
    theirs = (one.review for one in (*found.your_turn, *found.problems) if one.review)
    return {
        "your_turn": found.counts.your_turn,
        "problems": found.counts.problems,
        # What a notification names, so that only what is new is told.
        "reviews": {review.review_id: review.intent for review in theirs},
    }


ROUTES = (PageRoute("/", show, inbox_rows=_ROWS), PageRoute("/inbox", show, inbox_rows=_ROWS))

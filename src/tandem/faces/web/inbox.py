"""`/`: what waits for the person, what waits for others, and what went wrong."""

from __future__ import annotations

from typing import Any

from starlette.responses import Response

from tandem.domain.inbox_answers import WHY
from tandem.faces.web import you
from tandem.faces.web.answering import Page, see
from tandem.faces.web.asking import Ask
from tandem.faces.web.routes import PageRoute

_LIMIT = 100
_SECTIONS = (
    ("your_turn", "Your turn", "Nothing waits for you."),
    ("problems", "Problems", "Nothing is stuck."),
    ("waiting", "Waiting on others", "Nobody else is at work."),
)


async def show(ask: Ask) -> Page | Response:
    """The inbox; first the name is asked, because what waits depends on for whom."""
    if not ask.person.known:
        return see(you.PATH)
    project = ask.query("project")
    found: dict[str, Any] = await ask.call("get_inbox", person=ask.person.name, project=project, limit=_LIMIT)
    sections = [
        {"name": name, "title": title, "empty": empty, "entries": found[name], "count": found["counts"][name]}
        for name, title, empty in _SECTIONS
    ]
    values: dict[str, Any] = {"sections": sections, "limit": _LIMIT, "why": WHY}
    # The navigation counts all projects.
    return Page("inbox.html", values if project else values | {"waiting": waiting(found)})


def waiting(found: dict[str, Any]) -> dict[str, Any]:
    """What the navigation says of an inbox, from what `get_inbox` answers."""
    theirs = [*found["your_turn"], *found["problems"]]
    return {
        "your_turn": found["counts"]["your_turn"],
        "problems": found["counts"]["problems"],
        # What a notification names, so that only what is new is told.
        "reviews": {one["review"]["review_id"]: one["review"]["intent"] for one in theirs if one["review"]},
    }


ROUTES = (PageRoute("/", show), PageRoute("/inbox", show))

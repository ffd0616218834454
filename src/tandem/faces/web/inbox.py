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
    return Page(
        "inbox.html", {"sections": sections, "limit": _LIMIT, "why": WHY, "project": project, "cursor": found["cursor"]}
    )


ROUTES = (PageRoute("/", show), PageRoute("/inbox", show))

"""`/activity`: the log, live, filtered, and from any place on."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import urlencode

from tandem.domain.answers import ActivityFeed, AuditPage
from tandem.errors import CursorExpired, InvalidInput, TandemError
from tandem.faces.web.page import PageRequest, PageResponse, PageRoute

PATH = "/activity"
_ROWS = 100
_FILTERS = {"project": "Project", "review_id": "Review", "kind": "Kind", "actor": "Actor"}
_SHOWN_DATA = 8
_LONGEST_VALUE = 80
_HASH = re.compile(r"[0-9a-f]{40,64}")
_HASH_DIGITS = 12


async def show(request: PageRequest) -> PageResponse:
    """The newest events, newest first; with `after`, those from that place on, oldest first."""
    filters = {name: request.query(name) for name in _FILTERS}
    after = request.query("after")
    problem: TandemError | None = None
    found = AuditPage(events=(), cursor="", changed=False, more=False)
    try:
        found = await request.call("get_audit_log", cursor=after, limit=_ROWS, **filters)
    except (CursorExpired, InvalidInput) as error:
        problem = error
    events = [(event, _facts(event.data)) for event in found.events]
    values = {
        "events": events if after else events[::-1],
        "filters": filters,
        "labels": _FILTERS,
        "after": after,
        "more": found.more,
        "go_on": _address(filters, found.cursor),
        "newest": _address(filters, None),
        "problem": problem,
    }
    return PageResponse("activity.html", values, status=problem.status if problem else 200)


async def feed(request: PageRequest) -> PageResponse:
    """Reviews by their latest event."""
    filters = {"project": request.query("project")}
    found: ActivityFeed = await request.call("get_activity_feed", limit=_ROWS, page=request.query("page"), **filters)
    following = {name: value for name, value in {**filters, "page": found.next_page}.items() if value}
    values = {
        "entries": found.entries,
        "filters": filters,
        "is_first": request.query("page") is None,
        "next_address": f"{PATH}/reviews?{urlencode(following)}" if found.next_page else None,
    }
    return PageResponse("feed.html", values)


def _facts(data: dict[str, Any]) -> list[tuple[str, str]]:
    """What an event says besides its kind, cut to what fits a line."""
    told = [(name, str(value)) for name, value in data.items() if value not in (None, "", [], {})]
    return [(name, _cut(text)) for name, text in told[:_SHOWN_DATA]]


def _cut(text: str) -> str:
    if _HASH.fullmatch(text):
        return text[:_HASH_DIGITS]
    return text if len(text) <= _LONGEST_VALUE else text[:_LONGEST_VALUE] + "…"


def _address(filters: dict[str, str | None], after: str | None) -> str:
    given = {name: value for name, value in {**filters, "after": after}.items() if value}
    return f"{PATH}?{urlencode(given)}" if given else PATH


ROUTES = (PageRoute(PATH, show), PageRoute(f"{PATH}/reviews", feed))

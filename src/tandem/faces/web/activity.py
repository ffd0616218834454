"""`/activity`: the log, live, filtered, and from any place on."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import urlencode

from tandem.errors import CursorExpired, InvalidInput, TandemError
from tandem.faces.web.answering import Page
from tandem.faces.web.asking import Ask
from tandem.faces.web.routes import PageRoute

PATH = "/activity"
_ROWS = 100
_FILTERS = {"project": "Project", "review_id": "Review", "kind": "Kind", "actor": "Actor"}
_SHOWN_DATA = 8
_LONGEST_VALUE = 80
_HASH = re.compile(r"[0-9a-f]{40,64}")
_HASH_DIGITS = 12


async def show(ask: Ask) -> Page:
    """The newest events, newest first; with `after`, those from that place on, oldest first."""
    filters = {name: ask.query(name) for name in _FILTERS}
    after = ask.query("after")
    problem: TandemError | None = None
    found: dict[str, Any] = {"events": [], "cursor": "", "more": False}
    try:
        found = await ask.call("get_audit_log", cursor=after, limit=_ROWS, **filters)
    except (CursorExpired, InvalidInput) as error:
        problem = error
    events = [event | {"facts": _facts(event["data"])} for event in found["events"]]
    values = {
        "events": events if after else events[::-1],
        "filters": filters,
        "labels": _FILTERS,
        "after": after,
        "more": found["more"],
        "go_on": _address(filters, found["cursor"]),
        "newest": _address(filters, None),
        "problem": problem,
    }
    return Page("activity.html", values, status=problem.status if problem else 200)


async def feed(ask: Ask) -> Page:
    """Reviews by their latest event."""
    filters = {"project": ask.query("project")}
    found = await ask.call("get_activity_feed", limit=_ROWS, page=ask.query("page"), **filters)
    following = {name: value for name, value in {**filters, "page": found["next_page"]}.items() if value}
    values = {
        "entries": found["entries"],
        "filters": filters,
        "is_first": ask.query("page") is None,
        "next_address": f"{PATH}/reviews?{urlencode(following)}" if found["next_page"] else None,
    }
    return Page("feed.html", values)


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

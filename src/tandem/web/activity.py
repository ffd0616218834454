"""`/activity`: the log, live, filtered, and from any place on. `/events`: new entries, for scripts.

The stream's events have the log's cursor as their id, so that a browser that was away, or whose broker was restarted,
goes on where it was (`Last-Event-ID`). They carry only what a page needs to know that it is out of date.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

import orjson
from starlette.responses import Response, StreamingResponse

from tandem.errors import CursorExpired, InvalidInput, TandemError, Unauthenticated, Unavailable
from tandem.reviews.answers import ActivityFeed, AuditPage
from tandem.web import subjects
from tandem.web.page import PageRequest, PageResponse, PageRoute, address

PATH = "/activity"
_ROWS = 100
_FILTERS = {"project": "Project", "review_id": "Review", "kind": "Kind", "actor": "Actor"}


async def show(request: PageRequest) -> PageResponse:
    """The newest events, newest first; with `after`, those from that place on, oldest first."""
    filters = {name: request.query(name) for name in _FILTERS}
    after = request.query("after")
    problem: TandemError | None = None
    found = AuditPage(events=(), cursor="", changed=False, more=False, titles={})
    try:
        found = await request.call("get_audit_log", cursor=after, limit=_ROWS, **filters)
    except (CursorExpired, InvalidInput) as error:
        problem = error
    values = {
        "events": found.events if after else found.events[::-1],
        "names": await subjects.names(request, found.events, found.titles),
        "filters": filters,
        "labels": _FILTERS,
        "after": after,
        "more": found.more,
        "go_on": address(PATH, **filters, after=found.cursor),
        "newest": address(PATH, **filters),
        "problem": problem,
    }
    return PageResponse("activity.html", values, status=problem.status if problem else 200)


async def feed(request: PageRequest) -> PageResponse:
    """Reviews by their latest event."""
    filters = {"project": request.query("project")}
    found: ActivityFeed = await request.call("get_activity_feed", limit=_ROWS, page=request.query("page"), **filters)
    values = {
        "entries": found.entries,
        "names": await subjects.names(request, [one.last_event for one in found.entries], {}),
        "filters": filters,
        "is_first": request.query("page") is None,
        "next_address": address(f"{PATH}/reviews", **filters, page=found.next_page) if found.next_page else None,
    }
    return PageResponse("feed.html", values)


_WAIT_SECONDS = 15
"""After so long without news a comment is sent, so that no one on the way takes the connection for dead."""
_EVENTS_AT_ONCE = 200
_RETRY_MS = 1000
_STREAMED = ("seq", "at", "project", "subject", "actor", "kind", "old", "new")


async def events(request: PageRequest) -> Response:
    """The stream from a cursor on: `Last-Event-ID`, or else `?after=`, or else from now."""
    # Before the first byte: who has that may count on everything that happens from then on.
    cursor = request.http.headers.get("last-event-id") or request.query("after") or await request.newest()
    headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
    return StreamingResponse(_follow(request, cursor), media_type="text/event-stream", headers=headers)


async def _follow(request: PageRequest, place: str) -> AsyncGenerator[bytes]:
    yield b"retry: %d\n\n" % _RETRY_MS
    while True:  # until the person would no longer be let in: then the browser asks, and is led to the login
        try:
            request.backend.check_ready()
            answer: AuditPage = await request.call(
                "get_audit_log", cursor=place, wait=True, timeout_s=_WAIT_SECONDS, limit=_EVENTS_AT_ONCE
            )
            if (await request.admitted()).is_shut:
                return
        except (CursorExpired, InvalidInput):
            # Another log, or one that was set back: everything on the page may be different.
            place = await request.newest()
            yield _message("reset", place, {})
            continue
        except (Unavailable, Unauthenticated):
            return  # the broker stops, or the token does not count any more; the browser comes again
        place = answer.cursor
        told = [{name: getattr(event, name) for name in _STREAMED} for event in answer.events]
        yield _message("change", place, {"events": told}) if told else b": still here\n\n"


def _message(kind: str, cursor: str, data: dict[str, Any]) -> bytes:
    return b"id: %b\nevent: %b\ndata: %b\n\n" % (cursor.encode(), kind.encode(), orjson.dumps(data))


ROUTES = (
    PageRoute(PATH, show),
    PageRoute(f"{PATH}/reviews", feed),
    PageRoute("/events", events, inbox_rows=0),
)

"""`GET /events`: what is appended to the log, as server-sent events.

An event's id is the log's cursor, so that a browser that was away, or whose broker was restarted, goes on where
it was (`Last-Event-ID`). It carries only what a page needs to know that it is out of date.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

import orjson
from starlette.responses import Response, StreamingResponse

from tandem.domain.answers import AuditPage
from tandem.errors import CursorExpired, InvalidInput, Unauthenticated, Unavailable
from tandem.faces.web.page import PageRequest

_WAIT_SECONDS = 15
"""After so long without news a comment is sent, so that nobody on the way takes the connection for dead."""
_PAGE = 200
_RETRY_MS = 1000
_TOLD = ("seq", "at", "project", "subject", "actor", "kind", "old", "new")


async def events(request: PageRequest) -> Response:
    """The stream from a cursor on: `Last-Event-ID`, or else `?after=`, or else from now."""
    cursor = request.http.headers.get("last-event-id") or request.query("after")
    headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
    return StreamingResponse(_follow(request, cursor), media_type="text/event-stream", headers=headers)


async def _follow(request: PageRequest, cursor: str | None) -> AsyncGenerator[bytes]:
    yield b"retry: %d\n\n" % _RETRY_MS
    place = cursor or await request.newest()
    while True:  # until the person would no longer be let in: then the browser asks, and is led to the login
        try:
            request.check_ready()
            answer: AuditPage = await request.call(
                "get_audit_log", cursor=place, wait=True, timeout_s=_WAIT_SECONDS, limit=_PAGE
            )
            if not await request.is_still_admitted():
                return
        except (CursorExpired, InvalidInput):
            # Another log, or one that was set back: everything on the page may be different.
            place = await request.newest()
            yield _message("reset", place, {})
            continue
        except (Unavailable, Unauthenticated):
            return  # the broker stops, or the token does not count any more; the browser comes again
        place = answer.cursor
        told = [{name: getattr(event, name) for name in _TOLD} for event in answer.events]
        yield _message("change", place, {"events": told}) if told else b": still here\n\n"


def _message(kind: str, cursor: str, data: dict[str, Any]) -> bytes:
    return b"id: %b\nevent: %b\ndata: %b\n\n" % (cursor.encode(), kind.encode(), orjson.dumps(data))

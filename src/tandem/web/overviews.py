"""Overviews: `/cycles` on their track, `/projects` with settings and lessons, `/webhooks`, `/reviewers`, `/activity`.

`/reviewers` has pools and their reviewers, with logs as they are written, and starts, drains and ends them.
`/activity` is the log, live, filtered, and from any place on; `/events` has new entries, for scripts. The stream's
events have the log's cursor as their id, so that a browser that was away, or whose broker was restarted, goes on where
it was (`Last-Event-ID`). They carry only what a page needs to know that it is out of date.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Mapping
from functools import partial
from itertools import groupby
from typing import Any, cast
from urllib.parse import quote

import orjson
from starlette.responses import JSONResponse, Response, StreamingResponse

from tandem.cycles.answers import CycleHistory, CyclePage, HandoffView
from tandem.errors import CursorExpired, InvalidInput, NotFound, TandemError, Unauthenticated, Unavailable
from tandem.gate.contract import ProjectSettings
from tandem.pool.contract import ReviewerList, ReviewerView
from tandem.present.inbox import PAUSED
from tandem.projects.contract import ProjectList
from tandem.reviews.answers import ActivityFeed, AuditPage
from tandem.reviews.finding_contract import LessonPage
from tandem.web.page import PageRequest, PageResponse, PageRoute, address, back, see
from tandem.web.subjects import Names, names
from tandem.webhooks.contract import DeliveryView, WebhookList

_CYCLES = "/cycles"
_CYCLE_ROWS = 50
_COMPLETE = "complete"
_KNOWN = ("cycle_id", "feature", "producer", "consumer")
"""Of a payload: what the page says already."""


async def show_cycles(request: PageRequest) -> PageResponse:
    """Cycles, newest first, each with its track."""
    project, workflow = request.query("project"), request.query("workflow")
    found: CyclePage = await request.call(
        "list_cycles", project=project, workflow=workflow, limit=_CYCLE_ROWS, page=request.query("page")
    )
    definitions = {one.name: one.definition for one in found.workflows}
    following = address(_CYCLES, project=project, workflow=workflow, page=found.next_page)
    values = {
        "cycles": [(one, track(definitions.get(one.workflow), one.phase)) for one in found.cycles],
        "workflows": found.workflows,
        "filters": {"project": project, "workflow": workflow},
        "next_address": following if found.next_page else None,
    }
    return PageResponse("cycles.html", values)


async def show_cycle(request: PageRequest) -> PageResponse:
    """One cycle: its track, its hand-offs, and the log of it."""
    found: CycleHistory = await request.call(
        "get_cycle", project=request.path("project"), cycle_id=request.path("cycle_id")
    )
    log: AuditPage = await request.call("get_audit_log", review_id=f"cycle:{found.cycle.cycle_id}", limit=_CYCLE_ROWS)
    values = {
        "cycle": found.cycle,
        "lock": found.lock,
        "track": track(found.definition, found.cycle.phase, found.handoffs),
        "handoffs": found.handoffs[::-1],
        "known": _KNOWN,
        "events": log.events[::-1],
        "names": Names({**log.titles, found.cycle.cycle_id: found.cycle.feature}),
    }
    return PageResponse("cycle.html", values)


def track(
    definition: Mapping[str, Any] | None, current: str, handoffs: Iterable[HandoffView] = ()
) -> list[dict[str, Any]]:
    """The phases in the order of the workflow, then its end; how often each was left, and where the cycle is."""
    phases: Mapping[str, Any] = definition["phases"] if definition else {}
    left = [one.phase for one in handoffs if one.advanced_at]
    names = [*phases, *({current} - {*phases, _COMPLETE}), _COMPLETE]
    return [
        {
            "name": name,
            "role": phases[name]["role"] if name in phases else None,
            "times": left.count(name),
            "is_current": name == current,
        }
        for name in names
    ]


async def show_projects(request: PageRequest) -> PageResponse:
    """All registered projects."""
    return PageResponse("projects.html", {"projects": (await request.call("list_projects")).projects})


async def show_settings(request: PageRequest) -> PageResponse:
    """One project's settings, its gate, and what lands."""
    found: ProjectSettings = await request.call("get_project_settings", project=request.path("project"))
    groups = [(name, list(rows)) for name, rows in groupby(found.settings, key=lambda one: one.name.rpartition(".")[0])]
    ignored = [one for one in found.settings if one.ignored]
    landings = (await request.call("list_landings", project=found.project)).landings
    values = {"found": found, "groups": groups, "ignored": ignored, "landings": landings, "shown": _shown}
    return PageResponse("project.html", values)


def _shown(value: Any) -> str:
    """A value as people write it."""
    if value in (None, "", [], {}):
        return "–"
    if isinstance(value, dict):
        value = [f"{name}: {_shown(one)}" for name, one in cast("dict[str, Any]", value).items()]
    if isinstance(value, list):
        return ", ".join(map(_shown, cast("list[Any]", value)))
    return value if isinstance(value, str) else orjson.dumps(value).decode()


_LESSON_ROWS = 50


async def show_lessons(request: PageRequest) -> PageResponse:
    """A project's lessons: what its reviewers are told is no fault."""
    project = request.path("project")
    found: LessonPage = await request.call(
        "list_lessons", project=project, limit=_LESSON_ROWS, page=request.query("page")
    )
    following = address(_lessons(project), page=found.next_page) if found.next_page else None
    values = {"project": project, "lessons": found.lessons, "next_address": following}
    return PageResponse("lessons.html", values)


async def remove_lesson(request: PageRequest) -> Response:
    """End a lesson: the same finding counts again."""
    project = request.path("project")
    await request.call("remove_lesson", project=project, finding_id=request.form.get("finding_id", ""))
    return see(_lessons(project))


def _lessons(project: str) -> str:
    return f"/projects/{quote(project, safe='')}/lessons"


_DELIVERY_ROWS = 50


async def show_webhooks(request: PageRequest) -> PageResponse:
    """All webhooks, each with its deliveries."""
    found: WebhookList = await request.call("list_webhooks")
    deliveries: list[tuple[DeliveryView, ...]] = [
        (await request.call("list_deliveries", webhook_id=one.webhook_id, limit=_DELIVERY_ROWS)).deliveries
        for one in found.webhooks
    ]
    listed = [one for those in deliveries for one in those]
    called = await names(request, listed, {one.subject: one.title for one in listed if one.title})
    values = {"webhooks": list(zip(found.webhooks, deliveries, strict=True)), "names": called}
    return PageResponse("webhooks.html", values)


_ACTIVITY = "/activity"
_ACTIVITY_ROWS = 100
_FILTERS = {"project": "Project", "review_id": "Review", "kind": "Kind", "actor": "Actor"}


async def show_activity(request: PageRequest) -> PageResponse:
    """The newest events, newest first; with `after`, those from that place on, oldest first."""
    filters = {name: request.query(name) for name in _FILTERS}
    after = request.query("after")
    problem: TandemError | None = None
    found = AuditPage(events=(), cursor="", changed=False, more=False, titles={})
    try:
        found = await request.call("get_audit_log", cursor=after, limit=_ACTIVITY_ROWS, **filters)
    except (CursorExpired, InvalidInput) as error:
        problem = error
    values = {
        "events": found.events if after else found.events[::-1],
        "names": await names(request, found.events, found.titles),
        "filters": filters,
        "labels": _FILTERS,
        "after": after,
        "more": found.more,
        "go_on": address(_ACTIVITY, **filters, after=found.cursor),
        "newest": address(_ACTIVITY, **filters),
        "problem": problem,
    }
    return PageResponse("activity.html", values, status=problem.status if problem else 200)


async def show_feed(request: PageRequest) -> PageResponse:
    """Reviews by their latest event."""
    filters = {"project": request.query("project")}
    found: ActivityFeed = await request.call(
        "get_activity_feed", limit=_ACTIVITY_ROWS, page=request.query("page"), **filters
    )
    values = {
        "entries": found.entries,
        "names": await names(request, [one.last_event for one in found.entries], {}),
        "filters": filters,
        "is_first": request.query("page") is None,
        "next_address": address(f"{_ACTIVITY}/reviews", **filters, page=found.next_page) if found.next_page else None,
    }
    return PageResponse("feed.html", values)


_WAIT_SECONDS = 15
"""After so long without news a comment is sent, so that no one on the way takes the connection for dead."""
_EVENTS_AT_ONCE = 200
_RETRY_MS = 1000
_STREAMED = ("seq", "at", "project", "subject", "actor", "kind", "old", "new")


async def stream_events(request: PageRequest) -> Response:
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


_REVIEWERS = "/reviewers"
_LOG_LINES = 300
_ENDED = "terminated"


async def end_reviewer(request: PageRequest) -> PageResponse | Response:
    """Drain a reviewer, or end it at once."""
    reviewer_id, force = request.path("reviewer_id"), request.form.get("force") == "yes"
    return await _act(request, "kill_reviewer", reviewer_id=reviewer_id, force=force)


async def show_reviewer(request: PageRequest) -> PageResponse:
    """One reviewer with its log."""
    found = await _find(request, request.path("reviewer_id"))
    show_log = await request.call("get_reviewer_log", reviewer_id=found.reviewer_id, lines=_LOG_LINES)
    return PageResponse("reviewer.html", {"reviewer": found, "log": show_log, "address_of": _reviewer_address})


async def show_log(request: PageRequest) -> Response:
    """What a reviewer wrote after a position, for the page that follows it."""
    reviewer_id, position = request.path("reviewer_id"), request.query("position")
    found = await request.call("get_reviewer_log", reviewer_id=reviewer_id, position=position, lines=_LOG_LINES)
    return JSONResponse({"lines": found.lines, "position": found.position}, headers={"cache-control": "no-store"})


async def _act(request: PageRequest, operation: str, **arguments: Any) -> PageResponse | Response:
    try:
        await request.call(operation, **arguments)
    except TandemError as error:
        return await show_reviewers(request, problem=error)
    return back(request, operation, _REVIEWERS)


async def _by_form(request: PageRequest, operation: str, fields: tuple[str, ...]) -> PageResponse | Response:
    """Do an operation with these fields of a form."""
    return await _act(request, operation, **{name: request.form.get(name, "").strip() or None for name in fields})


async def show_reviewers(request: PageRequest, *, problem: TandemError | None = None) -> PageResponse:
    """All pools and reviewers, those that are at work first."""
    found: ReviewerList = await request.call("list_reviewers", project=request.query("project"))
    projects: ProjectList = await request.call("list_projects")
    ended: dict[str | None, list[ReviewerView]] = {}
    for one in found.reviewers:
        if one.state == _ENDED:
            ended.setdefault(one.end_cause, []).append(one)
    problems = request.inbox.problems if request.inbox else ()
    stuck = [one for one in problems if one.kind == "pool" and one.holds_up]
    values = {
        "pools": found.pools,
        "pauses": PAUSED,
        "has_room": any(pool.active < pool.max_pool_size for pool in found.pools),
        "held_up": {one.pool.supervisor_id: one.holds_up[0].review_id for one in stuck if one.pool},
        "at_work": [one for one in found.reviewers if one.state != _ENDED],
        "ended": ended,
        "projects": [one.project for one in projects.projects],
        "problem": problem,
        "reason": request.form.get("reason", "") if problem else "",
        "address_of": _reviewer_address,
    }
    return PageResponse("reviewers.html", values, status=problem.status if problem else 200)


async def _find(request: PageRequest, reviewer_id: str) -> ReviewerView:
    found: ReviewerList = await request.call("list_reviewers")
    for one in found.reviewers:
        if reviewer_id in {one.reviewer_id, one.name}:
            return one
    raise NotFound(
        f"There is no reviewer '{reviewer_id[:200]}' among those at work and the newest of the others.",
        reviewer_id=reviewer_id[:200],
    )


def _reviewer_address(one: ReviewerView) -> str:
    return f"{_REVIEWERS}/{quote(one.reviewer_id, safe='')}"


ROUTES = (
    PageRoute(_CYCLES, show_cycles),
    PageRoute(f"{_CYCLES}/{{project}}/{{cycle_id}}", show_cycle),
    PageRoute("/projects", show_projects),
    PageRoute("/projects/{project}", show_settings),
    PageRoute("/projects/{project}/lessons", show_lessons, remove_lesson),
    PageRoute("/webhooks", show_webhooks),
    PageRoute(_ACTIVITY, show_activity),
    PageRoute(f"{_ACTIVITY}/reviews", show_feed),
    PageRoute("/events", stream_events, inbox_rows=0),
    PageRoute(_REVIEWERS, show_reviewers),
    PageRoute(f"{_REVIEWERS}/spawn", post=partial(_by_form, operation="spawn_reviewer", fields=("project",))),
    PageRoute(
        f"{_REVIEWERS}/pause", post=partial(_by_form, operation="pause_reviewers", fields=("supervisor_id", "reason"))
    ),
    PageRoute(f"{_REVIEWERS}/resume", post=partial(_by_form, operation="resume_reviewers", fields=("supervisor_id",))),
    PageRoute(f"{_REVIEWERS}/{{reviewer_id}}", show_reviewer),
    PageRoute(f"{_REVIEWERS}/{{reviewer_id}}/log", show_log, inbox_rows=0),
    PageRoute(f"{_REVIEWERS}/{{reviewer_id}}/end", post=end_reviewer),
)

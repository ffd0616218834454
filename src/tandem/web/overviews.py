"""Overviews: `/cycles` on their track; `/projects` with their settings and lessons; `/webhooks`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import groupby
from typing import Any, cast
from urllib.parse import quote

import orjson
from starlette.responses import Response

from tandem.cycles.answers import CycleHistory, CyclePage, HandoffView
from tandem.gate.contract import ProjectSettings
from tandem.reviews.answers import AuditPage
from tandem.reviews.finding_contract import LessonPage
from tandem.web.page import PageRequest, PageResponse, PageRoute, address, see
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


ROUTES = (
    PageRoute(_CYCLES, show_cycles),
    PageRoute(f"{_CYCLES}/{{project}}/{{cycle_id}}", show_cycle),
    PageRoute("/projects", show_projects),
    PageRoute("/projects/{project}", show_settings),
    PageRoute("/projects/{project}/lessons", show_lessons, remove_lesson),
    PageRoute("/webhooks", show_webhooks),
)

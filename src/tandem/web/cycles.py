"""`/cycles`: hand-off cycles on their track of phases, with every hand-off and what came before. To look at only."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tandem.cycles.answers import CycleHistory, CyclePage, HandoffView
from tandem.reviews.answers import AuditPage
from tandem.web.page import PageRequest, PageResponse, PageRoute, address

PATH = "/cycles"
_ROWS = 50
_COMPLETE = "complete"
_KNOWN = ("cycle_id", "feature", "producer", "consumer")
"""Of a payload: what the page says already."""


async def show(request: PageRequest) -> PageResponse:
    """Cycles, newest first, each with its track."""
    project, workflow = request.query("project"), request.query("workflow")
    found: CyclePage = await request.call(
        "list_cycles", project=project, workflow=workflow, limit=_ROWS, page=request.query("page")
    )
    definitions = {one.name: one.definition for one in found.workflows}
    following = address(PATH, project=project, workflow=workflow, page=found.next_page)
    values = {
        "cycles": [(one, track(definitions.get(one.workflow), one.phase)) for one in found.cycles],
        "workflows": found.workflows,
        "filters": {"project": project, "workflow": workflow},
        "next_address": following if found.next_page else None,
    }
    return PageResponse("cycles.html", values)


async def cycle(request: PageRequest) -> PageResponse:
    """One cycle: its track, its hand-offs, and the log of it."""
    found: CycleHistory = await request.call(
        "get_cycle", project=request.path("project"), cycle_id=request.path("cycle_id")
    )
    log: AuditPage = await request.call("get_audit_log", review_id=f"cycle:{found.cycle.cycle_id}", limit=_ROWS)
    values = {
        "cycle": found.cycle,
        "lock": found.lock,
        "track": track(found.definition, found.cycle.phase, found.handoffs),
        "handoffs": found.handoffs[::-1],
        "known": _KNOWN,
        "events": log.events[::-1],
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


ROUTES = (PageRoute(PATH, show), PageRoute(f"{PATH}/{{project}}/{{cycle_id}}", cycle))

"""`/reviewers`: pools and their reviewers, with logs as they are written; and starting, draining, ending them."""

from __future__ import annotations

from functools import partial
from typing import Any
from urllib.parse import quote

from starlette.responses import JSONResponse, Response

from tandem.errors import NotFound, TandemError
from tandem.pool.contract import ReviewerList, ReviewerView
from tandem.present.inbox import PAUSED
from tandem.projects.contract import ProjectList
from tandem.web.page import PageRequest, PageResponse, PageRoute, back

PATH = "/reviewers"
_LINES = 300
_ENDED = "terminated"


async def kill(request: PageRequest) -> PageResponse | Response:
    """Drain a reviewer, or end it at once."""
    reviewer_id, force = request.path("reviewer_id"), request.form.get("force") == "yes"
    return await _act(request, "kill_reviewer", reviewer_id=reviewer_id, force=force)


async def reviewer(request: PageRequest) -> PageResponse:
    """One reviewer with its log."""
    found = await _find(request, request.path("reviewer_id"))
    log = await request.call("get_reviewer_log", reviewer_id=found.reviewer_id, lines=_LINES)
    return PageResponse("reviewer.html", {"reviewer": found, "log": log, "address_of": _address})


async def log(request: PageRequest) -> Response:
    """What a reviewer wrote after a position, for the page that follows it."""
    reviewer_id, position = request.path("reviewer_id"), request.query("position")
    found = await request.call("get_reviewer_log", reviewer_id=reviewer_id, position=position, lines=_LINES)
    return JSONResponse({"lines": found.lines, "position": found.position}, headers={"cache-control": "no-store"})


async def _act(request: PageRequest, operation: str, **arguments: Any) -> PageResponse | Response:
    try:
        await request.call(operation, **arguments)
    except TandemError as error:
        return await show(request, problem=error)
    return back(request, operation, PATH)


async def _by_form(request: PageRequest, operation: str, fields: tuple[str, ...]) -> PageResponse | Response:
    """Do an operation with these fields of a form."""
    return await _act(request, operation, **{name: request.form.get(name, "").strip() or None for name in fields})


async def show(request: PageRequest, *, problem: TandemError | None = None) -> PageResponse:
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
        "address_of": _address,
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


def _address(one: ReviewerView) -> str:
    return f"{PATH}/{quote(one.reviewer_id, safe='')}"


ROUTES = (
    PageRoute(PATH, show),
    PageRoute(f"{PATH}/spawn", post=partial(_by_form, operation="spawn_reviewer", fields=("project",))),
    PageRoute(f"{PATH}/pause", post=partial(_by_form, operation="pause_reviewers", fields=("supervisor_id", "reason"))),
    PageRoute(f"{PATH}/resume", post=partial(_by_form, operation="resume_reviewers", fields=("supervisor_id",))),
    PageRoute(f"{PATH}/{{reviewer_id}}", reviewer),
    PageRoute(f"{PATH}/{{reviewer_id}}/log", log, inbox_rows=0),
    PageRoute(f"{PATH}/{{reviewer_id}}/end", post=kill),
)

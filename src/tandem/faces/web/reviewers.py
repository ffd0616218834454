"""`/reviewers`: pools and their reviewers, with logs as they are written; and starting, draining, ending them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from starlette.responses import JSONResponse, Response

from tandem.errors import NotFound, TandemError
from tandem.faces.web.answering import Page, see
from tandem.faces.web.asking import Ask
from tandem.faces.web.routes import PageRoute

PATH = "/reviewers"
_LINES = 300
_ENDED = "terminated"


async def show(ask: Ask) -> Page:
    """All pools and reviewers, those that are at work first."""
    return await _overview(ask)


async def spawn(ask: Ask) -> Page | Response:
    """Start a reviewer for a project."""
    return await _act(ask, "spawn_reviewer", project=ask.form.get("project") or None)


async def kill(ask: Ask) -> Page | Response:
    """Drain a reviewer, or end it at once."""
    reviewer_id, force = ask.path("reviewer_id"), ask.form.get("force") == "yes"
    return await _act(ask, "kill_reviewer", reviewer_id=reviewer_id, force=force)


async def pause(ask: Ask) -> Page | Response:
    """Pause a pool, or all."""
    reason = ask.form.get("reason", "").strip() or None
    return await _act(ask, "pause_reviewers", supervisor_id=ask.form.get("supervisor_id") or None, reason=reason)


async def resume(ask: Ask) -> Page | Response:
    """Let a pool start reviewers again, or all."""
    return await _act(ask, "resume_reviewers", supervisor_id=ask.form.get("supervisor_id") or None)


async def reviewer(ask: Ask) -> Page:
    """One reviewer with its log."""
    found = await _find(ask, ask.path("reviewer_id"))
    log = await ask.call("get_reviewer_log", reviewer_id=found["reviewer_id"], lines=_LINES)
    return Page("reviewer.html", {"reviewer": found, "log": log})


async def log(ask: Ask) -> Response:
    """What a reviewer wrote after a position, for the page that follows it."""
    reviewer_id, position = ask.path("reviewer_id"), ask.query("position")
    found = await ask.call("get_reviewer_log", reviewer_id=reviewer_id, position=position, lines=_LINES)
    return JSONResponse({"lines": found["lines"], "position": found["position"]}, headers={"cache-control": "no-store"})


async def _act(ask: Ask, operation: str, **arguments: Any) -> Page | Response:
    try:
        await ask.call(operation, **arguments)
    except TandemError as error:
        return await _overview(ask, problem=error)
    return see(PATH)


async def _overview(ask: Ask, *, problem: TandemError | None = None) -> Page:
    found = await ask.call("list_reviewers", project=ask.query("project"))
    projects = [one["project"] for one in (await ask.call("list_projects"))["projects"]]
    values = {
        "pools": found["pools"],
        "at_work": [one for one in found["reviewers"] if one["state"] != _ENDED],
        "ended": [one for one in found["reviewers"] if one["state"] == _ENDED],
        "projects": projects,
        "problem": problem,
        "reason": ask.form.get("reason", "") if problem else "",
        "address_of": _address,
    }
    return Page("reviewers.html", values, status=problem.status if problem else 200)


async def _find(ask: Ask, reviewer_id: str) -> dict[str, Any]:
    for one in (await ask.call("list_reviewers"))["reviewers"]:
        if reviewer_id in {one["reviewer_id"], one["name"]}:
            return one
    raise NotFound(
        f"There is no reviewer '{reviewer_id[:200]}' among those at work and the newest of the others.",
        reviewer_id=reviewer_id[:200],
    )


def _address(one: Mapping[str, Any]) -> str:
    return f"{PATH}/{quote(one['reviewer_id'], safe='')}"


ROUTES = (
    PageRoute(PATH, show),
    PageRoute(f"{PATH}/spawn", spawn, "POST"),
    PageRoute(f"{PATH}/pause", pause, "POST"),
    PageRoute(f"{PATH}/resume", resume, "POST"),
    PageRoute(f"{PATH}/{{reviewer_id}}", reviewer),
    PageRoute(f"{PATH}/{{reviewer_id}}/log", log),
    PageRoute(f"{PATH}/{{reviewer_id}}/end", kill, "POST"),
)

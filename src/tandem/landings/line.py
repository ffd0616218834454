"""The line of each base branch: one landing at a time, in the order in which they came."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import orjson

from tandem.contract.answer import shown
from tandem.contract.caller import Caller
from tandem.errors import InvalidTransition, NotFound, StaleClaim
from tandem.landings import queries as landings
from tandem.landings.contract import LandingList, LandingView, ListLandings, ReportLanding
from tandem.landings.rules import Landing, LandingState
from tandem.reviews import contents
from tandem.reviews.context import Services
from tandem.store import events, pages
from tandem.store.base import Unit
from tandem.store.context import look_or_wait, transact
from tandem.store.waits import topic

_BROKER: Final = "broker"
_ENDED: Final = frozenset({LandingState.LANDED, LandingState.FAILED})
_LONGEST_LINE: Final = 1_000


async def report_landing(services: Services, caller: Caller, request: ReportLanding) -> LandingView:
    """Give a landing its place in the line, or take in how it goes on and that its process is alive.

    Raises:
        NotFound: There is no such landing in the project.
        StaleClaim: Another process has taken its place over, or it has ended.
        InvalidTransition: Others are before it.
    """
    project = services.projects.require(request.project, caller.project)
    contents.check_text(services, "reason", request.reason)
    state = LandingState(request.state)

    def work(unit: Unit) -> LandingView:
        events.lock(unit)
        now = services.clock.now_us()
        line = _alive(unit, project, request, caller.operator, now)
        if request.landing_id is None:
            before = next((one for one in line if _is_own(one, request, caller.operator)), None)
            after = _queued(before, line, request, (project, caller.operator, services.clock.new_id("ld")), now)
        else:
            before = _current(unit, project, request)
            after = _after(before, request, state, now)
            landings.touch(unit, before.id, now)
        ahead = 0 if state in _ENDED else _ahead(after, line)
        if ahead and state is not LandingState.WAITING:
            raise InvalidTransition(f"{ahead} are before it in the line of {after.branch}.", status=state)
        if before is not None and after == before._replace(changed_at=now, ended_at=after.ended_at):
            return _view(before, ahead)
        return _view(landings.put(unit, before, after, caller.operator), ahead)

    return await transact(services, caller, work)


def _alive(unit: Unit, project: str, request: ReportLanding, me: str, now: int) -> list[Landing]:
    """The line of a branch; others whose process has ended without a word leave it."""
    line = landings.list_of(unit, project, _LONGEST_LINE, ended=False, branch=request.branch)
    gone = [one for one in line if one.at(now) != one and not _is_own(one, request, me)]
    for one in gone:
        landings.put(unit, one, one.at(now), _BROKER)
    return [one for one in line if one not in gone]


def _is_own(landing: Landing, request: ReportLanding, me: str) -> bool:
    return (landing.source, landing.proposer) == (request.source, me)


def _ahead(landing: Landing, line: Sequence[Landing]) -> int:
    return sum(one.branch == landing.branch and one.ended_at is None and one.number < landing.number for one in line)


def _queued(
    before: Landing | None, line: Sequence[Landing], request: ReportLanding, named: tuple[str, str, str], now: int
) -> Landing:
    """A landing that takes its place behind the line; one that has it already with the next generation."""
    project, proposer, landing_id = named
    fresh = Landing(
        id=landing_id,
        project=project,
        branch=request.branch,
        source=request.source,
        head=request.head,
        proposer=proposer,
        state=LandingState.WAITING.value,
        review_ids="[]",
        generation=1,
        number=line[-1].number + 1 if line else 1,
        changed_at=now,
        last_seen_at=now,
    )
    if before is None:
        return fresh
    kept = {name: getattr(before, name) for name in ("id", "number", "event_seq", "event_hash")}
    return fresh._replace(**kept, generation=before.generation + 1)


def _current(unit: Unit, project: str, request: ReportLanding) -> Landing:
    found = landings.find(unit, request.landing_id or "")
    if found is None or found.project != project:
        raise NotFound(f"There is no landing '{request.landing_id}' in '{project}'.", landing_id=request.landing_id)
    # One that was given up, and whose branch had moved all the same, may still say so.
    has_landed = request.state == LandingState.LANDED and found.commit_id is not None
    if found.generation != request.generation or (found.ended_at is not None and not has_landed):
        raise StaleClaim(
            f"This place in the line of {found.branch} has ended, or another 'tandem land' has taken it over.",
            expected=found.generation,
            actual=request.generation,
        )
    return found


def _after(before: Landing, request: ReportLanding, state: LandingState, now: int) -> Landing:
    told = before._replace(
        state=state.value,
        changed_at=now,
        tip=request.tip or before.tip,
        commit_id=request.commit or before.commit_id,
        review_ids=orjson.dumps(request.review_ids).decode() if request.review_ids else before.review_ids,
    )
    return told.ended(state, request.reason, now) if state in _ENDED else told


async def list_landings(services: Services, caller: Caller, request: ListLandings) -> LandingList:
    """The line of a project's base branches, and the ended landings; with a wait, once there is news.

    Raises:
        NotFound: The broker does not know the project.
        TooLarge: More rows than a page may have.
    """
    project, limit = services.projects.require(request.project, caller.project), request.limit
    pages.check_limit(services, limit)
    after = services.waits.place(request.cursor)

    def work(unit: Unit) -> tuple[LandingList, bool]:
        newest, now = services.waits.newest(unit, after), services.clock.now_us()
        everybody = landings.list_of(unit, project, _LONGEST_LINE, ended=False, branch=request.branch)
        line = [one.at(now) for one in everybody]
        named = {"branch": request.branch, "source": request.source}
        ended = landings.list_of(unit, project, limit, ended=True, **named)
        found = [*(one for one in line if request.source in (None, one.source)), *ended]
        listed = sorted(found, key=lambda one: one.ended_at is not None)[:limit]
        is_news = after is None or any(one.event_seq > after for one in found)
        views = tuple(_view(one, _ahead(one, line)) for one in listed)
        return LandingList(views, services.waits.cursor(newest), changed=is_news), is_news

    return await look_or_wait(services, topic(project=project), lambda: services.store.read(work), request)


def _view(landing: Landing, ahead: int) -> LandingView:
    return shown(
        LandingView,
        landing,
        landing_id=landing.id,
        place=None if landing.ended_at is not None else ahead + 1,
        commit=landing.commit_id,
        review_ids=tuple(orjson.loads(landing.review_ids)),
    )

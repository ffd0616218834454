"""The archive of cycles, and reading them whole."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import orjson

from tandem.contract.answer import shown, time_or_none
from tandem.contract.caller import Caller
from tandem.core.atomic_dirs import write_whole
from tandem.cycles import queries as cycles
from tandem.cycles import rules
from tandem.cycles import scope as cycle_scope
from tandem.cycles.answers import CycleArchived, CycleHistory, CyclePage, CycleRow, HandoffView, WorkflowView
from tandem.cycles.payloads import archive_files
from tandem.cycles.requests import CycleArchive, GetCycle, ListCycles
from tandem.cycles.rules import Cycle, Handoff, Session, workflow_of
from tandem.cycles.running import check_token, lock_of
from tandem.errors import NotFound, Unavailable
from tandem.reviews import queries as reviews
from tandem.reviews.context import Services
from tandem.reviews.rules import Review
from tandem.store import pages
from tandem.store.base import Unit
from tandem.store.context import transact
from tandem.store.event import EventKind

_PATIENCE_SECONDS = 10.0
"""How long to wait for another broker that archives the same cycle; it takes milliseconds."""
_LOOK_SECONDS = 0.05


async def cycle_archive(services: Services, caller: Caller, request: CycleArchive) -> CycleArchived:
    """Write a complete cycle to a folder of its own; project and workflow are idle again.

    Raises:
        ConfigInvalid: A role of the workflow has no key.
        InvalidSession: The session is none, or has ended.
        ArchiveNotAllowed: The cycle is not complete.
        LockDenied: It is another role's to do, or the token is not the current one.
        Unavailable: The folder cannot be written.
    """
    # One at a time: who comes second is refused before it writes a folder over the one that counts.
    wanted = await services.store.read(lambda unit: _admitted(unit, services, caller, request)[0].id)
    deadline = asyncio.get_running_loop().time() + _PATIENCE_SECONDS
    while True:
        async with services.archiving, services.store.advisory_lock(f"archive {wanted}") as granted:
            if granted:
                return await _write_and_record(services, caller, request)
        if asyncio.get_running_loop().time() > deadline:
            raise Unavailable("Another broker has been archiving this cycle for long; try again.", cycle_id=wanted)
        await asyncio.sleep(_LOOK_SECONDS)


def _admitted(
    unit: Unit, services: Services, caller: Caller, request: CycleArchive, *, lock: bool = False
) -> tuple[Cycle, Session]:
    """Checks everything; gives the cycle and who archives it."""
    standing, session = cycle_scope.enter(unit, services, caller, request, lock=lock)
    cycle = rules.check_archive(standing.active, standing.workflow.name)
    rules.check_role(cycle, session.role, "Archiving the cycle")
    check_token(services, cycle, session, request.lock_token)
    return cycle, session


async def _write_and_record(services: Services, caller: Caller, request: CycleArchive) -> CycleArchived:
    """The folder comes first: a crash in between leaves a whole one, and a cycle that can be archived again."""
    now = services.clock.now_us()

    def read(unit: Unit) -> CycleHistory:
        cycle, _ = _admitted(unit, services, caller, request)
        return _history(unit, cycle._replace(archived_at=now, updated_at=now))

    whole = await services.store.read(read)
    name = whole.cycle.cycle_id
    folder = await asyncio.to_thread(lambda: write_whole(services.archives, name, archive_files(whole)))

    def work(unit: Unit) -> CycleArchived:
        cycle, session = _admitted(unit, services, caller, request, lock=True)
        after = cycle._replace(archived_at=now, updated_at=now)
        facts = {"handoffs": cycle.handoffs, "session_id": session.id}
        written = cycles.change(unit, cycle, after, actor=session.role, kind=EventKind.CYCLE_ARCHIVED, data=facts)
        cycle_scope.used(unit, services, session)
        place = services.waits.cursor(written.event_seq, unit)
        return CycleArchived(ok=True, cycle_id=cycle.id, archive=str(folder), cursor=place)

    return await transact(services, caller, work)


async def list_cycles(services: Services, caller: Caller, request: ListCycles) -> CyclePage:
    """A page of cycles, newest first, with the workflows that the broker knows.

    Raises:
        TooLarge: More rows than a page may have.
        InvalidInput: The page token is none of ours.
    """
    limit = request.limit
    pages.check_limit(services, limit)
    project = services.projects.resolve(request.project, caller.project)
    before = pages.decode(services, request.page, int, str) if request.page else None

    def work(unit: Unit) -> CyclePage:
        found = cycles.list_page(unit, limit + 1, project=project, workflow=request.workflow, before=before)
        listed, following = pages.cut(services, found, limit, lambda cycle: (cycle.created_at, cycle.id))
        known = (WorkflowView(one.name, one.roles, one.mode, one.as_dict()) for one in services.workflows.values())
        return CyclePage(tuple(map(_row, listed)), tuple(known), following)

    return await services.store.read(work)


async def get_cycle(services: Services, caller: Caller, request: GetCycle) -> CycleHistory:
    """A whole cycle; without an id the newest one of the project and workflow.

    Raises:
        NotFound: There is no such cycle.
    """

    def work(unit: Unit) -> CycleHistory:
        if request.cycle_id is None:
            found = cycle_scope.look(unit, services, caller, request).cycle
        else:
            found = cycles.find(unit, request.cycle_id)
        if found is None or (request.project and found.project != request.project):
            raise unknown(request.cycle_id)
        return _history(unit, found)

    return await services.store.read(work)


def unknown(cycle_id: str | None) -> NotFound:
    """The refusal of an id that no cycle has."""
    return NotFound("There is no such cycle; list_cycles shows what there is.", cycle_id=cycle_id)


def _history(unit: Unit, cycle: Cycle) -> CycleHistory:
    """A whole cycle, every hand-off with its payload, read in the unit."""
    found = cycles.list_handoffs(unit, cycle.id)
    names = {handoff.review_id for handoff in found if handoff.review_id}
    by_id = {name: reviews.get(unit, name) for name in names}
    return CycleHistory(
        cycle=_row(cycle),
        # Of an archived cycle, who held it last.
        lock=replace(lock_of(cycle), role=cycle.active_role, acquired_at=time_or_none(cycle.lock_acquired_at)),
        definition=workflow_of(cycle).as_dict(),
        handoffs=tuple(_handoff(unit, handoff, by_id.get(handoff.review_id or "")) for handoff in found),
    )


def _row(cycle: Cycle) -> CycleRow:
    return shown(CycleRow, cycle, cycle_id=cycle.id)


def payload_of(unit: Unit, handoff: Handoff) -> dict[str, Any]:
    """The payload of a hand-off."""
    return orjson.loads(reviews.find_content(unit, handoff.content_id) or "{}")


def _handoff(unit: Unit, handoff: Handoff, review: Review | None) -> HandoffView:
    return shown(HandoffView, handoff, status=_outcome(handoff, review), payload=payload_of(unit, handoff))


def _outcome(handoff: Handoff, review: Review | None) -> str:
    if handoff.advanced_at is not None:
        return "advanced"
    if review is None:
        return "written"
    if handoff.round is not None and handoff.round < review.round:
        return "superseded"
    return review.outcome or review.state

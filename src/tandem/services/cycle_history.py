"""What remains of cycles: the archive, and reading them whole."""

from __future__ import annotations

import asyncio
from typing import Protocol

from tandem.domain import cycles as rules
from tandem.domain.archives import archive_files
from tandem.domain.cycle_answers import CycleArchived, CycleHistory, CyclePage, WorkflowView
from tandem.domain.cycles import Cycle
from tandem.domain.events import Kind
from tandem.domain.sessions import Session
from tandem.errors import NotFound, Unavailable
from tandem.folders import write_whole
from tandem.services import cycle_scope, cycle_views, pages
from tandem.services.context import Call, Services, transact
from tandem.services.cycle_scope import Asked
from tandem.services.cycles import check_token
from tandem.store import cycles
from tandem.store.base import Unit

_PATIENCE_SECONDS = 10.0
"""How long to wait for another broker that archives the same cycle; it takes milliseconds."""
_LOOK_SECONDS = 0.05


class _Admit(Protocol):
    """Checks everything, in a unit that writes or only reads, and gives the cycle and who archives it."""

    def __call__(self, unit: Unit, *, writing: bool) -> tuple[Cycle, Session]: ...


async def archive(
    services: Services, call: Call, asked: Asked, *, lock_token: str, session_token: str
) -> CycleArchived:
    """Write a complete cycle to a folder of its own; project and workflow are idle again.

    Raises:
        ConfigInvalid: A role of the workflow has no key.
        InvalidSession: The session is none, or has ended.
        ArchiveNotAllowed: The cycle is not complete.
        LockDenied: It is another role's to do, or the token is not the current one.
        Unavailable: The folder cannot be written.
    """

    def admit(unit: Unit, *, writing: bool) -> tuple[Cycle, Session]:
        standing, session = cycle_scope.enter(unit, services, asked, session_token, lock=writing)
        cycle = rules.check_archive(standing.active, standing.workflow.name)
        rules.check_role(cycle, session.role, "Archiving the cycle")
        check_token(services, cycle, session, lock_token)
        return cycle, session

    # One at a time: who comes second is refused before it writes a folder over the one that counts.
    wanted = await services.store.read(lambda unit: admit(unit, writing=False)[0].id)
    deadline = asyncio.get_running_loop().time() + _PATIENCE_SECONDS
    while True:
        async with services.archiving, services.store.advisory_lock(f"archive {wanted}") as granted:
            if granted:
                return await _write_and_record(services, call, admit)
        if asyncio.get_running_loop().time() > deadline:
            raise Unavailable("Another broker has been archiving this cycle for long; try again.", cycle_id=wanted)
        await asyncio.sleep(_LOOK_SECONDS)


async def _write_and_record(services: Services, call: Call, admit: _Admit) -> CycleArchived:
    """The folder comes first: a crash in between leaves a whole one, and a cycle that can be archived again."""
    now = services.clock.now_us()

    def read(unit: Unit) -> CycleHistory:
        cycle, _ = admit(unit, writing=False)
        return cycle_views.history(unit, cycle._replace(archived_at=now, updated_at=now))

    whole = await services.store.read(read)
    name = whole.cycle.cycle_id
    folder = await asyncio.to_thread(lambda: write_whole(services.archives, name, archive_files(whole)))

    def work(unit: Unit) -> CycleArchived:
        cycle, session = admit(unit, writing=True)
        after = cycle._replace(archived_at=now, updated_at=now)
        facts = {"handoffs": cycle.handoffs, "session_id": session.id}
        written = cycles.change(unit, cycle, after, actor=session.role, kind=Kind.CYCLE_ARCHIVED, data=facts)
        cycle_scope.used(unit, services, session)
        place = services.waits.cursor(written.event_seq)
        return CycleArchived(ok=True, cycle_id=cycle.id, archive=str(folder), cursor=place)

    return await transact(services, call, work)


async def list_page(services: Services, asked: Asked, *, limit: int, page: str | None) -> CyclePage:
    """A page of cycles, newest first, with the workflows that the broker knows.

    Raises:
        TooLarge: More rows than a page may have.
        InvalidInput: The page token is none of ours.
    """
    pages.check_limit(services, limit)
    project = services.projects.resolve(asked.project, asked.endpoint_project)
    before = pages.decode(services, page, int, str) if page else None

    def work(unit: Unit) -> CyclePage:
        found = cycles.list_page(unit, limit + 1, project=project, workflow=asked.workflow, before=before)
        last = found[limit - 1] if len(found) > limit else None
        return CyclePage(
            cycles=tuple(cycle_views.row(cycle) for cycle in found[:limit]),
            workflows=tuple(
                WorkflowView(one.name, one.roles, one.mode, one.as_dict()) for one in services.workflows.values()
            ),
            next_page=pages.encode(services, last.created_at, last.id) if last else None,
        )

    return await services.store.read(work)


async def history(services: Services, asked: Asked, cycle_id: str | None) -> CycleHistory:
    """A whole cycle; without an id the newest one of the project and workflow.

    Raises:
        NotFound: There is no such cycle.
    """

    def work(unit: Unit) -> CycleHistory:
        found = cycles.find(unit, cycle_id) if cycle_id else cycle_scope.look(unit, services, asked).cycle
        if found is None or (asked.project and found.project != asked.project):
            raise unknown(cycle_id)
        return cycle_views.history(unit, found)

    return await services.store.read(work)


def unknown(cycle_id: str | None) -> NotFound:
    """What is said of an id that no cycle has."""
    return NotFound("There is no such cycle; list_cycles shows what there is.", cycle_id=cycle_id)

"""Registering folders as projects, and forgetting them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from tandem.contract.answer import shown, time_or_none
from tandem.contract.caller import Caller
from tandem.errors import Forbidden, InvalidInput, NotFound
from tandem.git.mirror import checked_url, name_in
from tandem.git.place import find_repository, free_name, is_of
from tandem.git.repository import Repository
from tandem.projects import queries as projects
from tandem.projects.contract import (
    ListProjects,
    MirrorView,
    ProjectList,
    ProjectRemoved,
    ProjectView,
    RegisterProject,
    RemoveProject,
)
from tandem.projects.queries import ProjectRecord
from tandem.projects.registry import Projects
from tandem.store.base import Unit
from tandem.store.context import Context


class ProtectsBranches(Protocol):
    """A gate, as far as projects ask it."""

    def protected_branches(self, unit: Unit, project: str) -> tuple[str, ...]:
        """The branches of a project that nothing gets into unless it was approved."""
        ...


@dataclass(frozen=True)
class ProjectContext(Context):
    """The foundation of projects, too.

    Attributes:
        projects: The registered ones.
        participants: The subjects that may protect a project's branches.
    """

    projects: Projects
    participants: Sequence[ProtectsBranches]


async def register_project(services: ProjectContext, caller: Caller, request: RegisterProject) -> ProjectView:
    """Register a folder, or move a project to it; or the URL of a repository, which is fetched.

    Raises:
        InvalidInput: The folder is not in a git repository, or is another project's that it cannot be moved over, or
            the name is another folder's, or the URL is none that may be fetched.
        NotFound: The broker does not know the project to move.
        Forbidden: Its gate is on where it is now.
    """
    top, usual = ("", "") if request.root is None else await asyncio.to_thread(_home, services, Path(request.root))
    mirror = None if request.mirror is None else checked_url(request.mirror)
    name = request.name or usual or name_in(mirror or "")
    if not name or (request.root is None and request.move):
        raise InvalidInput("Name the project, or the folder that it has here.", field="name" if not name else "root")
    if request.root is not None and mirror is not None:
        raise InvalidInput("A project has a folder at the broker, or a mirror; name one of them.", field="mirror")

    is_there = await _is_there(services, name, top)

    def work(unit: Unit) -> ProjectRecord:
        known = next((one for one in projects.list_registered(unit) if top and one.root == top), None)
        if known is not None and request.name is None:
            return known
        existing = projects.find(unit, name)
        if existing and (existing.root, existing.mirror) == (top, mirror):
            return existing
        if existing and existing.root and not request.move:
            free = free_name(name, [one.name for one in projects.list_registered(unit)])
            raise InvalidInput(
                f"'{name}' is the project at {existing.root}. Give this one another name: --name {free} (with tandem"
                f" gate on: --project {free} --new). If it takes that one's place: tandem project move {name}",
                field="name",
                actual=existing.root,
            )
        if is_there:
            _ensure_not_gated(unit, services, name)
        if request.move:
            _require_movable(unit, services, name, existing, top)
        return _put(unit, caller, ProjectRecord(name, top, services.clock.now_us(), mirror=mirror))

    record = await services.store.write(work)
    await services.projects.load()
    found = services.projects.mirror(name)
    if found is not None:
        await found.fetch()
    return _view(services, record)


async def remove_project(services: ProjectContext, caller: Caller, request: RemoveProject) -> ProjectRemoved:
    """Forget a project's folder; its reviews stay under the name, as a label.

    Raises:
        NotFound: No such project is registered.
        Forbidden: Its gate is on.
    """
    name = request.name
    is_there = await _is_there(services, name)

    def work(unit: Unit) -> None:
        existing = projects.find(unit, name)
        if existing is None or existing.root is None:
            raise _unknown(services, name)
        if is_there:
            _ensure_not_gated(unit, services, name)
        _put(unit, caller, ProjectRecord(name, None, services.clock.now_us()))

    await services.store.write(work)
    await services.projects.load()
    return ProjectRemoved(name, removed=True)


async def list_projects(services: ProjectContext, _caller: Caller, _request: ListProjects) -> ProjectList:
    """All registered projects, by name, as far as the caller may know them."""
    await services.projects.learn()
    return ProjectList(tuple(_view(services, record) for record in services.projects.records()))


def _home(services: ProjectContext, root: Path) -> tuple[str, str]:
    """The folder that a repository is registered for, whichever of its folders was named, and its usual name."""
    if not root.is_absolute():
        raise InvalidInput("Give the folder's absolute path.", field="root")
    git = services.projects.git
    place = find_repository(str(root)) if root.is_dir() else None
    if place is None:
        # Git's error gives the reason.
        return str(Repository.discover(root, git).root), root.name
    with Repository(Path(place.home), git) as repository:
        # Git itself has to agree that it can be used.
        _ = repository.layout
    return place.home, place.name


async def _is_there(services: ProjectContext, name: str, new: str = "") -> bool:
    """Whether a project has a repository at its place, which is no other project's, and not that of a new folder."""
    root = services.projects.root(name)

    def look(root: str) -> bool:
        place, here = find_repository(new) if new else None, find_repository(root)
        held = set[str]() if here is None else _on_record(Path(here.common_dir, "tandem"))
        is_other = (held and name not in held) or (place is not None and is_of(root, place.common_dir))
        # In a folder without a repository a gate could not be switched off.
        return here is not None and is_of(root, here.common_dir) and not is_other

    return services.projects.mirror(name) is not None or (root is not None and await asyncio.to_thread(look, root))


def _on_record(folder: Path) -> set[str]:
    """Which project a repository is by its own record and by its gate's switch; nothing if neither says it."""
    found: set[str] = set()
    for file in ("project.json", "gate.json"):
        with suppress(OSError, ValueError, KeyError, TypeError, RecursionError):
            found.add(str(json.loads((folder / file).read_bytes())["project"]))
    return found


def _ensure_not_gated(unit: Unit, services: ProjectContext, name: str) -> None:
    """Refuse to take a project from the repository that its gate goes by, in which the checks are named, too.

    Raises:
        Forbidden: Its gate is on.
    """
    if any(one.protected_branches(unit, name) for one in services.participants):
        raise Forbidden(
            f"The gate of '{name}' is on in the repository that the project has now. A person switches it off there"
            " first: tandem gate off. Then do this, and have it on again: tandem gate on.",
            needed="person",
            actual=services.projects.root(name),
        )


def _require_movable(unit: Unit, services: ProjectContext, name: str, existing: ProjectRecord | None, top: str) -> None:
    """Refuse to move an unknown project, or to a folder that is another one.

    Raises:
        InvalidInput: The folder is another project.
        NotFound: There was never a project of that name.
    """
    if existing is None:
        raise _unknown(services, name)
    other = next((one.name for one in projects.list_registered(unit) if one.root == top), None)
    if other is not None:
        raise InvalidInput(
            f"{top} is the project '{other}'. If it is '{name}' that it should be: tandem project remove {other}, and"
            " then the same again.",
            field="root",
            actual=other,
        )


def _unknown(services: ProjectContext, name: str) -> NotFound:
    return NotFound(f"No project '{name}' is registered.", project=name, allowed=services.projects.names())


def _put(unit: Unit, caller: Caller, record: ProjectRecord) -> ProjectRecord:
    return projects.put(unit, record, caller.agent or caller.principal)


def _view(services: ProjectContext, record: ProjectRecord) -> ProjectView:
    mirror = services.projects.mirror(record.name)
    kept = mirror and MirrorView(
        url=mirror.url,
        folder=str(mirror.folder),
        deploy_key=mirror.public_key,
        fetched_at=time_or_none(mirror.fetched_at),
        fetching=mirror.running is not None,
        problem=mirror.problem.message if mirror.problem is not None else None,
    )
    return shown(ProjectView, record, root=record.root or "", mirror=kept)

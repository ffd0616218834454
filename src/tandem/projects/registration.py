"""Registering folders as projects, and forgetting them."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tandem.contract.caller import Caller
from tandem.core.clock import isoformat
from tandem.errors import InvalidInput, NotFound
from tandem.git.repository import Repository
from tandem.projects import queries as projects
from tandem.projects.contract import (
    ListProjects,
    ProjectList,
    ProjectRemoved,
    ProjectView,
    RegisterProject,
    RemoveProject,
)
from tandem.projects.queries import ProjectRecord
from tandem.store.base import Unit
from tandem.store.context import Services


async def register_project(services: Services, caller: Caller, request: RegisterProject) -> ProjectView:
    """Register a folder, or move a project to it.

    Raises:
        InvalidInput: The folder is not in a git repository, or is another project's that it cannot be moved over, or
            the name is another folder's.
        NotFound: The broker does not know the project that is to be moved.
    """
    top = "" if request.root is None else await asyncio.to_thread(_top, services, Path(request.root))
    name = request.name or Path(top).name
    if not name or (request.root is None and request.move):
        raise InvalidInput("Name the project, or the folder that it has here.", field="name" if not name else "root")

    def work(unit: Unit) -> ProjectRecord:
        existing = projects.find(unit, name)
        if existing and existing.root == top:
            return existing
        if request.move:
            _require_movable(unit, services, name, existing, top)
        elif existing and existing.root:
            raise InvalidInput(
                f"'{name}' is registered for another folder; choose a name, or move it with: tandem project move"
                f" {name}",
                field="name",
                actual=existing.root,
            )
        return _put(unit, services, caller, name, top)

    record = await services.store.write(work)
    await services.projects.load()
    return _view(record)


async def remove_project(services: Services, caller: Caller, request: RemoveProject) -> ProjectRemoved:
    """Forget a project's folder; its reviews stay under the name, as a label.

    Raises:
        NotFound: No such project is registered.
    """
    name = request.name

    def work(unit: Unit) -> None:
        existing = projects.find(unit, name)
        if existing is None or existing.root is None:
            raise _unknown(services, name)
        _put(unit, services, caller, name, None)

    await services.store.write(work)
    await services.projects.load()
    return ProjectRemoved(name, removed=True)


async def list_projects(services: Services, _caller: Caller, _request: ListProjects) -> ProjectList:
    """All registered projects, by name, as far as the caller may know them."""
    await services.projects.learn()
    return ProjectList(tuple(_view(record) for record in services.projects.records()))


def _top(services: Services, root: Path) -> str:
    if not root.is_absolute():
        raise InvalidInput("Give the folder's absolute path.", field="root")
    git = services.projects.git
    with Repository.discover(root, git=git.executable, timeout_seconds=git.timeout_seconds) as repository:
        return str(repository.root)


def _require_movable(unit: Unit, services: Services, name: str, existing: ProjectRecord | None, top: str) -> None:
    """Refuse to move a project that nobody knows, or to a folder that is another one.

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


def _unknown(services: Services, name: str) -> NotFound:
    return NotFound(f"No project '{name}' is registered.", project=name, allowed=services.projects.names())


def _put(unit: Unit, services: Services, caller: Caller, name: str, root: str | None) -> ProjectRecord:
    actor, now = caller.agent or caller.principal, services.clock.now_us()
    return projects.put(unit, name=name, root=root, at=now, actor=actor)


def _view(record: ProjectRecord) -> ProjectView:
    return ProjectView(record.name, record.root or "", isoformat(record.registered_at))

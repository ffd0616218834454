"""Which project a repository is: as its broker has it, and by a record in its git folder, which moves along with it.

The record is `tandem/project.json` in the common git folder; a gate's switch says the same. It names the project and
the folder that it was registered for, so that a repository which is somewhere else by now is known again. `mv` takes it
along and `cp -r` copies it; a clone by git has none, and is no project until somebody says which.
"""

from __future__ import annotations

import asyncio
import json
import shlex
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn

from tandem.bridge.project import owner
from tandem.core.files import remove_if_empty, write_atomically
from tandem.errors import InvalidInput
from tandem.git.layout import ensure_usable
from tandem.git.place import find_repository, free_name
from tandem.rulings import state
from tandem.rulings.state import GateFile, GateUnreadable, HookRepository
from tandem.rulings.trust import same

if TYPE_CHECKING:
    from tandem.bridge.session import Session

Call = Callable[[str, Mapping[str, Any]], Awaitable[Any]]
"""Calls an operation of the broker; its data, or a `TandemError`."""

FILE: Final = "project.json"
_VERSION: Final = 1


@dataclass(frozen=True, slots=True)
class Origin:
    """The project that a repository elsewhere is registered as, by the record of this one.

    Attributes:
        project: Its name.
        root: The folder that it is registered for.
        is_gone: Whether the repository is no longer there: it was moved here. Else this is a copy of it.
    """

    project: str
    root: str
    is_gone: bool


async def registered_as(call: Call, folder: Path, name: str | None = None) -> str | None:
    """The project that a folder is registered as, or that has the name; None if there is none.

    Raises:
        TandemError: The broker refuses or is away.
    """
    projects = await _projects(call)
    if name is None:
        return owner(str(folder), projects)
    return name if name in projects else None


async def register(call: Call, root: Path, name: str | None = None, *, move: bool = False) -> str:
    """Tell the broker of a folder, and the git folder of the project; the project's name.

    Args:
        call: Calls the broker.
        root: The folder.
        name: The project's name; None for the folder's.
        move: Whether the project of that name has this folder from now on.

    Raises:
        TandemError: The broker refuses or is away.
    """
    request = {"root": str(root)} | ({"name": name} if name else {}) | ({"move": True} if move else {})
    answer = await call("register_project", request)
    remember(answer)
    return answer["project"]


async def moved_project(call: Call, folder: Path, name: str | None = None) -> str | None:
    """The project whose repository was moved to where a folder is; None if none was.

    Args:
        call: Calls the broker.
        folder: A folder in the repository; it need not be in one.
        name: The project that is meant, if one was named: another one does not count.

    Raises:
        TandemError: The broker refuses or is away.
    """
    place = state.find_repository(str(folder))
    origin = None if place is None else await find_origin(call, place)
    return origin.project if origin is not None and origin.is_gone and name in {None, origin.project} else None


async def find_origin(call: Call, place: HookRepository) -> Origin | None:
    """Which project's repository this was moved or copied from; None if it is where it was registered, or never was.

    Raises:
        TandemError: The broker refuses or is away.
    """
    records = list(_records(place))
    projects = await _projects(call) if records else {}
    for project, former in records:
        root = projects.get(project)
        # Elsewhere than the record says, it is a project of another broker, or was moved by somebody.
        if root is not None and same(root) == same(former) != same(place.home):
            return Origin(project, root, is_gone=not _is_at(root, project))
    return None


async def require_moved(call: Call, place: HookRepository) -> str:
    """The project that a repository stays: the one that it was moved from, or is where it stands.

    Raises:
        InvalidInput: Its record names none, or one whose repository is still at its place.
        TandemError: The broker refuses or is away.
    """
    root, wanted = place.home, same(place.home)
    origin = await find_origin(call, place)
    if origin is not None and origin.is_gone:
        return origin.project
    await refuse_copy(call, place)
    projects = await _projects(call)
    here = next((name for name, one in projects.items() if same(one) == wanted), None)
    if here is None:
        known = ", ".join(f"{name} ({one})" for name, one in projects.items()) or "none"
        raise InvalidInput(
            f"Nothing in the git folder of {root} says which project this was, as in a clone. Name it: tandem project"
            f" move NAME. Registered: {known}",
            field="name",
            allowed=list(projects),
        )
    return here


async def refuse_copy(call: Call, place: HookRepository) -> None:
    """Refuse what would leave a copy of a repository half with the original's project.

    Raises:
        InvalidInput: It is a copy; names the command that makes it a project of its own.
        TandemError: The broker refuses or is away.
    """
    origin = await find_origin(call, place)
    if origin is not None and not origin.is_gone:
        own = await way_to_own_project(call, place)
        raise InvalidInput(
            f"{place.home} is a copy of the project {origin.project} at {origin.root}. For a project of its own, a"
            f" person runs: {own}. To have that project here instead, once its gate is off there: tandem project move"
            f" {origin.project}",
            field="name",
            actual=origin.root,
        )


async def refuse_gated_copy(call: Call, place: HookRepository) -> None:
    """As `refuse_copy`, where a gate is on: it would go on asking for the approvals of the original's project."""
    gate = switch(place)
    if gate is not None and gate.enabled:
        await refuse_copy(call, place)


async def way_to_own_project(call: Call, place: HookRepository) -> str:
    """The command that makes a project of a repository, or has the gate of a copy ask for that project's approvals.

    Raises:
        TandemError: The broker refuses or is away.
    """
    projects, gate = await _projects(call), switch(place)
    known = owner(place.home, projects)
    name = known or free_name(place.name, projects)
    if gate is not None and gate.enabled:
        return f"tandem gate on --project {shlex.quote(name)}{'' if known else ' --new'}"
    return "tandem project add" if name == place.name else f"tandem project add --name {shlex.quote(name)}"


def switch(place: HookRepository) -> GateFile | None:
    """The switch as it stands here; None if it was never set, or cannot be read (then a new one may be written)."""
    try:
        return state.find(place)
    except GateUnreadable:
        return None


def remember(registered: Mapping[str, Any]) -> None:
    """Write into the git folder which project it is of.

    Args:
        registered: What `register_project` answered.
    """
    project, root = registered["project"], registered["root"]
    place = state.find_repository(root)
    if place is None or same(root) != same(place.home):
        return
    # Without it the project works; it is only not known again after a move.
    with suppress(OSError):
        Path(place.folder).mkdir(exist_ok=True)
        content = json.dumps({"version": _VERSION, "project": project, "root": root}, indent=2).encode() + b"\n"
        write_atomically(Path(place.folder, FILE), content, mode=0o644)


def forget(place: HookRepository) -> None:
    """Take the record away."""
    Path(place.folder, FILE).unlink(missing_ok=True)
    remove_if_empty(place.folder)


def _is_at(root: str, project: str) -> bool:
    """Whether a folder has the repository of a project, by its record."""
    place = state.find_repository(root)
    if place is None or same(place.home) != same(root):
        return False
    return any(name == project for name, _ in _records(place))


def _records(place: HookRepository) -> Iterator[tuple[str, str]]:
    """Project and folder by the record in the git folder, and by the gate's switch."""
    with suppress(OSError, ValueError, KeyError, TypeError, RecursionError):
        facts = json.loads(Path(place.folder, FILE).read_bytes())
        yield str(facts["project"]), str(facts["root"])
    gate = switch(place)
    if gate is not None:
        yield gate.project, gate.root


async def _projects(call: Call) -> dict[str, str]:
    listed = await call("list_projects", {})
    return {one["project"]: one["root"] for one in listed["projects"]}


def awaited(session: Session) -> Call:
    """A session's calls, for what awaits them."""

    async def call(operation: str, arguments: Mapping[str, Any]) -> Any:
        return session.data(operation, arguments)

    return call


def refuse_unregistered(session: Session) -> NoReturn:
    """Say how the repository that a command runs in becomes a project.

    Raises:
        InvalidInput: It is of none.
    """
    place = find_repository(str(Path.cwd()))
    ensure_usable(place)
    known = None
    if place is not None:
        known = switch(place)
        asyncio.run(refuse_gated_copy(awaited(session), place))
    # To add it would make two projects of one, where a gate has it already.
    way = "tandem gate on" if known is not None and known.enabled else "tandem project add"
    raise InvalidInput(
        f"This repository is not registered. Register it with: {way}. If it was moved: tandem project move",
        field="project",
    )

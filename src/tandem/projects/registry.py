"""Projects: folders that a person registered, and the git repositories in them; registered, and forgotten."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from tandem.contract.answer import shown, time_or_none
from tandem.contract.caller import Caller
from tandem.errors import Forbidden, InvalidInput, NotFound, Unavailable
from tandem.git.base_files import is_name
from tandem.git.mirror import checked_url, name_in
from tandem.git.place import find_repository, free_name, is_of
from tandem.git.repository import Repository
from tandem.git.runner import Git
from tandem.projects import mirrors, queries
from tandem.projects.contract import (
    ListProjects,
    MirrorView,
    ProjectList,
    ProjectRemoved,
    ProjectView,
    RegisterProject,
    RemoveProject,
)
from tandem.projects.mirrors import Mirror, MirrorSettings
from tandem.projects.queries import ProjectRecord
from tandem.store.base import Store, Unit
from tandem.store.context import Context
from tandem.store.event import Event, EventKind

_LABEL_SECONDS: Final = 1.0
"""How long a name that is no project's is not looked for again, if the log does not say otherwise before."""
_LABELS_MOST: Final = 1000


class ProjectMoved(Unavailable):
    """A project was registered, moved or removed while something was validated for it; nothing was written."""

    def __init__(self, project: str) -> None:
        super().__init__(f"The folder of '{project}' changed meanwhile; send the same call again.", project=project)


class Projects:
    """The registered projects, kept in memory: every call needs one.

    Attributes:
        git: The program, as it is run in them.
        mirror_seconds: How long moving a whole repository may take.
    """

    def __init__(self, store: Store, git: Git, mirrors: MirrorSettings) -> None:
        self._store = store
        self._mirror_settings = mirrors
        self.mirror_seconds = mirrors.timeout_seconds
        self._mirrors: dict[str, Mirror] = {}
        self.git = git
        self._by_name: dict[str, ProjectRecord] = {}
        self._repositories: dict[str, Repository] = {}
        self._labels: dict[str, float] = {}
        self._shown: str | None = None
        self._has_swept = False
        # One at a time, so that the last read counts.
        self._loading = asyncio.Lock()

    def only(self, project: str) -> Projects:
        """These projects for a caller who is let in to one of them, and hears of no other."""
        one = copy(self)
        one._shown = project  # noqa: SLF001 - its own
        return one

    async def load(self) -> None:
        """Read the registered projects; again whenever another node may have changed them."""
        async with self._store.turn(self._loading):
            records = await self._store.read(queries.list_registered)
            # First, as a project that is known without its mirror would be taken for one that has none.
            await self._keep_mirrors(records)
            self._labels.clear()
            self._by_name.clear()
            self._by_name.update((record.name, record) for record in records)
            for root in self._repositories.keys() - {self.root(record.name) for record in records}:
                self._repositories.pop(root).close()

    async def _keep_mirrors(self, records: Iterable[ProjectRecord]) -> None:
        """Keep a mirror for each project that is registered with one, and delete the others."""
        wanted = {record.name: record.mirror for record in records if record.mirror}
        gone = [name for name, mirror in self._mirrors.items() if wanted.get(name) != mirror.url]
        for name in gone:
            await self._mirrors.pop(name).close()
        for name in wanted.keys() - self._mirrors.keys():
            self._mirrors[name] = await asyncio.to_thread(Mirror, name, wanted[name], self._mirror_settings)
        if gone or not self._has_swept:
            self._has_swept = True
            await asyncio.to_thread(mirrors.remove_others, self._mirror_settings, list(self._mirrors.values()))

    async def learn(self, *candidates: str | None) -> None:
        """Hear of the project of a call from the database, if it is none that is known here.

        Another node may have registered it just now, and the log says so a moment later only.
        """
        if self._store.dialect == "sqlite":
            return
        named = next(filter(None, candidates), None)
        if named is None:
            await self.load()
        elif named not in self._by_name and time.monotonic() > self._labels.get(named, 0.0):
            if await self._store.read(lambda unit: queries.find(unit, named)) is not None:
                await self.load()
            else:
                if len(self._labels) == _LABELS_MOST:
                    self._labels.clear()
                self._labels[named] = time.monotonic() + _LABEL_SECONDS

    def registration(self, project: str) -> int:
        """Which registration is known here: the number of its event; 0 for a label."""
        record = self._by_name.get(project)
        return record.event_seq if record is not None else 0

    async def has_moved(self, project: str, registration: int) -> bool:
        """Whether another registration counts by now than was known."""
        if self._store.dialect != "sqlite":
            await self.load()
        return self.registration(project) != registration

    def check(self, unit: Unit, project: str, registration: int) -> None:
        """Check, in a unit that has taken its number of the log, that the validated registration still holds.

        Raises:
            ProjectMoved: The project has another folder by now, or has one at all, or none.
        """
        found = queries.find(unit, project)
        if (found.event_seq if found is not None and found.root is not None else 0) != registration:
            raise ProjectMoved(project)

    async def notice(self, batch: list[Event]) -> None:
        """Read the projects again when the log says that one was registered or removed, on any node."""
        if any(event.kind == EventKind.PROJECT_REGISTERED for event in batch):
            await self.load()

    async def close(self) -> None:
        """End the git processes that were kept."""
        for mirror in self._mirrors.values():
            await mirror.close()
        repositories, self._repositories = self._repositories, {}
        for repository in repositories.values():
            await asyncio.to_thread(repository.close)

    def names(self) -> list[str]:
        """The registered names, as far as the caller may know them."""
        return sorted(name for name in self._by_name if self._shown in (None, name))

    def records(self) -> list[ProjectRecord]:
        """The registered projects, by name, as far as the caller may know them."""
        return [self._by_name[name] for name in self.names()]

    def root(self, project: str) -> str | None:
        """The folder of a registered project, or of its mirror; None for a label, and for one without either."""
        record = self._by_name.get(project)
        if record is None or record.root:
            return record.root if record is not None else None
        mirror = self._mirrors.get(project)
        return str(mirror.folder) if mirror is not None else None

    def mirror(self, project: str) -> Mirror | None:
        """The project's mirror, if it has one."""
        return self._mirrors.get(project)

    def is_registered(self, project: str) -> bool:
        """Whether somebody registered it, with a folder or without."""
        return project in self._by_name

    def resolve(self, *candidates: str | None) -> str | None:
        """The project of a call: the first that was named, else the only one registered."""
        for candidate in candidates:
            if candidate:
                return candidate
        return next(iter(self._by_name)) if len(self._by_name) == 1 else None

    def require(self, *candidates: str | None) -> str:
        """As `resolve`, for operations that cannot do without a project.

        Raises:
            InvalidInput: None was named, and there is not exactly one registered.
        """
        found = self.resolve(*candidates)
        if found is None:
            known = ", ".join(self.names()) or "none yet: tandem project add"
            raise InvalidInput(
                f"Say which project this is for: send project. Registered: {known}.",
                field="project",
                allowed=self.names(),
            )
        return found

    async def repository(self, project: str, *bases: str | None) -> Repository | None:
        """The repository of a registered project; None for a label. Cheap for a folder: git is not run for it.

        A mirror is fetched first where a base may be missing or have moved. If that fails, its `problem` says why, and
        the mirror is returned as it is; None if it was never fetched.

        Args:
            project: The project.
            bases: The commits that must be in it: ids, or names, such as HEAD, of which the newest commit counts.
        """
        await self.learn(project)
        root, mirror = self.root(project), self._mirrors.get(project)
        if root is None:
            return None
        wanted = [base for base in bases if base is not None]
        if mirror is not None:
            if not mirror.files.is_there or any(map(is_name, wanted)):
                await mirror.refresh()
            if not mirror.files.is_there:
                return None
        found = self._repositories.get(root)
        if found is None:
            found = Repository(Path(root), self.git)
            self._repositories[root] = found
        if mirror is not None and wanted and not await asyncio.to_thread(lambda: all(map(found.has_base, wanted))):
            await mirror.refresh()
        return found


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
        known = next((one for one in queries.list_registered(unit) if top and one.root == top), None)
        if known is not None and request.name is None:
            return known
        existing = queries.find(unit, name)
        if existing and (existing.root, existing.mirror) == (top, mirror):
            return existing
        if existing and existing.root and not request.move:
            free = free_name(name, [one.name for one in queries.list_registered(unit)])
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
        existing = queries.find(unit, name)
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
    other = next((one.name for one in queries.list_registered(unit) if one.root == top), None)
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
    return queries.put(unit, record, caller.agent or caller.principal)


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

"""Projects: folders that a person registered, and the git repositories in them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from copy import copy
from pathlib import Path
from typing import Final

from tandem.errors import InvalidInput, Unavailable
from tandem.git.base_files import is_name
from tandem.git.repository import Repository
from tandem.git.runner import Git
from tandem.projects import mirrors
from tandem.projects import queries as rows
from tandem.projects.mirrors import Mirror, MirrorSettings
from tandem.projects.queries import ProjectRecord
from tandem.store.base import Store, Unit
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
            records = await self._store.read(rows.list_registered)
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
            if await self._store.read(lambda unit: rows.find(unit, named)) is not None:
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
        found = rows.find(unit, project)
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

"""Which registered project the folder belongs to that somebody works in: one rule for command line, bridge and hooks.

A project is its common git folder, which all working trees of a repository share, under any name.
"""

from __future__ import annotations

import json
import time

from tandem.bridge.location import is_local
from tandem.errors import InvalidInput, TandemError
from tandem.git.place import find_repository, is_of, same

TYPE_CHECKING = False  # as in `credentials`
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from tandem.bridge.http import Exchange, HttpClient

CREATE_REVIEW = "create_review"
_BASE_FILES = "base_files"

_FOUND_SECONDS = 60.0
_MISSED_SECONDS = 5.0
"""How long an answer is believed: a project may be registered while the agent runs."""


def top_level(folder: str) -> str | None:
    """The root of the working tree that a folder is in; None outside of git, and in a bare repository."""
    place = find_repository(folder)
    return None if place is None else place.top


def owner(folder: str, projects: dict[str, str]) -> str | None:
    """The project of the repository that a folder is in; `projects` maps names to folders.

    One without a folder at the broker is meant everywhere, where there is no other.
    """
    place = find_repository(folder)
    if place is not None:
        # Mostly the two are written alike; to resolve each folder takes a look at the disk for every part of it.
        if (found := next((name for name, root in projects.items() if root == place.home), None)) is not None:
            return found
        by_root = {same(root): name for name, root in projects.items() if root}
        found = by_root.get(same(place.home))
        found = found or next((name for root, name in by_root.items() if is_of(root, place.common_dir)), None)
        if found is not None:
            return found
    return next((name for name, root in projects.items() if not root), None) if len(projects) == 1 else None


def needs_base_files(url: str, arguments: Mapping[str, Any], projects: Mapping[str, str], project: str | None) -> bool:
    """Whether a broker may need the base's files for a proposal.

    Args:
        url: The broker's address.
        arguments: Those of `create_review`.
        projects: The folders of the broker's registered projects; empty for those without one.
        project: The one that is meant; None if that is not known.
    """
    roots = [root for name, root in projects.items() if project in {None, name}]
    # A folder on another machine may lack the base that somebody names. Without a base the broker's own counts.
    may_lack_base = not is_local(url) and arguments.get("base") is not None
    return any(not root or may_lack_base for root in roots)


def with_base_files(arguments: Mapping[str, Any], folder: str) -> dict[str, Any]:
    """The arguments of `create_review` with the base's files; as they are where there are none to send."""
    given = dict(arguments)
    diff, path, base = given.get("diff"), given.get("path"), given.get("base")
    if (diff is None and path is None) or given.get(_BASE_FILES) is not None or given.get("skip_diff_validation"):
        return given
    # For the few whose broker is elsewhere: it takes longer to import than all else here.
    from tandem.git.repository import Repository

    try:
        with Repository.discover(folder) as repository:
            found, files = repository.base_files(diff, path, base)
    except (TandemError, TypeError, AttributeError):
        # The broker names the fault of the change, or says that it lacks the files.
        return given
    return {**given, "base": found, _BASE_FILES: [one.as_json() for one in files]}


class ProjectFinder:
    """Asks the broker for its projects, and remembers the answer for a while."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self._name: str | None = None
        self._projects: dict[str, str] = {}
        self._until = 0.0

    def find(self, client: HttpClient, exchange: Exchange) -> str | None:
        """The folder's project; None if none is registered for it.

        Raises:
            HttpFailure: The broker did not answer.
        """
        if time.monotonic() >= self._until:
            self._projects = _projects(client, exchange)
            self._name = owner(self.folder, self._projects)
            self._until = time.monotonic() + (_MISSED_SECONDS if self._name is None else _FOUND_SECONDS)
        return self._name

    def refusal(self, client: HttpClient, exchange: Exchange) -> InvalidInput | None:
        """The error for a call that takes one project, from a repository that has none; None elsewhere.

        The broker would take the only project that it has, which is another repository.

        Raises:
            HttpFailure: The broker did not answer.
        """
        found = self.find(client, exchange)
        if found is not None or not self._projects or find_repository(self.folder) is None:
            return None
        return InvalidInput(
            f"The repository of {self.folder} is not registered. Register it there: tandem project add. Or"
            " send project, to mean another one.",
            field="project",
            allowed=sorted(self._projects),
        )

    def with_base_files(
        self, arguments: dict[str, Any], project: str | None, client: HttpClient, exchange: Exchange
    ) -> dict[str, Any]:
        """The arguments of `create_review`, with the base's files if the broker has another repository, or none.

        Raises:
            HttpFailure: The broker did not answer.
        """
        found = self.find(client, exchange)
        stated = arguments.get("project")
        project = stated if isinstance(stated, str) else project or found
        if not needs_base_files(client.target.url, arguments, self._projects, project):
            return {}
        sent = with_base_files(arguments, self.folder)
        return {name: value for name, value in sent.items() if arguments.get(name) != value}


def _projects(client: HttpClient, exchange: Exchange) -> dict[str, str]:
    sent = {"Content-Type": "application/json", "Accept": "application/json"}
    answer = client.request("POST", "/api/v1/list_projects", b"{}", sent, exchange)
    text = answer.read()
    try:
        projects = json.loads(text)["data"]["projects"]
        return {project["project"]: project["root"] for project in projects}
    except (ValueError, KeyError, TypeError):
        # Refused, or not our broker: the call itself will say so better than this could.
        return {}

"""Which registered project the folder belongs to that the agent works in.

Git's own files are read instead of running git: a start of git costs more than the bridge does.
"""

from __future__ import annotations

import json
import os
import time

TYPE_CHECKING = False  # as in `credentials`
if TYPE_CHECKING:
    from typing import Any

    from tandem.bridge.http import Exchange, HttpClient

_FOUND_SECONDS = 60.0
_MISSED_SECONDS = 5.0
"""How long an answer is believed: a project may be registered while the agent runs."""


def top_level(folder: str) -> str | None:
    """The root of the working tree that a folder is in; null outside of git."""
    current = os.path.realpath(folder)
    while not os.path.exists(os.path.join(current, ".git")):
        parent = os.path.dirname(current)
        if parent == current:
            return None
        current = parent
    return current


def main_worktree(root: str) -> str | None:
    """The main working tree of a linked one; null if `root` is not linked, or the repository is bare."""
    git_dir = pointed_at(os.path.join(root, ".git"), "gitdir:")
    common = pointed_at(os.path.join(git_dir, "commondir")) if git_dir else None
    if common is None or os.path.basename(common) != ".git":
        return None
    return os.path.dirname(common)


def linked_head(folder: str) -> str | None:
    """What `HEAD` is in a linked working tree, a branch's full name or a commit; null elsewhere."""
    root = top_level(folder)
    git_dir = pointed_at(os.path.join(root, ".git"), "gitdir:") if root is not None else None
    if root is None or git_dir is None or main_worktree(root) is None:
        return None
    try:
        with open(os.path.join(git_dir, "HEAD"), encoding="utf-8", errors="surrogateescape") as file:
            return file.readline().strip().removeprefix("ref: ") or None
    except OSError:
        return None


def pointed_at(file: str, mark: str = "") -> str | None:
    """The path that one of git's one-line files names; null if it is no such file."""
    try:
        with open(file, encoding="utf-8", errors="surrogateescape") as lines:
            text = lines.readline().strip()
    except OSError:
        return None
    if not text.startswith(mark):
        return None
    return os.path.realpath(os.path.join(os.path.dirname(file), text.removeprefix(mark).strip()))


def places(folder: str) -> list[str]:
    """Where to look for a project's folder: the folder itself, then its like in the main working tree."""
    here = os.path.realpath(folder)
    found = [here]
    root = top_level(here)
    main = main_worktree(root) if root is not None else None
    if root is not None and main is not None:
        found.append(os.path.normpath(os.path.join(main, os.path.relpath(here, root))))
    return found


def owner(folder: str, projects: dict[str, str]) -> str | None:
    """The project whose folder is the nearest above a place; `projects` maps names to folders.

    One without a folder at the broker is meant everywhere, where there is no other.
    """
    for place in places(folder):
        fitting = [(len(root), name) for name, root in projects.items() if root and _is_under(place, root)]
        if fitting:
            return max(fitting)[1]
    return next((name for name, root in projects.items() if not root), None) if len(projects) == 1 else None


def _is_under(place: str, root: str) -> bool:
    inner = os.path.normcase(place)
    outer = os.path.normcase(os.path.realpath(root))
    return inner == outer or inner.startswith(outer.rstrip(os.sep) + os.sep)


class ProjectFinder:
    """Asks the broker for its projects, and remembers the answer for a while."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._name: str | None = None
        self._projects: dict[str, str] = {}
        self._until = 0.0

    def base(self) -> str | None:
        """What `linked_head` says of the folder."""
        return linked_head(self._folder)

    def find(self, client: HttpClient, exchange: Exchange) -> str | None:
        """The folder's project; null if none is registered for it.

        Raises:
            HttpFailure: The broker did not answer.
        """
        if time.monotonic() >= self._until:
            self._projects = _projects(client, exchange)
            self._name = owner(self._folder, self._projects)
            self._until = time.monotonic() + (_MISSED_SECONDS if self._name is None else _FOUND_SECONDS)
        return self._name

    def with_base_files(
        self, arguments: dict[str, Any], project: str | None, client: HttpClient, exchange: Exchange
    ) -> dict[str, Any]:
        """The arguments of `create_review`, with the base's files if the broker has another repository, or none.

        Raises:
            HttpFailure: The broker did not answer.
        """
        from tandem.bridge import base_files  # for the bridges of proposers

        found = self.find(client, exchange)
        stated = arguments.get("project")
        project = stated if isinstance(stated, str) else project or found
        if not base_files.is_wanted(client.target.url, arguments, self._projects, project):
            return {}
        sent = base_files.with_base_files(arguments, self._folder)
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

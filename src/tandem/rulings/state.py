"""The gate's switch in a repository: `tandem/gate.json` in the git folder that all its working trees share.

Git's own files are read instead of running git, so that a hook whose gate is off costs one look.
"""

from __future__ import annotations

import json
import os

from tandem.errors import Unavailable
from tandem.git.place import HookRepository, find_repository, is_git_folder
from tandem.rulings import trust

TYPE_CHECKING = False  # as in `git`
if TYPE_CHECKING:
    from typing import Any

FOLDER = "tandem"
"""Of Tandem's own files in the common git folder."""

FILE = "gate.json"
JUDGED = "judged"
"""In Tandem's folder: the trees that were judged for commits that git is making, by the number of its process."""

RECORDING = "recording"
"""A file there: commits have to be recorded. Without it `post-commit` starts nothing."""

ROLLBACK_NOTE = "rollback.json"
"""In Tandem's folder of a working tree's git folder: a rollback that has not come to its end."""

FREE, FOLLOWED, REVIEWED = "free", "followed", "reviewed"
COMMITS = (FREE, FOLLOWED, REVIEWED)
"""How a gate treats an unapproved commit on a branch that is no base branch, the loosest first."""

COMMITS_WORDS = {
    FREE: "on other branches they pass, and are reviewed before a base branch takes them",
    FOLLOWED: "on other branches they pass, and the hook submits each for review",
    REVIEWED: "on every branch git refuses them until they are approved",
}
"""For people."""

VERSION = 1

HOOKS = ("prepare-commit-msg", "post-commit", "post-rewrite", "reference-transaction", "pre-push")
"""The hooks of git that a gate has."""


class GateUnreadable(Unavailable):
    """The hooks are installed and the switch cannot be read: whether the gate is on is unknown, so it is closed."""

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(
            f"{path} {problem}. Switch the gate on again with 'tandem gate on', or off with 'tandem gate off'.",
            path=path,
        )
        self.path = path
        self.problem = problem


class GateFile:
    """The switch as it was written, and the place it was read from.

    Attributes:
        place: Where the hook runs.
        project: The registered project.
        root: The main working tree, where the project's configuration is.
        enabled: Whether commits have to be approved.
        broker: The URL that the person named; None for the broker that runs on `data_dir`.
        data_dir: The broker's data folder.
        more_data_dirs: Those of further ones on this machine, where the person named several.
        usual_url: Where that broker listens if it has not said so; None if it uses a folder of its own.
        config_dir: The user's configuration folder.
        branches: The base branches, without `refs/heads/`.
        switched_at: When the broker last changed its record from here, ISO 8601.
        strict: Whether agents' hooks ask for the approval of plans, too, before they are written.
        sign: Whether approved commits are signed for others' brokers.
        commits: One of `COMMITS`; a file that does not say it is of a version that had `reviewed` alone.
        at_least: One of them: how strict commits are at the least, by any file. No fact of the file.
        python: The interpreter of the hooks.
        source: The folder that has the package.
        hooks: How the hooks were installed.
    """

    def __init__(self, place: HookRepository, facts: dict[str, Any]) -> None:
        """Take the facts of a file.

        Raises:
            KeyError: One is missing.
            TypeError: One that has to be a list is none.
            ValueError: One is none of its values.
        """
        self.place = place
        self.project: str = facts["project"]
        self.root: str = facts["root"]
        self.enabled = facts["enabled"] is not False
        self.broker: str | None = facts.get("broker")
        self.data_dir: str = facts["data_dir"]
        self.more_data_dirs = _names(facts.get("more_data_dirs", ()))
        self.usual_url: str | None = facts.get("usual_url")
        self.config_dir: str = facts["config_dir"]
        self.branches = _names(facts["branches"])
        self.switched_at: str | None = facts.get("switched_at")
        self.strict = facts.get("strict") is True
        self.sign = facts.get("sign") is True
        self.commits: str = COMMITS[COMMITS.index(facts.get("commits", REVIEWED))]
        self.python: str = facts["python"]
        self.source: str = facts["source"]
        self.hooks: dict[str, Any] = facts.get("hooks", {})
        self.at_least = FREE

    @property
    def enforced_commits(self) -> str:
        """The stricter of what the file says and `at_least`."""
        return max(self.commits, self.at_least, key=COMMITS.index)

    def here(self) -> dict[str, Any]:
        """The facts that the broker compares with its record of this gate."""
        trusted = trust.contents(self.config_dir, self.root)
        branches = [*self.branches]
        return {"folder": self.place.common_dir, "branches": branches, "trusted": trusted, "commits": self.commits}

    def facts(self) -> dict[str, Any]:
        """The content of the file."""
        kept = {name: value for name, value in vars(self).items() if name not in {"place", "at_least"}}
        return {"version": VERSION} | kept


def _names(stated: list[str] | tuple[str, ...]) -> tuple[str, ...]:
    if isinstance(stated, str):  # it would be taken letter by letter
        raise TypeError(stated)
    return tuple(stated)


def read(place: HookRepository) -> GateFile:
    """The switch.

    Raises:
        GateUnreadable: It is not there, or not as it was written.
    """
    found = find(place)
    if found is None:
        raise GateUnreadable(place.gate_file, "is missing, though the gate's hooks are installed")
    return found


def find(place: HookRepository) -> GateFile | None:
    """The switch; None where the gate was never switched on.

    Raises:
        GateUnreadable: It is there, and not as it was written.
    """
    path = place.gate_file
    try:
        with open(path, "rb") as file:
            text = file.read()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise GateUnreadable(path, f"cannot be read ({error.strerror})") from error
    try:
        facts: Any = json.loads(text)
        version: Any = facts["version"]
        if version == VERSION:
            return GateFile(place, facts)
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise GateUnreadable(path, "is not what 'tandem gate on' writes") from error
    raise GateUnreadable(path, f"has the version {version}, which this Tandem does not know")


def find_enabled(folder: str) -> GateFile | None:
    """The switch of the working tree that a folder, which need not exist, is in; None if no gate is on there.

    Raises:
        GateUnreadable: Whether it is on cannot be read.
    """
    folder = os.path.abspath(folder)
    while not os.path.isdir(folder):
        folder = os.path.dirname(folder)
    place = find_repository(folder)
    gate = find(place) if place is not None and place.top is not None else None
    return gate if gate is not None and gate.enabled else None


def own_gate(path: str) -> GateFile | None:
    """The enabled gate that owns a file, that is a file in its folder or one of its hooks; None if none does.

    Raises:
        GateUnreadable: Whether it is on cannot be read.
    """
    real = os.path.realpath(path)
    folder = real
    while (parent := os.path.dirname(folder)) != folder:
        if is_git_folder(parent):
            gate = find(HookRepository(parent, parent, None))
            if gate is None or not gate.enabled:
                return None
            hooks = folded(gate.hooks.get("directory") or gate.place.folder)
            is_hook = folded(os.path.dirname(real)) == hooks and os.path.basename(real).lower() in HOOKS
            return gate if os.path.basename(folder).lower() == FOLDER or is_hook else None
        folder = parent
    return None


def places(path: str) -> tuple[str, ...]:
    """What a client may write when it names a path: some drop `..` before they follow links, and some after."""
    spelled = os.path.normpath(path)
    return spelled, os.path.realpath(path), os.path.realpath(spelled)


def folded(path: str) -> str:
    """A path in the form in which guarded files are compared: resolved, in small letters, as disks may ignore case."""
    return os.path.realpath(path).lower()

"""A commit that an agent is about to make: tried out on an index of its own, and asked about before it is made."""

from __future__ import annotations

import os
import shutil
from contextlib import contextmanager
from shlex import quote
from typing import TYPE_CHECKING, Any

from tandem.bridge.scratch import ScratchFolder
from tandem.hooks import git, modes
from tandem.hooks.agent_gate import TROUBLE, gate_of, in_words
from tandem.hooks.ask import Asker
from tandem.hooks.visible import visible_line

if TYPE_CHECKING:
    from collections.abc import Generator

    from tandem.hooks.commit_options import CommitOptions
    from tandem.hooks.shell_commits import Commit, GitUse
    from tandem.hooks.state import GateFile, Place

_SHOWN_PATHS = 10
_HOOKED = (
    "am", "cherry-pick", "commit", "commit-tree", "fast-import", "merge", "pull", "push", "rebase", "revert",
    "update-ref",
)  # fmt: skip
"""What makes commits, or moves branches to them."""
_OF_ITS_OWN = ("GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_ALTERNATE_OBJECT_DIRECTORIES")


def without_hooks(use: GitUse, text: str, folder: str) -> list[str] | None:
    """For a client that switches git's hooks off: why a command may not be run without switching them on again.

    Args:
        use: What the command does with git.
        text: The command.
        folder: Where it would be run.

    Raises:
        GateUnreadable: Whether the gate is on cannot be read.
    """
    if not use.is_readable:
        gate = gate_of(folder) if any(name in text for name in _HOOKED) else None
        return None if gate is None else ["This command cannot be read. Run git in a command of its own.", *_on(gate)]
    for call in use.calls:
        gate = gate_of(call.folder or folder) if call.name in _HOOKED else None
        directory = gate.hooks.get("directory") if gate is not None else None
        if gate is not None and (call.hooks_path is None or not _same(call.hooks_path, directory)):
            return [
                f"This client switches git's hooks off, and git {call.name} has to be seen by the gate's.",
                *_on(gate),
            ]
    return None


def _same(path: str, directory: str | None) -> bool:
    return directory is not None and os.path.realpath(path) == os.path.realpath(directory)


def _on(gate: GateFile) -> list[str]:
    directory = gate.hooks.get("directory")
    if directory is None:
        return ["Where they are is not known here; a person has to switch the gate on again: tandem gate on"]
    return ["Switch them on for it, and nothing else changes:", f"  git -c core.hooksPath={quote(directory)} …"]


def refusal(commit: Commit) -> list[str] | None:
    """Why a commit may not be made, and what to do; null if it may, or is the git hook's to judge.

    Raises:
        GateUnreadable: Whether the gate is on cannot be read.
    """
    gate = gate_of(commit.folder)
    if gate is None or (commit.options is not None and commit.options.shows_only):
        return None
    place = gate.place
    asker = Asker(gate)
    try:
        is_merge = os.path.exists(os.path.join(place.git_dir, "MERGE_HEAD"))
        if is_merge or modes.leniency(gate, git.branch(place)) != modes.STRICT:
            # The git hook knows the whole merge, and puts up what may be committed before it is approved.
            return None
        with _own_index(place):
            return _ruling(place, asker, commit)
    except TROUBLE as error:
        return in_words(gate, error)
    finally:
        asker.close()


def _ruling(place: Place, asker: Asker, commit: Commit) -> list[str] | None:
    if commit.options is None or any(adding.arguments is None for adding in commit.added):
        return _hopeless(place, asker)
    return _judged(place, asker) if _tried(place, commit, commit.options) else None


@contextmanager
def _own_index(place: Place) -> Generator[None]:
    """Git works on a copy of the index here, and leaves new objects in a folder that goes away again."""
    before = {name: os.environ.get(name) for name in _OF_ITS_OWN}
    with ScratchFolder("hook") as folder:
        index = os.path.join(folder, "index")
        real = before["GIT_INDEX_FILE"] or os.path.join(place.git_dir, "index")
        if os.path.exists(real):
            shutil.copyfile(real, index)
        objects = os.path.join(folder, "objects")
        os.mkdir(objects)
        os.environ |= {
            "GIT_INDEX_FILE": index,
            "GIT_OBJECT_DIRECTORY": objects,
            "GIT_ALTERNATE_OBJECT_DIRECTORIES": os.path.join(place.common_dir, "objects"),
        }
        try:
            yield
        finally:
            for name, value in before.items():
                if value is None:
                    os.environ.pop(name, None)
                else:
                    os.environ[name] = value


def _tried(place: Place, commit: Commit, options: CommitOptions) -> bool:
    """Bring the copy of the index to what would be committed; false if git does not take the arguments."""
    try:
        for adding in commit.added:
            _git(place, adding.folder, "add", *(adding.arguments or ()))
        if options.paths:
            _only_paths(place, commit.folder, options.paths, include=options.include)
        elif options.all_tracked:
            _git(place, place.top or commit.folder, "add", "--update", "--", ".")
    except git.GitTrouble:
        # A path that is not there: git will say so itself.
        return False
    return True


def _only_paths(place: Place, folder: str, paths: tuple[str, ...], *, include: bool) -> None:
    """Tracked files as they are in the working tree; the rest as in HEAD, or with `include` as in the index."""
    names = _git(place, folder, "ls-files", "-z", "--full-name", "--error-unmatch", "--", *paths).stdout
    if not include:
        head = git.resolve(place, "HEAD")
        git.run(place, ["read-tree", head] if head else ["read-tree", "--empty"])
    git.run(place, ["update-index", "-z", "--add", "--remove", "--stdin"], stdin=names)


def _git(place: Place, folder: str, *arguments: str) -> git.Output:
    # No watcher of the file system is asked, which would be a program of the repository's choice.
    return git.run(place, ["-c", "core.fsmonitor=false", "-C", folder, *arguments])


def _judged(place: Place, asker: Asker) -> list[str] | None:
    """As the git hook does it: against HEAD, then against the commit before, as an amended HEAD looks the same."""
    head = git.resolve(place, "HEAD")
    decision = _decision(place, asker, head)
    if decision is None:
        return None
    if head is not None and _decision(place, asker, git.resolve(place, f"{head}^")) is None:
        return None
    return _explained([path for path in decision["paths"] if not path["allowed"]])


def _hopeless(place: Place, asker: Asker) -> list[str] | None:
    """For a commit whose content cannot be told: refused only if nothing that could be in it is approved."""
    head = git.resolve(place, "HEAD")
    refused: dict[str, dict[str, Any]] = {}
    for adds in (False, True):
        if adds:
            _git(place, place.top or place.git_dir, "add", "--all", "--", ".")
        elif not git.staged(place, head or git.empty_tree(place)):
            continue
        decision = _decision(place, asker, head)
        if decision is None or any(path["allowed"] for path in decision["paths"]):
            return None
        refused |= {path["path"]: path for path in decision["paths"]}
    return _explained(list(refused.values()))


def _decision(place: Place, asker: Asker, base: str | None) -> dict[str, Any] | None:
    """The gate's decision about the index, as a change of a commit or of nothing; null if it lets all of it through."""
    changes = git.staged(place, base or git.empty_tree(place))
    if not changes:
        return None
    decision = asker.call("check_gate", changes=changes, **({"head": base} if base else {}))
    return None if decision["allowed"] is True else decision


def _explained(paths: list[dict[str, Any]]) -> list[str]:
    lines = ["This commit holds what is not approved:"]
    lines += [f"  {visible_line(path['path'])}: {path['reason']}" for path in paths[:_SHOWN_PATHS]]
    if len(paths) > _SHOWN_PATHS:
        lines.append(f"  and {len(paths) - _SHOWN_PATHS} more")
    lines += [
        "Stage exactly what you want to commit (git add), then have it reviewed and wait for the verdict:",
        "  tandem submit --staged --wait -m 'what it is for'",
        "When it is approved, run git commit again without changing anything. The skill tandem-review has the rest.",
    ]
    return lines

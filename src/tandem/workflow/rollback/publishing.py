"""Publishing a rollback: one fast-forward of the branch that brings index and working tree along."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import IO

from tandem.errors import InternalError, InvalidInput, InvalidTransition, TimedOut, Unavailable
from tandem.git.runner import GitFailed
from tandem.workflow.rollback.checkout import Checkout, Stand

_SHOWN_PATHS = 20

# Whatever the user's settings are: nothing is stashed, no other working tree follows, no editor opens.
_SETTINGS = ("-c", "merge.autoStash=false", "-c", "submodule.recurse=false", "-c", "core.fsmonitor=false")
_FAST_FORWARD = (
    "merge",
    "--ff-only",
    "--no-squash",
    "--quiet",
    "--no-autostash",
    "--no-overwrite-ignore",
    "--no-verify-signatures",
    "--no-stat",
)


class BrokenOff(Unavailable):
    """Git was ended in the middle, so that what it left has to be put back."""


def changed_paths(checkout: Checkout, before: str, after: str) -> dict[str, str]:
    """The paths that differ between two commits, each with git's letter: `A` is new, `D` goes, others stay."""
    options = ["-r", "-z", "--name-status", "--no-renames", "--ignore-submodules=none"]
    fields = checkout.run(["diff-tree", *options, before, after]).stdout.split(b"\0")[:-1]
    return {os.fsdecode(path): letter.decode("ascii") for letter, path in zip(fields[::2], fields[1::2], strict=True)}


def ensure_free(checkout: Checkout, changed: Mapping[str, str]) -> None:
    """Refuses paths that have local changes, tracked or not, or where something untracked is in the way.

    Raises:
        InvalidInput: There are some; `details.paths` lists them.
    """
    overlapping = {path for path in _dirty(checkout) if path in changed}
    for path, letter in changed.items():
        if letter != "D":
            overlapping.update(_in_the_way(checkout.root, path, changed))
    if overlapping:
        listed = sorted(overlapping)
        shown = ", ".join(listed[:_SHOWN_PATHS])
        more = f" and {len(listed) - _SHOWN_PATHS} more" if len(listed) > _SHOWN_PATHS else ""
        raise InvalidInput(
            f"The rollback would change files that have local changes: {shown}{more}. Nothing was changed. Commit them,"
            " move them away or undo them, then run this again.",
            field="worktree",
            paths=listed,
        )


def _dirty(checkout: Checkout) -> list[str]:
    """Every tracked path that is not in index and working tree as it is in HEAD."""
    options = ["--porcelain", "-z", "--no-renames", "--untracked-files=no", "--ignore-submodules=dirty"]
    fields = checkout.run(["-c", "core.fsmonitor=false", "status", *options]).stdout.split(b"\0")[:-1]
    return [os.fsdecode(field[3:]) for field in fields]


def _in_the_way(root: Path, path: str, changed: Mapping[str, str]) -> set[str]:
    """What is untracked, ignored or not, where a path is to be written."""
    file = root / path
    found = {str(parent) for parent in PurePosixPath(path).parents if is_file(root / parent)}
    if file.is_dir() and not file.is_symlink():
        inside = (Path(folder) / name for folder, _, names in os.walk(file) for name in names)
        found |= {other.relative_to(root).as_posix() for other in inside}
    elif changed[path] == "A" and is_file(file):
        found.add(path)
    return {other for other in found if changed.get(other, "A") == "A"}


def is_file(path: Path) -> bool:
    """Whether anything but a folder is there; a link counts as itself."""
    return path.is_symlink() or (path.exists() and not path.is_dir())


def publish(checkout: Checkout, stand: Stand, after: str, lock: IO[bytes]) -> None:
    """Moves the branch, the index and the working tree to a commit that follows the branch's newest one.

    Git does all of it in one process, which goes on if ours is killed; as long as it runs it has the lock.

    Args:
        checkout: The working tree that has the branch.
        stand: Where the branch was when the commit was made.
        after: The commit.
        lock: The lock's open file.

    Raises:
        BrokenOff: Git was ended in the middle.
        Unavailable: HEAD moved meanwhile.
        InvalidTransition: A hook of the repository refused.
        InvalidInput: Local changes are in the way, or something was begun meanwhile.
    """
    ensure_unmoved(checkout, stand)
    ensure_free(checkout, changed_paths(checkout, stand.head, after))
    try:
        checkout.merge([*_SETTINGS, *_FAST_FORWARD, after], lock)
    except TimedOut as error:
        raise BrokenOff(f"Git did not take the rollback into {stand.branch} in time; nothing was changed.") from error
    except GitFailed as error:
        if error.status_code < 0:
            raise BrokenOff("Git was killed while it published; nothing was changed. Run this again.") from error
        ensure_unmoved(checkout, stand)
        raise InvalidTransition(
            f"Git did not take the rollback into {stand.branch}; nothing was changed. It said:\n{error.words}",
            git=error.words,
        ) from error
    reached = checkout.resolve(f"refs/heads/{stand.branch}")
    if reached != after:
        raise InternalError(
            f"{stand.branch} is at {reached} and not at {after}; git reflog {stand.branch} tells what happened.",
            expected=after,
            actual=reached,
        )


def ensure_unmoved(checkout: Checkout, stand: Stand) -> None:
    """Refuses a branch that is no longer where it was.

    Raises:
        Unavailable: It has moved, or another one is checked out.
        InvalidInput: A merge or the like was begun.
    """
    now = checkout.stand()
    if now != stand:
        raise Unavailable(
            f"HEAD moved while the rollback was made: it was {stand.head[:10]} on {stand.branch} and is"
            f" {now.head[:10]} on {now.branch}. Nothing was changed; run this again.",
            expected=stand.head,
            actual=now.head,
        )

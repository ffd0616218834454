"""After a crash: what a rollback that did not come to its end left behind is finished or put back."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import psutil

from tandem.bridge.scratch import ScratchFolder
from tandem.errors import InvalidInput, Unavailable
from tandem.workflow.rollback import scratch
from tandem.workflow.rollback.checkout import STEP_SECONDS, Checkout
from tandem.workflow.rollback.journal import Entry
from tandem.workflow.rollback.publishing import changed_paths, is_file

_PATIENCE_SECONDS = 10.0
_LOOK_SECONDS = 0.05
_SLACK_SECONDS = 2.0
"""Some file systems count in steps of two seconds."""

_SPAN = STEP_SECONDS + 2 * _SLACK_SECONDS
"""Within which after the beginning a lock file can be that of the publishing git, seconds."""


def recover(checkout: Checkout, entry: Entry, *, was_killed: bool) -> bool:
    """Removes the scratch worktree that is left, and puts back a publication that broke off.

    Whoever calls has the lock, which git holds as long as it publishes: nobody is at it any more.

    Args:
        checkout: A working tree of the repository.
        entry: What the rollback was at.
        was_killed: Whether git may have left its lock files; one that ended by itself has not.

    Returns:
        Whether the branch got where it was to go, so that only the telling is left.

    Raises:
        InvalidInput: Somebody changed the files meanwhile, so that a person has to look.
        Unavailable: Git still runs there.
    """
    if was_killed:
        _await_end_of_git([], entry.scratch)
    scratch.remove(checkout, Path(entry.scratch))
    if entry.head_after is None:
        return False
    # A branch that is gone, or went on from there, is its owner's business.
    reached = checkout.resolve(f"refs/heads/{entry.branch}")
    if reached is not None and checkout.is_ancestor(entry.head_after, reached):
        return True
    root = Path(entry.root)
    if not root.is_dir():
        return False
    other = checkout if root == checkout.root else Checkout.at(root)
    if was_killed:
        _release_locks(other, entry)
    here = other.text("symbolic-ref", "--quiet", "HEAD", accept=(0, 1)) == f"refs/heads/{entry.branch}"
    if reached == entry.head_before and here:
        _put_back(other, entry.head_before, entry.head_after)
    return False


def _release_locks(checkout: Checkout, entry: Entry) -> None:
    """Removes the lock files that a killed git left, once no git runs in the repository any more."""
    layout = checkout.layout
    locks = [
        layout.index.with_name("index.lock"),
        layout.git_dir / "HEAD.lock",
        layout.common_dir.joinpath("refs", "heads", *f"{entry.branch}.lock".split("/")),
    ]
    left = [lock for lock in locks if lock.exists() and 0 <= lock.stat().st_mtime - entry.at + _SLACK_SECONDS <= _SPAN]
    if not left:
        return
    if not _await_end_of_git((layout.root, layout.common_dir, layout.git_dir), entry.scratch):
        raise Unavailable(
            "Git runs in this repository, and an earlier rollback broke off here; nothing was changed. Wait for"
            " its end, then run this again.",
            locks=[str(lock) for lock in left],
        )
    for lock in left:
        lock.unlink(missing_ok=True)


def _await_end_of_git(folders: Iterable[Path], scratch: str) -> bool:
    """Waits a while until no git runs in some folders or in a scratch worktree; whether that was so."""
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while _git_runs(folders, scratch):
        if time.monotonic() >= deadline:
            return False
        time.sleep(_LOOK_SECONDS)
    return True


def _git_runs(folders: Iterable[Path], scratch: str) -> bool:
    roots = [os.path.realpath(folder) for folder in (*folders, scratch)]
    for process in psutil.process_iter():
        # Gone, or somebody else's.
        with suppress(psutil.Error, OSError):
            name = process.name().lower()
            if name in {"git", "git.exe"} and (_is_below(process.cwd(), roots) or scratch in process.cmdline()):
                return True
    return False


def _is_below(folder: str, roots: Iterable[str]) -> bool:
    place = os.path.realpath(folder)
    return any(place == root or place.startswith(root + os.sep) for root in roots)


def _put_back(checkout: Checkout, before: str, after: str) -> None:
    """Brings index and working tree back from a fast-forward whose branch did not move."""
    changed = changed_paths(checkout, before, after)
    if not changed:
        return
    if _index_is_at(checkout, after, changed):
        checkout.run(["-c", "core.fsmonitor=false", "read-tree", "-m", "-u", after, before])
        return
    arrived = [path for path in changed if path in _equal(checkout, after, changed)]
    untouched = _equal(checkout, before, changed)
    begun = [path for path in changed if path not in arrived and path not in untouched]
    foreign = sorted(path for path in begun if not _is_cut_short(checkout, after, path))
    if foreign:
        raise InvalidInput(
            "An earlier rollback broke off while files were written, and these are neither as before nor as after:"
            f" {', '.join(foreign)}. Nothing was changed now. Bring them into order (git diff, git checkout -- FILE),"
            " then run this again.",
            field="worktree",
            paths=foreign,
        )
    _restore(checkout, {path: changed[path] for path in (*arrived, *begun) if path not in untouched})


def _is_cut_short(checkout: Checkout, after: str, path: str) -> bool:
    """Whether a file is what git leaves when it is killed over it: gone, or the beginning of what it writes."""
    file = checkout.root / path
    if not is_file(file):
        return True
    if file.is_symlink() or not file.is_file():
        return False
    whole = checkout.run(["cat-file", "--filters", f"{after}:{path}"], accept=(0, 1, 128)).stdout
    content = file.read_bytes()
    return len(content) < len(whole) and whole.startswith(content)


def _index_is_at(checkout: Checkout, commit: str, changed: Iterable[str]) -> bool:
    """Whether the index is at a commit at all of some paths."""
    options = ["--cached", "-z", "--name-only", "--no-renames", "--ignore-submodules=none"]
    differing = checkout.run(["diff-index", *options, commit, "--"]).stdout.split(b"\0")
    return {os.fsdecode(path) for path in differing}.isdisjoint(changed)


def _equal(checkout: Checkout, commit: str, paths: Iterable[str]) -> set[str]:
    """The paths at which the working tree is, by git's own judgement, as a commit has it."""
    with ScratchFolder("index") as folder:
        extra = {"GIT_INDEX_FILE": os.path.join(folder, "index")}  # noqa: PTH118 - a text for the environment
        quiet = ["-c", "core.fsmonitor=false", "-c", "core.splitIndex=false"]
        checkout.run([*quiet, "read-tree", commit], extra=extra)
        # Exit status 1 only says that something differs.
        checkout.run([*quiet, "update-index", "-q", "--really-refresh"], extra=extra, accept=(0, 1))
        differing = checkout.run([*quiet, "diff-files", "--name-only", "-z"], extra=extra).stdout.split(b"\0")
        listed = checkout.run([*quiet, "ls-files", "-z"], extra=extra).stdout.split(b"\0")
    present = {os.fsdecode(path) for path in listed}
    away = {os.fsdecode(path) for path in differing}
    return {path for path in paths if (path not in away if path in present else not is_file(checkout.root / path))}


def _restore(checkout: Checkout, changed: dict[str, str]) -> None:
    """Puts the files back that were written already: new ones go, others come from the index, which is as before."""
    for path in [path for path, letter in changed.items() if letter == "A"]:
        file = checkout.root / path
        file.unlink(missing_ok=True)
        with suppress(OSError):
            for parent in file.relative_to(checkout.root).parents:
                if parent != Path():
                    (checkout.root / parent).rmdir()
    back = [os.fsencode(path) + b"\0" for path, letter in changed.items() if letter != "A"]
    if back:
        checkout.run(["checkout-index", "--force", "--index", "-z", "--stdin"], stdin=b"".join(back))

"""Publishing a rollback: the branch moves in one step, and index and working tree follow it.

A note in the git folder says first what will be published. A later rollback that finds it sees by the branch whether
it was published: if not, nothing was touched; if so, the files that are still as before are updated.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Generator, Iterable, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import psutil
from pydantic import TypeAdapter

from tandem.core.atomic_dirs import turn
from tandem.core.files import write_atomically
from tandem.errors import InvalidInput, InvalidTransition, TandemError, TimedOut, Unavailable
from tandem.git.runner import GitFailed
from tandem.git.worktree import is_file, obstacles
from tandem.gsd.rollback.report import RollbackReport
from tandem.gsd.rollback.repository import BranchMove, Checkout, Tip
from tandem.rulings.state import ROLLBACK_NOTE
from tandem.setup.finding import DoctorContext, Finding, problem

_LOCK = "rollback.lock"
_SHOWN_PATHS = 20
_PATIENCE_SECONDS = 10.0
_LOOK_SECONDS = 0.05
_BRIEF_SECONDS = 1.0
"""For how long a look at a repository locks its index at most."""
_SLACK_SECONDS = 2.0
"""Some file systems count in steps of two seconds."""

# These hold against the user's settings.
_SETTINGS = ("-c", "submodule.recurse=false", "-c", "core.fsmonitor=false")


@contextmanager
def locked(folder: Path) -> Generator[None]:
    """Keeps every other rollback of a repository out for as long as the block, or the process, lasts.

    Args:
        folder: Tandem's folder in the common git folder.

    Raises:
        Unavailable: Another rollback has the lock, or the folder cannot be written to.
    """
    path = folder / _LOCK
    with ExitStack() as held:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            held.enter_context(turn(path, 0))
        except TimeoutError as error:
            raise Unavailable(
                "Another rollback runs in this repository; nothing was changed. Wait for its end, then run this again.",
                lock=str(path),
            ) from error
        except OSError as error:
            raise Unavailable(f"{path} cannot be opened: {error.strerror}. Nothing was changed.") from error
        yield


class Note:
    """The report of a rollback that is about to be published in a working tree, or was and is not told yet."""

    def __init__(self, git_dir: Path) -> None:
        """Writes nothing.

        Args:
            git_dir: What git keeps for the working tree alone.
        """
        self._path = git_dir / "tandem" / ROLLBACK_NOTE

    def read(self) -> RollbackReport | None:
        """The report; None if there is no note.

        Raises:
            Unavailable: It cannot be read.
        """
        try:
            return TypeAdapter(RollbackReport).validate_json(self._path.read_bytes())
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            raise Unavailable(
                f"{self._path} is not what a rollback writes, so that its progress is unknown. Look at `git"
                f" status`, then remove {self._path} and run this again.",
                path=str(self._path),
            ) from error

    def write(self, report: RollbackReport) -> None:
        """Keeps a report; it survives a crash from here on.

        Raises:
            Unavailable: It cannot be written.
        """
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(self._path, json.dumps(report.facts()).encode())
        except OSError as error:
            raise Unavailable(f"{self._path} cannot be written: {error.strerror}. Nothing was changed.") from error

    def clear(self) -> None:
        """Forgets it; twice is safe."""
        self._path.unlink(missing_ok=True)

    @property
    def written_at(self) -> float:
        """When, in seconds since the epoch."""
        return self._path.stat().st_mtime


async def check_leftovers(here: DoctorContext) -> list[Finding]:
    """For `tandem doctor`: a rollback that was cut off."""
    if here.place is None:
        return []
    try:
        report = Note(Path(here.place.git_dir)).read()
    except TandemError as error:
        return [problem("rollback", error.message, "tandem rollback REVIEW, with the review's id")]
    if report is None:
        return []
    cut_off = f"The rollback of {report.review_id} was cut off."
    return [problem("rollback", cut_off, f"tandem rollback {report.review_id}")]


def changed_paths(checkout: Checkout, before: str, after: str) -> dict[str, str]:
    """The paths that differ between two commits, each with git's letter: `A` is new, `D` goes, others stay."""
    options = ["-r", "-z", "--name-status", "--no-renames", "--ignore-submodules=none"]
    fields = checkout.run(["diff-tree", *options, before, after]).stdout.split(b"\0")[:-1]
    return {os.fsdecode(path): letter.decode("ascii") for letter, path in zip(fields[::2], fields[1::2], strict=True)}


def ensure_free(checkout: Checkout, changed: Mapping[str, str], what: str = "The rollback") -> None:
    """Refuses paths that have local changes, tracked or not, or where something untracked is in the way.

    Args:
        checkout: The working tree.
        changed: The paths.
        what: What would change them, as the subject of a sentence.

    Raises:
        InvalidInput: There are some; `details.paths` lists them. Or another program has locked the index.
    """
    _ensure_unlocked(checkout, what)
    overlapping = {path for path in _dirty(checkout) if path in changed}
    for path, letter in changed.items():
        if letter != "D":
            overlapping.update(_in_the_way(checkout.root, path, changed))
    if overlapping:
        listed = sorted(overlapping)
        shown = ", ".join(listed[:_SHOWN_PATHS])
        more = f" and {len(listed) - _SHOWN_PATHS} more" if len(listed) > _SHOWN_PATHS else ""
        raise InvalidInput(
            f"{what} would change files that have local changes: {shown}{more}. Nothing was changed. Commit them,"
            " move them away or undo them, then run this again.",
            field="worktree",
            paths=listed,
        )


def _ensure_unlocked(checkout: Checkout, what: str) -> None:
    lock = checkout.layout.index.with_name("index.lock")
    deadline = time.monotonic() + _BRIEF_SECONDS
    while lock.exists():
        if time.monotonic() >= deadline:
            raise InvalidInput(
                f"{what} would change files while {lock} is there: another program writes the index, or broke off."
                " Nothing was changed. Run this again when that has ended; if nothing runs, delete the file first.",
                field="worktree",
                locks=[str(lock)],
            )
        time.sleep(_LOOK_SECONDS)


def _dirty(checkout: Checkout) -> list[str]:
    """Every tracked path that is not in index and working tree as it is in HEAD.

    A submodule stays at the commit that it is at, as under `git merge`.
    """
    options = ["--porcelain", "-z", "--no-renames", "--untracked-files=no", "--ignore-submodules=dirty"]
    command = ["--no-optional-locks", "-c", "core.fsmonitor=false", "status", *options]
    fields = checkout.run(command).stdout.split(b"\0")[:-1]
    differ = ((field[:2], os.fsdecode(field[3:])) for field in fields)
    return [path for letters, path in differ if letters != b" M" or not _is_submodule(checkout.root / path)]


def _is_submodule(folder: Path) -> bool:
    return (folder / ".git").exists()


def _in_the_way(root: Path, path: str, changed: Mapping[str, str]) -> set[str]:
    """Untracked files, ignored or not, where a path will be written."""
    if changed[path] == "M" and _is_submodule(root / path):
        return set()
    found = obstacles(root, path)
    if changed[path] == "A" and is_file(root / path):
        found.append(path)
    return {other for other in found if changed.get(other, "A") == "A"}


def publish(checkout: Checkout, tip: Tip, report: RollbackReport) -> None:
    """Moves the branch, and then the index and the working tree, to a commit that follows the branch's newest one.

    Args:
        checkout: The working tree that has the branch.
        tip: The branch as it was when the commit was made.
        report: The new commits; its note stays until the broker is told.

    Raises:
        Unavailable: HEAD moved meanwhile, or git was ended before the branch moved; nothing was changed.
        InvalidTransition: A hook of the repository refused.
        InvalidInput: Local changes are in the way, or something was begun meanwhile.
    """
    _ensure_unmoved(checkout, tip)
    ensure_free(checkout, changed_paths(checkout, tip.head, report.head_after))
    note = Note(checkout.layout.git_dir)
    note.write(report)
    move = ["update-ref", "-m", f"tandem rollback: {report.review_id}", f"refs/heads/{tip.branch}"]
    try:
        checkout.run([*move, report.head_after, tip.head])
        bring_files(checkout, report.move)
    except (GitFailed, TimedOut) as error:
        said = error.words if isinstance(error, GitFailed) and error.status_code > 0 else None
        if settle(checkout, report, was_killed=said is None):
            return
        if said is None:
            raise Unavailable("Git was ended while it published; nothing was changed. Run this again.") from error
        _ensure_unmoved(checkout, tip)
        raise InvalidTransition(
            f"Git did not take the rollback into {tip.branch}; nothing was changed. It said:\n{said}", git=said
        ) from error
    note.write(replace(report, finished=True))


def _ensure_unmoved(checkout: Checkout, tip: Tip) -> None:
    """Refuses a branch that is no longer where it was.

    Raises:
        Unavailable: It has moved, or another one is checked out.
        InvalidInput: A merge or the like was begun.
    """
    now = checkout.tip()
    if now != tip:
        raise Unavailable(
            f"HEAD moved while the rollback was made: it was {tip.head[:10]} on {tip.branch} and is"
            f" {now.head[:10]} on {now.branch}. Nothing was changed; run this again.",
            expected=tip.head,
            actual=now.head,
        )


def settle(checkout: Checkout, report: RollbackReport, *, was_killed: bool = True) -> bool:
    """Ends a publication that broke off: everything is as after it, or as before it and the note is gone.

    Args:
        checkout: The working tree.
        report: What its note says.
        was_killed: Whether git may still run there, or have left its lock files.

    Returns:
        Whether it was published, so that only the telling is left.

    Raises:
        InvalidInput: Somebody changed the files meanwhile, so that a person has to look.
        Unavailable: Git still runs there.
    """
    note = Note(checkout.layout.git_dir)
    if report.finished:
        return True
    if was_killed:
        release_locks(checkout, report.move, note.written_at)
    if not checkout.is_ancestor(report.head_after, f"refs/heads/{report.branch}"):
        note.clear()
        return False
    finish_files(checkout, report.move)
    note.write(replace(report, finished=True))
    return True


def finish_files(checkout: Checkout, move: BranchMove) -> None:
    """Brings index and working tree to where a branch went when its move was cut off, if it is still there.

    Raises:
        InvalidInput: Somebody changed the files meanwhile, so that a person has to look.
    """
    branch = f"refs/heads/{move.branch}"
    is_here = checkout.text("symbolic-ref", "--quiet", "HEAD", accept=(0, 1)) == branch
    # The files of a branch that went on from there, or that is no longer here, are its owner's business.
    if is_here and checkout.resolve(branch) == move.head_after and _put_back(checkout, move):
        bring_files(checkout, move)


def release_locks(checkout: Checkout, move: BranchMove, since: float) -> None:
    """Waits for the git that publishes, and removes the lock files that it left if it was killed."""
    layout = checkout.layout
    locks = [
        layout.index.with_name("index.lock"),
        layout.git_dir / "HEAD.lock",
        layout.common_dir.joinpath("refs", "heads", *f"{move.branch}.lock".split("/")),
    ]
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while True:
        left = [lock for lock in locks if _is_since(lock, since - _SLACK_SECONDS)]
        # As long as there are locks, any git may be whose they are.
        folders = [os.path.realpath(one) for one in (layout.root, layout.common_dir, layout.git_dir)] if left else []
        if not any(_is_git_at_work(one, move.head_after, folders) for one in psutil.process_iter()):
            break
        if time.monotonic() >= deadline:
            raise Unavailable(
                "Git runs in this repository, and an earlier command broke off here; nothing was changed. Wait for"
                " its end, then run this again.",
                locks=[str(lock) for lock in left],
            )
        time.sleep(_LOOK_SECONDS)
    for lock in left:
        lock.unlink(missing_ok=True)


def _is_since(file: Path, seconds: float) -> bool:
    try:
        return file.stat().st_mtime >= seconds
    except OSError:
        return False


def _is_git_at_work(process: psutil.Process, argument: str, folders: Iterable[str]) -> bool:
    """Whether a process is a git with this argument, or one in these folders."""
    # Gone, or somebody else's.
    with suppress(psutil.Error, OSError):
        if process.name().lower() in {"git", "git.exe"}:
            place = os.path.realpath(process.cwd())
            return argument in process.cmdline() or any(
                place == folder or place.startswith(folder + os.sep) for folder in folders
            )
    return False


def bring_files(checkout: Checkout, move: BranchMove) -> None:
    """Brings index and working tree from before a branch's move to after it; files that are there already stay."""
    run = checkout.run
    # Where the index is locked, the other one says so.
    run([*_SETTINGS, "update-index", "-q", "--refresh"], accept=(0, 1, 128))
    # Git writes the files first and the index last, and refuses before either if a file is not as the index has it.
    run([*_SETTINGS, "read-tree", "-m", "-u", move.head_before, move.head_after])


def _put_back(checkout: Checkout, move: BranchMove) -> bool:
    """Makes the files that a git that was killed has begun to write as they were, so that they can be written again.

    Returns:
        Whether there is something to write: git writes the index last, so that with it the files are done.

    Raises:
        InvalidInput: One is neither as before the move nor what git writes, so that it is somebody's work.
    """
    before, after = move.head_before, move.head_after
    changed = changed_paths(checkout, before, after)
    moved = changed.keys() & _paths_in(checkout, "diff-index", "--cached", before)
    if moved == changed.keys():
        return False
    written = changed.keys() - _paths_in(checkout, "diff-index", "--cached", after)
    added = [path for path, letter in changed.items() if letter == "A" and is_file(checkout.root / path)]
    begun = (changed.keys() & _paths_in(checkout, "diff")).union(added) - written
    foreign = {path for path in begun if not _is_written_by_git(checkout, after, path)} | (moved - written)
    if foreign:
        listed = sorted(foreign)
        raise InvalidInput(
            "An earlier command broke off while files were written, and these are neither as before nor as after:"
            f" {', '.join(listed)}. Nothing was changed now. Bring them into order (git diff, git checkout -- FILE),"
            " then run this again.",
            field="worktree",
            paths=listed,
        )
    for path in begun.intersection(added):
        (checkout.root / path).unlink()
        with suppress(OSError):
            os.removedirs((checkout.root / path).parent)
    back = b"".join(os.fsencode(path) + b"\0" for path in begun.difference(added))
    checkout.run([*_SETTINGS, "checkout-index", "--force", "--index", "-z", "--stdin"], stdin=back)
    return True


def _paths_in(checkout: Checkout, difference: str, *arguments: str) -> set[str]:
    """The paths that a difference of git's names."""
    options = ["--name-only", "-z", "--no-renames", "--no-ext-diff", "--ignore-submodules=dirty"]
    output = checkout.run([*_SETTINGS, difference, *options, *arguments, "--"])
    return {os.fsdecode(path) for path in output.stdout.split(b"\0")[:-1]}


def _is_written_by_git(checkout: Checkout, after: str, path: str) -> bool:
    """Whether a file is what git writes or leaves when it is killed over it: gone, the whole, or its beginning."""
    file = checkout.root / path
    if not is_file(file):
        return True
    whole = checkout.run(["cat-file", "--filters", f"{after}:{path}"], accept=(0, 1, 128)).stdout
    content = os.fsencode(file.readlink()) if file.is_symlink() else file.read_bytes() if file.is_file() else None
    return content is not None and whole.startswith(content)

"""Carrying changes of files out: all of them or none."""

from __future__ import annotations

import glob
import os
import secrets
import shutil
import stat
import time
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

from tandem import platforms
from tandem.errors import TandemError, Unavailable
from tandem.workflow.edits.changing import Change
from tandem.workflow.edits.manifest import Manifest
from tandem.workflow.edits.places import content_of

_PATIENCE_SECONDS = 10.0
_LOOK_SECONDS = 0.02
_FRESH = ".tandem-"
"""Part of the name of what is written beside a file, to take its place."""


class Carried:
    """Changes that were carried out, to be taken back if what comes after them fails."""

    def __init__(self, steps: _Steps, manifest: Manifest, was: Manifest) -> None:
        self._steps = steps
        self._manifest = manifest
        self._was = was

    def undo(self) -> list[Path]:
        """Put every file back as it was; those for which that failed."""
        was, self._manifest.files = self._was, self._was.files
        self._manifest.folders, self._manifest.loaded = was.folders, was.loaded
        left = self._steps.undo()
        if was.loaded is None:
            with suppress(OSError):
                self._manifest.file.parent.rmdir()
        return left


def install(changes: Sequence[Change], manifest: Manifest) -> Carried:
    """Change the files and the manifest, or nothing at all.

    Each file is replaced at once. The manifest names what is put in before it is there, so that also after a
    crash in the middle the same command, or the one that takes everything out, finishes the work.

    Args:
        changes: From `changes` or `removals` with the same manifest.
        manifest: Brought up to date.

    Returns:
        What can take it back.

    Raises:
        Unavailable: A file cannot be written, or was changed in between; everything is as it was.
    """
    was = replace(manifest)
    final = _manifest_after(changes, manifest)
    steps = _Steps(Path(os.path.realpath(manifest.tree)))
    if not changes:
        return Carried(steps, manifest, was)
    with _turn(manifest.file):
        _see_that_nothing_moved(changes, manifest)
        try:
            for change in changes:
                _clear(change.path)
            union = _union(final, manifest, [*manifest.folders, *steps.missing(changes)])
            if union.content() != manifest.loaded:
                steps.put(manifest.file, union.content())
            staged = [(change, steps.stage(change)) for change in changes if change.alters]
            for change, fresh in staged:
                steps.carry_out(change, fresh)
            final.folders = tuple(steps.tidy(union.folders, final.files))
            if final.content() != union.content():
                steps.put(manifest.file, final.content())
        except BaseException as error:
            left = steps.undo()
            if isinstance(error, OSError):
                raise _not_written(error, left) from error
            raise
    manifest.files, manifest.folders, manifest.loaded = final.files, final.folders, final.content()
    return Carried(steps, manifest, was)


def _manifest_after(changes: Iterable[Change], manifest: Manifest) -> Manifest:
    files = dict(manifest.files)
    for change in changes:
        files.pop(change.key, None)
        if change.records:
            files[change.key] = change.records
    return replace(manifest, files=files)


def _union(final: Manifest, manifest: Manifest, folders: Iterable[str]) -> Manifest:
    """What was there and what will be: true at every moment in between."""
    files = dict(manifest.files)
    for name, records in final.files.items():
        old = files.get(name, ())
        files[name] = old + tuple(record for record in records if record not in old)
    return replace(manifest, files=files, folders=tuple(folders))


def _see_that_nothing_moved(changes: Iterable[Change], manifest: Manifest) -> None:
    moved = [change.name for change in changes if content_of(change.path) != change.before]
    if content_of(manifest.file) != manifest.loaded:
        moved.append(str(manifest.file))
    if moved:
        raise Unavailable(
            f"Changed by somebody else just now: {', '.join(moved)}. Nothing was written; run the command again.",
            files=moved,
        )


def _not_written(error: OSError, left: Sequence[Path]) -> TandemError:
    where = f"{error.filename}: " if error.filename else ""
    after = "everything is as it was"
    if left:
        after = f"these could not be put back: {', '.join(map(str, left))}"
    return Unavailable(
        f"{where}{error.strerror or error}; {after}. See to the permissions and to the space on the disk, then run the"
        " command again.",
        files_left=[str(path) for path in left],
    )


class _Steps:
    """What was done so far, to be taken back if the rest fails."""

    def __init__(self, tree: Path) -> None:
        self._tree = tree
        self._new_folders: list[Path] = []
        self._fresh: set[Path] = set()
        self._done: list[tuple[Path, bytes | None, int | None]] = []
        self._gone_folders: list[Path] = []

    def missing(self, changes: Iterable[Change]) -> list[str]:
        """The folders that have to be made, by their paths from the tree."""
        kept = [change.path for change in changes if change.after is not None]
        folders = {folder for path in kept for folder in path.parents if not folder.exists()}
        return sorted(folder.relative_to(self._tree).as_posix() for folder in folders)

    def stage(self, change: Change) -> Path | None:
        """Write what a file will hold beside it; null if the file goes."""
        if change.after is None:
            return None
        for folder in reversed([one for one in change.path.parents if not one.exists()]):
            folder.mkdir()
            self._new_folders.append(folder)
        return self._written(change.path, change.after, 0o777 if change.executable else 0o666)

    def carry_out(self, change: Change, fresh: Path | None) -> None:
        """Put what was staged in the file's place, or delete the file."""
        mode = stat.S_IMODE(change.path.stat().st_mode) if change.before is not None else None
        self._done.append((change.path, change.before, mode))
        if fresh is None:
            change.path.unlink(missing_ok=True)
        else:
            fresh.replace(change.path)
            self._fresh.discard(fresh)

    def put(self, path: Path, content: bytes | None) -> None:
        """Write or delete a file that is no change's and nobody else's business."""
        before = content_of(path)
        _clear(path)
        fresh = None if content is None else self._written(path, content, 0o600)
        self._done.append((path, before, 0o600))
        if fresh is None:
            path.unlink(missing_ok=True)
        else:
            fresh.replace(path)
            self._fresh.discard(fresh)

    def tidy(self, folders: Iterable[str], files: Iterable[str]) -> list[str]:
        """Delete the folders of ours that are empty; those that still have something of ours.

        One with nothing of ours in it that is not empty is somebody else's now.
        """
        kept = [name for name in folders if any(file.startswith(f"{name}/") for file in files)]
        gone = sorted(set(folders) - set(kept), key=lambda one: one.count("/"), reverse=True)
        for folder in (self._tree / name for name in gone):
            with suppress(OSError):
                folder.rmdir()
                self._gone_folders.append(folder)
        return sorted(kept)

    def undo(self) -> list[Path]:
        """Put everything back; the files for which that failed."""
        left: list[Path] = []
        for fresh in self._fresh:
            with suppress(OSError):
                fresh.unlink()
        for folder in reversed(self._gone_folders):
            with suppress(OSError):
                folder.mkdir()
        for path, before, mode in reversed(self._done):
            try:
                _put_back(path, before, mode)
            except OSError:
                left.append(path)
        for folder in reversed(self._new_folders):
            with suppress(OSError):
                folder.rmdir()
        return left

    def _written(self, path: Path, content: bytes, mode: int) -> Path:
        fresh = path.with_name(f".{path.name}{_FRESH}{secrets.token_hex(6)}")
        self._fresh.add(fresh)
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), mode)
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(content)
            stream.flush()
            platforms.flush_file(stream.fileno())
        with suppress(FileNotFoundError):
            shutil.copymode(path, fresh)
        return fresh


def _clear(path: Path) -> None:
    """Delete what a crash left beside a file; whoever has the lock is the only one who writes there."""
    for left in path.parent.glob(f".{glob.escape(path.name)}{_FRESH}*"):
        with suppress(OSError):
            left.unlink()


def _put_back(path: Path, before: bytes | None, mode: int | None) -> None:
    if before is None:
        path.unlink(missing_ok=True)
    elif content_of(path) != before:
        path.write_bytes(before)
        if mode is not None:
            path.chmod(mode)


@contextmanager
def _turn(file: Path) -> Generator[None]:
    """Be the only one who changes what a manifest describes.

    Raises:
        Unavailable: Another command does not finish.
    """
    folder, path = file.parent, file.with_name(f"{file.name}.lock")
    had_folder = folder.exists()
    platforms.make_private(str(folder))
    lock = _wait_for_lock(path, file)
    try:
        yield
    finally:
        # While it is locked: whoever waits then finds that its file is gone, and opens a new one. Windows
        # removes no open file, and keeps this one for the next time.
        with suppress(OSError):
            path.unlink()
        os.close(lock)
        with suppress(OSError):
            if not had_folder or not file.exists():
                folder.rmdir()


def _wait_for_lock(path: Path, file: Path) -> int:
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while True:
        lock = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        with suppress(FileNotFoundError):
            if platforms.lock_file(lock) and os.path.samestat(os.fstat(lock), path.stat()):
                return lock
        os.close(lock)
        if time.monotonic() >= deadline:
            raise Unavailable(f"Another command has been changing what {file} describes; run this one again.")
        time.sleep(_LOOK_SECONDS)

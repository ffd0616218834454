"""Carrying changes of files out: all of them or none."""

from __future__ import annotations

import glob
import os
import secrets
import stat
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path

from tandem.core import files, platforms
from tandem.core.atomic_dirs import turn
from tandem.errors import Unavailable
from tandem.setup.edits.changes import Change, FileRecord, Manifest
from tandem.setup.edits.edit import content_of

_PATIENCE_SECONDS = 10.0
_FRESH = ".tandem-"
"""Part of the name of what is written beside a file, to take its place."""


def install(changes: Sequence[Change], manifest: Manifest) -> Callable[[], None]:
    """Change the files and the manifest, or nothing at all.

    Each file is replaced at once. The manifest names what is put in before it is there, so that also after a
    crash in the middle the same command, or the one that takes everything out, finishes the work.

    Args:
        changes: From `changes` or `removals` with the same manifest.
        manifest: Brought up to date.

    Returns:
        What takes it back, if what comes after it fails.

    Raises:
        Unavailable: A file cannot be written, or was changed in between; everything is as it was.
    """
    if not changes:
        return lambda: None
    steps = _Steps(Path(os.path.realpath(manifest.tree)), manifest)
    with _turn(manifest.file):
        _see_that_nothing_moved(changes, manifest)
        try:
            steps.carry_out(changes)
        except BaseException as error:
            steps.undo()
            if isinstance(error, OSError):
                raise _not_written(error, steps.left) from error
            raise
    return steps.undo


def _see_that_nothing_moved(changes: Iterable[Change], manifest: Manifest) -> None:
    moved = [change.name for change in changes if content_of(change.path) != change.before]
    if content_of(manifest.file) != manifest.loaded:
        moved.append(str(manifest.file))
    if moved:
        raise Unavailable(
            f"Changed by somebody else just now: {', '.join(moved)}. Nothing was written; run the command again.",
            files=moved,
        )


def _not_written(error: OSError, left: Sequence[Path]) -> Unavailable:
    where = f"{error.filename}: " if error.filename else ""
    after = f"these could not be put back: {', '.join(map(str, left))}" if left else "everything is as it was"
    return Unavailable(
        f"{where}{error.strerror or error}; {after}. See to the permissions and to the space on the disk, then run the"
        " command again.",
        files_left=[str(path) for path in left],
    )


class _Steps:
    """Files that are written one by one, and how each step is taken back.

    Attributes:
        left: The files that could not be put back.
    """

    def __init__(self, tree: Path, manifest: Manifest) -> None:
        self.left: list[Path] = []
        self._tree = tree
        self._manifest = manifest
        self._undo = ExitStack()

    def carry_out(self, changes: Sequence[Change]) -> None:
        manifest = self._manifest
        for path in (manifest.file, *(one.path for one in changes)):
            # What a crash left: whoever has the lock is the only one who writes there.
            for left in path.parent.glob(f".{glob.escape(path.name)}{_FRESH}*"):
                _quietly(left.unlink)
        if manifest.loaded is None:
            self._undo.callback(_quietly, manifest.file.parent.rmdir)
        self._undo.callback(vars(manifest).update, vars(manifest).copy())
        had = manifest.files
        folders = {
            folder for one in changes if one.after is not None for folder in one.path.parents if not folder.exists()
        }
        new = sorted(folder.relative_to(self._tree).as_posix() for folder in folders)
        manifest.folders = (*manifest.folders, *new)
        manifest.files = had | {one.key: _both(had.get(one.key), one.record) for one in changes if one.record}
        self._keep()
        for folder in sorted(folders):
            folder.mkdir()
            self._undo.callback(_quietly, folder.rmdir)
        for one in changes:
            if one.alters:
                self._write(one.path, one.after, 0o666)
        manifest.files = {name: record for name, record in had.items() if name not in {one.key for one in changes}}
        manifest.files |= {one.key: one.record for one in changes if one.record}
        self._tidy()
        self._keep()

    def undo(self) -> None:
        """Take back all steps, the last one first; leaves none for a second call."""
        self._undo.close()

    def _keep(self) -> None:
        """Write what the manifest says."""
        manifest = self._manifest
        content = manifest.content()
        if content != manifest.loaded:
            self._write(manifest.file, content, 0o600)
            manifest.loaded = content

    def _write(self, path: Path, content: bytes | None, new_mode: int) -> None:
        """Have a file hold something at once, or delete it; one that is new gets the mode, less the umask."""
        before = content_of(path)
        mode = stat.S_IMODE(path.stat().st_mode) if before is not None else None
        self._undo.callback(self._put_back, path, before, mode)
        if content is None:
            path.unlink(missing_ok=True)
            return
        fresh = path.with_name(f".{path.name}{_FRESH}{secrets.token_hex(6)}")
        self._undo.callback(_quietly, fresh.unlink)
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), new_mode)
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(content)
            stream.flush()
            files.flush_file(stream.fileno())
        if mode is not None:
            fresh.chmod(mode)
        fresh.replace(path)

    def _put_back(self, path: Path, before: bytes | None, mode: int | None) -> None:
        try:
            if before is None:
                path.unlink(missing_ok=True)
            elif content_of(path) != before:
                path.parent.mkdir(exist_ok=True)
                path.write_bytes(before)
                path.chmod(mode or 0o666)
        except OSError:
            self.left.append(path)

    def _tidy(self) -> None:
        """Delete the folders of ours that are empty.

        One with nothing of ours in it that is not empty is somebody else's now.
        """
        manifest = self._manifest
        kept = [name for name in manifest.folders if any(file.startswith(f"{name}/") for file in manifest.files)]
        for name in sorted(set(manifest.folders) - set(kept), reverse=True):
            with suppress(OSError):
                folder = self._tree / name
                folder.rmdir()
                self._undo.callback(_quietly, folder.mkdir)
        manifest.folders = tuple(sorted(kept))


def _both(old: FileRecord | None, new: FileRecord) -> FileRecord:
    """What is true of a file before it is changed and after."""
    former = old.edits if old else ()
    return replace(new, edits=(*former, *(one for one in new.edits if one not in former)))


def _quietly(step: Callable[[], object]) -> None:
    with suppress(OSError):
        step()


@contextmanager
def _turn(file: Path) -> Generator[None]:
    """Be the only one who changes what a manifest describes.

    Raises:
        Unavailable: Another command does not finish.
    """
    platforms.make_private(str(file.parent))
    try:
        with turn(file.with_name(f"{file.name}.lock"), _PATIENCE_SECONDS):
            yield
    except TimeoutError as error:
        raise Unavailable(f"Another command has been changing what {file} describes; run this one again.") from error
    finally:
        if not file.exists():
            _quietly(file.parent.rmdir)

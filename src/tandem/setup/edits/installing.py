"""Carrying changes of files out: all of them or none."""

from __future__ import annotations

import glob
import os
import shlex
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

from tandem.core import platforms
from tandem.core.atomic_dirs import Installation, turn
from tandem.core.files import FRESH
from tandem.errors import Unavailable
from tandem.setup.edits.changes import FileChange, FilePlan, FileRecord, Manifest
from tandem.setup.edits.edit import content_of

_PATIENCE_SECONDS = 10.0


def install(plan: FilePlan) -> Callable[[], object]:
    """Change the files and the manifest, or nothing at all.

    Each file is replaced at once. The manifest names what is put in before it is there, so that also after a
    crash in the middle the same command, or the one that takes everything out, finishes the work.

    Args:
        plan: What is carried out; its manifest is brought up to date.

    Returns:
        What takes it back, if what comes after it fails.

    Raises:
        Unavailable: A file cannot be written, or was changed in between; everything is as it was.
    """
    changes, manifest = plan.changes, plan.manifest
    if not changes:
        return lambda: None
    tree = Path(os.path.realpath(manifest.tree))
    before, installation = vars(manifest).copy(), Installation(tree)

    def undo() -> list[Path]:
        left = installation.undo()
        vars(manifest).update(before)
        _remove_if_empty(manifest.file)
        return left

    with _turn(manifest.file):
        _see_that_nothing_moved(changes, manifest)
        try:
            _carry_out(changes, manifest, installation, tree)
        except BaseException as error:
            left = undo()
            if isinstance(error, OSError):
                raise _not_written(error, left) from error
            raise
    return undo


def sweep(manifest_file: Path, files: Iterable[Path]) -> None:
    """Delete what a command that was killed has left unfinished beside a manifest, and of other files.

    Raises:
        Unavailable: Another command does not finish.
    """
    files = [manifest_file, *files]
    if _lock(manifest_file).exists() or any(_interrupted(files)):
        with _turn(manifest_file):
            _remove_interrupted(files)
    _remove_if_empty(manifest_file)


def _see_that_nothing_moved(changes: Iterable[FileChange], manifest: Manifest) -> None:
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
        f"{where}{error.strerror or error}; {after}. {way_out(error)}", files_left=[str(path) for path in left]
    )


def way_out(error: OSError) -> str:
    """What to do where a file or a folder cannot be written."""
    if not isinstance(error, PermissionError) or os.name != "posix" or error.filename is None:
        return "See to the permissions and to the space on the disk, then run the command again."
    folder = next(one for one in Path(os.fsdecode(error.filename)).absolute().parents if one.is_dir())
    if folder.stat().st_uid == os.geteuid():
        return f"Run the command again once you may write there: chmod u+rwx {shlex.quote(str(folder))}"
    return f"{folder} belongs to another user. Run the command as that one, or have them let you write there."


def _carry_out(changes: Sequence[FileChange], manifest: Manifest, installation: Installation, tree: Path) -> None:
    # Only the holder of the lock writes there.
    _remove_interrupted([manifest.file, *(one.path for one in changes)])
    had = manifest.files
    folders = {folder for one in changes if one.after is not None for folder in one.path.parents if not folder.exists()}
    manifest.folders += tuple(sorted(folder.relative_to(tree).as_posix() for folder in folders))
    manifest.files = had | {one.key: _both(had.get(one.key), one.record) for one in changes if one.record}
    _keep(manifest, installation)
    for one in changes:
        if one.alters:
            _write(installation, one.path, one.after)
    manifest.files = {name: record for name, record in had.items() if name not in {one.key for one in changes}}
    manifest.files |= {one.key: one.record for one in changes if one.record}
    _tidy(manifest, tree)
    _keep(manifest, installation)


def _interrupted(files: Iterable[Path]) -> Generator[Path]:
    """What a command that was killed has written of files without putting it in place."""
    for file in files:
        yield from file.parent.glob(FRESH.format(name=glob.escape(file.name), random="[0-9a-f]" * 16))


def _remove_interrupted(files: Iterable[Path]) -> None:
    for left in _interrupted(files):
        with suppress(OSError):
            left.unlink()


def _keep(manifest: Manifest, installation: Installation) -> None:
    """Write what the manifest says."""
    content = manifest.content()
    if content != manifest.loaded:
        _write(installation, manifest.file, content, mode=0o600)
        manifest.loaded = content


def _write(installation: Installation, path: Path, content: bytes | None, mode: int | None = None) -> None:
    if content is None:
        installation.delete(path, keep_folders=True)
    else:
        installation.write(path, content, mode=mode)


def _tidy(manifest: Manifest, tree: Path) -> None:
    """Delete the folders of ours that are empty.

    One with nothing of ours in it that is not empty is somebody else's now.
    """
    kept = [name for name in manifest.folders if any(file.startswith(f"{name}/") for file in manifest.files)]
    for name in sorted(set(manifest.folders) - set(kept), reverse=True):
        with suppress(OSError):
            (tree / name).rmdir()
    manifest.folders = tuple(sorted(kept))


def _both(old: FileRecord | None, new: FileRecord) -> FileRecord:
    """What is true of a file before it is changed and after."""
    former = old.edits if old else ()
    return replace(new, edits=(*former, *(one for one in new.edits if one not in former)))


def _remove_if_empty(manifest_file: Path) -> None:
    """Remove the folder of a manifest that is not there, unless something else is in it."""
    if not manifest_file.exists():
        with suppress(OSError):
            manifest_file.parent.rmdir()


def _lock(file: Path) -> Path:
    return file.with_name(f"{file.name}.lock")


@contextmanager
def _turn(file: Path) -> Generator[None]:
    """Hold the lock of everything that a manifest describes.

    Raises:
        Unavailable: Another command does not finish.
    """
    try:
        platforms.make_private(str(file.parent))
    except OSError as error:
        raise _not_written(error, ()) from error
    try:
        with turn(_lock(file), _PATIENCE_SECONDS):
            yield
    except TimeoutError as error:
        raise Unavailable(f"Another command has been changing what {file} describes; run this one again.") from error
    finally:
        _remove_if_empty(file)

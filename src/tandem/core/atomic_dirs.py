"""Several files at once: folders that are there whole or not at all, and single files that are restored together.

Folders are there whole or not at all, even if the process or the machine ends while they are written.

A folder is put together in a hidden sibling, flushed to the disk, and renamed into place. Three hidden siblings
belong to `name`, and each call finds what an earlier one left of them:

    .name.new    the folder that is being put together; of no use to others
    .name.old    the folder that is being replaced; whole for as long as there is no `name`
    .name.lock   empty; locked by the one process that writes `name` at the moment
"""

from __future__ import annotations

import errno
import os
import re
import shutil
import stat
import time
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from tandem.core import platforms
from tandem.core.files import flush_folder, write_atomically, write_new
from tandem.errors import Unavailable

_COMPONENT = re.compile(r"(?!.*\.\.)[A-Za-z0-9][A-Za-z0-9._-]{0,199}")
"""Leaves room for the affixes of the siblings: file systems end names at 255 bytes."""

_DEEPEST = 2
_PATIENCE_SECONDS = 30.0
"""How long to wait for another process that writes the same folder; a write takes milliseconds."""

_LOOK_SECONDS = 0.01


def write_whole(parent: Path, name: str, files: Mapping[str, bytes]) -> Path:
    """Write the folder `name` with exactly these files, private to the user and flushed to the disk.

    A crash at any moment leaves no such folder or a whole one. One that exists is replaced; a crash then
    leaves the old one, none, or the new one. The next call removes what a crash left. Processes that write
    the same folder take turns, and the last one's stays. Blocks while it waits for its turn and for the disk.

    Args:
        parent: Where the folder goes; made, private, if it is missing.
        name: One safe component of a path.
        files: What each file holds, by its name: a safe component, or two with a slash between.

    Returns:
        The folder.

    Raises:
        ValueError: A name is not safe, or is that of a file and of a folder.
        Unavailable: The system does not let us write, or another process does not finish.
    """
    _refuse_unsafe_names(name, files)
    folder = parent / name
    try:
        _make_durably(parent)
        with turn(_sibling(folder, "lock"), _PATIENCE_SECONDS):
            _write(folder, files)
    except OSError as error:
        raise Unavailable(
            f"{folder} cannot be written: {error.strerror or error}; see to the space on the disk and to the "
            f"permissions of {parent}, then do the same again.",
            folder=str(folder),
        ) from error
    return folder


def _refuse_unsafe_names(name: str, files: Iterable[str]) -> None:
    if not _COMPONENT.fullmatch(name):
        raise ValueError(f"{name!r} is not a safe name for a folder")
    names = set(files)
    for file in names:
        components = file.split("/")
        if len(components) > _DEEPEST or not all(map(_COMPONENT.fullmatch, components)):
            raise ValueError(f"{file!r} is not a safe name for a file")
        if len(components) == _DEEPEST and components[0] in names:
            raise ValueError(f"{components[0]!r} cannot be both a file and a folder")


def _make_durably(folder: Path) -> None:
    missing = [place for place in (folder, *folder.parents) if not place.exists()]
    platforms.make_private(str(folder))
    for place in missing:
        flush_folder(str(place.parent))


@contextmanager
def turn(path: Path, patience_seconds: float) -> Generator[None]:
    """Be the only one who holds a lock; the system ends the turn of a process that dies.

    Args:
        path: The file that is locked, which is there for as long as somebody holds it.
        patience_seconds: How long to wait for it.

    Raises:
        TimeoutError: Another process does not finish.
        OSError: The file cannot be made or locked.
    """
    lock = _wait_for_lock(path, patience_seconds)
    try:
        yield
    finally:
        # While it is locked: a process that waits then finds that its file is gone, and opens a new one. Windows
        # removes no open file, and keeps this one for the next time.
        with suppress(OSError):
            path.unlink()
        os.close(lock)


def _wait_for_lock(path: Path, patience_seconds: float) -> int:
    deadline = time.monotonic() + patience_seconds
    while True:
        lock = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            if platforms.lock_file(lock) and _is_at(lock, path):
                return lock
        except BaseException:
            os.close(lock)
            raise
        os.close(lock)
        if time.monotonic() >= deadline:
            raise TimeoutError(errno.ETIMEDOUT, f"another process has been writing it for {patience_seconds:g} seconds")
        time.sleep(_LOOK_SECONDS)


def _is_at(descriptor: int, path: Path) -> bool:
    """Whether an open file still has its name, which the lock's last holder may have removed."""
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False


def _write(folder: Path, files: Mapping[str, bytes]) -> None:
    fresh, old = _sibling(folder, "new"), _sibling(folder, "old")
    _clear(folder, fresh, old)
    try:
        _fill(fresh, files)
        _put_in_place(folder, fresh, old)
    except BaseException:
        # A disk that is full needs the space.
        with suppress(OSError):
            _delete(fresh)
        raise
    # Before the old one is touched: a half deleted one must not come back as the only one.
    flush_folder(str(folder.parent))
    with suppress(OSError):
        # The new one is in place; the rest of the old one is the next call's to remove.
        _delete(old)


def _clear(folder: Path, fresh: Path, old: Path) -> None:
    """Remove what a crash left; an old folder that lost its place gets it back, should this call fail."""
    _delete(fresh)
    if os.path.lexists(old) and not os.path.lexists(folder):
        old.rename(folder)
    else:
        _delete(old)


def _fill(fresh: Path, files: Mapping[str, bytes]) -> None:
    fresh.mkdir(0o700)
    folders = {(fresh / name).parent for name in files} - {fresh}
    for folder in sorted(folders):
        folder.mkdir(0o700)
    for name, content in files.items():
        write_new(fresh / name, content)
    for folder in (*folders, fresh):
        flush_folder(str(folder))


def _put_in_place(folder: Path, fresh: Path, old: Path) -> None:
    if not os.path.lexists(folder):
        fresh.rename(folder)
        return
    folder.rename(old)
    try:
        fresh.rename(folder)
    except BaseException:
        old.rename(folder)
        raise


def _delete(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _sibling(folder: Path, purpose: str) -> Path:
    # Names begin with a letter or a digit and purposes have no dot: no two names share a sibling.
    return folder.with_name(f".{folder.name}.{purpose}")


@dataclass(frozen=True, slots=True)
class _Original:
    """A file as it was: its bytes, or where it pointed as a link; neither if there was none, or a folder."""

    path: Path
    content: bytes | None = None
    link: str | None = None
    mode: int = 0

    @classmethod
    def of(cls, path: Path) -> _Original:
        try:
            mode = path.lstat().st_mode
        except (FileNotFoundError, NotADirectoryError):
            return cls(path)
        if stat.S_ISLNK(mode):
            return cls(path, None, os.readlink(path), mode)
        return cls(path, path.read_bytes(), None, mode) if stat.S_ISREG(mode) else cls(path)

    def restore(self) -> None:
        if self.path.is_symlink() or self.path.is_file():
            self.path.unlink()
        if self.link is None and self.content is None:
            return
        self.path.parent.mkdir(parents=True, exist_ok=True)
        if self.link is not None:
            self.path.symlink_to(self.link)
        elif self.content is not None:
            self.path.write_bytes(self.content)
            self.path.chmod(stat.S_IMODE(self.mode))


class Installation:
    """Deletes and writes files and can take all of it back.

    Symbolic links below the root are never followed: one in the way is an error, one to be deleted is deleted itself.
    """

    def __init__(self, root: Path) -> None:
        """Nothing is changed yet.

        Args:
            root: The folder below which missing folders are made.
        """
        self._root = root
        # What to put back, and the folders that were made, in the order in which it happened.
        self._steps: list[_Original | Path] = []

    def delete(self, path: Path, *, keep_folders: bool = False) -> None:
        """Deletes a file, and the folders that it leaves empty unless they are kept.

        Raises:
            OSError: The system does not let us.
        """
        self._steps.append(_Original.of(path))
        path.unlink()
        if not keep_folders:
            with suppress(OSError):
                while (path := path.parent) != self._root:
                    path.rmdir()

    def write(self, path: Path, content: bytes, *, mode: int | None = None, durable: bool = True) -> None:
        """Puts a file in place at once; see `write_atomically`.

        Raises:
            OSError: The system does not let us, or a parent is no folder.
        """
        self._clear_way(path)
        write_atomically(path, content, mode=mode, durable=durable)

    def link(self, path: Path, target: str) -> None:
        """Puts a symbolic link in place of a file, if there is one.

        Raises:
            OSError: The system does not let us, or a parent is no folder.
        """
        self._clear_way(path)
        path.unlink(missing_ok=True)
        path.symlink_to(target)

    def undo(self) -> list[Path]:
        """Puts everything back, the latest first; leaves nothing for a second call.

        Returns:
            The files that could not be put back.
        """
        left: list[Path] = []
        while self._steps:
            step = self._steps.pop()
            try:
                if isinstance(step, Path):
                    step.rmdir()
                elif _Original.of(step.path) != step:
                    # An unchanged file is not written again: the disk may be full.
                    step.restore()
            except OSError:
                left += [] if isinstance(step, Path) else [step.path]
        return left

    def _clear_way(self, path: Path) -> None:
        """Has the folder for a path there, and no folder in the path's own place."""
        self._make_folders(path.parent)
        self._steps.append(_Original.of(path))
        if path.is_dir() and not path.is_symlink():
            path.rmdir()

    def _make_folders(self, folder: Path) -> None:
        if self._root not in folder.parents and folder.exists():
            return
        self._make_folders(folder.parent)
        try:
            folder.mkdir()
        except FileExistsError:
            if folder.is_symlink() or not folder.is_dir():
                raise
        else:
            self._steps.append(folder)

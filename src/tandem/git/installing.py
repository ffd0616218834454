"""Changing files so that all of it happens or nothing does."""

from __future__ import annotations

import secrets
import shutil
import stat
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class _Original:
    """A file as it was: its bytes, or where it pointed as a link."""

    path: Path
    content: bytes | None
    link: str | None
    mode: int


class Installation:
    """Deletes and writes files below a folder and can take all of it back.

    Symbolic links are never followed: one in the way is an error, one to be deleted is deleted itself.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        # What to put back, and the folders that were made, in the order in which it happened.
        self._steps: list[_Original | Path] = []

    def delete(self, path: Path) -> None:
        """Deletes a file, and the folders that it leaves empty.

        Raises:
            OSError: The system does not let us.
        """
        self._remember(path)
        path.unlink()
        self._remove_empty_folders(path.parent)

    def write(self, path: Path, staged: Path) -> None:
        """Puts a copy of `staged`, with its mode, in a file's place at once.

        Raises:
            OSError: The system does not let us, or a parent is no folder.
        """
        self._make_folders(path.parent)
        self._remember(path)
        if path.is_dir() and not path.is_symlink():
            path.rmdir()
        fresh = path.with_name(f".tandem-{secrets.token_hex(8)}")
        try:
            shutil.copyfile(staged, fresh)
            shutil.copymode(staged, fresh)
            fresh.replace(path)
        except BaseException:
            fresh.unlink(missing_ok=True)
            raise

    def undo(self) -> list[Path]:
        """Puts everything back, the latest first.

        Returns:
            The files that could not be put back.
        """
        left: list[Path] = []
        while self._steps:
            step = self._steps.pop()
            if isinstance(step, Path):
                with suppress(OSError):
                    step.rmdir()
                continue
            try:
                _restore(step)
            except OSError:
                left.append(step.path)
        return left

    def _remember(self, path: Path) -> None:
        try:
            mode = path.lstat().st_mode
        except (FileNotFoundError, NotADirectoryError):
            self._steps.append(_Original(path, None, None, 0))
            return
        if stat.S_ISLNK(mode):
            self._steps.append(_Original(path, None, str(path.readlink()), mode))
        elif stat.S_ISREG(mode):
            self._steps.append(_Original(path, path.read_bytes(), None, mode))
        else:
            self._steps.append(_Original(path, None, None, 0))

    def _make_folders(self, folder: Path) -> None:
        if folder == self._root:
            return
        self._make_folders(folder.parent)
        try:
            folder.mkdir()
        except FileExistsError:
            if folder.is_symlink() or not folder.is_dir():
                raise
        else:
            self._steps.append(folder)

    def _remove_empty_folders(self, folder: Path) -> None:
        with suppress(OSError):
            while folder != self._root:
                folder.rmdir()
                folder = folder.parent


def _restore(original: _Original) -> None:
    if original.path.is_symlink() or original.path.is_file():
        original.path.unlink()
    if original.link is None and original.content is None:
        return
    original.path.parent.mkdir(parents=True, exist_ok=True)
    if original.link is not None:
        original.path.symlink_to(original.link)
    elif original.content is not None:
        original.path.write_bytes(original.content)
        original.path.chmod(stat.S_IMODE(original.mode))

"""Files that are written and deleted one by one, and taken back together."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tandem.core.files import write_atomically


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
        self._make_folders(path.parent)
        self._steps.append(_Original.of(path))
        if path.is_dir() and not path.is_symlink():
            path.rmdir()
        write_atomically(path, content, mode=mode, durable=durable)

    def link(self, path: Path, target: str) -> None:
        """Puts a symbolic link in place of whatever file is there.

        Raises:
            OSError: The system does not let us, or a parent is no folder.
        """
        self._make_folders(path.parent)
        self._steps.append(_Original.of(path))
        if path.is_dir() and not path.is_symlink():
            path.rmdir()
        else:
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
                    # What was not changed is not written anew: the disk may be full.
                    step.restore()
            except OSError:
                left += [] if isinstance(step, Path) else [step.path]
        return left

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

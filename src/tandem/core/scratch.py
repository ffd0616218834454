"""Scratch folders: gone when their block ends, and swept by the broker's next start if their process was killed.

Each has a file that its process keeps locked: a process that can lock it knows that the folder is no longer in use.
Process numbers would not say that, as a container that shares the folder has numbers of its own.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Iterable
from contextlib import suppress
from typing import Final

from tandem.core.platforms import lock_file

_KINDS: Final = ("copy", "demo", "diff", "doctor", "git", "hook", "index", "merge", "rollback", "steps")
_NAME = re.compile(rf"tandem-(?:{'|'.join(_KINDS)})-[a-z0-9_]{{8}}")
_LOCK = "tandem-in-use"
_TRIES = 10
_OLD_SECONDS = 86_400
"""A folder without its file is one that is just being made, or whose making was cut short."""


class ScratchFolder:
    """A private folder of one process.

    Attributes:
        name: Its path.
    """

    def __init__(self, kind: str, parent: str | None = None) -> None:
        """Makes it.

        Args:
            kind: Its purpose; one of those that are swept.
            parent: Where it is made; None for the usual place.

        Raises:
            OSError: It cannot be made.
        """
        if kind not in _KINDS:
            raise ValueError(f"{kind!r} is none of the kinds of scratch folders that are swept")
        for _ in range(_TRIES):
            self.name = tempfile.mkdtemp(prefix=f"tandem-{kind}-", dir=parent)
            lock = os.path.join(self.name, _LOCK)
            self._descriptor = os.open(lock, os.O_RDWR | os.O_CREAT, 0o600)
            # Between the two somebody who sweeps may have been there.
            if _lock(self._descriptor) is not False and os.path.exists(lock):
                return
            self.cleanup()
        raise OSError(f"no scratch folder stays in {parent or tempfile.gettempdir()}")

    def __enter__(self) -> str:
        return self.name

    def __exit__(self, *_: object) -> None:
        self.cleanup()

    def cleanup(self) -> None:
        """Removes it with all that it holds, as far as that can be; twice is safe."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            # First, as Windows removes no file that is open; who sweeps meanwhile removes the same.
            os.close(descriptor)
            remove_tree(self.name)


def sweep(parents: Iterable[str | None]) -> int:
    """Removes the scratch folders of this user whose processes are gone; says how many.

    Args:
        parents: Where to look; None for the usual place.
    """
    swept = 0
    for parent in {os.path.realpath(one or tempfile.gettempdir()) for one in parents}:
        try:
            with os.scandir(parent) as entries:
                found = [one.path for one in entries if _NAME.fullmatch(one.name) and _is_ours(one)]
        except OSError:
            continue
        swept += sum(_swept(path) for path in found)
    return swept


def _is_ours(entry: os.DirEntry[str]) -> bool:
    try:
        if not entry.is_dir(follow_symlinks=False):
            return False
        return not hasattr(os, "getuid") or entry.stat(follow_symlinks=False).st_uid == os.getuid()
    except OSError:
        return False


def _swept(folder: str) -> bool:
    try:
        descriptor = os.open(os.path.join(folder, _LOCK), os.O_RDWR | getattr(os, "O_NOFOLLOW", 0))
    except FileNotFoundError:
        return _is_old(folder) and remove_tree(folder)
    except OSError:
        return False
    is_free = _lock(descriptor) is True
    # Still locked, as a process that is just making it would take it for its own else. Windows removes no file that
    # is open, and so neither the file of such a process.
    is_removed = is_free and sys.platform != "win32" and remove_tree(folder)
    os.close(descriptor)
    return is_removed or (is_free and remove_tree(folder))


def _lock(descriptor: int) -> bool | None:
    """Locks a file: whether that was free; None where the file system has no locks."""
    try:
        return lock_file(descriptor)
    except OSError:
        return None


def _is_old(folder: str) -> bool:
    try:
        return time.time() - os.stat(folder).st_mtime > _OLD_SECONDS
    except OSError:
        return False


def remove_tree(folder: str) -> bool:
    """Removes a folder, also with what cannot be written in it; or a file or link; whether nothing of it is left."""
    if os.path.islink(folder) or os.path.isfile(folder):
        with suppress(OSError):
            os.unlink(folder)
        return not os.path.lexists(folder)
    shutil.rmtree(folder, ignore_errors=True)
    if os.path.exists(folder):
        # What git keeps is read-only, which Windows does not remove.
        for place, inner, files in os.walk(folder):
            for path in (os.path.join(place, name) for name in (os.curdir, *inner, *files)):
                if not os.path.islink(path):
                    with suppress(OSError):
                        os.chmod(path, 0o700)
        shutil.rmtree(folder, ignore_errors=True)
    return not os.path.exists(folder)

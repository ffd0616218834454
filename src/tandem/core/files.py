"""Writing a file whole or not at all, even if the process or the machine ends meanwhile. Blocks for the disk."""

from __future__ import annotations

import errno
import json
import os
import sys

if sys.platform == "darwin":
    import fcntl

TYPE_CHECKING = False  # importing `typing` for it would cost a hook more than all else here
if TYPE_CHECKING:
    from os import PathLike
    from typing import Any

_PRIVATE = 0o600
_WHAT_THE_UMASK_LEAVES = 0o666
FRESH = ".{name}.{random}.new"
"""The name of a file's replacement until it takes its place; a crash may leave it."""

_CANNOT_FLUSH_FOLDERS = {errno.EINVAL, errno.EBADF, errno.ENOTSUP}
"""How some network file systems answer; they order the changes of a folder themselves."""


def write_atomically(
    path: str | PathLike[str], content: bytes, *, mode: int | None = _PRIVATE, durable: bool = True
) -> None:
    """Put a file in place, of which others see the old content or the new.

    Args:
        path: The file; its folder is there. Its content is replaced.
        content: All of it.
        mode: The permissions it gets, private until it is whole; None for those that it has, or for a new file
            those that the umask leaves.
        durable: Whether it has to survive a loss of power once this returns.

    Raises:
        OSError: The system does not let us; the file is as it was.
    """
    folder, name = os.path.split(path)
    fresh = os.path.join(folder, FRESH.format(name=name, random=os.urandom(8).hex()))
    created = _PRIVATE
    if mode is None:
        try:
            mode = os.stat(path).st_mode & 0o7777
        except FileNotFoundError:
            mode = created = _WHAT_THE_UMASK_LEAVES
    try:
        write_new(fresh, content, mode=created, durable=durable)
        if mode != created:
            os.chmod(fresh, mode)
        os.replace(fresh, path)
    except BaseException:
        _remove(fresh)
        raise
    if durable:
        flush_folder(folder or os.curdir)


def write_new(path: str | PathLike[str], content: bytes, *, mode: int = _PRIVATE, durable: bool = True) -> None:
    """Write a file that is not there yet, by default private to the user; if it cannot be whole, it is removed again.

    Raises:
        FileExistsError: It is there, and stays as it is.
        OSError: The system does not let us.
    """
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), mode)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(content)
            stream.flush()
            if durable:
                flush_file(stream.fileno())
    except BaseException:
        _remove(path)
        raise


def flush_file(descriptor: int) -> None:
    """Have all writes to a file survive a loss of power.

    Raises:
        OSError: The disk does not take it.
    """
    if sys.platform == "darwin":
        # A plain fsync leaves the data in the drive's cache there.
        try:
            fcntl.fcntl(descriptor, fcntl.F_FULLFSYNC)
        except OSError:
            os.fsync(descriptor)
    else:
        os.fsync(descriptor)


def flush_folder(path: str) -> None:
    """Have the names in a folder survive a loss of power, where the system can flush folders.

    Raises:
        OSError: The disk does not take it.
    """
    if not hasattr(os, "O_DIRECTORY"):
        # Windows opens no folders; its file system journals them.
        return
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        flush_file(descriptor)
    except OSError as error:
        if error.errno not in _CANNOT_FLUSH_FOLDERS:
            raise
    finally:
        os.close(descriptor)


def json_object(path: str | PathLike[str]) -> dict[str, Any]:
    """The object of JSON that a file holds; empty if it cannot be read, or holds something else."""
    try:
        with open(path, "rb") as file:
            found: Any = json.load(file)
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}  # pyright: ignore[reportUnknownVariableType] any JSON object


def stamp(path: str | PathLike[str]) -> tuple[int, int, int] | None:
    """Tells one state of a file from another; None if it cannot be looked at."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


def remove_if_empty(folder: str | PathLike[str]) -> None:
    """Remove a folder, unless it holds something, is gone, or the system does not let us."""
    try:
        os.rmdir(folder)
    except OSError:
        return


def _remove(path: str | PathLike[str]) -> None:
    try:
        os.unlink(path)
    except OSError:
        return

"""Running the commands of a project where they can do no harm: in bubblewrap, without network, most files out of sight.

A command sees the system, read-only; the folders that a command may write; and those that it needs to read. Home
folders, sockets of the system's services, and everything of the broker's are not.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Final

_TRY_SECONDS = 10.0
_ALONE: Final = (
    *("--die-with-parent", "--new-session", "--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts"),
    *("--cap-drop", "ALL", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"),
)
_NO_NETWORK = "--unshare-net"
_OUT_OF_SIGHT: Final = ("/home", "/root", "/run", "/var/tmp")  # noqa: S108 - hidden, not used
_TEMPORARY: Final = ("/tmp", "/dev/shm")  # noqa: S108 - as the command sees them
_NAMES = "/run/systemd/resolve"
"""Where many systems keep the addresses of the servers that know other machines' names."""


@dataclass(frozen=True, slots=True)
class Confinement:
    """What a command sees and may do.

    Attributes:
        folder: Where it starts, and may write.
        temporary: Its own `/tmp` and `/dev/shm`.
        writable: Folders besides that it may write.
        readable: Folders besides that it may read, wherever they are.
        hidden: Files and folders that are not there for it.
        network: Whether it may use the network.
    """

    folder: Path
    temporary: Path
    writable: tuple[Path, ...]
    readable: tuple[str, ...]
    hidden: tuple[str, ...]
    network: bool = False


def bubblewrap(environment: Mapping[str, str] = os.environ) -> str | None:
    """The program, if it is there and this system lets it work; None otherwise. Blocks the first time."""
    found = shutil.which("bwrap", path=environment.get("PATH", os.defpath)) if sys.platform == "linux" else None
    return found if found is not None and _works(found) else None


_working: set[str] = set()


def _works(program: str) -> bool:
    if program in _working:
        return True
    try:
        tried = subprocess.run(
            [program, *_ALONE, _NO_NETWORK, "true"], capture_output=True, timeout=_TRY_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    if tried.returncode == 0:
        # One that does not work may be repaired while we run.
        _working.add(program)
    return tried.returncode == 0


def confined(program: str, argv: Iterable[str], confinement: Confinement) -> tuple[str, ...]:
    """The command as bubblewrap runs it."""
    found = [program, *_ALONE]
    if not confinement.network:
        found.append(_NO_NETWORK)
    for name in _TEMPORARY:
        found += ["--bind", str(confinement.temporary), name]
    views, hidden = _views(confinement)
    found += views
    if confinement.network:
        found += ["--ro-bind-try", _NAMES, _NAMES]
    for folder in (*confinement.writable, confinement.temporary, confinement.folder):
        found += ["--bind", str(folder), str(folder)]
    # Last, since until here places were made in them: writes to them are not counted.
    for path in ("/dev", *hidden):
        found += ["--remount-ro", path]
    return (*found, "--chdir", str(confinement.folder), "--", *argv)


def _views(confinement: Confinement) -> tuple[list[str], list[str]]:
    """What hides and what shows places, outer ones before those within them; and the folders that are hidden."""
    readable = {os.path.realpath(path): path for path in confinement.readable}
    out_of_sight = [*_OUT_OF_SIGHT, str(Path.home()), *confinement.hidden]
    secret = {os.path.realpath(path) for path in out_of_sight}
    secret |= {folder for path in secret if (folder := _private_folder(path)) is not None} - readable.keys()
    is_hidden: dict[str, bool] = dict.fromkeys(_TEMPORARY, True)
    found: list[str] = []
    hidden: list[str] = []
    for path in sorted({*secret, *readable}, key=lambda path: path.count("/")):
        around = next((is_hidden[str(one)] for one in PurePath(path).parents if str(one) in is_hidden), False)
        is_hidden[path] = path in secret
        if path not in secret:
            found += ["--ro-bind-try", readable[path], readable[path]]
        elif not around and os.path.isdir(path):  # noqa: PTH112 - texts, as they are arguments
            found += ["--tmpfs", path]
            hidden.append(path)
        elif not around and os.path.exists(path):  # noqa: PTH110 - as above
            found += ["--ro-bind", "/dev/null", path]
    return found, hidden


def _private_folder(path: str) -> str | None:
    """The innermost folder around a file that others may not enter: in it, the file that replaces it is hidden, too."""
    if os.path.isdir(path):  # noqa: PTH112 - as above
        return None
    with suppress(OSError):
        return next((str(one) for one in Path(path).parents if not one.stat().st_mode & 0o7), None)
    return None


_LIMIT = """\
import os, resource, sys
most, *argv = sys.argv[1:]
resource.setrlimit(resource.RLIMIT_FSIZE, (int(most), int(most)))
try:
    with open("/proc/self/oom_score_adj", "w") as file:
        file.write("1000")
except OSError:
    pass
try:
    os.execvp(argv[0], argv)
except OSError as error:
    sys.exit(f"{argv[0]} cannot be started: {error.strerror}")
"""


def limited(argv: Iterable[str], file_bytes: int) -> tuple[str, ...]:
    """The command so that no file of it grows larger, and that it is ended first where memory runs out."""
    if sys.platform == "win32":
        return tuple(argv)
    # By a program of its own, as limits set after a start come too late for its children.
    return (sys.executable, "-I", "-S", "-c", _LIMIT, str(file_bytes), *argv)


def folder_bytes(folder: Path, enough: int) -> int:
    """How much a folder holds on the disk; stops counting when it is enough."""
    total, left = 0, [str(folder)]
    while left and total <= enough:
        with suppress(OSError), os.scandir(left.pop()) as entries:
            for entry in entries:
                with suppress(OSError):
                    if entry.is_dir(follow_symlinks=False):
                        left.append(entry.path)
                    else:
                        total += entry.stat(follow_symlinks=False).st_blocks * 512
    return total

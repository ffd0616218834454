"""What differs between Linux, macOS and Windows: paths, locks, signals, processes, sockets.

The only module that asks for the platform. Quick to import, because the bridge is handed this module at
its start. Paths are texts here for the same reason.
"""

from __future__ import annotations

import _socket
import os
import sys
import time

if sys.platform == "win32":
    import _winapi
    import msvcrt
else:
    import fcntl
    import pwd
    import resource


TYPE_CHECKING = False  # as in `files`
if TYPE_CHECKING:
    from collections.abc import Iterator
    from socket import socket
    from typing import Any, BinaryIO

    import psutil

_FOLDER = "tandem"
_LOCKED_BYTE = 1 << 30
"""Windows locks are mandatory: the byte that is locked lies beyond the text that others read."""

_SHELL_DESCRIPTORS = 10
"""Shells know numbers of descriptors with one digit."""

_CREATE_NEW_PROCESS_GROUP = 0x0000_0200
_CREATE_NO_WINDOW = 0x0800_0000
_SYNCHRONIZE = 0x0010_0000
_DETACHED = _CREATE_NEW_PROCESS_GROUP | _CREATE_NO_WINDOW
"""No window rather than `DETACHED_PROCESS`: with the latter each git that is started opens a console."""

_LOOK_SECONDS = 0.02
_SAME_START_US = 2_000_000
"""Start times are computed from the clock, which may have been set a little since; numbers are not reused that soon."""

_START_TICKS = 19
"""Where `/proc/self/stat` says when the process began, counted from behind the name of its program."""

STOPS_BY_FILE = sys.platform == "win32"
"""Whether a process without a console cannot be asked to stop by a signal, only by a file it looks for."""


_LISTENS = "0A"
"""The state of a listening socket in Linux's tables."""

_PEOPLE = range(501 if sys.platform == "darwin" else 1000, 60_000)
"""Numbers of users that are people, and not services."""


EXTRAS = {
    "postgres": ("greenlet", "psycopg[binary]"),
    "screen": ("textual",),
    "traces": ("opentelemetry-exporter-otlp-proto-http", "opentelemetry-sdk"),
}
"""The packages of Tandem's extras, by their own names: a checkout's extras are in no index."""


def how_to_add(extra: str) -> str:
    """The command that adds the packages of an extra to the environment that this program runs in."""
    packages = " ".join(f'"{one}"' for one in EXTRAS[extra])
    return f'"{sys.executable}" -m pip install {packages}'


def data_dir() -> str:
    """The user's state folder for Tandem, as platformdirs has it; it need not exist."""
    return _users_folder("XDG_STATE_HOME", "~/.local/state")


def config_dir() -> str:
    """The user's configuration folder for Tandem, as platformdirs has it; it need not exist."""
    return _users_folder("XDG_CONFIG_HOME", "~/.config")


def _users_folder(variable: str, default: str) -> str:
    if sys.platform == "win32":
        parent = os.environ.get("LOCALAPPDATA") or "~\\AppData\\Local"
    elif sys.platform == "darwin":
        parent = "~/Library/Application Support"
    else:
        # A relative folder is invalid by the XDG specification and would depend on where one stands.
        stated = os.environ.get(variable, "").strip()
        parent = stated if os.path.isabs(stated) else default
    return os.path.join(os.path.expanduser(parent), _FOLDER)


def accounts() -> list[str]:
    """The names of the people who have an account on this machine; empty where the system has no such list."""
    if sys.platform == "win32":
        return []
    return [
        one.pw_name
        for one in pwd.getpwall()
        if one.pw_uid in _PEOPLE and not one.pw_shell.endswith(("nologin", "false", "sync", "halt", "shutdown"))
    ]


def listener(port: int) -> str | None:
    """The name of the user who listens at a port of this machine; None where the system does not tell (only Linux)."""
    user = next((user for at, user, _ in _listening() if at == port), None)
    if user is None or sys.platform == "win32":
        return None
    try:
        return pwd.getpwuid(user).pw_name
    except KeyError:
        return str(user)


def _psutil():  # noqa: ANN202 - a module, whose type has no name
    import psutil  # hooks have it not, and an idle broker would keep it in memory

    return psutil


def others_logged_in() -> set[str]:
    """The names of other people who are logged in now; empty where the system does not tell."""
    # Windows puts the domain before the name of who runs a process.
    psutil = _psutil()
    own = {psutil.Process().username().rpartition("\\")[2], os.environ.get("SUDO_USER", "")}
    return {user.name for user in psutil.users()} - own


def inheritable_pipe() -> tuple[int, int] | None:
    """A pipe whose ends a child may be given by numbers below 10, which shells know; None where it may not."""
    if sys.platform == "win32":
        return None
    pair = os.pipe()
    read, write = (fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, _SHELL_DESCRIPTORS) for end in pair)
    for end in pair:
        os.close(end)
    return read, write


def lock_file(descriptor: int) -> bool:
    """Take the exclusive lock of an open file, which ends with the process; false if another has it.

    Raises:
        OSError: The file system offers no locks.
    """
    try:
        if sys.platform == "win32":
            os.lseek(descriptor, _LOCKED_BYTE, os.SEEK_SET)
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        else:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        return False
    return True


def unlock_file(descriptor: int) -> None:
    """Give up the lock of `lock_file`."""
    if sys.platform == "win32":
        os.lseek(descriptor, _LOCKED_BYTE, os.SEEK_SET)
        msvcrt.locking(descriptor, msvcrt.LK_UNLCK, 1)
    else:
        fcntl.flock(descriptor, fcntl.LOCK_UN)


def claim_address(listener: socket) -> None:
    """Set the options with which exactly one process can listen at an address, at once after a restart."""
    if sys.platform == "win32":
        # SO_REUSEADDR would let another process steal the port there.
        listener.setsockopt(_socket.SOL_SOCKET, _socket.SO_EXCLUSIVEADDRUSE, 1)
    else:
        listener.setsockopt(_socket.SOL_SOCKET, _socket.SO_REUSEADDR, 1)


def raise_open_files(wanted: int) -> int:
    """Let this process open as many files and sockets as it may, up to `wanted`; how many it then can."""
    if sys.platform == "win32":
        return wanted
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    if soft == resource.RLIM_INFINITY or soft >= most:
        return most
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    except (OSError, ValueError):  # macOS has a limit of its own, below the hard one
        return soft
    return most


def detached() -> dict[str, Any]:
    """Arguments for `subprocess.Popen`: a process that outlives its parent, its terminal and its console."""
    if sys.platform == "win32":
        return {"creationflags": _DETACHED}
    return {"start_new_session": True}


_DETACH = """\
import os, sys
os.setsid()
number = os.fork()
if number:
    print(number)
else:
    os.dup2(2, 1)
    os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
"""
"""Starts a program by way of a process that ends at once, so that no process has it as its child."""


def start_detached(arguments: list[str], folder: str, environment: dict[str, str], output: BinaryIO) -> int:
    """Start Python so that it outlives the process that starts it, even one that ends all its descendants.

    It has a session and a process group of its own, no terminal and no pipe, and is a child of the system only.

    Args:
        arguments: Python's.
        folder: Where it runs.
        environment: Its variables.
        output: The file that takes its output.

    Returns:
        The process's number.

    Raises:
        OSError: It cannot be started.
    """
    import subprocess  # most who import this module start nothing

    command = [sys.executable, *arguments]
    stated: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stderr": output, "cwd": folder, "env": environment}
    if sys.platform == "win32":
        return subprocess.Popen(command, stdout=output, creationflags=_DETACHED, **stated).pid
    command[1:1] = ["-I", "-S", "-c", _DETACH]
    # It alone can say the number of its child.
    with subprocess.Popen[bytes](command, stdout=subprocess.PIPE, **stated) as between:
        said, _ = between.communicate()
    if not said:
        raise OSError("the system gives no process for it")
    return int(said)


def has_ended(number: int) -> bool:
    """Whether a process that was started a moment ago has ended; one that is not reaped yet has."""
    if sys.platform == "win32":
        # Not psutil, which hooks have not.
        try:
            process = _winapi.OpenProcess(_SYNCHRONIZE, False, number)  # noqa: FBT003 - the system's signature
        except OSError:
            return True
        try:
            return _winapi.WaitForSingleObject(process, 0) == _winapi.WAIT_OBJECT_0
        finally:
            _winapi.CloseHandle(process)
    try:
        os.kill(number, 0)
        return _stat(number)[0] == b"Z"
    except ProcessLookupError:
        return True
    except OSError:  # other than on Linux
        return False


class ProcessIdentity:
    """A process that no later one with the same number is mistaken for.

    Attributes:
        pid: Its number, which the system gives to others once it is gone.
        started_us: When it began, microseconds since the epoch.
    """

    __slots__ = ("pid", "started_us")

    def __init__(self, pid: int, started_us: int) -> None:
        self.pid = pid
        self.started_us = started_us


def this_process() -> ProcessIdentity:
    """The identity of the process that asks."""
    return ProcessIdentity(os.getpid(), _started_us())


def _started_us() -> int:
    if sys.platform == "linux":
        # As psutil computes it, to the microsecond: most brokers need it for nothing else, and would keep it in memory.
        ticks = int(_stat("self")[_START_TICKS])
        with open("/proc/stat", "rb") as stream:
            boot_seconds = next(int(line.split()[1]) for line in stream if line.startswith(b"btime "))
        return round((ticks / os.sysconf("SC_CLK_TCK") + boot_seconds) * 1_000_000)
    return round(_psutil().Process().create_time() * 1_000_000)


def _stat(number: int | str) -> list[bytes]:
    """What Linux says of a process from its state on, which stands behind the name of its program.

    Raises:
        OSError: There is no such process, or this is another system.
    """
    with open(f"/proc/{number}/stat", "rb") as stream:
        return stream.read().rpartition(b")")[2].split()


class Holder:
    """A process of this user's that has a file open.

    Attributes:
        pid: Its number.
        is_deleted: Whether the file was deleted or replaced since it was opened.
        is_suspended: Whether the process was stopped by a signal, such as that of Ctrl-Z.
        folder: Where it was started.
        ports: Where it listens; empty where the system does not tell.
    """

    __slots__ = ("folder", "is_deleted", "is_suspended", "pid", "ports")

    def __init__(self, pid: int, *, is_deleted: bool, is_suspended: bool, folder: str, ports: list[int]) -> None:
        self.pid = pid
        self.is_deleted = is_deleted
        self.is_suspended = is_suspended
        self.folder = folder
        self.ports = ports


_DELETED = " (deleted)"


def holders(path: str) -> list[Holder]:
    """This user's processes that have a file of that path open, also one that was deleted since (Linux and macOS)."""
    path = os.path.realpath(path)
    if sys.platform != "linux":
        return _holders_elsewhere(path)
    found: list[Holder] = []
    ours = os.readlink("/proc/self/ns/mnt")
    for name in filter(str.isdecimal, os.listdir("/proc")):
        # Processes of others, and those that end meanwhile; in a container the same path is another file.
        try:
            links = [*_links(f"/proc/{name}/fd")] if os.readlink(f"/proc/{name}/ns/mnt") == ours else []
            if path in links or path + _DELETED in links:
                found.append(
                    Holder(
                        int(name),
                        is_deleted=path not in links,
                        is_suspended=_stat(name)[0] == b"T",
                        folder=os.readlink(f"/proc/{name}/cwd").removesuffix(_DELETED),
                        ports=[port for port, _, socket_name in _listening() if socket_name in links],
                    )
                )
        except OSError:
            continue
    return found


def _links(folder: str) -> Iterator[str]:
    """What a folder's links lead to, those left out that are removed meanwhile."""
    for name in os.listdir(folder):
        try:
            yield os.readlink(f"{folder}/{name}")
        except OSError:
            continue


def _holders_elsewhere(path: str) -> list[Holder]:
    try:
        psutil = _psutil()
    except ImportError:  # hooks have it not
        return []
    found: list[Holder] = []
    for process in psutil.process_iter():
        try:
            if any(file.path == path for file in process.open_files()):
                found.append(
                    Holder(
                        process.pid,
                        is_deleted=not os.path.exists(path),
                        is_suspended=process.status() == psutil.STATUS_STOPPED,
                        folder=process.cwd(),
                        ports=[],
                    )
                )
        except (psutil.Error, OSError):
            continue
    return found


def _listening() -> Iterator[tuple[int, int, str]]:
    """Port, user and name in `/proc` of the sockets that listen, by Linux's tables; none elsewhere."""
    for table in ("tcp", "tcp6"):
        try:
            with open(f"/proc/net/{table}", encoding="ascii") as sockets:
                rows = [row for row in map(str.split, sockets) if row[3] == _LISTENS]
        except OSError:
            continue
        yield from ((int(row[1].rpartition(":")[2], 16), int(row[7]), f"socket:[{row[9]}]") for row in rows)


def identify(pid: int) -> ProcessIdentity | None:
    """The identity of a running process; None if there is none of that number."""
    psutil = _psutil()
    try:
        return ProcessIdentity(pid, round(psutil.Process(pid).create_time() * 1_000_000))
    except psutil.Error:
        return None


def is_alive(process: ProcessIdentity) -> bool:
    """Whether exactly that process runs; an unreaped dead one does not."""
    return _find(process) is not None


def ask_to_stop(process: ProcessIdentity) -> bool:
    """Send a process the signal to stop in order; false if it is gone, or hears none (see `STOPS_BY_FILE`).

    Raises:
        PermissionError: It belongs to somebody else.
    """
    # One that was suspended hears nothing before it goes on.
    return not STOPS_BY_FILE and _signal(process, "terminate", "resume")


def kill(process: ProcessIdentity) -> None:
    """End exactly that process at once, if it still runs.

    Raises:
        PermissionError: It belongs to somebody else.
    """
    _signal(process, "kill")


def _signal(process: ProcessIdentity, *methods: str) -> bool:
    """Call methods of psutil's for a process; false if it is gone."""
    psutil = _psutil()
    found = _find(process)
    try:
        for method in methods if found is not None else ():
            getattr(found, method)()
    except psutil.NoSuchProcess:
        return False
    except psutil.AccessDenied as error:
        raise PermissionError(f"process {process.pid} belongs to another user") from error
    return found is not None


def wait_until_gone(process: ProcessIdentity, timeout_seconds: float) -> bool:
    """Wait for a process to end; false if it still runs when the time is up."""
    # Not psutil's wait: that goes on until a dead process is reaped, which is its parent's affair.
    deadline = time.monotonic() + timeout_seconds
    while is_alive(process):
        if time.monotonic() >= deadline:
            return False
        time.sleep(_LOOK_SECONDS)
    return True


def _find(process: ProcessIdentity) -> psutil.Process | None:
    psutil = _psutil()
    try:
        found = psutil.Process(process.pid)
        started_us = found.create_time() * 1_000_000
        is_it = abs(started_us - process.started_us) < _SAME_START_US and found.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return None
    return found if is_it else None


def limit_process(number: int, most_bytes: int) -> None:
    """Bound what memory a process of this user's may take from now on, and each file that it writes.

    On Linux only; elsewhere a process cannot be bound from outside.
    """
    if sys.platform == "linux":
        # Not RLIMIT_AS: a large repository's packs, which are only looked at in place, do not count.
        for kind in (resource.RLIMIT_DATA, resource.RLIMIT_FSIZE):
            # It may have ended, or be bound more closely already.
            try:
                resource.prlimit(number, kind, (most_bytes, most_bytes))
            except (OSError, ValueError):
                continue


def make_private(path: str) -> None:
    """Create a folder that only its user can look into; one that exists is left as its owner has it."""
    # Windows ignores the mode: there the user's own folders are private by inheritance.
    os.makedirs(path, mode=0o700, exist_ok=True)

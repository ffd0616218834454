"""Running git: argument lists only, a clean environment, limits to time, memory and output.

Quick to import, as each commit waits for hooks that ask git.
"""

from __future__ import annotations

import os
import select
import sys
import time

from tandem.errors import TimedOut, TooLarge, Unavailable

TYPE_CHECKING = False  # as in `errors`
if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable, Mapping, Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path
    from typing import IO, TypeAlias

    Process: TypeAlias = "subprocess.Popen[bytes] | Spawned"

OUTPUT_LIMIT_BYTES = 64 * 1024 * 1024
_WORDS_LIMIT_BYTES = 16 * 1024
_CHUNK_BYTES = 1024 * 1024
_VERSION_CHARACTERS = 100
_KILL = 9

OLDEST_GIT = (2, 38)
"""The first whose `merge-tree` writes a tree, by which merges are judged; `cat-file --batch-command` is older."""

HOW_TO_INSTALL = (
    f"Install git {'.'.join(map(str, OLDEST_GIT))} or newer (https://git-scm.com/downloads, or the system's package"
    " manager) and put it on PATH."
)

CONTENT_SETTING = "inflated_limit_bytes"
_LEAST_PROCESS_BYTES = 128_000_000
_NO_MEMORY = ("fatal: Out of memory", "fatal: data too large to fit")
_FILE_TOO_LARGE = -25
"""How a process ends that writes a file over its limit: by SIGXFSZ, by its number on Linux, which has the limit."""

# Other programs here must not steer git, and git must neither ask, nor fetch, nor take a lock it can do without.
_ALWAYS = {
    "LC_ALL": "C",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_PAGER": "cat",
    "GIT_TERMINAL_PROMPT": "0",
}
# For git folders of our own: no configuration and no attributes but those in them. No remote is asked either, not even
# by a git that does not know GIT_NO_LAZY_FETCH: no protocol is allowed.
_ISOLATED = {
    "GIT_ALLOW_PROTOCOL": "",
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
}


def clean_environment(extra: Mapping[str, str], *, isolated: bool) -> dict[str, str]:
    """The process's environment without any `GIT_*` of its own.

    Args:
        extra: Variables to add, such as `GIT_DIR`.
        isolated: Whether the user's and the system's git configuration are left out too.
    """
    kept = {name: value for name, value in os.environ.items() if not name.upper().startswith("GIT_")}
    return {**kept, **_ALWAYS, **(_ISOLATED if isolated else {}), **extra}


class Limits:
    """What git may take up for content that somebody else sent.

    Attributes:
        content_bytes: Most bytes of all files that a change touches together, as they are without compression.
    """

    def __init__(self, content_bytes: int) -> None:
        self.content_bytes = content_bytes

    @property
    def process_bytes(self) -> int:
        """Most memory of one git, and most bytes of a file that it writes: it keeps content more than once."""
        return _LEAST_PROCESS_BYTES + 8 * self.content_bytes

    def exceeded(self, actual: int | None = None) -> TooLarge:
        """The error for a change over the limits."""
        return TooLarge(
            f"The files that the change touches have {'too many' if actual is None else actual} bytes without"
            f" compression; {self.content_bytes} are allowed. Make the change smaller, or raise {CONTENT_SETTING} and"
            " restart the broker.",
            limit=self.content_bytes,
            setting=CONTENT_SETTING,
            **({} if actual is None else {"actual": actual}),
        )


class GitFailed(Unavailable):
    """Git ended with a status that the caller did not expect.

    Attributes:
        status_code: Git's exit status.
        words: Its standard error.
    """

    def __init__(self, command: str, status_code: int, words: str) -> None:
        super().__init__(f"git {command} failed: {words or f'exit status {status_code}'}", git=words)
        self.status_code = status_code
        self.words = words


class Output:
    """What a finished git said.

    Attributes:
        status_code: Its exit status.
        stdout: Its output, as bytes: git's paths and diffs are not text.
        stderr: Its standard error.
        words: The beginning of that as text, without trailing white space.
    """

    def __init__(self, status_code: int, stdout: bytes, stderr: bytes) -> None:
        self.status_code = status_code
        self.stdout = stdout
        self.stderr = stderr
        self.words = stderr[:_WORDS_LIMIT_BYTES].decode("utf-8", "replace").strip()

    @property
    def text(self) -> str:
        """Its output as text, without the last line end."""
        return os.fsdecode(self.stdout).rstrip("\n")


class Git:
    """The git program.

    Attributes:
        program: Its name or path.
        timeout_seconds: How long one command may take.
        limits: What one process may take up; None for a user's own content.
        span: Opens a span around a command, in a broker that traces; for all of the process.
    """

    span: Callable[[str], AbstractContextManager[object]] | None = None

    def __init__(self, program: str = "git", timeout_seconds: float = 10.0, limits: Limits | None = None) -> None:
        self.program = program
        self.timeout_seconds = timeout_seconds
        self.limits = limits

    def run(
        self,
        arguments: Sequence[str],
        *,
        environment: Mapping[str, str],
        cwd: Path | None = None,
        stdin: bytes = b"",
        accept: Sequence[int] = (0,),
    ) -> Output:
        """Runs one command to its end.

        Args:
            arguments: What follows `git`.
            environment: The whole environment.
            cwd: The folder to run in; None for the current one.
            stdin: What git reads.
            accept: The exit statuses that are answers.

        Raises:
            GitFailed: Another exit status.
            TimedOut: The time was up; git and all its children are gone.
            TooLarge: More output than anyone could review, or more memory than is allowed.
            Unavailable: Git, or the folder, is not there.
        """
        if self.span is None:
            return self._run(arguments, environment, cwd, stdin, accept)
        with self.span(f"git {_command(arguments)}"):
            return self._run(arguments, environment, cwd, stdin, accept)

    def _run(
        self,
        arguments: Sequence[str],
        environment: Mapping[str, str],
        cwd: Path | None,
        stdin: bytes,
        accept: Sequence[int],
    ) -> Output:
        process = self.start(arguments, environment=environment, cwd=cwd)
        deadline = time.monotonic() + self.timeout_seconds
        try:
            stdout, stderr = _exchange(process, stdin, deadline)
            _await_end(process, deadline)
        except BaseException as exc:
            end(process)
            if not isinstance(exc, TimeoutError):
                raise
            raise TimedOut(
                f"git {_command(arguments)} did not end within {self.timeout_seconds:g} s; try again.",
                limit_seconds=self.timeout_seconds,
            ) from None
        finally:
            status_code = process.wait()
            close(process)
        output = Output(status_code, stdout, stderr)
        if self.limits is not None and (status_code == _FILE_TOO_LARGE or _lacks_memory(output.words)):
            raise self.limits.exceeded()
        if status_code not in accept:
            raise GitFailed(_command(arguments), status_code, output.words)
        return output

    def start(
        self, arguments: Sequence[str], *, environment: Mapping[str, str], cwd: Path | None, quiet: bool = False
    ) -> Process:
        """Starts one command in a process group of its own, with pipes to talk through.

        Args:
            arguments: What follows `git`.
            environment: The whole environment.
            cwd: The folder to run in; None for the current one.
            quiet: Whether its standard error is discarded.

        Raises:
            Unavailable: Git, or the folder, is not there.
        """
        command = [self.program, *arguments]
        try:
            if cwd is None and hasattr(os, "posix_spawnp"):
                return Spawned(command, environment)
            started = _subprocess()
            process = started.Popen(
                command,
                cwd=cwd,
                env=environment,
                stdin=started.PIPE,
                stdout=started.PIPE,
                stderr=started.DEVNULL if quiet else started.PIPE,
                start_new_session=True,
            )
        except OSError as exc:
            if cwd is not None and not cwd.is_dir():
                raise Unavailable(f"The folder {cwd} is no longer there; restore it.", path=str(cwd)) from exc
            ways = HOW_TO_INSTALL if self.program == "git" else "Correct the broker's setting git_executable."
            message = f"The program {self.program!r} cannot be started ({exc.strerror}). {ways}"
            raise Unavailable(message, program=self.program) from exc
        if self.limits is not None:
            from tandem.core import platforms  # hooks do without it

            # From outside, at once: a step between fork and exec would cost threads their safety, and time.
            platforms.limit_process(process.pid, self.limits.process_bytes)
        return process


class BoundGit:
    """Git in one folder, with one environment.

    Attributes:
        environment: The whole environment of each command.
    """

    def __init__(
        self, git: Git, environment: Mapping[str, str], cwd: Path | None = None, settings: Sequence[str] = ()
    ) -> None:
        """Nothing runs yet.

        Args:
            git: The program.
            environment: The whole environment.
            cwd: The folder to run in; None for the current one.
            settings: What each command begins with, such as `-c name=value`.
        """
        self._git = git
        self.environment = environment
        self._cwd = cwd
        self._settings = settings

    def run(
        self,
        arguments: Sequence[str],
        *,
        stdin: bytes = b"",
        accept: Sequence[int] = (0,),
        extra: Mapping[str, str] | None = None,
    ) -> Output:
        """Runs one command; see `Git.run`. `extra` are variables to add, such as another `GIT_INDEX_FILE`."""
        environment = {**self.environment, **extra} if extra else self.environment
        command = [*self._settings, *arguments]
        return self._git.run(command, environment=environment, cwd=self._cwd, stdin=stdin, accept=accept)


def _subprocess():  # noqa: ANN202 - a module, whose type has no name
    import subprocess  # hooks do without it

    return subprocess


def interactively(arguments: Sequence[str], environment: Mapping[str, str], *, to_stderr: bool = False) -> int:
    """Runs git as the person would, with their terminal, for as long as it takes; answers with its exit status.

    Args:
        arguments: What follows `git`.
        environment: The whole environment.
        to_stderr: Whether its standard output goes to standard error.
    """
    return started(arguments, environment, {1: sys.stderr.fileno()} if to_stderr else {}).wait()


def started(arguments: Sequence[str], environment: Mapping[str, str], ends: Mapping[int, int]) -> Process:
    """Starts git with this process's terminal.

    Args:
        arguments: What follows `git`.
        environment: The whole environment.
        ends: Descriptors of this process, by the numbers that they have in git; its own where there is none. On
            Windows those of standard input and output alone.
    """
    command = ["git", *arguments]
    if hasattr(os, "posix_spawnp"):
        return Spawned(command, environment, ends)
    return _subprocess().Popen(command, env=dict(environment), stdin=ends.get(0), stdout=ends.get(1))


_IGNORED = (13, 25)
"""SIGPIPE and SIGXFSZ, which Python ignores and a program expects not to be; `signal` takes long to import."""


class Spawned:
    """A child as `subprocess.Popen` has it, which takes longer to import than git to answer."""

    def __init__(
        self, command: list[str], environment: Mapping[str, str], ends: Mapping[int, int] | None = None
    ) -> None:
        """Starts it.

        Args:
            command: The program and its arguments.
            environment: The whole environment.
            ends: As `started` has them, in the group of this process; None for pipes, and a group of its own.

        Raises:
            OSError: It cannot be started.
        """
        self.returncode: int | None = None
        self.stdin = self.stdout = self.stderr = None
        if ends is not None:
            actions = [(os.POSIX_SPAWN_DUP2, end, number) for number, end in ends.items()]
            self.pid = os.posix_spawnp(command[0], command, environment, file_actions=actions, setsigdef=_IGNORED)
            return
        pipes = [os.pipe() for _ in range(3)]
        theirs = (pipes[0][0], pipes[1][1], pipes[2][1])
        actions = [(os.POSIX_SPAWN_DUP2, end, number) for number, end in enumerate(theirs)]
        ours = [open(pipe[not at], "rb" if at else "wb", 0) for at, pipe in enumerate(pipes)]  # noqa: SIM115 - closed by `close`
        self.stdin, self.stdout, self.stderr = ours
        try:
            self.pid = os.posix_spawnp(command[0], command, environment, file_actions=actions, setpgroup=0)
        except OSError:
            for end in ours:
                end.close()
            raise
        finally:
            for end in theirs:
                os.close(end)

    def wait(self) -> int:
        """Wait for its end; its exit status, or that of the signal that ended it, negative."""
        return self._reaped(0) or 0

    def poll(self) -> int | None:
        """Its exit status, if it has ended."""
        return self._reaped(os.WNOHANG)

    def _reaped(self, options: int) -> int | None:
        if self.returncode is None:
            pid, status = os.waitpid(self.pid, options)
            self.returncode = os.waitstatus_to_exitcode(status) if pid else None
        return self.returncode


def _await_end(process: Process, deadline: float) -> None:
    """Wait for the end of a process that has closed its outputs.

    Raises:
        TimeoutError: It goes on without them.
    """
    pause = 0.00005
    while process.poll() is None:
        if time.monotonic() > deadline:
            raise TimeoutError
        time.sleep(pause)
        pause = min(2 * pause, 0.05)


def _exchange(process: Process, stdin: bytes, deadline: float) -> tuple[bytes, bytes]:
    """Everything a process writes while it is told `stdin`.

    Raises:
        TimeoutError: It has not closed both its outputs in time.
        TooLarge: It writes more than anyone could review.
    """
    if not isinstance(process, Spawned) and os.name == "nt":
        return _communicate(process, stdin, deadline - time.monotonic())
    into, *outputs = (open_pipe(pipe).fileno() for pipe in (process.stdin, process.stdout, process.stderr))
    read: dict[int, list[bytes]] = {end: [] for end in outputs}
    watched = select.poll()
    for end in outputs:
        watched.register(end, select.POLLIN)
    os.set_blocking(into, False)
    watched.register(into, select.POLLOUT)
    left = memoryview(stdin)
    size = 0
    while outputs:
        ready = watched.poll(max(0.0, deadline - time.monotonic()) * 1000)
        if not ready:
            raise TimeoutError
        for end, _ in ready:
            if end == into:
                left = _unsent(into, left)
                if not left:
                    watched.unregister(into)
                    open_pipe(process.stdin).close()
                continue
            piece = os.read(end, _CHUNK_BYTES)
            read[end].append(piece)
            size += len(piece)
            if size > OUTPUT_LIMIT_BYTES:
                raise too_much_output()
            if not piece:
                watched.unregister(end)
                outputs.remove(end)
    stdout, stderr = (b"".join(pieces) for pieces in read.values())
    return stdout, stderr


def _communicate(process: subprocess.Popen[bytes], stdin: bytes, timeout_seconds: float) -> tuple[bytes, bytes]:
    """As `_exchange`, on Windows, which polls no pipes."""
    try:
        return process.communicate(stdin, timeout_seconds)
    except _subprocess().TimeoutExpired:
        raise TimeoutError from None


def _unsent(descriptor: int, data: memoryview) -> memoryview:
    """The rest of some data once a pipe has taken as much as it takes now; empty where the reader is gone."""
    try:
        return data[os.write(descriptor, data) :]
    except BrokenPipeError:
        return data[:0]


def end(process: Process) -> None:
    """Kills a process and everything it started; one that has been waited for is left alone."""
    # Not `poll`: a child may have ended while one of its own still holds the pipe.
    if process.returncode is not None:
        return
    try:
        if isinstance(process, Spawned) or hasattr(os, "killpg"):
            os.killpg(process.pid, _KILL)
        else:
            process.kill()
    except ProcessLookupError:
        # It has ended by itself in the meantime.
        return


def close(process: Process) -> None:
    """Closes the pipes to a process."""
    for pipe in (process.stdin, process.stdout, process.stderr):
        try:
            if pipe is not None:
                pipe.close()
        except OSError:
            # The unsent rest has no reader any more.
            continue


def open_pipe(pipe: IO[bytes] | None) -> IO[bytes]:
    """A pipe that was asked for when the process was started."""
    if pipe is None:
        raise BrokenPipeError
    return pipe


def too_much_output() -> TooLarge:
    """The error for more output than anyone could review."""
    return TooLarge(
        f"git answered with more than {OUTPUT_LIMIT_BYTES} bytes; make the change smaller.", limit=OUTPUT_LIMIT_BYTES
    )


def _lacks_memory(words: str) -> bool:
    return any(line.startswith(_NO_MEMORY) or line.endswith("Cannot allocate memory") for line in words.splitlines())


def _command(arguments: Sequence[str]) -> str:
    """The subcommand, after any `-C folder` and `-c name=value`."""
    at = 0
    while arguments[at] in {"-C", "-c"}:
        at += 2
    return arguments[at]


_recent: dict[tuple[str, str | None], str] = {}


def ensure_recent(git: Git) -> str:
    """Checks, once for each program and path, that git is not too old; returns its version line.

    Raises:
        Unavailable: It is, or it is missing.
    """
    place = git.program, os.environ.get("PATH")
    if place in _recent:
        return _recent[place]
    said = git.run(["version"], environment=clean_environment({}, isolated=True)).text[:_VERSION_CHARACTERS]
    parts = said.removeprefix("git version ").split(".")[: len(OLDEST_GIT)]
    if not all(map(str.isdecimal, parts)) or tuple(map(int, parts)) < OLDEST_GIT:
        raise Unavailable(f"{git.program!r} is too old ({said}). {HOW_TO_INSTALL}", program=git.program, actual=said)
    return _recent.setdefault(place, said)


# Where the system keeps files in memory. On a disk, each file or folder made or removed waits for commits to that
# disk, as the broker's own database makes all the time: 5 to 12 ms a validation, against 0.3.
_MEMORY = "/dev/shm"  # noqa: S108 the names made in it cannot be guessed
_ENOUGH_BYTES = 1024**3


def memory_folder() -> str | None:
    """A folder in memory with room to spare; None, which means the usual place, where the system has none."""
    try:
        found = os.statvfs(_MEMORY)
    except (OSError, AttributeError):
        return None
    is_roomy = found.f_bavail * found.f_frsize >= _ENOUGH_BYTES
    return str(_MEMORY) if is_roomy and os.access(_MEMORY, os.W_OK | os.X_OK) else None


_CONFIG = """\
[core]
	repositoryformatversion = {version}
	bare = {bare}
	filemode = true
	symlinks = true
	protectHFS = true
	protectNTFS = true
	fsync = none
	commitGraph = false
	looseCompression = 0
	splitIndex = false
	untrackedCache = false
	fsmonitor = false
[index]
	version = 2
	skipHash = false
[gc]
	auto = 0
"""
_EXTENSIONS = """\
[extensions]
	objectFormat = sha256
"""


def make_git_folder(folder: str, object_format: str, *, bare: bool = True) -> str:
    """Makes a folder a repository in which git obeys only the settings given here; returns its folder of objects.

    Args:
        folder: It is there, and empty of what git knows.
        object_format: `sha1` or `sha256`.
        bare: Whether no working tree belongs to it.
    """
    is_sha256 = object_format == "sha256"
    config = _CONFIG.format(version=int(is_sha256), bare=str(bare).lower()) + (_EXTENSIONS if is_sha256 else "")
    for name, text in (("HEAD", "ref: refs/heads/none\n"), ("config", config)):
        with open(os.path.join(folder, name), "w", encoding="ascii", newline="\n") as file:
            file.write(text)
    os.mkdir(os.path.join(folder, "refs"))
    objects = os.path.join(folder, "objects")
    os.mkdir(objects)
    return objects

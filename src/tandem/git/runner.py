"""Running git: argument lists only, a clean environment, limits to time, memory and output."""

from __future__ import annotations

import heapq
import itertools
import os
import re
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import IO, Self

from tandem import platforms
from tandem.errors import TimedOut, TooLarge, Unavailable

OUTPUT_LIMIT_BYTES = 64 * 1024 * 1024
_WORDS_LIMIT_BYTES = 16 * 1024
_CHUNK_BYTES = 1024 * 1024
_VERSION_CHARACTERS = 100

OLDEST_GIT = (2, 38)
"""The first whose `merge-tree` writes a tree, by which merges are judged; `cat-file --batch-command` is older."""

HOW_TO_INSTALL = (
    f"Install git {'.'.join(map(str, OLDEST_GIT))} or newer (https://git-scm.com/downloads, or the system's package"
    " manager) and put it on PATH."
)

CONTENT_SETTING = "inflated_limit_bytes"
_LEAST_PROCESS_BYTES = 128_000_000
_NO_MEMORY = re.compile(r"^fatal: (?:Out of memory|data too large to fit)|Cannot allocate memory$", re.MULTILINE)
_FILE_TOO_LARGE = -getattr(signal, "SIGXFSZ", 1_000)
"""How a process ends that writes a file over its limit, where the system has such a limit."""

# Whatever else runs here must not steer git, and git must neither ask, nor fetch, nor take a lock it can do without.
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


@dataclass(frozen=True, slots=True)
class Limits:
    """What git may take up for content that somebody else sent.

    Attributes:
        content_bytes: Most bytes of all files that a change touches together, as they are without compression.
    """

    content_bytes: int

    @property
    def process_bytes(self) -> int:
        """Most memory of one git, and most bytes of a file that it writes: it keeps content more than once."""
        return _LEAST_PROCESS_BYTES + 8 * self.content_bytes

    def exceeded(self, actual: int | None = None) -> TooLarge:
        """The error for a change over the limits."""
        return TooLarge(
            f"The files that the change touches have {'too many' if actual is None else actual} bytes without"
            f" compression; {self.content_bytes} are allowed. Make the change smaller, or raise {CONTENT_SETTING}.",
            limit=self.content_bytes,
            setting=CONTENT_SETTING,
            **({} if actual is None else {"actual": actual}),
        )


class GitFailed(Unavailable):
    """Git ended with a status that the caller did not expect.

    Attributes:
        status_code: Git's exit status.
        words: What it said on standard error.
    """

    def __init__(self, command: str, status_code: int, words: str) -> None:
        super().__init__(f"git {command} failed: {words or f'exit status {status_code}'}", git=words)
        self.status_code = status_code
        self.words = words


@dataclass(frozen=True, slots=True)
class Output:
    """What a finished git said.

    Attributes:
        status_code: Its exit status.
        stdout: Its output, as bytes: git's paths and diffs are not text.
        words: Its standard error as text, without trailing white space.
    """

    status_code: int
    stdout: bytes
    words: str


@dataclass(frozen=True, slots=True)
class Git:
    """The git program.

    Attributes:
        program: Its name or path.
        timeout_seconds: How long one command may take.
        limits: What one process may take up; null for a user's own content.
    """

    program: str = "git"
    timeout_seconds: float = 10.0
    limits: Limits | None = None

    def run(
        self,
        arguments: Sequence[str],
        *,
        cwd: Path,
        environment: Mapping[str, str],
        stdin: bytes = b"",
        accept: Sequence[int] = (0,),
    ) -> Output:
        """Runs one command to its end.

        Args:
            arguments: What follows `git`.
            cwd: The folder to run in.
            environment: The whole environment.
            stdin: What git reads.
            accept: The exit statuses that are answers.

        Raises:
            GitFailed: Another exit status.
            TimedOut: The time was up; git and all its children are gone.
            TooLarge: More output than anyone could review, or more memory than is allowed.
            Unavailable: Git, or the folder, is not there.
        """
        # Files instead of pipes: nothing has to be pumped while the output is read.
        with tempfile.TemporaryFile(dir=memory_folder()) as words, _source(stdin) as source:
            process = self.start(arguments, cwd=cwd, environment=environment, stdin=source, stderr=words)
            with process, TimeLimit(process, self.timeout_seconds) as limit:
                stdout = _read(process)
                status_code = process.wait()
            if limit.passed:
                raise TimedOut(
                    f"git {_command(arguments)} did not end within {self.timeout_seconds:g} s; try again.",
                    limit_seconds=self.timeout_seconds,
                )
            words.seek(0)
            said = words.read(_WORDS_LIMIT_BYTES).decode("utf-8", "replace").strip()
        if self.limits is not None and (status_code == _FILE_TOO_LARGE or _NO_MEMORY.search(said)):
            raise self.limits.exceeded()
        if status_code not in accept:
            raise GitFailed(_command(arguments), status_code, said)
        return Output(status_code, stdout, said)

    def start(
        self,
        arguments: Sequence[str],
        *,
        cwd: Path,
        environment: Mapping[str, str],
        stdin: int | IO[bytes],
        stderr: int | IO[bytes],
    ) -> subprocess.Popen[bytes]:
        """Starts one command, in a session of its own, with its output in a pipe.

        Raises:
            Unavailable: Git, or the folder, is not there.
        """
        try:
            process = subprocess.Popen(
                [self.program, *arguments],
                cwd=cwd,
                env=environment,
                stdin=stdin,
                stdout=subprocess.PIPE,
                stderr=stderr,
                start_new_session=True,
            )
        except OSError as exc:
            if not cwd.is_dir():
                raise Unavailable(f"The folder {cwd} is no longer there; restore it.", path=str(cwd)) from exc
            raise Unavailable(
                f"The program {self.program!r} cannot be started ({exc.strerror}). {HOW_TO_INSTALL}",
                program=self.program,
            ) from exc
        if self.limits is not None:
            # From outside, at once: a step between fork and exec would cost threads their safety, and time.
            platforms.limit_process(process.pid, self.limits.process_bytes)
        return process


def too_much_output() -> TooLarge:
    """The error for what is more than anyone could review."""
    return TooLarge(
        f"git answered with more than {OUTPUT_LIMIT_BYTES} bytes; make the change smaller.", limit=OUTPUT_LIMIT_BYTES
    )


@cache
def ensure_recent(git: Git) -> str:
    """Checks, once for each program, that git is not too old; what it says of itself.

    Raises:
        Unavailable: It is, or it is missing.
    """
    output = git.run(["version"], cwd=Path(tempfile.gettempdir()), environment=clean_environment({}, isolated=True))
    said = output.stdout.decode("utf-8", "replace").strip()[:_VERSION_CHARACTERS]
    version = re.match(r"git version (\d+)\.(\d+)", said)
    if version is None or tuple(map(int, version.groups())) < OLDEST_GIT:
        raise Unavailable(f"{git.program!r} is too old ({said}). {HOW_TO_INSTALL}", program=git.program, actual=said)
    return said


def _command(arguments: Sequence[str]) -> str:
    """The subcommand, after any `-c name=value`."""
    at = 0
    while arguments[at] == "-c":
        at += 2
    return arguments[at]


def _source(stdin: bytes) -> IO[bytes]:
    """A file from which a child reads `stdin`."""
    if not stdin:
        return Path(os.devnull).open("rb")
    source = tempfile.TemporaryFile(dir=memory_folder())  # noqa: SIM115 the caller closes it
    source.write(stdin)
    source.seek(0)
    return source


def _read(process: subprocess.Popen[bytes]) -> bytes:
    """All of a process's output, within bounds."""
    stdout = process.stdout
    if stdout is None:  # Only for the type: `start` always asks for a pipe.
        return b""
    chunks: list[bytes] = []
    size = 0
    while chunk := stdout.read(_CHUNK_BYTES):
        chunks.append(chunk)
        size += len(chunk)
        if size > OUTPUT_LIMIT_BYTES:
            end(process)
            raise too_much_output()
    return b"".join(chunks)


def end(process: subprocess.Popen[bytes]) -> None:
    """Kills a process and everything it started; one that has been waited for is left alone."""
    # Not `poll`: a child may have ended while one of its own still holds the pipe.
    if process.returncode is not None:
        return
    # It may end by itself in the meantime.
    with suppress(ProcessLookupError):
        if hasattr(os, "killpg"):
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()


class TimeLimit:
    """Ends a process, and with it every read from its pipes, unless the block ends in time.

    Attributes:
        passed: Whether the time was up.
    """

    def __init__(self, process: subprocess.Popen[bytes], seconds: float) -> None:
        self.passed = False
        self.due = time.monotonic() + seconds
        self._process: subprocess.Popen[bytes] | None = process
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        _watchdog.watch(self)
        return self

    def __exit__(self, *_: object) -> None:
        # Once the lock is had, the process is not ended any more, whoever has its number next.
        with self._lock:
            self._process = None

    @property
    def over(self) -> bool:
        """Whether the block has ended."""
        return self._process is None

    def enforce(self) -> None:
        """Ends the process if it is still needed."""
        with self._lock:
            if self._process is not None:
                self.passed = True
                end(self._process)


class _Watchdog:
    """One thread for all time limits: a thread each would cost more than some git commands take."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._limits: list[tuple[float, int, TimeLimit]] = []
        self._order = itertools.count()
        self._thread: threading.Thread | None = None

    def watch(self, limit: TimeLimit) -> None:
        with self._changed:
            heapq.heappush(self._limits, (limit.due, next(self._order), limit))
            # A fork leaves the thread behind.
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._run, name="git-time-limits", daemon=True)
                self._thread.start()
            elif self._limits[0][2] is limit:
                self._changed.notify()

    def _run(self) -> None:
        while True:
            for limit in self._next_due():
                limit.enforce()

    def _next_due(self) -> list[TimeLimit]:
        """Waits until some limit may have passed."""
        with self._changed:
            while self._limits and self._limits[0][2].over:
                heapq.heappop(self._limits)
            self._changed.wait(self._limits[0][0] - time.monotonic() if self._limits else None)
            due: list[TimeLimit] = []
            while self._limits and self._limits[0][0] <= time.monotonic():
                due.append(heapq.heappop(self._limits)[2])
            return due


_watchdog = _Watchdog()


# Where the system keeps files in memory. On a disk, each file or folder made or removed waits for whoever is
# committing there, as the broker's own database does all the time: 5 to 12 ms a validation, against 0.3.
_MEMORY = Path("/dev/shm")  # noqa: S108 what is made in it has names that cannot be guessed
_ENOUGH_BYTES = 1024**3


def memory_folder() -> str | None:
    """A folder in memory with room to spare; None, which means the usual place, where the system has none."""
    try:
        roomy = shutil.disk_usage(_MEMORY).free >= _ENOUGH_BYTES
    except OSError:
        return None
    return str(_MEMORY) if roomy and os.access(_MEMORY, os.W_OK | os.X_OK) else None

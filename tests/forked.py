"""`tandem` as a process of its own, forked from one that has its imports: see `tests/fork_server.py`."""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any, Literal, Self

from tandem.core import platforms
from tests.fork_server import NUMBER
from tests.recording import executed

Session = Literal["tests", "own", "terminal"]
"""Whose session a process is in: the tests', its own, or its own with its input as the controlling terminal."""

ROOT = Path(__file__).resolve().parents[1]
# What an interpreter reads once, at its start; and coverage, which begins with the interpreter.
_TAKE_TERMINAL = (
    "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execvp(sys.argv[1], sys.argv[1:])"
)
_OF_THE_INTERPRETER = ("PYTHON", "LC_", "LANG", "TZ", "LD_", "COV")


def start_tandem(
    arguments: Sequence[str],
    folder: Path,
    environment: Mapping[str, str],
    *,
    stdin: int = subprocess.DEVNULL,
    stdout: int,
    stderr: int,
    module: str = "tandem",
    session: Session = "tests",
) -> Started:
    """Start `tandem` with these arguments, in this folder and with this environment.

    Args:
        arguments: Without the program's name.
        folder: Where it runs.
        environment: All of it.
        stdin: A descriptor, or `subprocess.PIPE`; by default there is no input.
        stdout: A descriptor, or `subprocess.PIPE`.
        stderr: As `stdout`.
        module: What to run, if not `tandem` itself.
        session: Whose session it is in.
    """
    if module == "tandem":
        executed.append(tuple(arguments))
    if _can_fork(environment):
        return Forked(arguments, folder, environment, stdin, stdout, stderr, module=module, session=session)
    if module.startswith("tests."):
        environment = {**environment, "PYTHONPATH": str(ROOT)}
    apart = {} if session == "tests" else platforms.detached()
    opener = [sys.executable, "-I", "-S", "-c", _TAKE_TERMINAL] if session == "terminal" else []
    return subprocess.Popen(
        [*opener, sys.executable, "-m", module, *arguments],
        cwd=folder,
        env=environment,
        stdin=stdin,
        stdout=stdout,
        stderr=stderr,
        start_new_session=bool(apart.get("start_new_session")),
        creationflags=int(apart.get("creationflags", 0)),
    )


def run_tandem(
    arguments: Sequence[str],
    folder: Path,
    environment: Mapping[str, str],
    *,
    told: bytes = b"",
    seconds: float,
    session: Session = "tests",
) -> subprocess.CompletedProcess[str]:
    """Run `tandem` to its end, as `start_tandem` starts it, with an input.

    Raises:
        TimeoutExpired: It still ran after so many seconds.
    """
    with TemporaryFile() as given, TemporaryFile() as out, TemporaryFile() as errors:
        given.write(told)
        given.seek(0)
        streams = [stream.fileno() for stream in (given, out, errors)]
        started = start_tandem(
            arguments, folder, environment, stdin=streams[0], stdout=streams[1], stderr=streams[2], session=session
        )
        with started as process:
            try:
                status = process.wait(seconds)
            except subprocess.TimeoutExpired:
                process.kill()
                raise
        said = [_all_of(stream) for stream in (out, errors)]
    return subprocess.CompletedProcess(["tandem", *arguments], status, *said)


def _all_of(stream: IO[bytes]) -> str:
    stream.seek(0)
    return stream.read().decode()


def _can_fork(environment: Mapping[str, str]) -> bool:
    """Whether a fork would be what a start is: on Linux, if this environment means the same to an interpreter as ours.

    Elsewhere forks are not safe, or there are none; and where coverage is measured, a start begins the measuring.
    """
    if sys.platform != "linux" or any(name.startswith("COV") for name in os.environ):
        return False
    return _of_the_interpreter(environment) == _of_the_interpreter(os.environ)


def _of_the_interpreter(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environment.items() if name.startswith(_OF_THE_INTERPRETER)}


class Forked:
    """A process of `tandem`, with what tests need of `subprocess.Popen`.

    Attributes:
        pid: Its id.
        stdin: Where to tell it something, if a pipe was wanted.
        stdout: Its output, if a pipe was wanted.
        stderr: As `stdout`.
        returncode: Its exit status once `poll` or `wait` has seen its end; negative is the number of a signal.
    """

    def __init__(
        self,
        arguments: Sequence[str],
        folder: Path,
        environment: Mapping[str, str],
        *streams: int,
        module: str = "tandem",
        session: Session = "tests",
    ) -> None:
        """Fork it; the arguments are those of `start_tandem`, the streams in the order of their numbers."""
        # As `Popen` has it: who has waited need not ask whether it is there.
        self.returncode: int | Any = None
        self.stdin: IO[bytes] | None = None
        self.stdout: IO[bytes] | None = None
        self.stderr: IO[bytes] | None = None
        stdin, stdout, stderr = streams
        self._report, told = os.pipe()
        theirs = [told]
        if stdin == subprocess.DEVNULL:
            stdin = os.open(os.devnull, os.O_RDONLY)
            theirs.append(stdin)
        elif stdin == subprocess.PIPE:
            stdin, ours = os.pipe()
            theirs.append(stdin)
            self.stdin = os.fdopen(ours, "wb")
        if stdout == subprocess.PIPE:
            ours, stdout = os.pipe()
            theirs.append(stdout)
            self.stdout = os.fdopen(ours, "rb")
        if stderr == subprocess.PIPE:
            ours, stderr = os.pipe()
            theirs.append(stderr)
            self.stderr = os.fdopen(ours, "rb")
        wanted: dict[str, object] = {"module": module, "arguments": list(arguments), "session": session}
        wanted |= {"folder": str(folder), "environment": dict(environment)}
        try:
            _server().order(wanted, [stdin, stdout, stderr, told])
        finally:
            for descriptor in theirs:
                os.close(descriptor)
        self.pid = self._next()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for stream in (self.stdin, self.stdout, self.stderr):
            if stream is not None:
                stream.close()
        self.wait()

    def communicate(self, told: bytes = b"", timeout: float | None = None) -> tuple[bytes, bytes]:
        """Tell it something, and wait for its end; its output meanwhile, on two pipes.

        Raises:
            TimeoutExpired: It still runs after `timeout` seconds.
        """
        if self.stdin is not None:
            with contextlib.suppress(BrokenPipeError), self.stdin:
                self.stdin.write(told)
        with ThreadPoolExecutor(2) as pool:
            said = [pool.submit(stream.read) for stream in (self.stdout, self.stderr) if stream is not None]
            try:
                self.wait(timeout)
            except subprocess.TimeoutExpired:
                # Its end is also that of the reading.
                self.kill()
                raise
            stdout, stderr = (one.result() for one in said)
        return stdout, stderr

    def poll(self) -> int | None:
        """Its exit status, None while it runs."""
        return self._look(0)

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end; its exit status.

        Raises:
            TimeoutExpired: It still runs after `timeout` seconds.
        """
        status = self._look(timeout)
        if status is None:
            raise subprocess.TimeoutExpired("tandem", timeout or 0)
        return status

    def send_signal(self, number: int) -> None:
        """Signal it, if it runs."""
        if self.poll() is None:
            # The process that forks has seen its end a moment before it tells us.
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def terminate(self) -> None:
        """Ask it to end."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """End it."""
        self.send_signal(signal.SIGKILL)

    def _look(self, timeout: float | None) -> int | None:
        if self.returncode is None:
            poller = select.poll()
            poller.register(self._report, select.POLLIN)
            if poller.poll(None if timeout is None else timeout * 1000):
                self.returncode = self._next()
                os.close(self._report)
        return self.returncode

    def _next(self) -> int:
        told = os.read(self._report, NUMBER.size)
        assert told, "the process that forks has ended"
        return NUMBER.unpack(told)[0]


Started = Forked | subprocess.Popen[bytes]
"""What `start_tandem` starts."""


class _Server:
    """The process that forks; it ends with the socket to it, and so with the tests."""

    def __init__(self) -> None:
        self._socket, theirs = socket.socketpair()
        with theirs:
            command = [sys.executable, "-m", "tests.fork_server", str(theirs.fileno())]
            self._process = subprocess.Popen(
                command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, pass_fds=[theirs.fileno()]
            )
        self._lock = threading.Lock()

    def order(self, wanted: Mapping[str, object], descriptors: list[int]) -> None:
        body = json.dumps(wanted).encode()
        with self._lock:
            socket.send_fds(self._socket, [NUMBER.pack(len(body))], descriptors)
            self._socket.sendall(body)

    def close(self) -> None:
        self._socket.close()
        self._process.wait()


@cache
def _server() -> _Server:
    server = _Server()
    atexit.register(server.close)
    return server

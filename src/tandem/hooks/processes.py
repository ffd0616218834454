"""Running a process to its end, with its input and outputs in memory.

By `posix_spawn` where there is one: `subprocess` takes longer to import than git to answer.
"""

from __future__ import annotations

import os
import time

TYPE_CHECKING = False  # as in `jsontext`
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_CHUNK_BYTES = 65_536
_KILL = 9


class Overdue(Exception):
    """The process did not end in time, and was ended."""


def run(
    command: Sequence[str], *, cwd: str, environment: Mapping[str, str], stdin: bytes, timeout_seconds: float
) -> tuple[int, bytes, bytes]:
    """Exit status (negative: a signal's number), standard output, standard error.

    Args:
        command: `git` and its arguments; git itself changes into the folder.
        cwd: The folder to run in.
        environment: The whole environment.
        stdin: What it reads.
        timeout_seconds: How long it may take.

    Raises:
        OSError: It cannot be started.
        Overdue: The time was up.
    """
    if not hasattr(os, "posix_spawnp"):
        return _by_subprocess(command, cwd, environment, stdin, timeout_seconds)
    program, *arguments = command
    ours, theirs = _pipes()
    try:
        actions = [(os.POSIX_SPAWN_DUP2, end, number) for number, end in enumerate(theirs)]
        pid = os.posix_spawnp(program, [program, "-C", cwd, *arguments], environment, file_actions=actions)
    except OSError:
        _close(ours)
        raise
    finally:
        _close(theirs)
    try:
        output, words = _converse(ours, stdin, time.monotonic() + timeout_seconds)
    except Overdue:
        os.kill(pid, _KILL)
        raise
    finally:
        _close(ours)
        _, status = os.waitpid(pid, 0)
    return os.waitstatus_to_exitcode(status), output, words


def _pipes() -> tuple[list[int], list[int]]:
    """Our ends and theirs of the three standard streams; the one list begins with what we write, the others we read."""
    read_in, write_in = os.pipe()
    read_out, write_out = os.pipe()
    read_words, write_words = os.pipe()
    return [write_in, read_out, read_words], [read_in, write_out, write_words]


def _converse(ours: list[int], stdin: bytes, deadline: float) -> tuple[bytes, bytes]:
    """Write and read whatever is ready, until they have closed both of their ends."""
    import select

    writing, *reading = ours
    read: dict[int, list[bytes]] = {end: [] for end in reading}
    watched = select.poll()
    for end in reading:
        watched.register(end, select.POLLIN)
    os.set_blocking(writing, False)
    left = memoryview(stdin)
    left = _write(writing, left, ours)
    if left:
        watched.register(writing, select.POLLOUT)
    open_ends = set(reading)
    while open_ends:
        seconds = deadline - time.monotonic()
        ready = watched.poll(max(0.0, seconds) * 1000)
        if not ready and seconds <= 0:
            raise Overdue
        for end, _ in ready:
            if end == writing:
                left = _write(writing, left, ours)
                if not left:
                    watched.unregister(end)
                continue
            piece = os.read(end, _CHUNK_BYTES)
            read[end].append(piece)
            if not piece:
                watched.unregister(end)
                open_ends.discard(end)
    return b"".join(read[reading[0]]), b"".join(read[reading[1]])


def _write(end: int, left: memoryview, ours: list[int]) -> memoryview:
    """Write what the pipe takes; what is left, nothing once all is written or they read no more."""
    try:
        while left:
            left = left[os.write(end, left) :]
    except BlockingIOError:
        return left
    except BrokenPipeError:
        left = left[:0]
    _close([end])
    ours[0] = -1
    return left


def _close(ends: list[int]) -> None:
    for end in ends:
        if end >= 0:
            os.close(end)


def _by_subprocess(
    command: Sequence[str], cwd: str, environment: Mapping[str, str], stdin: bytes, timeout_seconds: float
) -> tuple[int, bytes, bytes]:
    import subprocess

    try:
        done = subprocess.run(
            list(command),
            cwd=cwd,
            env=dict(environment),
            input=stdin,
            capture_output=True,
            check=False,
            timeout=timeout_seconds,
        )
    except subprocess.TimeoutExpired as error:
        raise Overdue from error
    return done.returncode, done.stdout, done.stderr

"""Running one program with limits, and ending it with everything that it started.

    start ─▶ prompt on standard input ─▶ output is pumped by two threads ─▶ it ends, or is ended ─▶ nothing is left

However a program behaves, `run` comes back: it may hang, ignore signals, fork children that leave its
session, close its output, fill its standard error, write without end, or never read its input.
"""

from __future__ import annotations

import os
import secrets
import select
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, cast

from tandem.core import files
from tandem.core.platforms import ProcessIdentity
from tandem.core.scratch import remove_tree
from tandem.errors import Unavailable
from tandem.pool.reviewers import (
    DESK_FOLDER,
    GIVEN_FOLDER,
    HOME_FOLDER,
    RUN_VARIABLE,
    TEMPORARY_FOLDER,
    EndedBy,
    Finished,
    Invocation,
    RunLimits,
    wsl,
)
from tandem.pool.reviewers.processes import ProcessTree, has_ended, identity_of, start_program
from tandem.pool.reviewers.proof import Redactor
from tandem.pool.rules import CANNOT_START

if TYPE_CHECKING:
    from collections.abc import Generator

_LOOK_SECONDS = 0.05
_DESCENDANTS_EVERY_SECONDS = 1.0
_LOOKS = 8
"""How often at least a program is looked at before it has been silent for too long."""
_BUSY_SHARE = 0.02
"""Of one processor. Who only waits has timers; less than this is no work."""
_NAMED_AFTER = 0.5
"""The part of `silence_seconds` after which a program is called silent."""
_STDERR_TAIL_BYTES = 16 * 1024
_ENDLESS_TIMES = 16
_ENDLESS_BYTES = 64 * 1024 * 1024
"""A program that wrote more than this, and so many times the part that is kept, is taken to have no end."""
_LAST_WORDS_SECONDS = 2.0
"""How long a dead program's output may take to be read."""
_CHUNK_BYTES = 64 * 1024
_ENOUGH_MS = 250
"""How often a reader that waits looks whether more still matters."""
_CAN_WAIT = hasattr(select, "poll")
"""Windows cannot wait for pipes: a reader that is stuck there ends with our own process."""


PRIVATE_FOLDERS = (HOME_FOLDER, DESK_FOLDER, GIVEN_FOLDER, TEMPORARY_FOLDER)


@contextmanager
def folder_for_run(parent: str) -> Generator[Path]:
    """A private folder for one run; gone afterwards.

    Raises:
        OSError: It cannot be made.
    """
    folder = Path(tempfile.mkdtemp(prefix="run-", dir=parent))
    try:
        yield folder
    finally:
        # What stays is the supervisor's to remove.
        remove_tree(str(folder))


def lay_out(scratch: Path, contents: Mapping[str, bytes]) -> None:
    """Makes the folders that a run needs and writes its files, all for the user alone.

    Args:
        scratch: A folder that exists and that is closed to others.
        contents: By path below `scratch`, with `/` between the parts.

    Raises:
        OSError: The disk does not take it, or a file is there already.
    """
    for name in PRIVATE_FOLDERS:
        (scratch / name).mkdir(mode=0o700, exist_ok=True)
    for name, content in contents.items():
        path = scratch / name
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        files.write_new(path, content, durable=False)


def run(
    invocation: Invocation,
    limits: RunLimits,
    *,
    on_start: Callable[[ProcessIdentity], None],
    cancelled: threading.Event,
    log: Callable[[bytes], object] = lambda _: None,
    hidden: Redactor | None = None,
    tell: Callable[[float, float | None], None] = lambda _output, _silent: None,
) -> Finished:
    """Runs a program to its end and takes all of its processes away; blocks meanwhile.

    Args:
        invocation: What to run. Its files have to be there already (`lay_out`).
        limits: When to end it.
        on_start: Is told, once, which process it is.
        cancelled: Ends it when set.
        log: Gets a copy of both outputs as they come.
        tell: Is told several times a second when its last output came (0: none did), and since when it is silent, if
            it is: neither writes nor uses the processor. Both on the monotonic clock.
        hidden: Writes stars for the numbers that the log must not have: others read it while the program runs.

    Raises:
        Unavailable: The program cannot be started.
    """
    if cancelled.is_set():
        return Finished(None, b"", b"", "cancelled", 0.0, output_was_cut=False)
    token = secrets.token_hex(16)
    with tempfile.TemporaryFile() as source:
        # A file and not a pipe: a program that never reads its prompt cannot block anybody.
        source.write(invocation.stdin)
        source.seek(0)
        started = time.monotonic()
        process, environment = _start(invocation, token, source)

    def signal_inside(name: str) -> None:
        if invocation.wsl_distro is not None:
            wsl.signal_all(invocation.wsl_distro, token, name, environment)

    lock = threading.Lock()

    def write(chunk: bytes) -> None:
        # A log that cannot be written is no reason to lose a review.
        with lock, suppress(OSError, ValueError):
            log(chunk)

    news, redactor = threading.Event(), hidden or Redactor()
    stdout = _OutputReader(cast("IO[bytes]", process.stdout), limits.output_bytes, write, redactor, news)
    stderr = _OutputReader(cast("IO[bytes]", process.stderr), _STDERR_TAIL_BYTES, write, redactor, news)
    tree = ProcessTree({RUN_VARIABLE: token}, process)
    running = _Running(process, tree, stdout, stderr, news, signal_inside, tell)
    with running:
        on_start(identity_of(process))
        ended_by = running.watch(limits, cancelled, started, talks=invocation.talks)
    seconds = time.monotonic() - started
    return Finished(process.returncode, stdout.content(), stderr.content(), ended_by, seconds, stdout.was_cut)


@dataclass(frozen=True, slots=True)
class _Running:
    """A program that runs; leaving the block ends every process of it, also after an error."""

    process: subprocess.Popen[bytes]
    tree: ProcessTree
    stdout: _OutputReader
    stderr: _OutputReader
    news: threading.Event
    signal_inside: Callable[[str], None]
    tell: Callable[[float, float | None], None]

    def __enter__(self) -> None:
        try:
            self.stdout.start()
            self.stderr.start()
        except BaseException:
            self.__exit__()
            raise

    def __exit__(self, *_: object) -> None:
        try:
            self.signal_inside("KILL")
            # Only now is it reaped: until here its number could not become anybody else's.
            self.tree.end()
        finally:
            self.stdout.finish(_LAST_WORDS_SECONDS)
            self.stderr.finish(_LAST_WORDS_SECONDS)

    def watch(self, limits: RunLimits, cancelled: threading.Event, started: float, *, talks: bool) -> EndedBy:
        """Waits until the program ends, or ends it; says which."""
        looked, worked, used = started, started, 0.0
        silence = limits.silence_seconds or float("inf")
        every = min(_DESCENDANTS_EVERY_SECONDS, silence / _LOOKS)
        while not has_ended(self.process):
            now, spoke = time.monotonic(), max(self.stdout.last, self.stderr.last)
            if now - looked > every:
                self.tree.look()
                before, used = used, self.tree.processor_seconds()
                worked = now if used - before > _BUSY_SHARE * (now - looked) else worked
                looked = now
            worked = max(worked, spoke)
            self.tell(spoke, worked if now - worked > silence * _NAMED_AFTER else None)
            reason = "cancelled" if cancelled.is_set() else self._exceeded(limits, started, now, talks=talks)
            if reason is None and now - worked > silence:
                reason = "silence"
            if reason is not None:
                self._stop(limits.grace_seconds)
                return reason
            self.news.wait(_LOOK_SECONDS)
            self.news.clear()
        return "itself"

    def _exceeded(self, limits: RunLimits, started: float, now: float, *, talks: bool) -> EndedBy | None:
        if now - started > limits.total_seconds:
            return "timeout"
        if self.stdout.total + self.stderr.total > max(_ENDLESS_BYTES, _ENDLESS_TIMES * limits.output_bytes):
            return "too_much_output"
        is_mute = talks and not max(self.stdout.last, self.stderr.last)
        if is_mute and limits.start_seconds is not None and now - started > limits.start_seconds:
            return "timeout"
        return None

    def _stop(self, grace_seconds: float) -> None:
        """Asks it to end, and waits as long as it is granted."""
        deadline = time.monotonic() + grace_seconds
        self.signal_inside("TERM")
        self.tree.ask_to_stop()
        while not has_ended(self.process) and time.monotonic() < deadline:
            time.sleep(_LOOK_SECONDS)


def _start(invocation: Invocation, token: str, source: IO[bytes]) -> tuple[subprocess.Popen[bytes], dict[str, str]]:
    """Starts it; gives the process, and the environment that it was started with."""
    argv, folder = [*invocation.argv], invocation.folder
    environment = {**invocation.environment, RUN_VARIABLE: token}
    if invocation.wsl_distro is not None:
        argv, environment = wsl.wrapped(invocation, invocation.wsl_distro, token, os.environ)
        folder = os.curdir
    try:
        process = start_program(argv, folder, environment, stdin=source, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    except OSError as error:
        raise _cannot_start(argv[0], folder, error) from error
    return process, environment


def _cannot_start(program: str, folder: str, error: OSError) -> Unavailable:
    if not os.path.isdir(folder):  # noqa: PTH112 - a text, as given
        return Unavailable(f"The reviewer cannot start in {folder!r}: that is no folder. Restore it.", path=folder)
    return Unavailable(
        f"The reviewer's program {program!r} {CANNOT_START}{error.strerror}). Install it and put it on the"
        " PATH of the broker, or choose another provider.",
        program=program,
    )


class OutputTail:
    """The end of a stream of bytes.

    Attributes:
        total: How many bytes came.
        last: When the last ones came, on the monotonic clock; 0 before the first.
    """

    def __init__(self, limit_bytes: int) -> None:
        self.total = 0
        self.last = 0.0
        self._limit = limit_bytes
        self._kept = bytearray()

    @property
    def was_cut(self) -> bool:
        """Whether the beginning is gone."""
        return self.total > self._limit

    def add(self, chunk: bytes) -> None:
        """Takes the next bytes."""
        self.total += len(chunk)
        self.last = time.monotonic()
        self._kept += chunk
        # Not each time: moving the bytes costs more than keeping them twice.
        if len(self._kept) > 2 * self._limit + _CHUNK_BYTES:
            del self._kept[: -self._limit]

    def content(self) -> bytes:
        """At most the last `limit_bytes`."""
        return bytes(self._kept[max(0, len(self._kept) - self._limit) :])


class _OutputReader(OutputTail):
    """A thread that reads a program's output to its end, or until it is told that nothing more matters."""

    def __init__(
        self,
        pipe: IO[bytes],
        limit_bytes: int,
        write: Callable[[bytes], None],
        hidden: Redactor,
        at_end: threading.Event,
    ) -> None:
        super().__init__(limit_bytes)
        self._pipe = pipe
        self._write = write
        self._hidden = hidden
        self._at_end = at_end
        self._enough = threading.Event()
        self._thread = threading.Thread(target=self._run, name="reviewer-output", daemon=True)

    def start(self) -> None:
        """Begins to read.

        Raises:
            RuntimeError: There are no more threads.
        """
        self._thread.start()

    def finish(self, seconds: float) -> None:
        """Reads the rest, for so long at most, and closes the pipe.

        A process that left the program's session, its ancestors and its environment may hold the other end open.
        """
        if self._thread.ident is not None:
            self._thread.join(seconds)
            self._enough.set()
            if _CAN_WAIT:
                self._thread.join()
        if not self._thread.is_alive():
            self._pipe.close()

    def _run(self) -> None:
        descriptor = self._pipe.fileno()
        # The end of a chunk is written with the next one where a number to be hidden may go on in that.
        unsure = b""
        # An error is an end too: there is nothing more to be had.
        with suppress(OSError):
            while self._waits(descriptor) and (chunk := os.read(descriptor, _CHUNK_BYTES)):
                self.add(chunk)
                shown, unsure = self._hidden.ready(unsure + chunk)
                self._write(shown)
        self._write(self._hidden.hide(unsure))
        self._at_end.set()

    def _waits(self, descriptor: int) -> bool:
        """Waits until there is something to read; false once it is enough."""
        if not _CAN_WAIT:
            return True
        # Not `select`: its descriptors end at 1023.
        waiting = select.poll()
        waiting.register(descriptor, select.POLLIN)
        while not waiting.poll(_ENOUGH_MS):
            if self._enough.is_set():
                return False
        return not self._enough.is_set()

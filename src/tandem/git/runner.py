"""Running git: argument lists only, a clean environment, a limit to time and to output."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from tandem.errors import TimedOut, TooLarge, Unavailable
from tandem.git.deadlines import TimeLimit, end
from tandem.git.memory import memory_folder

_OUTPUT_LIMIT_BYTES = 64 * 1024 * 1024
_WORDS_LIMIT_BYTES = 16 * 1024
_CHUNK_BYTES = 1024 * 1024

# Whatever else runs here must not steer git, and git must neither ask, nor fetch, nor take a lock it can do without.
_ALWAYS = {
    "LC_ALL": "C",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_PAGER": "cat",
    "GIT_TERMINAL_PROMPT": "0",
}
# For git folders of our own: no configuration and no attributes but those in them.
_ISOLATED = {
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
    """

    program: str = "git"
    timeout_seconds: float = 10.0

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
            TooLarge: More output than anyone could review.
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
            return subprocess.Popen(
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
                f"The program {self.program!r} cannot be started ({exc.strerror}). Install git 2.31 or newer"
                " (https://git-scm.com/downloads, or the system's package manager) and put it on PATH.",
                program=self.program,
            ) from exc


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
        if size > _OUTPUT_LIMIT_BYTES:
            end(process)
            raise TooLarge(
                f"git answered with more than {_OUTPUT_LIMIT_BYTES} bytes; make the change smaller.",
                limit=_OUTPUT_LIMIT_BYTES,
            )
    return b"".join(chunks)

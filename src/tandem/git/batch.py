"""A `git cat-file --batch-command` that stays: one question costs a line in a pipe instead of a process."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import IO, TypeVar

from tandem.errors import TimedOut
from tandem.git.deadlines import TimeLimit, end
from tandem.git.layout import Layout, neutral_folder
from tandem.git.runner import OUTPUT_LIMIT_BYTES, Git, too_much_output
from tandem.git.scratch import Scratch

T = TypeVar("T")

# So much fits into every system's pipe, so that no side ever waits for the other to read first.
_QUESTION_BYTES = 3_500
_HEADER_FIELDS = 3


@dataclass(frozen=True, slots=True)
class GitObject:
    """An object as git stores it.

    Attributes:
        oid: Its id.
        kind: `commit`, `tree`, `blob` or `tag`.
        content: Its bytes.
    """

    oid: str
    kind: str
    content: bytes


class BatchEnded(Exception):
    """The process ended, by itself or by the system."""


class Batch:
    """One process; used by one thread at a time, and not again after an error."""

    def __init__(self, git: Git, layout: Layout) -> None:
        self._timeout_seconds = git.timeout_seconds
        # Git looks at its folder once, before the first answer: the folder has the configuration, and nothing else.
        with Scratch(git, layout) as scratch:
            self._process = git.start(
                ["cat-file", "--batch-command", "--buffer"],
                cwd=neutral_folder(),
                environment={**scratch.environment, "GIT_OBJECT_DIRECTORY": str(layout.object_folder)},
                stdin=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
            )
            try:
                self.ask([layout.objects.empty_tree.encode()])
            except BaseException:
                self.close()
                raise

    def ask(self, names: Sequence[bytes]) -> list[GitObject | None]:
        """The objects of these names, in order; None for what does not exist.

        Raises:
            TimedOut: No answer in time.
            TooLarge: An object that nobody would read.
            BatchEnded: The process died.
        """
        return self._ask(b"contents", names, self._object)

    def sizes(self, names: Sequence[bytes]) -> list[int | None]:
        """How many bytes the objects of these names have; otherwise as `ask`."""
        return self._ask(b"info", names, lambda header: int(header[2]))

    def _ask(self, command: bytes, names: Sequence[bytes], read: Callable[[list[bytes]], T]) -> list[T | None]:
        answers: list[T | None] = []
        with TimeLimit(self._process, self._timeout_seconds) as limit:
            try:
                for part in _in_parts([command + b" " + name for name in names]):
                    self._send(part)
                    for _ in part:
                        header = self._header()
                        answers.append(None if header is None else read(header))
            except (BatchEnded, OSError) as exc:
                if limit.passed:
                    raise TimedOut(
                        f"git cat-file did not answer within {self._timeout_seconds:g} s; try again.",
                        limit_seconds=self._timeout_seconds,
                    ) from exc
                raise BatchEnded from exc
        return answers

    def _send(self, lines: Sequence[bytes]) -> None:
        stdin = _pipe(self._process.stdin)
        # All answers at once: each would wake us up by itself.
        stdin.write(b"".join(line + b"\n" for line in [*lines, b"flush"]))
        stdin.flush()

    def _header(self) -> list[bytes] | None:
        """Id, kind and size of an object; None if there is none."""
        stdout = _pipe(self._process.stdout)
        line = stdout.readline()
        if not line.endswith(b"\n"):
            raise BatchEnded
        header = line[:-1].split(b" ")
        # `<name> missing`, `<name> ambiguous`; a name may have spaces, but no size is a word.
        if len(header) != _HEADER_FIELDS or not header[2].isdigit():
            return None
        return header

    def _object(self, header: list[bytes]) -> GitObject:
        size = int(header[2])
        if size > OUTPUT_LIMIT_BYTES:
            raise too_much_output()
        content = _pipe(self._process.stdout).read(size + 1)
        if len(content) != size + 1:
            raise BatchEnded
        return GitObject(header[0].decode(), header[1].decode(), content[:-1])

    def close(self) -> None:
        """Ends the process."""
        end(self._process)
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            # What was still unsent has no reader any more.
            with suppress(OSError):
                _pipe(pipe).close()


def _pipe(pipe: IO[bytes] | None) -> IO[bytes]:
    """A pipe that was asked for when the process was started."""
    if pipe is None:
        raise BatchEnded
    return pipe


def _in_parts(lines: Sequence[bytes]) -> Iterator[list[bytes]]:
    """The lines in groups that can be sent at once."""
    part: list[bytes] = []
    size = 0
    for line in lines:
        if part and size + len(line) >= _QUESTION_BYTES:
            yield part
            part, size = [], 0
        part.append(line)
        size += len(line) + 1
    if part:
        yield part

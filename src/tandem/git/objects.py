"""Commits and trees of a repository, for any number of threads.

They come from a `git cat-file --batch-command` that stays: one question costs a line in a pipe instead of a process.
"""

from __future__ import annotations

import re
import stat
import threading
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self, TypeVar

from tandem.core.recent import Recent
from tandem.errors import TimedOut, Unavailable
from tandem.git.changes import Entry
from tandem.git.layout import Layout, Scratch, fetching, neutral_folder
from tandem.git.raw import EXECUTABLE, REGULAR
from tandem.git.runner import OUTPUT_LIMIT_BYTES, Git, close, end, open_pipe, too_much_output

if TYPE_CHECKING:
    from tandem.git.runner import Process

T = TypeVar("T")
_PROCESSES = 4
_CACHED_ENTRIES = 60_000
_TREE_MODE = "040000"


@dataclass(frozen=True, slots=True)
class Lookup:
    """What a tree holds at some paths.

    Attributes:
        entries: The paths that are files (or links, or submodules).
        conflicts: The paths that are folders, or lie below something that is none.
    """

    entries: dict[bytes, Entry]
    conflicts: frozenset[bytes]


class ObjectReader:
    """Commits and trees of one repository, for any number of threads."""

    def __init__(self, git: Git, layout: Layout) -> None:
        self._git = git
        self._layout = layout
        self._idle: list[Batch] = []
        self._places = threading.BoundedSemaphore(_PROCESSES)
        self._lock = threading.Lock()
        self._closed = False
        self._trees = Recent[str, dict[bytes, Entry]](_CACHED_ENTRIES, len)

    def close(self) -> None:
        """Ends the processes; a later question starts a new one."""
        with self._lock:
            idle, self._idle = self._idle, []
            self._closed = True
        for batch in idle:
            batch.close()

    def find(self, names: Sequence[bytes]) -> list[GitObject | None]:
        """The objects of these names, in order; None for what does not exist.

        Raises:
            TimedOut: No answer in time.
            Unavailable: The repository is gone, or git cannot be started.
        """
        answers = self._ask(lambda batch: batch.ask(names))
        if None in answers:
            # A process reads the list of alternates only once.
            self._layout.ensure_present()
            answers = self._ask(lambda batch: batch.ask(names), fresh=True)
        return answers

    def sizes(self, oids: Iterable[str]) -> dict[str, int]:
        """How many bytes objects have, by their ids; those that are missing are left out.

        Raises:
            TimedOut: No answer in time.
            Unavailable: The repository is gone, or git cannot be started.
        """
        wanted = sorted(set(oids))
        found = self._ask(lambda batch: batch.sizes([oid.encode("ascii") for oid in wanted])) if wanted else []
        return {oid: size for oid, size in zip(wanted, found, strict=True) if size is not None}

    def _ask(self, question: Callable[[Batch], T], *, fresh: bool = False) -> T:
        try:
            return self._ask_once(question, fresh=fresh)
        except BatchEnded:
            self._layout.ensure_present()
        try:
            return self._ask_once(question, fresh=True)
        except BatchEnded as exc:
            raise Unavailable(
                f"git cannot read the repository at {self._layout.root}; `git status` there says more.",
                path=str(self._layout.root),
            ) from exc

    def _ask_once(self, question: Callable[[Batch], T], *, fresh: bool) -> T:
        with self._lease(fresh=fresh) as batch:
            return question(batch)

    @contextmanager
    def _lease(self, *, fresh: bool) -> Generator[Batch]:
        """A process for one question; one that failed is not used again."""
        with self._places:
            with self._lock:
                batch = self._idle.pop() if self._idle else None
                self._closed = False
            if batch is not None and fresh:
                batch.close()
                batch = None
            if batch is None:
                batch = Batch(self._git, self._layout)
            try:
                yield batch
            except BaseException:
                batch.close()
                raise
            with self._lock:
                if not self._closed:
                    self._idle.append(batch)
                    return
            batch.close()

    def tree(self, oid: str) -> dict[bytes, Entry]:
        """The entries directly in one tree.

        Raises:
            Unavailable: The repository lacks the tree.
        """
        return self._read_trees({oid})[oid]

    def _read_trees(self, oids: set[str]) -> dict[str, dict[bytes, Entry]]:
        known = {oid: self._trees.get(oid) for oid in oids}
        found = {oid: entries for oid, entries in known.items() if entries is not None}
        wanted = [oid for oid in oids if oid not in found]
        for oid, answer in zip(wanted, self.find([oid.encode() for oid in wanted]) if wanted else (), strict=True):
            if answer is None or answer.kind != "tree":
                raise Unavailable(
                    f"The repository at {self._layout.root} lacks the tree {oid}."
                    f" {fetching(self._git, self._layout.root, oid)}",
                    actual=oid,
                )
            found[oid] = _parse_tree(answer.content, self._layout.objects.size_bytes)
            self._trees.put(oid, found[oid])
        return found

    def entries(self, tree: str, paths: Iterable[bytes]) -> Lookup:
        """What `tree` holds at these paths; each folder on the way is read once.

        Raises:
            Unavailable: The repository lacks a tree.
            TimedOut: No answer in time.
        """
        entries: dict[bytes, Entry] = {}
        conflicts: set[bytes] = set()
        places = [(path, path.split(b"/"), tree) for path in paths]
        depth = 0
        while places:
            trees = self._read_trees({oid for _, _, oid in places})
            deeper: list[tuple[bytes, list[bytes], str]] = []
            for path, parts, oid in places:
                entry = trees[oid].get(parts[depth])
                last = depth == len(parts) - 1
                if entry is None:
                    continue
                if last == (entry.mode == _TREE_MODE):
                    conflicts.add(path)
                elif last:
                    entries[path] = entry
                else:
                    deeper.append((path, parts, entry.oid))
            places = deeper
            depth += 1
        return Lookup(entries, frozenset(conflicts))


_TREE_ENTRY = {
    size: re.compile(rb"([0-7]+) ([^\0]+)\0(.{%d})" % size, re.DOTALL)
    for size in (20, 32)  # bytes of a SHA-1 and of a SHA-256
}


def _parse_tree(content: bytes, id_bytes: int) -> dict[bytes, Entry]:
    return {name: Entry(_canonical_mode(mode), oid.hex()) for mode, name, oid in _TREE_ENTRY[id_bytes].findall(content)}


def _canonical_mode(mode: bytes) -> str:
    """A tree's mode as an index has it: old trees know more permissions than git keeps now."""
    bits = int(mode, 8)
    if stat.S_ISREG(bits):
        return EXECUTABLE if bits & stat.S_IXUSR else REGULAR
    return f"{bits:06o}"


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
                quiet=True,
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
            TooLarge: An object is too large to read.
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
        stdin = open_pipe(self._process.stdin)
        # All answers at once: each would wake us up by itself.
        stdin.write(b"".join(line + b"\n" for line in [*lines, b"flush"]))
        stdin.flush()

    def _header(self) -> list[bytes] | None:
        """Id, kind and size of an object; None if there is none."""
        stdout = open_pipe(self._process.stdout)
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
        content = open_pipe(self._process.stdout).read(size + 1)
        if len(content) != size + 1:
            raise BatchEnded
        return GitObject(header[0].decode(), header[1].decode(), content[:-1])

    def close(self) -> None:
        """Ends the process."""
        end(self._process)
        self._process.wait()
        close(self._process)


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


class TimeLimit:
    """Ends a process, and with it every read from its pipes, unless the block ends in time.

    Attributes:
        passed: Whether the time was up.
    """

    def __init__(self, process: Process, seconds: float) -> None:
        self.passed = False
        self._process: Process | None = process
        self._lock = threading.Lock()
        self._timer = threading.Timer(seconds, self._enforce)
        self._timer.daemon = True

    def __enter__(self) -> Self:
        self._timer.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()
        # Once the lock is had, the process is not ended any more, even if another one gets its number.
        with self._lock:
            self._process = None

    def _enforce(self) -> None:
        with self._lock:
            if self._process is not None:
                self.passed = True
                end(self._process)

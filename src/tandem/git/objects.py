"""Commits and trees of a repository, for any number of threads."""

from __future__ import annotations

import re
import stat
import threading
from collections import OrderedDict
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

from tandem.errors import Unavailable
from tandem.git.batch import Batch, BatchEnded, GitObject
from tandem.git.layout import Layout
from tandem.git.raw import EXECUTABLE, REGULAR, Entry
from tandem.git.runner import Git

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
        self._trees: OrderedDict[str, dict[bytes, Entry]] = OrderedDict()
        self._cached = 0

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
        found: dict[str, dict[bytes, Entry]] = {}
        with self._lock:
            for oid in oids:
                if oid in self._trees:
                    self._trees.move_to_end(oid)
                    found[oid] = self._trees[oid]
        wanted = [oid for oid in oids if oid not in found]
        if not wanted:
            return found
        for oid, answer in zip(wanted, self.find([oid.encode() for oid in wanted]), strict=True):
            if answer is None or answer.kind != "tree":
                raise Unavailable(f"The repository at {self._layout.root} lacks the tree {oid}; run `git fsck`.")
            found[oid] = _parse_tree(answer.content, self._layout.objects.size_bytes)
            self._remember(oid, found[oid])
        return found

    def _remember(self, oid: str, entries: dict[bytes, Entry]) -> None:
        with self._lock:
            if oid in self._trees:
                return
            self._trees[oid] = entries
            self._cached += len(entries)
            while self._cached > _CACHED_ENTRIES and len(self._trees) > 1:
                _, dropped = self._trees.popitem(last=False)
                self._cached -= len(dropped)

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

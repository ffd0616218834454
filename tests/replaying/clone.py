"""The gated clone that commits are replayed in, and the history that they come from, both read by git alone."""

from __future__ import annotations

import hashlib
import os
import subprocess
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from tests.replaying.strict import GITLINK, State

RAW = ("-r", "--raw", "-z", "--no-renames", "--full-index", "--ignore-submodules=none")
"""As a digest is taken over it, from commits themselves."""

ABSENT = "000000"
SYMLINK = "120000"
_SECONDS = 300
_NO_HOOKS = ("-c", f"core.hooksPath={os.devnull}")


class GitFailed(Exception):
    """A git command that had to succeed did not."""


class Entry(NamedTuple):
    """Mode and object of a path in a tree."""

    mode: str
    oid: str


class Change(NamedTuple):
    """One path of a commit's raw difference."""

    path: bytes
    before: Entry
    after: Entry


@dataclass(frozen=True)
class Commit:
    """A commit of the history, as a change to its first parent.

    Attributes:
        number: Its place among those that are replayed, from 0.
        id: Its id.
        parent: Its first parent's id.
        is_merge: Whether it has more parents.
        raw: Git's raw difference to the first parent.
    """

    number: int
    id: str
    parent: str
    is_merge: bool
    raw: bytes

    @property
    def digest(self) -> str:
        """What an approval of exactly this has to be bound to."""
        return digest_of(self.raw)

    @cached_property
    def changes(self) -> list[Change]:
        """Its paths."""
        fields = self.raw.split(b"\0")
        found: list[Change] = []
        for facts, path in zip(fields[:-1:2], fields[1::2], strict=True):
            before, after, old, new, _ = facts[1:].decode().split(" ")
            found.append(Change(path, Entry(before, old), Entry(after, new)))
        return found


def digest_of(raw: bytes) -> str:
    """What an approval of a raw difference has to be bound to (`semantics`, P2)."""
    return hashlib.sha256(raw).hexdigest()


class Repository:
    """Git in one folder, with one process for all objects that are read."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._lock = threading.Lock()

    def run(self, *arguments: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
        """Runs a git command, which may fail."""
        command = ["git", *arguments]
        return subprocess.run(command, cwd=self.root, input=stdin, capture_output=True, check=False, timeout=_SECONDS)

    def git(self, *arguments: str, stdin: bytes = b"") -> bytes:
        """A git command that must succeed; its output.

        Raises:
            GitFailed: It does not.
        """
        ended = self.run(*arguments, stdin=stdin)
        if ended.returncode != 0:
            raise GitFailed(f"git {' '.join(arguments)}: {ended.stderr.decode(errors='replace')}")
        return ended.stdout

    def line(self, *arguments: str, stdin: bytes = b"") -> str:
        """The one line that a git command prints."""
        return self.git(*arguments, stdin=stdin).decode().rstrip("\n")

    def raw(self, before: str, after: str) -> bytes:
        """The raw difference of two commits."""
        return self.git("diff-tree", *RAW, before, after)

    @cached_property
    def _reader(self) -> subprocess.Popen[bytes]:
        command = ["git", "cat-file", "--batch"]
        return subprocess.Popen(command, cwd=self.root, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def content(self, oid: str) -> bytes:
        """An object's content.

        Raises:
            GitFailed: The repository has no such object.
        """
        with self._lock:
            asked, answered = self._reader.stdin, self._reader.stdout
            assert asked is not None
            assert answered is not None
            asked.write(f"{oid}\n".encode())
            asked.flush()
            facts = answered.readline().split()
            if facts[-1] == b"missing":
                raise GitFailed(f"{oid} is missing")
            return answered.read(int(facts[2]) + 1)[:-1]

    def state(self, entry: Entry) -> State | None:
        """A file as a diff shows it; None if there is none."""
        if entry.mode == ABSENT:
            return None
        if entry.mode == GITLINK:
            return State(GITLINK, f"Subproject commit {entry.oid}\n".encode())
        return State(entry.mode, self.content(entry.oid))

    def entry(self, commit: str, path: bytes) -> Entry:
        """What a commit has at a path."""
        told = self.git("ls-tree", "-z", "--full-tree", commit, "--", os.fsdecode(path))
        found = told.split()
        return Entry(found[0].decode(), found[2].decode()) if found else Entry(ABSENT, "")

    def digest(self, changes: Mapping[bytes, tuple[State | None, State | None]]) -> str:
        """What an approval of these changes, before and after, has to be bound to."""
        raw = b""
        for path, (before, after) in sorted(changes.items()):
            if before != after:
                old, new = self._entry_of(before), self._entry_of(after)
                kind = "A" if before is None else "D" if after is None else "MT"[old.mode[:2] != new.mode[:2]]
                raw += f":{old.mode} {new.mode} {old.oid} {new.oid} {kind}".encode() + b"\0" + path + b"\0"
        return digest_of(raw)

    @cached_property
    def _hash(self) -> str:
        return self.line("rev-parse", "--show-object-format")

    def _entry_of(self, state: State | None) -> Entry:
        if state is None:
            return Entry(ABSENT, "0" * 2 * hashlib.new(self._hash).digest_size)
        if state.mode == GITLINK:
            return Entry(GITLINK, state.content.split()[-1].decode())
        data = b"blob %d\0" % len(state.content) + state.content
        return Entry(state.mode, hashlib.new(self._hash, data).hexdigest())

    def close(self) -> None:
        """End the process that reads objects."""
        if "_reader" in self.__dict__:
            with self._reader as process:
                process.terminate()


def history(source: Repository, revision: str, count: int) -> list[Commit]:
    """The newest commits along first parents that change anything and have a parent, oldest first."""
    told = source.git("rev-list", "--first-parent", "--parents", f"--max-count={count}", revision).decode()
    lines = [line.split() for line in reversed(told.splitlines())]
    found: list[Commit] = []
    for one, parent, *others in (line for line in lines if len(line) > 1):
        if raw := source.raw(parent, one):
            found.append(Commit(len(found), one, parent, bool(others), raw))
    return found


class Clone(Repository):
    """A working clone whose `main` grows by each commit.

    Attributes:
        source: The repository whose history is replayed.
    """

    def __init__(self, root: Path, source: Repository, start: str) -> None:
        super().__init__(root)
        self.source = source
        source.git("clone", "--quiet", "--shared", "--no-checkout", "--no-tags", ".", str(root))
        self.git("remote", "remove", "origin")
        self.git("checkout", "--quiet", "--force", "-B", "main", start)

    @property
    def head(self) -> str:
        """The commit that `main` is at."""
        return self.line("rev-parse", "--verify", "HEAD")

    def take(self, commit: Commit) -> None:
        """Have index and working tree as the commit has them."""
        self.git("read-tree", "--reset", "-u", commit.id)
        for change in commit.changes:
            module = self.source.root / os.fsdecode(change.path) / ".git"
            if change.after.mode == GITLINK and module.exists():
                there = self.root / os.fsdecode(change.path)
                there.mkdir(parents=True, exist_ok=True)
                (there / ".git").write_text(f"gitdir: {module.resolve()}\n", "utf-8")

    def message(self, commit: Commit) -> bytes:
        """A commit's message."""
        return self.git("show", "--no-patch", "--format=%B", commit.id)

    def commit(self, message: bytes) -> subprocess.CompletedProcess[bytes]:
        """Commit the index through the hooks, which may refuse it."""
        return self.run("commit", "--quiet", "--cleanup=verbatim", "--allow-empty-message", "-F", "-", stdin=message)

    def stage(self, edits: Iterable[tuple[bytes, Entry]]) -> None:
        """Put entries into the index; an absent one takes its path out."""
        # A file can stand in a folder's place only once the folder is empty.
        ordered = sorted(edits, key=lambda edit: edit[1].mode != ABSENT)
        lines = b"".join(f"{mode} {oid}\t".encode() + path + b"\0" for path, (mode, oid) in ordered)
        self.git("update-index", "-z", "--index-info", stdin=lines)

    def keep(self, content: bytes) -> str:
        """Write a blob; its id."""
        return self.line("hash-object", "-w", "--stdin", stdin=content)

    def step_over(self, commit: Commit) -> None:
        """Have `main` go on with the commit's tree past the gate, as nothing of it is approved."""
        made = self.line("commit-tree", f"{commit.id}^{{tree}}", "-p", "HEAD", stdin=b"Not replayed\n")
        self.back_to(made)

    def back_to(self, commit: str) -> None:
        """Set `main` past the gate."""
        self.git(*_NO_HOOKS, "update-ref", "refs/heads/main", commit)

    def is_text_by_attribute(self, path: bytes) -> bool:
        """Whether the repository's own attributes leave it to the bytes how a path is shown."""
        told = self.git("check-attr", "-z", "--cached", "--stdin", "diff", stdin=path + b"\0")
        return told.split(b"\0")[2] != b"unset"

"""Git's raw differences: what a digest is taken over and what a gate compares."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from tandem.domain.gates import ABSENT_MODE, Change
from tandem.errors import InvalidInput
from tandem.git.paths import decode_path

# The options of the digest (see the semantics): none of the user's settings changes its bytes.
RAW_OPTIONS = ("--raw", "-z", "--no-renames", "--full-index", "--ignore-submodules=none", "--ita-invisible-in-index")
SYMLINK = "120000"
GITLINK = "160000"
REGULAR = "100644"
EXECUTABLE = "100755"


class Entry(NamedTuple):
    """Mode and object of one path in a tree or an index."""

    mode: str
    oid: str


class ObjectFormat(NamedTuple):
    """How a repository names its objects.

    Attributes:
        name: `sha1` or `sha256`, as git and hashlib call it.
        size_bytes: Length of a binary object id.
    """

    name: str
    size_bytes: int

    @property
    def absent(self) -> Entry:
        """The entry of a path that is not there."""
        return Entry(ABSENT_MODE, "0" * (2 * self.size_bytes))

    @property
    def empty_tree(self) -> str:
        """Id of the tree without entries, which every git knows."""
        return self.object_id("tree", b"")

    def hash(self, data: bytes) -> bytes:
        """The binary hash of `data`."""
        return hashlib.new(self.name, data, usedforsecurity=False).digest()

    def object_id(self, kind: str, content: bytes) -> str:
        """The id that git gives to an object with this content."""
        return self.hash(b"%s %d\0" % (kind.encode(), len(content)) + content).hex()


FORMATS = {"sha1": ObjectFormat("sha1", 20), "sha256": ObjectFormat("sha256", 32)}


def raw_bytes(changes: Iterable[Change]) -> bytes:
    """The bytes of `git diff-index --cached --raw -z` for these changes, in git's path order."""
    ordered = sorted((change.path.encode(), change) for change in changes)
    return b"".join(
        f":{change.mode_before} {change.mode_after} {change.blob_before} {change.blob_after} {_status(change)}".encode()
        + b"\0%s\0" % path
        for path, change in ordered
    )


def digest_of(changes: Iterable[Change]) -> str:
    """SHA-256, in hexadecimal, of the raw difference: what an approval of a change to files binds to."""
    return hashlib.sha256(raw_bytes(changes)).hexdigest()


def _status(change: Change) -> str:
    if change.mode_before == ABSENT_MODE:
        return "A"
    if change.mode_after == ABSENT_MODE:
        return "D"
    return "M" if change.mode_before[:2] == change.mode_after[:2] else "T"


def parse_raw(data: bytes) -> tuple[Change, ...]:
    """The changes in git's own raw output, in path order.

    Raises:
        InvalidInput: A path is unmerged, or not UTF-8.
    """
    fields = data.split(b"\0")
    changes: list[Change] = []
    for facts, path in zip(fields[:-1:2], fields[1::2], strict=True):
        before, after, old, new, status = facts[1:].decode("ascii").split(" ")
        if status.startswith("U"):
            raise InvalidInput(f"{decode_path(path)} has unresolved conflicts; resolve them first.", field="changes")
        changes.append(Change(decode_path(path), before, old, after, new))
    return in_path_order(changes)


def changes_between(before: Mapping[bytes, Entry], after: Mapping[bytes, Entry], absent: Entry) -> tuple[Change, ...]:
    """What differs between two sets of entries, in path order.

    Raises:
        InvalidInput: A path that differs is not UTF-8.
    """
    changes: list[Change] = []
    for path in sorted(before.keys() | after.keys()):
        old, new = before.get(path, absent), after.get(path, absent)
        if old != new:
            changes.append(Change(decode_path(path), old.mode, old.oid, new.mode, new.oid))
    return tuple(changes)


def in_path_order(changes: Iterable[Change]) -> tuple[Change, ...]:
    """The changes sorted as git sorts an index: by the bytes of their paths."""
    return tuple(sorted(changes, key=lambda change: change.path.encode()))

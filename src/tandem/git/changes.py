"""What a change is: the entries of its raw difference, its files, and the bytes that it fixes."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple

from tandem.git import raw
from tandem.git.raw import ABSENT_MODE, REGULAR, decode_path, encode_path

_PLAIN_MODES = frozenset({REGULAR, ABSENT_MODE})


class Entry(NamedTuple):
    """Mode and object of one path in a tree or an index."""

    mode: str
    oid: str


class Change(NamedTuple):
    """One entry of a raw difference: a path's mode and blob before and after.

    An absent side has mode `000000` and an all-zero blob.
    """

    path: str
    mode_before: str
    blob_before: str
    mode_after: str
    blob_after: str

    @property
    def before(self) -> Entry:
        """The path's entry before the change."""
        return Entry(self.mode_before, self.blob_before)

    @property
    def after(self) -> Entry:
        """The path's entry after the change."""
        return Entry(self.mode_after, self.blob_after)

    @property
    def is_plain(self) -> bool:
        """Whether both sides are plain files, or absent: no link, submodule or program."""
        return {self.mode_before, self.mode_after} <= _PLAIN_MODES


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


def parse_raw(data: bytes) -> tuple[Change, ...]:
    """The changes in git's own raw output, in path order.

    Raises:
        InvalidInput: A path is unmerged.
    """
    return tuple(sorted(map(Change._make, raw.parse_raw(data)), key=lambda change: encode_path(change.path)))


def changes_between(before: Mapping[bytes, Entry], after: Mapping[bytes, Entry], absent: Entry) -> tuple[Change, ...]:
    """What differs between two sets of entries, in path order."""
    changes: list[Change] = []
    for path in sorted(before.keys() | after.keys()):
        old, new = before.get(path, absent), after.get(path, absent)
        if old != new:
            changes.append(Change(decode_path(path), *old, *new))
    return tuple(changes)


FileOperation = Literal["added", "modified", "deleted", "renamed", "mode"]


@dataclass(frozen=True, slots=True)
class AffectedFile:
    """One file that a change touches, as a reviewer wants to see it listed."""

    # The schema of answers has the words below the fields, without pydantic in here.
    __pydantic_config__: ClassVar = {"use_attribute_docstrings": True}

    path: str
    """The file after the change; of a deleted one, before it."""
    operation: FileOperation
    """What happens to it; `mode` if nothing but the file mode changes."""
    added: int | None = None
    """Lines added, not counted in a binary file; of a renamed file only those that differ."""
    removed: int | None = None
    """Lines removed, likewise."""
    old_path: str | None = None
    """Where a renamed file came from, which is no entry of its own; the diff has all lines of both."""
    generated: bool = False
    """Whether the project's `.gitattributes` on the base branch say that a program made it, or that it has no lines to
    read (`linguist-generated`, `-diff`).
    """


def origins_of(files: Iterable[AffectedFile]) -> dict[str, str]:
    """The paths before of the renamed ones, by their paths."""
    return {one.path: one.old_path for one in files if one.old_path is not None}


@dataclass(frozen=True, slots=True)
class ValidatedContent:
    """The content of a round as the broker has validated it.

    Attributes:
        content: The text; or the diff, drawn from the files before and after, or as it was sent where they are unknown.
        base_commit: The tree-ish the diff was validated against, resolved to an object id.
        digest: What an approval binds to; None when nothing was validated.
        validated: Whether the digest was computed from a real repository.
        affected_files: The files, in path order.
        changes: The raw index entries behind the digest, in path order; what a gate compares.
        notes: What git did that the diff as it was sent did not say; None where the diff is as it was sent.
    """

    content: str
    base_commit: str | None = None
    digest: str | None = None
    validated: bool = False
    affected_files: tuple[AffectedFile, ...] = ()
    changes: tuple[Change, ...] = ()
    notes: tuple[str, ...] | None = None

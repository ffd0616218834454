"""Git's raw differences, which digests cover and gates compare, and the signatures of commits.

An entry describes one path: path, mode and blob before, mode and blob after. Quick to import, as each commit waits for
it; `changes.Change` is an entry with names.
"""

from __future__ import annotations

import os

from tandem.core.stand_ins import hex_digest
from tandem.errors import InvalidInput
from tandem.git.names import decode_path, encode_path

TYPE_CHECKING = False  # as in `errors`
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    RawEntry = tuple[str, ...]

FIELDS = ("path", "mode_before", "blob_before", "mode_after", "blob_after")
"""What an entry holds, in its order, by the names of the contract."""

RAW_OPTIONS = ("--raw", "-z", "--no-renames", "--full-index", "--ignore-submodules=none", "--ita-invisible-in-index")
"""The options of the digest (see the semantics): none of the user's settings changes its bytes."""

TREE_OPTIONS = RAW_OPTIONS[:-1]
"""Those that hold without an index."""

ABSENT_MODE = "000000"
REGULAR = "100644"
EXECUTABLE = "100755"
SYMLINK = "120000"
GITLINK = "160000"


def raw_bytes(entries: Iterable[RawEntry]) -> bytes:
    """The bytes of `git diff-index --cached --raw -z` for these entries, in git's path order."""
    ordered = sorted((encode_path(entry[0]), *entry[1:]) for entry in entries)
    return b"".join(
        f":{before} {after} {old} {new} {_status(before, after)}".encode() + b"\0%s\0" % path
        for path, before, old, after, new in ordered
    )


def digest_of(entries: Iterable[RawEntry]) -> str:
    """SHA-256, in hexadecimal, of the raw difference: what an approval of a change to files binds to."""
    return hex_digest(raw_bytes(entries))


def _status(before: str, after: str) -> str:
    if before == ABSENT_MODE:
        return "A"
    if after == ABSENT_MODE:
        return "D"
    return "M" if before[:2] == after[:2] else "T"


def merge_arguments(no_driver: str) -> list[str]:
    """The command by which git alone merges two commits, which follow it, independently of attributes and settings.

    Args:
        no_driver: A name that no merge driver can have.
    """
    settings = {
        "merge.default": no_driver,
        "core.attributesFile": os.devnull,
        "merge.renames": "true",
        "merge.directoryRenames": "conflict",
    }
    options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
    return [*options, "merge-tree", "--write-tree", "--no-messages"]


def parse_raw(data: bytes) -> Iterator[RawEntry]:
    """The entries in git's own raw output, in its order.

    Raises:
        InvalidInput: A path is unmerged.
    """
    fields = data.split(b"\0")
    for facts, name in zip(fields[:-1:2], fields[1::2], strict=True):
        before, after, old, new, status = facts[1:].decode("ascii").split(" ")
        path = decode_path(name)
        if status.startswith("U"):
            raise InvalidInput(f"{path} has unresolved conflicts; resolve them first.", field="changes")
        yield path, before, old, after, new


_MOST_SIGNATURES = 10
_SIGNATURE_LETTERS = 99


def signatures(stated: Iterable[str]) -> tuple[str, ...]:
    """Those of a message's values that look like signatures, as many as the broker is asked about."""
    found = (one for one in dict.fromkeys(stated) if len(one) == _SIGNATURE_LETTERS and one.isascii())
    return tuple(found)[:_MOST_SIGNATURES]


def by_commit(data: bytes) -> list[bytes]:
    """The output of `git diff-tree --stdin --always -z`, as the raw difference of each commit."""
    found: list[list[bytes]] = []
    fields: Iterator[bytes] = iter(data.split(b"\0")[:-1])
    for field in fields:
        if field.startswith(b":"):
            found[-1] += (field, next(fields))
        else:
            found.append([])
    return [b"".join(field + b"\0" for field in entries) for entries in found]

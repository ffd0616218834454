"""One file as a round's change found it or leaves it, without a working tree and without filters."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass

from tandem.domain.gates import ABSENT_MODE, Change
from tandem.errors import InvalidDiff, InvalidInput, NotFound, TooLarge
from tandem.git.applying import apply_diff
from tandem.git.excerpt import only_files
from tandem.git.handle import Base, Handle
from tandem.git.paths import unsafe_reason
from tandem.git.raw import EXECUTABLE, GITLINK, REGULAR, SYMLINK, Entry
from tandem.git.scratch import Scratch
from tandem.git.validation import encoded, repaired

LARGEST_FILE_BYTES = 8_000_000
"""More of one file than anybody reads, or changes by hand."""

_FILES = frozenset({REGULAR, EXECUTABLE})
_KINDS = {SYMLINK: "a symbolic link", GITLINK: "a submodule"}


@dataclass(frozen=True, slots=True)
class RoundPatch:
    """A round's change, as it was validated.

    Attributes:
        base: Id of the commit (or tree) that it was validated against.
        diff: The diff; null for a text that names its file.
        changes: What it comes to, path by path.
    """

    base: str
    diff: str | None
    changes: tuple[Change, ...]


def read_file(handle: Handle, patch: RoundPatch, path: str, *, after: bool) -> bytes | None:
    """The content of a file before or after a round's change; see `Repository.file_of_round`."""
    name = checked_name(path)
    change = next((change for change in patch.changes if change.path == path), None)
    if change is None:
        entry = _at_base(handle, patch, name)
    elif after:
        entry = Entry(change.mode_after, change.blob_after)
    else:
        entry = Entry(change.mode_before, change.blob_before)
    if entry.mode == ABSENT_MODE:
        return None
    ensure_file(path, entry)
    with handle.scratch() as scratch:
        content = read_blobs(scratch, [entry.oid])[entry.oid]
        if content is None and after and change is not None and patch.diff is not None:
            content = _made_by_diff(handle, scratch, patch, path, entry.oid)
    if content is None:
        raise NotFound(
            f"The content of {path} is no longer in the repository at {handle.layout.root}; fetch the commit"
            f" {patch.base[:12]} again.",
            path=path,
            base=patch.base,
        )
    return content


def base_of(handle: Handle, patch: RoundPatch) -> Base:
    """What a round was made against.

    Raises:
        NotFound: The repository has it no more.
    """
    try:
        return handle.base(patch.base)
    except InvalidInput as error:
        raise NotFound(
            f"The commit {patch.base[:12]}, which the change was made against, is no longer in the repository at"
            f" {handle.layout.root}. Fetch it again, or have the change put up anew.",
            base=patch.base,
        ) from error


def checked_name(path: str, field: str = "path") -> bytes:
    """A path of the repository as bytes.

    Raises:
        InvalidInput: No file of a repository can be called so.
    """
    reason = unsafe_reason(path)
    if reason is not None:
        raise InvalidInput(f"The path {path!r} {reason}; name a file of the repository.", field=field, path=path)
    return path.encode()


def ensure_file(path: str, entry: Entry, field: str = "path") -> None:
    """Refuse what has no lines.

    Raises:
        InvalidInput: It is a link or a submodule.
    """
    if entry.mode not in _FILES:
        kind = _KINDS.get(entry.mode, "no file")
        raise InvalidInput(f"{path} is {kind}, which has no lines; name a file.", field=field, path=path)


def read_blobs(scratch: Scratch, oids: Iterable[str]) -> dict[str, bytes | None]:
    """What blobs hold, exactly as git keeps it; null for those that are not there.

    Raises:
        TooLarge: One is over the limit, or all together are more than anyone could read.
    """
    wanted = sorted(set(oids))
    if not wanted:
        return {}
    asked = "".join(f"{oid}\n" for oid in wanted).encode()
    found: dict[str, bytes | None] = dict.fromkeys(wanted)
    sizes: dict[str, int] = {}
    for line in scratch.run(["cat-file", "--batch-check"], stdin=asked).stdout.decode("ascii").splitlines():
        oid, kind, *rest = line.split(" ")
        if kind == "blob":
            sizes[oid] = int(rest[0])
    largest = max(sizes.values(), default=0)
    if largest > LARGEST_FILE_BYTES:
        raise TooLarge(
            f"The file has {largest} bytes; more than {LARGEST_FILE_BYTES} are not shown. Open it in a working tree.",
            limit=LARGEST_FILE_BYTES,
            actual=largest,
        )
    if sizes:
        there = "".join(f"{oid}\n" for oid in sizes).encode()
        data = scratch.run(["cat-file", "--batch"], stdin=there).stdout
        at = 0
        for oid, size in sizes.items():
            start = data.index(b"\n", at) + 1
            found[oid] = data[start : start + size]
            at = start + size + 1
    return found


def _at_base(handle: Handle, patch: RoundPatch, name: bytes) -> Entry:
    """What the base has at a path that the change does not touch."""
    found = handle.objects.entries(base_of(handle, patch).tree, [name])
    return found.entries.get(name, handle.layout.objects.absent)


def _made_by_diff(handle: Handle, scratch: Scratch, patch: RoundPatch, path: str, oid: str) -> bytes | None:
    """A blob that only the diff makes: by the file's own part of it, else by all of it."""
    diff = patch.diff or ""
    base = base_of(handle, patch)
    with suppress(InvalidDiff):
        apply_diff(handle, scratch, encoded(repaired(only_files(diff, [path]))), base)
        content = read_blobs(scratch, [oid])[oid]
        if content is not None:
            return content
    apply_diff(handle, scratch, encoded(repaired(diff)), base)
    return read_blobs(scratch, [oid])[oid]

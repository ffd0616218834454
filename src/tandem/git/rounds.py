"""A round's change, without a working tree or filters: its files, edits of them, the way to another round.

Every question is answered from the base's tree and the diff, in a scratch folder.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass

from tandem.errors import InvalidDiff, InvalidInput, NotFound, TooLarge
from tandem.git.changes import Change, Entry
from tandem.git.drawing import render, text_of
from tandem.git.handle import Base, Handle
from tandem.git.hunks import only_files
from tandem.git.layout import Scratch, fetching
from tandem.git.raw import ABSENT_MODE, EXECUTABLE, GITLINK, REGULAR, SYMLINK, encode_path, unsafe_reason
from tandem.git.validation import apply_diff, apply_reviewable, encoded, repaired

LARGEST_FILE_BYTES = 8_000_000
"""More of one file than anybody reads, or changes by hand."""

_FILES = frozenset({REGULAR, EXECUTABLE})
_KINDS = {SYMLINK: "a symbolic link", GITLINK: "a submodule"}


@dataclass(frozen=True, slots=True)
class RoundPatch:
    """A round's change, as it was validated.

    Attributes:
        base: Id of the commit (or tree) that it was validated against.
        diff: The diff; None for a text that names its file.
        changes: The resulting changes, path by path.
    """

    base: str
    diff: str | None
    changes: tuple[Change, ...]


def read_file(handle: Handle, patch: RoundPatch, path: str, *, after: bool) -> bytes | None:
    """What a file holds before or after a round's change, exactly; None if it is not there then.

    Raises:
        InvalidInput: The path is unsafe, or that of a link or a submodule (`details.field` is `path`).
        NotFound: The base, or the content, is no longer in the repository.
        TooLarge: The file is larger than anyone reads.
    """
    name = checked_name(path)
    change = next((change for change in patch.changes if change.path == path), None)
    if change is None:
        entry = _at_base(handle, patch, path, name)
    elif after:
        entry = change.after
    else:
        entry = change.before
    if entry.mode == ABSENT_MODE:
        return None
    ensure_file(path, entry)
    with handle.scratch() as scratch:
        content = read_blobs(scratch, [entry.oid])[entry.oid]
        if content is None and after and change is not None and patch.diff is not None:
            make_blobs(handle, scratch, patch, {path: entry.oid})
            content = read_blobs(scratch, [entry.oid])[entry.oid]
    if content is None:
        raise NotFound(
            f"The content of {path} is not in the repository at {handle.layout.root}."
            f" {fetching(handle.git, handle.layout.root, entry.oid)}",
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
        raise NotFound(f"{error.message} Or have the change submitted again.", base=patch.base) from error


def checked_name(path: str, field: str = "path") -> bytes:
    """A path of the repository as bytes.

    Raises:
        InvalidInput: No file of a repository can be called so.
    """
    reason = unsafe_reason(path)
    if reason is not None:
        raise InvalidInput(f"The path {path!r} {reason}; name a file of the repository.", field=field, path=path)
    return encode_path(path)


def ensure_file(path: str, entry: Entry, field: str = "path") -> None:
    """Refuse an entry without lines.

    Raises:
        InvalidInput: It is a link or a submodule.
    """
    if entry.mode not in _FILES:
        kind = _KINDS.get(entry.mode, "no file")
        raise InvalidInput(f"{path} is {kind}, which has no lines; name a file.", field=field, path=path)


def read_blobs(scratch: Scratch, oids: Iterable[str]) -> dict[str, bytes | None]:
    """What blobs hold, exactly as git keeps it; None for those that are not there.

    Raises:
        TooLarge: One is over the limit, or all together are more than anyone could read.
    """
    wanted = sorted(set(oids))
    if not wanted:
        return {}
    data = scratch.run(["cat-file", "--batch"], stdin="".join(f"{oid}\n" for oid in wanted).encode()).stdout
    found: dict[str, bytes | None] = {}
    at = 0
    for oid in wanted:
        end = data.index(b"\n", at)
        _, kind, *size = data[at:end].split(b" ")
        at = end + 1
        found[oid] = None
        if size:
            content = data[at : at + int(size[0])]
            at += len(content) + 1
            found[oid] = content if kind == b"blob" else None
    largest = max(len(content or b"") for content in found.values())
    if largest > LARGEST_FILE_BYTES:
        raise TooLarge(
            f"The file has {largest} bytes; more than {LARGEST_FILE_BYTES} are not shown. Open it in a working tree.",
            limit=LARGEST_FILE_BYTES,
            actual=largest,
        )
    return found


def blob_sizes(scratch: Scratch, oids: Iterable[str]) -> dict[str, int]:
    """How many bytes blobs have; those that are not there are left out."""
    wanted = sorted(set(oids))
    said = scratch.run(["cat-file", "--batch-check"], stdin="".join(f"{oid}\n" for oid in wanted).encode()).text
    rows = (line.split(" ") for line in said.splitlines())
    return {oid: int(size[0]) for oid, kind, *size in rows if kind == "blob"}


def _at_base(handle: Handle, patch: RoundPatch, path: str, name: bytes) -> Entry:
    """What the base has at a path that the change does not touch."""
    base = base_of(handle, patch)
    if handle.bases is not None:
        raise NotFound(
            f"The change does not touch {path}, and this broker has only the files that it touches; read"
            f" it in the repository, at {patch.base[:12]}.",
            base=patch.base,
        )
    found = handle.objects.entries(base.tree, [name])
    return found.entries.get(name, handle.layout.objects.absent)


def make_blobs(handle: Handle, scratch: Scratch, patch: RoundPatch, wanted: Mapping[str, str]) -> None:
    """Has blobs in the scratch folder that only a round's diff makes: by the files' own parts of it, else by all of it.

    Args:
        handle: The repository.
        scratch: The folder.
        patch: The round.
        wanted: The blobs' ids, by path.
    """
    diff = patch.diff or ""
    base = base_of(handle, patch)
    with suppress(InvalidDiff):
        apply_diff(handle, scratch, encoded(repaired(only_files(diff, wanted.keys()))), base)
        if blob_sizes(scratch, wanted.values()).keys() >= set(wanted.values()):
            return
    apply_diff(handle, scratch, encoded(repaired(diff)), base)


_FIELD = "edits"

Edits = Mapping[str, str | None]
"""New contents of files, by path; None deletes one."""


def diff_with_edits(handle: Handle, patch: RoundPatch, edits: Edits) -> str:
    """The whole diff, against a round's base, of its change with some files of its result edited or deleted.

    Nothing of it is validated. It is empty when the edits revert the change.

    Raises:
        InvalidInput: An edit's path is unsafe, or its file is no text (`details.field` is `edits`).
        NotFound: The base is no longer in the repository.
        TooLarge: A file is larger than anyone reads.
    """
    names = {path: checked_name(path, _FIELD) for path in edits}
    with handle.scratch(large=True) as scratch:
        base = base_of(handle, patch)
        changes = _applied(handle, scratch, patch.diff or "", base)
        before = handle.objects.entries(base.tree, _paths_of(changes) | {*names.values()}).entries
        after = _after(before, changes)
        _ensure_editable(scratch, after, edits, names)
        made = _written(scratch, edits)
        for path, name in names.items():
            oid = made.get(path)
            if oid is None:
                del after[name]
            else:
                after[name] = Entry(after[name].mode if name in after else REGULAR, oid)
        _ensure_no_file_is_a_folder(after)
        return render(scratch, ["diff-tree", "-r", scratch.tree_of(before), scratch.tree_of(after)])


def _ensure_editable(scratch: Scratch, after: Mapping[bytes, Entry], edits: Edits, names: Mapping[str, bytes]) -> None:
    """Refuse edits to files that cannot be shown as text.

    Raises:
        InvalidInput: A link, a submodule or a binary file is edited, or nothing is deleted.
    """
    there = {path: after[name] for path, name in names.items() if name in after}
    for path, content in edits.items():
        if path in there:
            ensure_file(path, there[path], _FIELD)
        elif content is None:
            raise InvalidInput(f"There is no {path} to delete after the change.", field=_FIELD, path=path)
    rewritten = {path: entry for path, entry in there.items() if edits[path] is not None}
    contents = read_blobs(scratch, (entry.oid for entry in rewritten.values()))
    for path, entry in rewritten.items():
        if text_of(contents[entry.oid] or b"") is None:
            raise InvalidInput(
                f"{path} is binary, or not in UTF-8, and cannot be edited as text; leave it as it is, or delete it.",
                field=_FIELD,
                path=path,
            )


def _written(scratch: Scratch, edits: Edits) -> dict[str, str]:
    """Keep the new contents in the scratch folder, byte for byte; their ids by path."""
    kept = {path: content for path, content in edits.items() if content is not None}
    if not kept:
        return {}
    files = [scratch.folder / f"edit-{number}" for number in range(len(kept))]
    for file, content in zip(files, kept.values(), strict=True):
        file.write_bytes(content.encode())
    asked = "".join(f"{file.name}\n" for file in files).encode()
    output = scratch.run(["hash-object", "-w", "--no-filters", "--stdin-paths"], stdin=asked)
    return dict(zip(kept, output.stdout.decode("ascii").split(), strict=True))


def _ensure_no_file_is_a_folder(entries: Mapping[bytes, Entry]) -> None:
    for name in entries:
        parts = name.split(b"/")
        for depth in range(1, len(parts)):
            above = b"/".join(parts[:depth])
            if above in entries:
                path = name.decode("utf-8", "replace")
                raise InvalidInput(
                    f"{path} would lie in {above.decode('utf-8', 'replace')}, which is a file; choose another path.",
                    field=_FIELD,
                    path=path,
                )


def interdiff(handle: Handle, first: tuple[str, str], second: tuple[str, str]) -> str:
    """A unified diff from one round's result to another's; each round is its diff and its base.

    Where the bases differ, only paths that either round touches are compared.

    Raises:
        InvalidDiff: A round's diff no longer applies to its base.
        InvalidInput: A base is no longer in the repository.
    """
    with handle.scratch() as scratch:
        rounds: list[tuple[Base, tuple[Change, ...]]] = []
        for diff, name in (first, second):
            base = handle.base(name)
            rounds.append((base, _applied(handle, scratch, diff, base)))
        touched = {path for _, changes in rounds for path in _paths_of(changes)}
        before, after = (
            scratch.tree_of(_after(handle.objects.entries(base.tree, touched).entries, changes))
            for base, changes in rounds
        )
        return render(scratch, ["diff-tree", "-r", before, after], binary=False)


def _applied(handle: Handle, scratch: Scratch, diff: str, base: Base) -> tuple[Change, ...]:
    return apply_reviewable(handle, scratch, encoded(repaired(diff)), base).changes


def _paths_of(changes: Iterable[Change]) -> set[bytes]:
    return {encode_path(change.path) for change in changes}


def _after(before: Mapping[bytes, Entry], changes: Iterable[Change]) -> dict[bytes, Entry]:
    """The entries that a change leaves of those before it."""
    after = dict(before)
    for change in changes:
        if change.mode_after == ABSENT_MODE:
            after.pop(encode_path(change.path), None)
        else:
            after[encode_path(change.path)] = change.after
    return after

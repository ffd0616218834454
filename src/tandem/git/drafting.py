"""A whole diff from edits to the files that a round leaves: what a reviewer changed by hand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tandem.domain.gates import ABSENT_MODE
from tandem.errors import InvalidInput
from tandem.git.handle import Handle
from tandem.git.raw import REGULAR, Entry
from tandem.git.reading import RoundPatch, base_of, checked_name, ensure_file, read_blobs
from tandem.git.render import render_diff
from tandem.git.scratch import Scratch
from tandem.git.validation import apply_reviewable, encoded, repaired

_FIELD = "edits"

Edits = Mapping[str, str | None]
"""What files are to hold, by path; null deletes one."""


@dataclass(frozen=True, slots=True)
class _Sides:
    """The entries of all paths that count, before the change and after it."""

    before: dict[bytes, Entry]
    after: dict[bytes, Entry]


def diff_with_edits(handle: Handle, patch: RoundPatch, edits: Edits) -> str:
    """The round's change with the edits made to what it leaves; see `Repository.diff_with_edits`."""
    names = {path: checked_name(path, _FIELD) for path in edits}
    with handle.scratch(large=True) as scratch:
        sides = _applied(handle, scratch, patch, {*names.values()})
        _ensure_editable(scratch, sides.after, edits, names)
        made = _written(scratch, edits)
        for path, name in names.items():
            oid = made.get(path)
            if oid is None:
                del sides.after[name]
            else:
                sides.after[name] = Entry(sides.after[name].mode if name in sides.after else REGULAR, oid)
        _ensure_no_file_is_a_folder(sides.after)
        return render_diff(scratch, scratch.tree_of(sides.before), scratch.tree_of(sides.after), binary=True)


def _applied(handle: Handle, scratch: Scratch, patch: RoundPatch, named: set[bytes]) -> _Sides:
    base = base_of(handle, patch)
    changes = apply_reviewable(handle, scratch, encoded(repaired(patch.diff or "")), base).changes
    touched = {change.path.encode() for change in changes} | named
    before = handle.objects.entries(base.tree, touched).entries
    after = dict(before)
    for change in changes:
        if change.mode_after == ABSENT_MODE:
            after.pop(change.path.encode(), None)
        else:
            after[change.path.encode()] = Entry(change.mode_after, change.blob_after)
    return _Sides(before, after)


def _ensure_editable(scratch: Scratch, after: Mapping[bytes, Entry], edits: Edits, names: Mapping[str, bytes]) -> None:
    """Refuse edits to what nobody could have seen as text.

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


def text_of(content: bytes) -> str | None:
    """The content as text; null if it is none."""
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError:
        return None
    return None if "\0" in text else text


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

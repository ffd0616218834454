"""Is what a commit changed still in a branch, or is it back to what it was before? Told by content, not by messages."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from tandem.git.changes import Change, Entry
from tandem.git.handle import Handle
from tandem.git.history import has, parents_of
from tandem.git.names import encode_path
from tandem.git.raw import EXECUTABLE, REGULAR
from tandem.git.scratch import Scratch

_STATUSES = range(256)
_FILES = frozenset({REGULAR, EXECUTABLE})
_MERGED_BYTES = 8_000_000
_LOOKED_AT = 500
"""Of the newest commits that touch a change's paths."""


@dataclass(frozen=True, slots=True)
class Returned:
    """Whether the content of some commits is as it was before them.

    Attributes:
        standing: A commit that still stands, and the branch that has it; null if none does.
        by: Of those that are in a branch's history, the commit that took each back.
    """

    standing: tuple[str, str] | None
    by: Mapping[str, str]


def look(
    handle: Handle, commits: Mapping[str, str | None], *, branch: str, head: str, judges: Callable[[Change], bool]
) -> Returned:
    """Whether the content of some commits is as it was before them; see `Repository.returned`."""
    back: dict[str, str] = {}
    with handle.scratch() as scratch:
        for commit, made_on in commits.items():
            changes = [change for change in _changes(handle, scratch, commit) if judges(change)]
            for name, tip in ({branch: head} | _tips(handle, commit, made_on, branch)).items():
                is_there = has(scratch, tip, commit) is True
                stands, by = _walk(handle, scratch, changes, tip, commit if is_there else None)
                if stands:
                    return Returned((commit, name), {})
                if is_there and by is not None:
                    back[commit] = by
    return Returned(None, back)


def has_any(handle: Handle, changes: Sequence[Change], commit: str) -> bool:
    """Whether a commit has what some changes lead to, in any file."""
    with handle.scratch() as scratch:
        return _state(handle, scratch, changes, commit) is True


def _tips(handle: Handle, commit: str, made_on: str | None, but: str) -> dict[str, str]:
    """The branch that a commit was made on; where that is gone, every branch that has the commit."""
    own = handle.resolve(f"refs/heads/{made_on}")[0] if made_on else None
    if made_on is not None and own is not None:
        return {made_on: own} if made_on != but else {}
    names = (name for name in handle.branches_with(commit) if name != but)
    return {name: tip for name in names if (tip := handle.resolve(f"refs/heads/{name}")[0]) is not None}


def _changes(handle: Handle, scratch: Scratch, commit: str) -> tuple[Change, ...]:
    """What a commit changed against its first parent; nothing if it is no longer there, as no branch has it then."""
    parents = parents_of(scratch, commit)
    if parents is None:
        return ()
    return scratch.difference(parents[0] if parents else handle.layout.objects.empty_tree, commit)


def _walk(
    handle: Handle, scratch: Scratch, changes: Sequence[Change], tip: str, commit: str | None
) -> tuple[bool, str | None]:
    """Whether a branch has some changes, and else the commit that took them back.

    Where the newest commit leaves it open, as others changed the same lines since, the last one that tells decides.

    Args:
        handle: The repository.
        scratch: A private folder over it.
        changes: The changes.
        tip: The branch's newest commit.
        commit: The commit of the branch that made them; null if it is not in the branch.
    """
    if commit is None:
        # A copy of it may be there, by a rebase that no hook saw.
        return _state(handle, scratch, changes, tip) is True, None
    paths = b"".join(b":(literal)%s\n" % encode_path(change.path) for change in changes)
    listed = ["rev-list", "--topo-order", f"--max-count={_LOOKED_AT}", "--stdin"]
    since = scratch.run(listed, stdin=f"{tip}\n^{commit}\n--\n".encode() + paths).stdout.decode("ascii").split()
    by: str | None = None
    for one in dict.fromkeys([tip, *since]):
        state = _state(handle, scratch, changes, one)
        if state is False:
            by = one
        elif state is True or by is not None:
            break
    return by is None, by


def _state(handle: Handle, scratch: Scratch, changes: Sequence[Change], commit: str) -> bool | None:
    """Whether a commit has the changes: true if it has one file's, false if every file is without, else null."""
    absent = handle.layout.objects.absent
    wanted = {encode_path(change.path): change for change in changes}
    entries = handle.objects.entries(handle.base(commit, field="head").tree, wanted).entries
    states = {_in_file(handle, scratch, change, entries.get(path, absent)) for path, change in wanted.items()}
    return True if True in states else None if None in states else False


def _in_file(handle: Handle, scratch: Scratch, change: Change, now: Entry) -> bool | None:
    before, after = Entry(change.mode_before, change.blob_before), Entry(change.mode_after, change.blob_after)
    if now in {before, after}:
        return now == after
    if not {before.mode, after.mode, now.mode} <= _FILES:
        return None
    if before.oid == after.oid:
        return now.mode == after.mode
    oids = (now.oid, after.oid, before.oid)
    sizes = handle.objects.sizes(oids)
    if len(sizes) < len(set(oids)) or sum(sizes.values()) > _MERGED_BYTES:
        return None
    # Taking the change back would change nothing where it is gone, and conflicts where others changed the same lines.
    contents = [one.content for one in handle.objects.find([oid.encode("ascii") for oid in oids]) if one is not None]
    files = [scratch.folder / name for name in ("ours", "base", "theirs")]
    for file, content in zip(files, contents, strict=True):
        file.write_bytes(content)
    merged = scratch.run(["merge-file", "-p", "--quiet", *map(str, files)], accept=_STATUSES)
    return merged.stdout != contents[0] if merged.status_code == 0 else None

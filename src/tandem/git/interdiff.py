"""What changed between two rounds of a review."""

from __future__ import annotations

from collections.abc import Iterable

from tandem.domain.gates import ABSENT_MODE, Change
from tandem.git.handle import Base, Handle
from tandem.git.raw import Entry
from tandem.git.render import render_diff
from tandem.git.scratch import Scratch
from tandem.git.validation import apply_reviewable, encoded, repaired


def interdiff(handle: Handle, first: tuple[str, str], second: tuple[str, str]) -> str:
    """The way from the first round's result to the second's; see `Repository.interdiff`."""
    with handle.scratch() as scratch:
        rounds = [_applied(handle, scratch, diff, base) for diff, base in (first, second)]
        touched = {change.path.encode() for _, changes in rounds for change in changes}
        trees = [_tree(handle, scratch, base, changes, touched) for base, changes in rounds]
        return render_diff(scratch, *trees, binary=False)


def _applied(handle: Handle, scratch: Scratch, diff: str, base: str) -> tuple[Base, tuple[Change, ...]]:
    found = handle.base(base)
    return found, apply_reviewable(handle, scratch, encoded(repaired(diff)), found).changes


def _tree(handle: Handle, scratch: Scratch, base: Base, changes: Iterable[Change], touched: set[bytes]) -> str:
    """A tree of only the touched paths, as they are after a round."""
    entries = dict(handle.objects.entries(base.tree, touched).entries)
    for change in changes:
        if change.mode_after == ABSENT_MODE:
            entries.pop(change.path.encode(), None)
        else:
            entries[change.path.encode()] = Entry(change.mode_after, change.blob_after)
    return scratch.tree_of(entries)

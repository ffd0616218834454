"""What a counter-patch changes in a round: the difference of two diffs that were made against the same commit.

It is for showing only, and needs no repository: a line of the original that neither diff mentions is the same in both.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any

from tandem.git.hunks import FileDiff, Hunk, split_files
from tandem.git.word_changes import CommonRun, common_runs
from tandem.web.diffs.documents import compare
from tandem.web.diffs.syntax import Budget
from tandem.web.diffs.views import FileView, outline, views
from tandem.web.review.view import ReviewView

_CONTEXT = 3
_MOST_EDITS = 400

Signed = tuple[str, str]
"""A line with its sign: a blank, `-` or `+`."""


@dataclass(slots=True)
class _Edits:
    """What one diff does to the lines of the original file."""

    deleted: set[int] = field(default_factory=set[int])
    inserted: dict[int, list[str]] = field(default_factory=dict[int, list[str]])

    def after(self, first: int, end: int, base: dict[int, str]) -> list[str]:
        """What becomes of the original's lines from `first` to before `end`."""
        lines: list[str] = []
        for number in range(first, end + 1):
            lines += self.inserted.get(number, ())
            if number < end and number not in self.deleted:
                lines.append(base[number])
        return lines

    def shifts(self) -> Callable[[int], int]:
        """Tells how many lines more there are before a line of the original."""
        changes = sorted(
            [*((at, len(lines)) for at, lines in self.inserted.items()), *((at, -1) for at in self.deleted)]
        )
        places = [at for at, _ in changes]
        sums = list(accumulate((by for _, by in changes), initial=0))
        return lambda number: sums[bisect_left(places, number)]


def between(first: str, second: str) -> tuple[FileDiff, ...]:
    """The files that two diffs against the same commit leave differently, as changes from the first to the second."""
    left, right = _sections(first), _sections(second)
    changes: list[FileDiff] = []
    for key in sorted(left.keys() | right.keys()):
        (one, text), (other, other_text) = left.get(key, (None, "")), right.get(key, (None, ""))
        if text != other_text and (found := _file(one, other)) is not None:
            changes.append(found)
    return tuple(changes)


def _sections(diff: str) -> dict[str, tuple[FileDiff, str]]:
    """Each file by the path that it has in the original, with its part of the diff."""
    return {file.old_path or file.path: (file, text) for file, text in split_files(diff)}


def _file(one: FileDiff | None, other: FileDiff | None) -> FileDiff | None:
    some = other or one
    if some is None:
        return None
    old_path = one.new_path if one is not None else some.old_path
    new_path = other.new_path if other is not None else some.old_path
    old_mode = one.new_mode if one is not None else some.old_mode
    new_mode = other.new_mode if other is not None else some.old_mode
    is_binary = (one is not None and one.binary) or (other is not None and other.binary)
    hunks = () if is_binary else tuple(_hunks(one, other))
    if not hunks and not is_binary and old_path == new_path and old_mode == new_mode:
        return None
    if old_path is None:
        kind = "added"
    elif new_path is None:
        kind = "deleted"
    elif old_path != new_path:
        kind = "renamed"
    else:
        kind = "modified" if hunks or is_binary else "mode"
    return FileDiff(old_path, new_path, kind, old_mode, new_mode, is_binary, hunks)


def _hunks(one: FileDiff | None, other: FileDiff | None) -> Iterator[Hunk]:
    base: dict[int, str] = {}
    left, right = _edits(one, base), _edits(other, base)
    left_shift, right_shift = left.shifts(), right.shifts()
    for first, end in _regions(base, left, right):
        before, after = left.after(first, end, base), right.after(first, end, base)
        if before != after:
            yield from _cut(_signed(before, after), first + left_shift(first), first + right_shift(first))


def _edits(file: FileDiff | None, base: dict[int, str]) -> _Edits:
    """What a diff does; the lines of the original that it shows are put into `base`."""
    edits = _Edits()
    for hunk in () if file is None else file.hunks:
        at = hunk.old_first
        for line in hunk.walk():
            if line.old_number is None:
                edits.inserted.setdefault(at, []).append(line.text)
            else:
                base[line.old_number] = line.text
                at = line.old_number + 1
                if line.kind == "deleted":
                    edits.deleted.add(line.old_number)
    return edits


def _regions(base: dict[int, str], *edits: _Edits) -> Iterator[tuple[int, int]]:
    """Runs of the original's lines that are known, as first and end; an insertion is in the run that it ends."""
    places = sorted(base.keys() | {at for one in edits for at in one.inserted})
    first = end = 0
    for number in places:
        if number > end:
            if first:
                yield first, end
            first = end = number
        if number in base:
            end = number + 1
    if first:
        yield first, end


def _signed(before: list[str], after: list[str]) -> Iterator[Signed]:
    at_before = at_after = 0
    for run in [*common_runs(before, after, _MOST_EDITS), CommonRun(len(before), len(after), 0)]:
        yield from (("-", line) for line in before[at_before : run.left])
        yield from (("+", line) for line in after[at_after : run.right])
        yield from ((" ", line) for line in before[run.left : run.left + run.length])
        at_before, at_after = run.left + run.length, run.right + run.length


def _cut(lines: Iterable[Signed], old: int, new: int) -> Iterator[Hunk]:
    """Hunks with a few lines around each change, the first line being the numbers `old` and `new`."""
    all_lines = list(lines)
    changed = [at for at, (sign, _) in enumerate(all_lines) if sign != " "]
    olds = list(accumulate((sign != "+" for sign, _ in all_lines), initial=old))
    news = list(accumulate((sign != "-" for sign, _ in all_lines), initial=new))
    at = 0
    while at < len(changed):
        start = max(changed[at] - _CONTEXT, 0)
        while at + 1 < len(changed) and changed[at + 1] - changed[at] <= 2 * _CONTEXT:
            at += 1
        end = min(changed[at] + _CONTEXT + 1, len(all_lines))
        yield _hunk(all_lines[start:end], olds[start], news[start])
        at += 1


def _hunk(lines: list[Signed], old: int, new: int) -> Hunk:
    signs = Counter(sign for sign, _ in lines)
    old_count, new_count = len(lines) - signs["+"], len(lines) - signs["-"]
    return Hunk(
        old_start=old if old_count else old - 1,
        old_count=old_count,
        new_start=new if new_count else new - 1,
        new_count=new_count,
        heading="",
        body=tuple(sign + line for sign, line in lines),
        added=signs["+"],
        deleted=signs["-"],
    )


_HIGHLIGHT_SECONDS = 0.1
_LEVEL = 3


def patch_views(diff: str, round_diff: str | None, name: str) -> list[FileView]:
    """What a counter-patch changes of a round, ready to be shown. Takes a while: call it in a thread.

    Args:
        diff: The counter-patch.
        round_diff: The round's own change; None if it is not known: then all of the counter-patch is shown.
        name: What its anchors begin with: other diffs are on the page.
    """
    files = outline(diff).files if round_diff is None else between(round_diff, diff)
    return views(files, Budget(_HIGHLIGHT_SECONDS), f"{name}-")


def counter_patch_values(view: ReviewView) -> dict[str, Any]:
    """What the section is given. Takes a while: call it in a thread."""
    patch = view.counter_patch
    if patch is None or patch.round != view.round:
        return {"patch": None, "patch_files": (), "patch_changes": None}
    if patch.diff is None:
        before, after = view.proposal.description or "", patch.description or ""
        return {"patch": patch, "patch_files": (), "patch_changes": compare(before, after, heading=_LEVEL)}
    files = patch_views(patch.diff, view.proposal.diff or "", "counter-patch")
    return {"patch": patch, "patch_files": files, "patch_changes": None}

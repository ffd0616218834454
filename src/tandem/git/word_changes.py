"""What changed between two texts: which lines, which of them are such a pair, and which words within a pair."""

from __future__ import annotations

import re
from collections.abc import Sequence
from difflib import Match, SequenceMatcher
from typing import NamedTuple


class CommonRun(NamedTuple):
    """Elements that both sequences have: from `left` in one, from `right` in the other."""

    left: int
    right: int
    length: int


# Not difflib's own search, which has no bound: for 40,000 lines of which every other one changed it takes over 20 s,
# with its heuristic or without, where this gives up after 0.02 s; for a line of 300 words 56 ms against 0.2.
def common_runs(left: Sequence[object], right: Sequence[object], most_edits: int) -> list[CommonRun]:
    """The longest common subsequence as runs, found by Myers' algorithm.

    Args:
        left: One sequence.
        right: The other.
        most_edits: With more insertions and deletions than this, only what both begin and end with is common. Time
            grows with the lengths times this number at most, memory with its square.
    """
    start = 0
    shorter = min(len(left), len(right))
    while start < shorter and left[start] == right[start]:
        start += 1
    end = 0
    while end < shorter - start and left[-1 - end] == right[-1 - end]:
        end += 1
    runs = [CommonRun(0, 0, start)] if start else []
    inner_left, inner_right = left[start : len(left) - end], right[start : len(right) - end]
    if inner_left and inner_right:
        runs += [
            CommonRun(run.left + start, run.right + start, run.length)
            for run in _myers(inner_left, inner_right, most_edits)
        ]
    if end:
        runs.append(CommonRun(len(left) - end, len(right) - end, end))
    return runs


def _myers(left: Sequence[object], right: Sequence[object], most_edits: int) -> list[CommonRun]:
    n, m = len(left), len(right)
    trace: list[dict[int, int]] = []
    furthest = {1: 0}
    for edits in range(min(most_edits, n + m) + 1):
        reached: dict[int, int] = {}
        for diagonal in range(-edits, edits + 1, 2):
            x, _ = _step(furthest, diagonal)
            y = x - diagonal
            while x < n and y < m and left[x] == right[y]:
                x += 1
                y += 1
            reached[diagonal] = x
            if x >= n and y >= m:
                return _walked_back(trace, n, m)
        trace.append(reached)
        furthest = reached
    return []


def _step(furthest: dict[int, int], diagonal: int) -> tuple[int, bool]:
    """Where one more edit leads on a diagonal, and whether it goes down (an insertion) or right (a deletion)."""
    down, right = furthest.get(diagonal + 1, -1), furthest.get(diagonal - 1, -1) + 1
    return (down, True) if down >= right else (right, False)


def _walked_back(trace: list[dict[int, int]], x: int, y: int) -> list[CommonRun]:
    """The runs on the way to a point, from the points reached with each number of edits before the last."""
    runs: list[CommonRun] = []
    for furthest in reversed([{1: 0}, *trace]):
        start, went_down = _step(furthest, x - y)
        if x > start:
            runs.append(CommonRun(start, start - x + y, x - start))
        x, y = (start, start - x + y - 1) if went_down else (start - 1, start - x + y)
    return runs[::-1]


_LINE = re.compile(r"[^\n]*\n|[^\n]+")
_CONTEXT_LINES = 3
_MOST_LINE_EDITS = 400


class _Lines(SequenceMatcher[str]):
    """What two texts have in common, found in bounded time: the usual search takes hours for 100 kB of short lines."""

    def __init__(self, before: list[str], after: list[str]) -> None:
        super().__init__(None, before, after, autojunk=False)
        self._runs = common_runs(before, after, _MOST_LINE_EDITS)
        self._end = Match(len(before), len(after), 0)

    def get_matching_blocks(self) -> list[Match]:
        """See `SequenceMatcher`."""
        return [*(Match(*run) for run in self._runs), self._end]


def text_diff(old: str, new: str, path: str, moved_from: str | None = None) -> str:
    """A unified diff between two versions of a text, for reading; empty when they are equal and in the same place.

    With more than 400 lines inserted and deleted, all between the first and the last of them is shown as replaced.
    """
    before, after = _LINE.findall(old), _LINE.findall(new)
    lines: list[str] = []
    for group in _Lines(before, after).get_grouped_opcodes(_CONTEXT_LINES):
        (_, left, _, right, _), (_, _, left_end, _, right_end) = group[0], group[-1]
        lines.append(f"@@ -{_range(left, left_end)} +{_range(right, right_end)} @@\n")
        for kind, start, end, other, other_end in group:
            if kind == "equal":
                lines += (f" {line}" for line in before[start:end])
            else:
                lines += (f"-{line}" for line in before[start:end])
                lines += (f"+{line}" for line in after[other:other_end])
    was = path if moved_from is None else moved_from
    head = [f"--- a/{was}\n", f"+++ b/{path}\n"] if lines else []
    if was != path:
        head = [f"diff --git a/{was} b/{path}\n", f"rename from {was}\n", f"rename to {path}\n", *head]
    return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in head + lines)


def _range(start: int, end: int) -> str:
    """Lines as the heading of a hunk names them; none are named by the line before."""
    count = end - start
    return f"{start + 1}" if count == 1 else f"{start + 1 if count else start},{count}"


_WORD = re.compile(r"\w+|\s+|[^\w\s]")
_NAME = re.compile(r"\w+")
_LONGEST_LINE = 1_000
_MOST_WORDS = 300
_MOST_EDITS = 40
_MOST_COMPARED = 400
_ALIKE = 0.4
_HARDLY_ALIKE = 0.3
_MOSTLY_OTHER = 0.75


class Mark(NamedTuple):
    """A changed stretch of a line, in characters."""

    start: int
    end: int


Marks = tuple[Mark, ...]
Pair = tuple[int | None, int | None]


def changed_words(before: str, after: str) -> tuple[Marks, Marks]:
    """The words that a line lost and gained; nothing at all for lines that have little in common."""
    if before == after:
        return (), ()
    if max(len(before), len(after)) > _LONGEST_LINE:
        return _changed_middle(before, after)
    left, right = _WORD.findall(before), _WORD.findall(after)
    if max(len(left), len(right)) > _MOST_WORDS or _likeness(frozenset(left), frozenset(right)) < _HARDLY_ALIKE:
        return (), ()
    runs = common_runs(left, right, _MOST_EDITS)
    marks = (
        _marks(left, [(run.left, run.length) for run in runs]),
        _marks(right, [(run.right, run.length) for run in runs]),
    )
    if _share(marks[0], before) > _MOSTLY_OTHER and _share(marks[1], after) > _MOSTLY_OTHER:
        return (), ()
    return marks


def _changed_middle(before: str, after: str) -> tuple[Marks, Marks]:
    """The middles of two long lines, between their common beginning and end."""
    start = common_start(before, after)
    shorter = min(len(before), len(after)) - start
    end = common_start(before[len(before) - shorter :][::-1], after[len(after) - shorter :][::-1])
    if start + end == 0:
        return (), ()
    left, right = before[start : len(before) - end], after[start : len(after) - end]
    if max(len(left), len(right)) <= _LONGEST_LINE and (marks := changed_words(left, right)) != ((), ()):
        found, other = marks
    else:
        found, other = ((Mark(0, len(text)),) if text else () for text in (left, right))
    return _moved(found, start), _moved(other, start)


def common_start(left: str, right: str) -> int:
    """How many characters two texts begin with together, found by halves: comparing slices is quick."""
    same, most = 0, min(len(left), len(right))
    while same < most:
        middle = (same + most + 1) // 2
        if left[same:middle] == right[same:middle]:
            same = middle
        else:
            most = middle - 1
    return same


def _moved(marks: Marks, by: int) -> Marks:
    return tuple(Mark(mark.start + by, mark.end + by) for mark in marks)


def _marks(words: list[str], kept: list[tuple[int, int]]) -> Marks:
    marks: list[Mark] = []
    at = word = 0
    for start, length in [*kept, (len(words), 0)]:
        changed = sum(map(len, words[word:start]))
        if changed:
            marks.append(Mark(at, at + changed))
        same = sum(map(len, words[start : start + length]))
        at += changed + same
        word = start + length
    return tuple(_joined(marks, "".join(words)))


def _joined(marks: list[Mark], text: str) -> list[Mark]:
    """Marks with nothing but space between them become one."""
    joined: list[Mark] = []
    for mark in marks:
        if joined and text[joined[-1].end : mark.start].isspace():
            joined[-1] = Mark(joined[-1].start, mark.end)
        else:
            joined.append(mark)
    return joined


def _share(marks: Marks, text: str) -> float:
    """The fraction of a line's visible characters that is marked."""
    visible = len(text) - text.count(" ")
    return sum(mark.end - mark.start - text.count(" ", *mark) for mark in marks) / visible if visible else 0.0


def pairs(deleted: list[str], added: list[str]) -> list[Pair]:
    """Which deleted line became which added one, in order; those without a counterpart stand alone.

    Long blocks are paired line by line from their start.
    """
    if len(deleted) == 1 and len(added) == 1:
        return [(0, 0)]
    if len(deleted) * len(added) > _MOST_COMPARED or not deleted or not added:
        both = min(len(deleted), len(added)) if deleted and added else 0
        rest: list[Pair] = [(at, None) for at in range(both, len(deleted))]
        return [*((at, at) for at in range(both)), *rest, *((None, at) for at in range(both, len(added)))]
    return _filled(_alike(deleted, added), len(deleted), len(added))


def _alike(deleted: list[str], added: list[str]) -> list[tuple[int, int]]:
    """The pairs in order whose likeness adds up to most."""
    left = [frozenset(_NAME.findall(line[:_LONGEST_LINE])) for line in deleted]
    right = [frozenset(_NAME.findall(line[:_LONGEST_LINE])) for line in added]
    best = [[0.0] * (len(right) + 1) for _ in range(len(left) + 1)]
    for i in range(len(left) - 1, -1, -1):
        row, below = best[i], best[i + 1]
        for j in range(len(right) - 1, -1, -1):
            alike = _likeness(left[i], right[j])
            row[j] = max(below[j], row[j + 1], below[j + 1] + alike if alike >= _ALIKE else 0.0)
    found: list[tuple[int, int]] = []
    i = j = 0
    while i < len(left) and j < len(right):
        if best[i][j] == best[i + 1][j]:
            i += 1
        elif best[i][j] == best[i][j + 1]:
            j += 1
        else:
            found.append((i, j))
            i, j = i + 1, j + 1
    return found


def _likeness(left: frozenset[str], right: frozenset[str]) -> float:
    both = len(left) + len(right)
    return 2 * len(left & right) / both if both else 0.0


def _filled(found: list[tuple[int, int]], deleted: int, added: int) -> list[Pair]:
    pairs: list[Pair] = []
    i = j = 0
    for left, right in [*found, (deleted, added)]:
        pairs += [(at, None) for at in range(i, left)]
        pairs += [(None, at) for at in range(j, right)]
        if left < deleted and right < added:
            pairs.append((left, right))
        i, j = left + 1, right + 1
    return pairs

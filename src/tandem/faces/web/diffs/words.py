"""Which words of a line changed: marks inside pairs of lines, and which lines are such a pair."""

from __future__ import annotations

import re
from typing import NamedTuple

from tandem.faces.web.diffs.alignment import common_runs

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
    """What is no longer in a line and what is new in it; nothing at all for lines that have little in common."""
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
    """What is left of two long lines without what both begin and end with."""
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
    """How much of what can be seen of a line is marked."""
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

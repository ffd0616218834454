"""What two sequences have in common, in order, for a bounded price."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class Run(NamedTuple):
    """Elements that both sequences have: from `left` in one, from `right` in the other."""

    left: int
    right: int
    length: int


def common_runs(left: Sequence[object], right: Sequence[object], most_edits: int) -> list[Run]:
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
    runs = [Run(0, 0, start)] if start else []
    inner_left, inner_right = left[start : len(left) - end], right[start : len(right) - end]
    if inner_left and inner_right:
        runs += [
            Run(run.left + start, run.right + start, run.length) for run in _myers(inner_left, inner_right, most_edits)
        ]
    if end:
        runs.append(Run(len(left) - end, len(right) - end, end))
    return runs


def _myers(left: Sequence[object], right: Sequence[object], most_edits: int) -> list[Run]:
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


def _walked_back(trace: list[dict[int, int]], x: int, y: int) -> list[Run]:
    """The runs on the way to a point, from what was reached with each number of edits before the last."""
    runs: list[Run] = []
    for furthest in reversed([{1: 0}, *trace]):
        start, went_down = _step(furthest, x - y)
        if x > start:
            runs.append(Run(start, start - x + y, x - start))
        x, y = (start, start - x + y - 1) if went_down else (start - 1, start - x + y)
    return runs[::-1]

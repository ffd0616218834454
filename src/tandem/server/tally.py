"""Counts what a broker does, in plain numbers that cost a call next to nothing; `/metrics` shapes them."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

CALL_BOUNDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
"""The upper bounds of the buckets of calls, in seconds."""


class Durations:
    """How many things took how long.

    Attributes:
        bounds: The upper bound of each bucket but the last, in seconds.
        counts: How many fell into each bucket.
        total_seconds: How long all took together.
    """

    __slots__ = ("bounds", "counts", "total_seconds")

    def __init__(self, bounds: Sequence[float] = CALL_BOUNDS) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total_seconds = 0.0

    def add(self, seconds: float) -> None:
        """Count one."""
        self.counts[bisect_left(self.bounds, seconds)] += 1
        self.total_seconds += seconds

    def copy(self) -> Durations:
        """What was counted up to now."""
        one = Durations(self.bounds)
        one.counts, one.total_seconds = [*self.counts], self.total_seconds
        return one


class CallTally:
    """The calls that have ended.

    Attributes:
        ended: How many, by operation and outcome.
        durations: How long those took that did not ask to wait, by operation.
    """

    def __init__(self) -> None:
        self.ended: Counter[tuple[str, str]] = Counter()
        self.durations: defaultdict[str, Durations] = defaultdict(Durations)

    def add(self, operation: str, outcome: str, seconds: float | None) -> None:
        """Count a call.

        Args:
            operation: Its name; never one that a client made up.
            outcome: `OK`, the code of its refusal, or `CANCELLED` if its client had gone.
            seconds: How long it took; None if it asked to wait.
        """
        self.ended[operation, outcome] += 1
        if seconds is not None:
            self.durations[operation].add(seconds)


Labels = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Family:
    """One metric with all its label values, as plain data that another thread may shape.

    Attributes:
        kind: Which kind of metric.
        name: Without the prefix and, for a counter, the suffix.
        words: What it is, for people.
        samples: By the values of the labels.
        labels: Their names.
    """

    kind: Literal["counter", "gauge", "histogram"]
    name: str
    words: str
    samples: Mapping[Labels, float | Durations]
    labels: Labels = ()

"""Figures for monitoring as plain values, which cost nothing before they are asked for."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from typing import Final, Literal, NamedTuple

CALL_BOUNDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
"""The upper bounds of the buckets of calls, in seconds."""


class Durations:
    """How many things took how long, in plain numbers that cost a call next to nothing.

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


class Family(NamedTuple):
    """One metric with all its label values.

    Attributes:
        kind: Which kind of metric; the samples of a histogram are durations.
        name: Without the prefix and, for a counter, the suffix.
        words: Its description.
        samples: By the values of the labels.
        labels: Their names.
    """

    kind: Literal["counter", "gauge", "histogram"]
    name: str
    words: str
    samples: Mapping[tuple[str, ...], float | Durations]
    labels: tuple[str, ...] = ()

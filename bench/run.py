"""What every measure is given, and what becomes of its figures."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable, Coroutine, Generator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from bench.report import Direction, Figure


@dataclass(slots=True)
class Run:
    """One run of the benchmark.

    Attributes:
        scratch: A folder that is gone afterwards.
        cache: A folder that stays, for what takes long to make.
        quick: Whether to do with fewer repetitions and smaller histories.
        figures: Everything measured so far.
        floors: What the least of it costs in this run, by name, in milliseconds; see `bench.floors`.
    """

    scratch: Path
    cache: Path
    quick: bool
    figures: list[Figure] = field(default_factory=list[Figure])
    floors: dict[str, float] = field(default_factory=dict[str, float])

    def times(self, usual: int, quick: int) -> int:
        """How often to repeat something."""
        return quick if self.quick else usual

    @contextlib.contextmanager
    def part(self, name: str) -> Generator[Run]:
        """A short run of its own, with a folder of its own, against the same floors."""
        part = replace(self, scratch=self.scratch / name, quick=True, figures=[])
        part.scratch.mkdir()
        yield part
        shutil.rmtree(part.scratch, ignore_errors=True)

    def recorder(self, measure: str) -> Recorder:
        """Takes the figures of one measure."""
        return Recorder(self, measure)


@dataclass(frozen=True, slots=True)
class Recorder:
    """Adds figures to a run under one measure's heading."""

    run: Run
    measure: str

    def add(
        self,
        name: str,
        value: float,
        unit: str,
        target: float | None = None,
        direction: Direction = "<=",
        detail: str = "",
    ) -> None:
        """Record one figure."""
        self.run.figures.append(Figure(self.measure, name, value, unit, target, direction, detail))


Measure = Callable[[Run], Coroutine[Any, Any, None]]

"""The results: figures with their targets, as a table for people and as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any, Literal

Direction = Literal["<=", ">="]
_FEW = 10
_MANY = 100


@dataclass(frozen=True, slots=True)
class Figure:
    """One number that was measured.

    Attributes:
        measure: The measure that it belongs to.
        name: The thing that was measured.
        value: The number, a median unless the name says otherwise.
        unit: Its unit; `x` for a ratio.
        target: The wanted value; None where it is only compared with others.
        direction: On which side of the target it should be.
        detail: What else a reader wants to know: spread, counts, multiples of a floor.
    """

    measure: str
    name: str
    value: float
    unit: str
    target: float | None = None
    direction: Direction = "<="
    detail: str = ""

    @property
    def met(self) -> bool | None:
        """Whether the target is met; None without one."""
        if self.target is None:
            return None
        return self.value <= self.target if self.direction == "<=" else self.value >= self.target

    @property
    def verdict(self) -> str:
        """The same as a word of the table."""
        return {None: "", True: "ok", False: "MISSED"}[self.met]

    def as_dict(self) -> dict[str, Any]:
        """The figure as JSON."""
        direction = None if self.target is None else self.direction
        return {**asdict(self), "value": round(self.value, 6), "direction": direction, "met": self.met}


def percentile(values: Sequence[float], share: float) -> float:
    """The value that a share (0 to 1) of all values does not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def quartiles(values: Sequence[float], *, digits: int = 2) -> str:
    """The middle half of the values, for a figure's detail."""
    low, high = percentile(values, 0.25), percentile(values, 0.75)
    return f"{low:.{digits}f}-{high:.{digits}f} (n={len(values)})"


def ratio_of_pairs(above: Sequence[float], below: Sequence[float]) -> float:
    """The median of ratios of values that were measured right after each other, so that noise hits both."""
    return median(over / under for over, under in zip(above, below, strict=True))


def shown(value: float) -> str:
    """A number with as many digits as mean something."""
    if value and abs(value) < _FEW:
        return f"{value:.2f}"
    return f"{value:.1f}" if abs(value) < _MANY else f"{value:,.0f}"


def table(figures: Iterable[Figure]) -> str:
    """The figures as lines of text, a heading for each measure."""
    lines: list[str] = []
    heading = ""
    for one in figures:
        if one.measure != heading:
            heading = one.measure
            lines.append(f"\n{heading}")
        target = "" if one.target is None else f"{one.direction} {shown(one.target)}"
        line = f"  {one.name:<62} {shown(one.value):>9} {one.unit:<5} {target:>9}  {one.verdict:<6}  {one.detail}"
        lines.append(line.rstrip())
    return "\n".join(lines)


def write_json(path: Path, figures: Sequence[Figure], facts: dict[str, Any]) -> None:
    """Keep a run's figures and the facts of where it ran."""
    document = {**facts, "figures": [one.as_dict() for one in figures]}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document, indent=2) + "\n", "utf-8")

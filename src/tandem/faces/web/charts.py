"""Small charts as SVG: bars and lines by day, drawn on the server, with their numbers in a table beside them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

WIDTH, HEIGHT = 720, 160
_LEFT, _BOTTOM, _TOP = 44, 22, 8
_LINES = 4
_STEPS = (1, 2, 5, 10)
_COUNT_STEPS = (4, 8, 20, 40)
"""A whole number at each line of the grid."""
_LABELS = 6


@dataclass(frozen=True, slots=True)
class Series:
    """One row of values, a value or null for each day.

    Attributes:
        name: As the legend says it.
        kind: What it is, for its colour: `first`, `second` or `third`.
    """

    name: str
    kind: str
    values: tuple[float | None, ...]


@dataclass(frozen=True, slots=True)
class Bar:
    """One bar, in the chart's own units."""

    kind: str
    x: float
    y: float
    width: float
    height: float
    title: str


@dataclass(frozen=True, slots=True)
class Line:
    """A polyline, as SVG writes its points.

    Attributes:
        is_alone: Whether it is one day only, and so a dot.
    """

    kind: str
    points: str
    is_alone: bool


@dataclass(frozen=True, slots=True)
class Mark:
    """A line of the grid, or a label below."""

    at: float
    text: str


@dataclass(frozen=True, slots=True)
class Chart:
    """What a template draws.

    Attributes:
        title: What is shown.
        unit: Of the values: empty for counts, `s` for seconds, `%` for shares of one.
        series: For the legend and the table.
        days: ISO days, oldest first.
        bars: Set for counts.
        lines: Broken where there is no value.
        grid: Horizontal lines, lowest first.
        labels: Some of the days.
    """

    title: str
    unit: str
    series: tuple[Series, ...]
    days: tuple[str, ...]
    bars: tuple[Bar, ...]
    lines: tuple[Line, ...]
    grid: tuple[Mark, ...]
    labels: tuple[Mark, ...]


def bars(title: str, days: Sequence[str], series: Sequence[Series]) -> Chart:
    """Counts by day, side by side."""
    top = _ceiling(series, _COUNT_STEPS)
    slot = (WIDTH - _LEFT) / max(len(days), 1)
    width = max(slot * 0.8 / max(len(series), 1), 0.5)
    found = [
        Bar(
            one.kind,
            round(_LEFT + slot * index + slot * 0.1 + width * place, 2),
            round(_y(value, top), 2),
            round(width, 2),
            round(_y(0, top) - _y(value, top), 2),
            f"{days[index]}: {value:g} {one.name.lower()}",
        )
        for place, one in enumerate(series)
        for index, value in enumerate(one.values)
        if value
    ]
    return Chart(title, "", tuple(series), tuple(days), tuple(found), (), _grid(top, ""), _labels(days, slot))


def lines(title: str, unit: str, days: Sequence[str], series: Sequence[Series]) -> Chart:
    """Means by day, as lines that break where a day has none."""
    top = 1.0 if unit == "%" else _ceiling(series, _STEPS)
    slot = (WIDTH - _LEFT) / max(len(days), 1)
    found: list[Line] = []
    for one in series:
        for run in _runs(one.values):
            points = [f"{_LEFT + slot * (index + 0.5):.2f},{_y(value, top):.2f}" for index, value in run]
            is_alone = len(points) == 1
            found.append(Line(one.kind, " ".join(points * 2 if is_alone else points), is_alone))
    return Chart(title, unit, tuple(series), tuple(days), (), tuple(found), _grid(top, unit), _labels(days, slot))


def _runs(values: Sequence[float | None]) -> list[list[tuple[int, float]]]:
    runs: list[list[tuple[int, float]]] = [[]]
    for index, value in enumerate(values):
        if value is None:
            runs.append([])
        else:
            runs[-1].append((index, value))
    return [run for run in runs if run]


def _ceiling(series: Sequence[Series], steps: Sequence[float]) -> float:
    """A round number that no value is above."""
    most = max((value for one in series for value in one.values if value is not None), default=0.0)
    power = 1.0
    while power * steps[-1] < most:
        power *= 10
    return next(power * step for step in steps if power * step >= most)


def _y(value: float, top: float) -> float:
    return HEIGHT - _BOTTOM - (HEIGHT - _BOTTOM - _TOP) * min(value / top, 1.0)


def _grid(top: float, unit: str) -> tuple[Mark, ...]:
    values = [top * step / _LINES for step in range(_LINES + 1)]
    return tuple(Mark(round(_y(value, top), 2), told(value, unit)) for value in values)


def _labels(days: Sequence[str], slot: float) -> tuple[Mark, ...]:
    every = max(1, -(-len(days) // _LABELS))
    return tuple(
        Mark(round(_LEFT + slot * (index + 0.5), 2), day[5:]) for index, day in enumerate(days) if index % every == 0
    )


def told(value: float | None, unit: str) -> str:
    """A value with its unit, short enough for an axis."""
    if value is None:
        return "–"
    if unit == "%":
        return f"{value:.0%}"
    if unit == "s":
        for size, name in ((86_400, "d"), (3_600, "h"), (60, "min")):
            if value >= size:
                return f"{value / size:.3g} {name}"
        return f"{value:.3g} s" if value >= 1 or not value else f"{value * 1000:.0f} ms"
    return f"{value:.4g}"

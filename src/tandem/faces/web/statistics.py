"""`/statistics`: how much is reviewed, how fast and with what result; as charts by day, and as tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from urllib.parse import urlencode

from tandem.domain.answers import Statistics, Tally
from tandem.errors import InvalidInput
from tandem.faces.web.page import PageRequest, PageResponse, PageRoute

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


PATH = "/statistics"
_SPANS = (7, 30, 90, 365)
_SPAN = 30


async def show(request: PageRequest) -> PageResponse:
    """The last days of all projects, or of one."""
    project, days = request.query("project"), request.number("days") or _SPAN
    if days not in _SPANS:
        raise InvalidInput(f"days must be one of {', '.join(map(str, _SPANS))}.", field="days", allowed=list(_SPANS))
    today = datetime.now(UTC).date()
    since = today - timedelta(days=days - 1)
    found: Statistics = await request.call("get_review_stats", project=project, since=since.isoformat())
    by_day = [(day, found.by_day.get(day)) for day in _days(since, today)]
    values = {
        "total": found.total,
        "asked_project": project,
        "charts": _charts(by_day),
        "days": days,
        "spans": [
            (span, f"{PATH}?{urlencode({'days': span} | ({'project': project} if project else {}))}") for span in _SPANS
        ],
        "tables": (
            ("By category", "Category", found.by_category),
            ("By reviewer", "Reviewer", found.by_reviewer),
            ("By project", "Project", found.by_project),
        ),
        "rounds": rounds(found.total),
        "told": told,
        "rounds_of": rounds,
    }
    return PageResponse("statistics.html", values)


def rounds(tally: Tally) -> float | None:
    """How many rounds a review took in the mean."""
    return 1 + tally.revised / tally.submitted if tally.submitted else None


def _days(first: date, last: date) -> list[str]:
    return [(first + timedelta(days=number)).isoformat() for number in range((last - first).days + 1)]


def _charts(by_day: list[tuple[str, Tally | None]]) -> list[Chart]:
    days = [day for day, _ in by_day]

    def counts(name: str, kind: str, *metrics: str) -> Series:
        values = (sum(getattr(tally, metric) for metric in metrics) if tally else 0 for _, tally in by_day)
        return Series(name, kind, tuple(map(float, values)))

    def means(name: str, kind: str, metric: str) -> Series:
        return Series(name, kind, tuple(getattr(tally, metric) if tally else None for _, tally in by_day))

    decided = ("approved", "changes_requested", "rejected")
    return [
        bars(
            "Throughput",
            days,
            (
                counts("Put up", "first", "submitted"),
                counts("Revised", "second", "revised"),
                counts("Decided", "third", *decided),
            ),
        ),
        bars(
            "Verdicts",
            days,
            (
                counts("Approved", "good", "approved"),
                counts("Changes requested", "warn", "changes_requested"),
                counts("Rejected", "bad", "rejected"),
            ),
        ),
        lines(
            "Mean time",
            "s",
            days,
            (
                means("To claim", "first", "mean_seconds_to_claim"),
                means("To verdict", "third", "mean_seconds_to_verdict"),
            ),
        ),
        lines("Approval rate", "%", days, (means("Approved", "good", "approval_rate"),)),
    ]


ROUTES = (PageRoute(PATH, show),)

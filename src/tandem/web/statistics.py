"""`/statistics`: how much is reviewed, how fast and with what result; as charts by day, and as tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta

from markupsafe import Markup

from tandem.errors import InvalidInput
from tandem.reviews.answers import Statistics, Tally
from tandem.web.page import PageRequest, PageResponse, PageRoute, address

WIDTH, HEIGHT = 720, 160
_LEFT, _BOTTOM, _TOP = 44, 22, 8
_LINES = 4
_STEPS = (1, 2, 5, 10)
_COUNT_STEPS = (4, 8, 20, 40)
"""A whole number at each line of the grid."""
_LABELS = 6
_BAR = Markup('<rect class="{}" x="{}" y="{}" width="{}" height="{}"><title>{}</title></rect>')
_LINE = Markup('<polyline class="{}" points="{}"/>')


@dataclass(frozen=True, slots=True)
class Series:
    """One row of values, a value or None for each day.

    Attributes:
        name: As the legend says it.
        kind: What it is, for its colour: `first`, `second` or `third`.
    """

    name: str
    kind: str
    values: tuple[float | None, ...]


@dataclass(frozen=True, slots=True)
class Chart:
    """What a template draws.

    Attributes:
        title: What is shown.
        unit: Of the values: empty for counts, `s` for seconds, `%` for shares of one.
        series: For the legend and the table.
        days: ISO days, oldest first.
        shapes: Bars or lines, as SVG.
        top: The value at the uppermost line of the grid.
    """

    title: str
    unit: str
    series: Sequence[Series]
    days: Sequence[str]
    shapes: Sequence[Markup]
    top: float

    @property
    def grid(self) -> list[tuple[float, str]]:
        """Horizontal lines with what they stand for, lowest first."""
        values = [self.top * step / _LINES for step in range(_LINES + 1)]
        return [(round(_y(value, self.top), 2), told(value, self.unit)) for value in values]

    @property
    def labels(self) -> list[tuple[float, str]]:
        """Some of the days, with their places."""
        every = max(1, -(-len(self.days) // _LABELS))
        slot = _slot(self.days)
        return [(round(_LEFT + slot * (at + 0.5), 2), self.days[at][5:]) for at in range(0, len(self.days), every)]


def bars(title: str, days: Sequence[str], series: Sequence[Series]) -> Chart:
    """Counts by day, side by side."""
    top = _ceiling(series, _COUNT_STEPS)
    slot = _slot(days)
    width = max(slot * 0.8 / max(len(series), 1), 0.5)
    found = [
        _BAR.format(
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
    return Chart(title, "", series, days, found, top)


def lines(title: str, unit: str, days: Sequence[str], series: Sequence[Series]) -> Chart:
    """Means by day, as lines that break where a day has none; one day only is a dot."""
    top = 1.0 if unit == "%" else _ceiling(series, _STEPS)
    slot = _slot(days)
    found: list[Markup] = []
    for one in series:
        for run in _runs(one.values):
            points = [f"{_LEFT + slot * (index + 0.5):.2f},{_y(value, top):.2f}" for index, value in run]
            alone = " alone" if len(points) == 1 else ""
            found.append(_LINE.format(one.kind + alone, " ".join(points * 2 if alone else points)))
    return Chart(title, unit, series, days, found, top)


def _slot(days: Sequence[str]) -> float:
    return (WIDTH - _LEFT) / max(len(days), 1)


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
        "spans": [(span, address(PATH, days=span, project=project)) for span in _SPANS],
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


_CHARTS = (
    (
        "Throughput",
        "",
        ("Put up", "first", "submitted"),
        ("Revised", "second", "revised"),
        ("Decided", "third", "approved", "changes_requested", "rejected"),
    ),
    (
        "Verdicts",
        "",
        ("Approved", "good", "approved"),
        ("Changes requested", "warn", "changes_requested"),
        ("Rejected", "bad", "rejected"),
    ),
    (
        "Mean time",
        "s",
        ("To claim", "first", "mean_seconds_to_claim"),
        ("To verdict", "third", "mean_seconds_to_verdict"),
    ),
    ("Approval rate", "%", ("Approved", "good", "approval_rate")),
)
"""Title, unit, and for each series its name, its colour and the metrics that it adds up; see `Chart`."""


def _charts(by_day: list[tuple[str, Tally | None]]) -> list[Chart]:
    days = [day for day, _ in by_day]
    charts: list[Chart] = []
    for title, unit, *series in _CHARTS:
        found = [
            Series(name, kind, tuple(_value(tally, metrics, unit) for _, tally in by_day))
            for name, kind, *metrics in series
        ]
        charts.append(lines(title, unit, days, found) if unit else bars(title, days, found))
    return charts


def _value(tally: Tally | None, metrics: Sequence[str], unit: str) -> float | None:
    """A count, or a mean, of which a day may have none."""
    values = [] if tally is None else [getattr(tally, one) for one in metrics]
    return (values or [None])[0] if unit else float(sum(values))


ROUTES = (PageRoute(PATH, show),)

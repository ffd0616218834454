"""`/statistics`: how much is reviewed, how fast and with what result; as charts by day, and as tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import astuple
from datetime import UTC, datetime, timedelta
from itertools import groupby
from typing import NamedTuple

from markupsafe import Markup

from tandem.errors import InvalidInput
from tandem.present.facts import worded
from tandem.reviews.tally_contract import FindingTally, Statistics, Tally
from tandem.web.page import PageRequest, PageResponse, PageRoute, address

WIDTH, HEIGHT = 480, 150
_LEFT, _BOTTOM, _TOP = 64, 24, 8
_LINES = 4
_MEANS = ("duration", "percent")
_STEPS = (1, 2, 5, 10)
_COUNT_STEPS = (4, 8, 20, 40)
"""A whole number at each line of the grid."""
_LABELS = 6
_BAR = Markup('<rect class="{}" x="{}" y="{}" width="{}" height="{}"><title>{}</title></rect>')
_LINE = Markup('<polyline class="{}" points="{}"/>')


class Series(NamedTuple):
    """One row of values, a value or None for each day.

    Attributes:
        name: As the legend says it.
        kind: The class of its colour: `first`, `second` or `third`.
    """

    name: str
    kind: str
    values: tuple[float | None, ...]


class Chart:
    """What a template draws.

    Attributes:
        title: The heading.
        unit: Of the values: empty for counts, else `duration`, `money` or `percent`; see `present.shape`.
        series: For the legend and the table.
        days: ISO days, oldest first.
    """

    def __init__(self, title: str, unit: str, series: Sequence[Series], days: Sequence[str]) -> None:
        self.title, self.unit, self.series, self.days = title, unit, series, days
        self._slot = (WIDTH - _LEFT) / max(len(days), 1)
        # The value at the uppermost line of the grid.
        self._top = 1.0 if unit == "percent" else _ceiling(series, _STEPS if unit else _COUNT_STEPS)

    @property
    def grid(self) -> list[tuple[float, str]]:
        """Horizontal lines with their values, lowest first."""
        values = [self._top * step / _LINES for step in range(_LINES + 1)]
        return [(round(self._y(value), 2), _tick(value, self.unit)) for value in values]

    @property
    def labels(self) -> list[tuple[float, str]]:
        """Some of the days, with their places."""
        every = max(1, -(-len(self.days) // _LABELS))
        return [(round(self._middle(at), 2), self.days[at][5:]) for at in range(0, len(self.days), every)]

    @property
    def shapes(self) -> list[Markup]:
        """Sums as bars side by side; means as lines that break where a day has none, one day only as a dot."""
        width = max(self._slot * 0.8 / max(len(self.series), 1), 0.5)
        found: list[Markup] = []
        for place, one in enumerate(self.series):
            if self.unit in _MEANS:
                found += (self._line(one.kind, run) for run in _runs(one.values))
            else:
                left = _LEFT + self._slot * 0.1 + width * place
                found += (self._bar(one, at, left, width, value) for at, value in enumerate(one.values) if value)
        return found

    def _bar(self, one: Series, at: int, left: float, width: float, value: float) -> Markup:
        y, words = self._y(value), f"{self.days[at]}: {told(value, self.unit)} {one.name.lower()}"
        box = (left + self._slot * at, y, width, self._y(0) - y)
        return _BAR.format(one.kind, *(round(side, 2) for side in box), words)

    def _line(self, kind: str, run: list[tuple[int, float]]) -> Markup:
        points = [f"{self._middle(at):.2f},{self._y(value):.2f}" for at, value in run]
        if len(run) == 1:
            kind, points = f"{kind} alone", points * 2
        return _LINE.format(kind, " ".join(points))

    def _middle(self, at: int) -> float:
        return _LEFT + self._slot * (at + 0.5)

    def _y(self, value: float) -> float:
        return HEIGHT - _BOTTOM - (HEIGHT - _BOTTOM - _TOP) * min(value / self._top, 1.0)


def _runs(values: Sequence[float | None]) -> list[list[tuple[int, float]]]:
    groups = groupby(enumerate(values), key=lambda one: one[1] is None)
    return [[(at, value) for at, value in run if value is not None] for is_gap, run in groups if not is_gap]


def _ceiling(series: Sequence[Series], steps: Sequence[float]) -> float:
    """A round number that no value is above."""
    most = max((value for one in series for value in one.values if value is not None), default=0.0)
    power = 1.0
    while power * steps[-1] < most:
        power *= 10
    return next(power * step for step in steps if power * step >= most)


def _tick(value: float, unit: str) -> str:
    """A value at a line of the grid, whose lines are closer than whole minutes."""
    if unit == "money":
        return f"${value:.3g}"
    if unit != "duration":
        return told(value, unit)
    for size, name in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if value >= size:
            return f"{value / size:.3g} {name}"
    return f"{value:.3g} s" if value >= 1 or not value else f"{value * 1000:.0f} ms"


def told(value: float | None, unit: str) -> str:
    """A value with its unit, short enough for an axis."""
    if value is None:
        return "–"
    return worded(unit, value) if unit else f"{value:.4g}"


PATH = "/statistics"
_SPANS = (7, 30, 90, 365)
_SPAN = 30


async def show(request: PageRequest) -> PageResponse:
    """The last days of all projects, or of one."""
    project, days = request.query("project"), request.number("days") or _SPAN
    if days not in _SPANS:
        raise InvalidInput(f"days must be one of {', '.join(map(str, _SPANS))}.", field="days", allowed=list(_SPANS))
    since = datetime.now(UTC).date() - timedelta(days=days - 1)
    found: Statistics = await request.call("get_review_stats", project=project, since=since.isoformat())
    by_day = {day: found.by_day.get(day) for day in ((since + timedelta(days=at)).isoformat() for at in range(days))}
    values = {
        "total": found.total,
        "asked_project": project,
        "charts": [_chart(by_day, title, unit, series) for title, unit, *series in _CHARTS],
        "days": days,
        "spans": [(span, address(PATH, days=span, project=project)) for span in _SPANS],
        "tables": (
            ("Findings", "Reviewer", "FindingTally", {"All": found.total.findings, **_found(found.by_reviewer)}),
            ("Findings by category", "Category", "FindingTally", found.by_finding_category),
            ("Findings by model", "Model", "FindingTally", _found(found.by_model)),
            ("By category", "Category", "Tally", found.by_category),
            ("By reviewer", "Reviewer", "Tally", found.by_reviewer),
            ("By model", "Model", "Tally", found.by_model),
            ("By project", "Project", "Tally", found.by_project),
        ),
        "columns": {"Tally": _COLUMNS},
        "told": told,
    }
    return PageResponse("statistics.html", values)


_COLUMNS = (
    *("submitted", "approved", "changes_requested", "rejected", "approval_rate", "mean_rounds"),
    *("mean_seconds_to_claim", "mean_seconds_to_verdict", "cost_usd", "cost_per_verdict_usd"),
)
"""Of a table of reviews."""


def _found(tallies: Mapping[str, Tally]) -> dict[str, FindingTally]:
    """The findings of the slices that have any."""
    return {name: tally.findings for name, tally in tallies.items() if any(astuple(tally.findings))}


_CHARTS = (
    (
        "Throughput",
        "",
        ("Submitted", "first", "submitted"),
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
        "duration",
        ("To claim", "first", "mean_seconds_to_claim"),
        ("To verdict", "third", "mean_seconds_to_verdict"),
    ),
    ("Approval rate", "percent", ("Approved", "good", "approval_rate")),
    ("Cost of the pools' reviewers", "money", ("Spent", "third", "cost_usd")),
)
"""Title, unit, and for each series its name, its colour and the metrics that it adds up; see `Chart`."""


def _chart(by_day: dict[str, Tally | None], title: str, unit: str, series: Sequence[tuple[str, ...]]) -> Chart:
    found = [
        Series(name, kind, tuple(_value(tally, metrics, unit) for tally in by_day.values()))
        for name, kind, *metrics in series
    ]
    return Chart(title, unit, found, list(by_day))


def _value(tally: Tally | None, metrics: Sequence[str], unit: str) -> float | None:
    """A count, or a mean, of which a day may have none."""
    values = [] if tally is None else [getattr(tally, one) for one in metrics]
    return (values or [None])[0] if unit else float(sum(values))


ROUTES = (PageRoute(PATH, show),)

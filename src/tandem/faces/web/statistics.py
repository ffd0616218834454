"""`/statistics`: how much is reviewed, how fast and with what result; as charts by day, and as tables."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from urllib.parse import urlencode

from tandem.domain.answers import Statistics, Tally
from tandem.errors import InvalidInput
from tandem.faces.web import charts
from tandem.faces.web.page import PageRequest, PageResponse, PageRoute

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
        "told": charts.told,
        "rounds_of": rounds,
    }
    return PageResponse("statistics.html", values)


def rounds(tally: Tally) -> float | None:
    """How many rounds a review took in the mean."""
    return 1 + tally.revised / tally.submitted if tally.submitted else None


def _days(first: date, last: date) -> list[str]:
    return [(first + timedelta(days=number)).isoformat() for number in range((last - first).days + 1)]


def _charts(by_day: list[tuple[str, Tally | None]]) -> list[charts.Chart]:
    days = [day for day, _ in by_day]

    def counts(name: str, kind: str, *metrics: str) -> charts.Series:
        values = (sum(getattr(tally, metric) for metric in metrics) if tally else 0 for _, tally in by_day)
        return charts.Series(name, kind, tuple(map(float, values)))

    def means(name: str, kind: str, metric: str) -> charts.Series:
        return charts.Series(name, kind, tuple(getattr(tally, metric) if tally else None for _, tally in by_day))

    decided = ("approved", "changes_requested", "rejected")
    return [
        charts.bars(
            "Throughput",
            days,
            (
                counts("Put up", "first", "submitted"),
                counts("Revised", "second", "revised"),
                counts("Decided", "third", *decided),
            ),
        ),
        charts.bars(
            "Verdicts",
            days,
            (
                counts("Approved", "good", "approved"),
                counts("Changes requested", "warn", "changes_requested"),
                counts("Rejected", "bad", "rejected"),
            ),
        ),
        charts.lines(
            "Mean time",
            "s",
            days,
            (
                means("To claim", "first", "mean_seconds_to_claim"),
                means("To verdict", "third", "mean_seconds_to_verdict"),
            ),
        ),
        charts.lines("Approval rate", "%", days, (means("Approved", "good", "approval_rate"),)),
    ]


ROUTES = (PageRoute(PATH, show),)

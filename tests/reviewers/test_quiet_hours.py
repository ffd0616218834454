"""Quiet hours are read as the clock on the wall shows them, across midnight and when the clock is changed."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from tandem.settings.pool import is_quiet


def at(clock: str) -> datetime:
    return datetime.fromisoformat(f"2026-03-10T{clock}").replace(tzinfo=UTC)


@pytest.mark.parametrize(
    ("span", "clock", "quiet"),
    [
        ("22:00-07:00", "21:59:59", False),
        ("22:00-07:00", "22:00:00", True),
        ("22:00-07:00", "06:59:59", True),
        ("22:00-07:00", "07:00:00", False),
        ("12:30-13:15", "12:30:00", True),
        ("12:30-13:15", "13:14:59", True),
        ("00:00-24:00", "23:59:59", True),
        ("22:00-24:00", "00:00:00", False),
        ("22:00-00:00", "00:00:00", False),
    ],
)
def test_a_span_has_its_beginning_and_not_its_end(span: str, clock: str, quiet: bool) -> None:
    assert is_quiet([span], at(clock)) is quiet


def test_several_spans_are_quiet_together_and_none_never() -> None:
    both = ["22:00-07:00", "12:00-13:00"]
    assert [is_quiet(both, at(clock)) for clock in ("23:00:00", "12:30:00", "18:00:00")] == [True, True, False]
    assert not is_quiet([], at("03:00:00"))


@pytest.mark.parametrize("night", ["2026-03-28", "2026-10-24"])
def test_on_nights_when_the_clock_is_changed_it_is_the_clock_that_counts(night: str) -> None:
    hours = ["22:00-07:00"]
    berlin = ZoneInfo("Europe/Berlin")
    first = datetime.fromisoformat(f"{night}T12:00").replace(tzinfo=berlin).astimezone(UTC)
    moments = [(first + timedelta(minutes=minutes)).astimezone(berlin) for minutes in range(24 * 60)]
    assert {moment.strftime("%H") for moment in moments if is_quiet(hours, moment)} >= {"22", "23", "00", "01", "06"}
    for moment in moments:
        assert is_quiet(hours, moment) is (moment.strftime("%H:%M") >= "22:00" or moment.strftime("%H:%M") < "07:00")

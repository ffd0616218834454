"""In CI (`CI=true`) a skipped test is a failed one, unless its reason begins with `platform:`.

One that could not be run because of what another test failed for is skipped there, too (`tests/downloads.py`).

A test that is skipped where it matters proves nothing, and no one reads the list of skips.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from tests.downloads import Missing, is_first

if TYPE_CHECKING:
    from collections.abc import Generator

ALLOWED = "platform:"
NOT_RUN = "not run:"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A test, or its set-up, that was skipped, or that misses what could not be fetched."""
    report = yield
    error = call.excinfo.value if call.excinfo is not None else None
    if isinstance(error, Missing) and not is_first(error):
        path, line, _ = item.location
        report.outcome = "skipped"
        report.longrepr = (path, (line or 0) + 1, f"Skipped: {NOT_RUN} see the test that failed for {error.what}")
    # An expected failure is reported as skipped too, and is something else.
    if report.skipped and not hasattr(report, "wasxfail"):
        _refuse(report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """A whole module that was skipped."""
    report = yield
    if report.skipped:
        _refuse(report)
    return report


def _refuse(report: pytest.TestReport | pytest.CollectReport) -> None:
    if os.environ.get("CI", "").lower() != "true":
        return
    words = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    reason = words.removeprefix("Skipped: ")
    if not reason.startswith((ALLOWED, NOT_RUN)):
        report.outcome = "failed"
        report.longrepr = f"skipped in CI without a reason that begins with `{ALLOWED}`: {reason}"

"""In CI (`CI=true`) a skipped test is a failed one, unless its reason begins with `platform:`.

A test that is skipped where it matters proves nothing, and nobody reads the list of skips.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Generator

ALLOWED = "platform:"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A test, or its set-up, that was skipped."""
    report = yield
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
    if not reason.startswith(ALLOWED):
        report.outcome = "failed"
        report.longrepr = f"skipped in CI without a reason that begins with `{ALLOWED}`: {reason}"

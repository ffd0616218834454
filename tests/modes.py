"""What runs only with pytest's `--every-mode`: variations of what always runs, such as each row in further modes."""

from __future__ import annotations

import pytest

VARIATION = pytest.mark.variation
"""For a row or a test that reaches no code but what tests that always run reach, too: another value, order or window.

Its behaviour may break all the same: who changes an area runs its variations (CONTRIBUTING.md)."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """What `make test ARGS=--every-mode` uses."""
    parser.addoption("--every-mode", action="store_true", help="each of the gate's modes, and every variation")


def pytest_configure(config: pytest.Config) -> None:
    """Make the mark known."""
    config.addinivalue_line("markers", "variation: runs with --every-mode only")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out variations, unless they are asked for."""
    if not config.getoption("every_mode"):
        left = {item for item in items if item.get_closest_marker("variation") is not None}
        config.hook.pytest_deselected(items=list(left))
        items[:] = [item for item in items if item not in left]

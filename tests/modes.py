"""What runs only with pytest's `--every-mode`: modes of the gate whose turn it is not, and further variations."""

from __future__ import annotations

from typing import Any, cast

import pytest

from tandem.rulings.state import COMMITS

BY_TURNS = pytest.mark.by_turns
"""For tests with the parameter `commits` beside the row of a table."""
VARIATION = pytest.mark.variation
"""For a row or a test that takes the same way as one that always runs, with another value."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """What `make test ARGS=--every-mode` uses."""
    parser.addoption("--every-mode", action="store_true", help="each of the gate's modes, and every variation")


def pytest_configure(config: pytest.Config) -> None:
    """Make the mark known."""
    config.addinivalue_line("markers", "by_turns: each row is played in one of the gate's modes")
    config.addinivalue_line("markers", "variation: runs with --every-mode only")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out variations, and the modes whose turn it is not."""
    if not config.getoption("every_mode"):
        config.hook.pytest_deselected(items=[item for item in items if not _is_due(item)])
        items[:] = filter(_is_due, items)


def _is_due(item: pytest.Item) -> bool:
    if item.get_closest_marker("variation") is not None:
        return False
    if item.get_closest_marker("by_turns") is None:
        return True
    spec: Any = vars(item)["callspec"]
    return sum(cast("dict[str, int]", spec.indices).values()) % len(COMMITS) == 0

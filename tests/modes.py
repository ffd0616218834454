"""Which of the gate's modes a row of a table is played in: one by turns, or each with pytest's `--every-mode`."""

from __future__ import annotations

from typing import Any, cast

import pytest

from tandem.rulings.state import COMMITS

BY_TURNS = pytest.mark.by_turns
"""For tests with the parameter `commits` beside the row of a table."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """What `make test ARGS=--every-mode` uses."""
    parser.addoption("--every-mode", action="store_true", help="every route and flow in each of the gate's modes")


def pytest_configure(config: pytest.Config) -> None:
    """Make the mark known."""
    config.addinivalue_line("markers", "by_turns: each row is played in one of the gate's modes")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the modes whose turn it is not."""
    if not config.getoption("every_mode"):
        config.hook.pytest_deselected(items=[item for item in items if not _is_due(item)])
        items[:] = filter(_is_due, items)


def _is_due(item: pytest.Item) -> bool:
    if item.get_closest_marker("by_turns") is None:
        return True
    spec: Any = vars(item)["callspec"]
    return sum(cast("dict[str, int]", spec.indices).values()) % len(COMMITS) == 0

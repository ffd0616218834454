"""Tests of one client's peculiarities are left out where another client was asked for, as nobody asked for them."""

from __future__ import annotations

import os

import pytest


def pytest_configure(config: pytest.Config) -> None:
    """Names the marker."""
    config.addinivalue_line("markers", "client(name): of this client program alone")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Takes out what is of another client than those that were asked for."""
    chosen = os.environ.get("TANDEM_CLIENTS", "").split(",")
    unwanted = [
        item for item in items if (mark := item.get_closest_marker("client")) is not None and mark.args[0] not in chosen
    ]
    if unwanted:
        config.hook.pytest_deselected(items=unwanted)
        items[:] = [item for item in items if item not in unwanted]

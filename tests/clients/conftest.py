"""What the tests of real clients share, and that those of clients that were not asked for are left out."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.broker import BrokerProcess


def pytest_configure(config: pytest.Config) -> None:
    """Names the marker."""
    config.addinivalue_line("markers", "client(name): of this client program alone")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselects the tests of clients that `TANDEM_CLIENTS` does not name."""
    chosen = os.environ.get("TANDEM_CLIENTS", "").split(",")
    unwanted = [
        item for item in items if (mark := item.get_closest_marker("client")) is not None and mark.args[0] not in chosen
    ]
    if unwanted:
        config.hook.pytest_deselected(items=unwanted)
        items[:] = [item for item in items if item not in unwanted]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path_factory.mktemp("broker")) as started:
        yield started

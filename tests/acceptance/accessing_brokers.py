"""A broker that needs access tokens. Named as a plugin by the tests of access."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acceptance.accessing import TOKEN, Bearer
from tests.broker import BrokerProcess


@pytest.fixture(scope="session")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """One broker that needs tokens, for all tests that only need a project and tokens of their own."""
    folder: Path = tmp_path_factory.mktemp("guarded")
    with BrokerProcess(folder, **TOKEN) as started:
        yield started
        started.assert_intact()


@pytest.fixture
def owner(guarded: BrokerProcess) -> Iterator[Bearer]:
    """The owner's desk, for a project of the test's own."""
    with Bearer.owner(guarded) as desk:
        yield desk

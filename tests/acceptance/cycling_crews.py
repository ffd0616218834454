"""Crews on the brokers that all tests share.

A plugin, named by the modules that need it (`pytest_plugins`): keys and sessions are slow to make, so that tests
take turns with one crew for each database.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.acceptance.cycling import Crew
from tests.broker import BrokerProcess, fresh_project


@pytest.fixture(scope="session")
def shared_crew(broker: BrokerProcess) -> Iterator[Crew]:
    """What `crew` is."""
    with Crew(broker.url, fresh_project()) as opened:
        yield opened.prepare()


@pytest.fixture
def crew(shared_crew: Crew) -> Crew:
    """A crew without a cycle, that has keys and sessions, which the test must not spoil."""
    return shared_crew.begin_anew()


@pytest.fixture
def fresh_crew(broker: BrokerProcess) -> Iterator[Crew]:
    """A crew in a project of its own, with keys and sessions that the test may spoil."""
    with Crew(broker.url, fresh_project()) as opened:
        yield opened.prepare()

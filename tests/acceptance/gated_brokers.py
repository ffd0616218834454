"""Brokers whose hand-offs wait for approval, and teams that play on them.

A plugin, named by the modules that need it (`pytest_plugins`), so that they share one broker for each database.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from tests.acceptance.gated import (
    FORK,
    GATED,
    Team,
    assert_no_deadlocks,
    check_story,
    config_dir,
    played,
)
from tests.broker import BrokerProcess, database_of, fresh_project


@pytest.fixture(scope="session", params=["sqlite", "postgresql"])
def gated(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """One broker with the workflows of these tests, on each database."""
    with ExitStack() as stack:
        settings = database_of(request, stack)
        if settings:
            stack.callback(assert_no_deadlocks, str(settings["database_url"]))
        folder = tmp_path_factory.mktemp("gated")
        broker = stack.enter_context(BrokerProcess(folder, config_dir=config_dir(folder / "config"), **settings))
        yield broker
        # P8, after approvals and races of every kind.
        broker.assert_intact()


@pytest.fixture(scope="session")
def crews(gated: BrokerProcess) -> Iterator[Callable[[str], Team]]:
    """The team of a workflow; keys and sessions are slow to make, so that tests share them."""
    with ExitStack() as stack:
        made: dict[str, Team] = {}

        def crew(workflow: str) -> Team:
            if workflow not in made:
                made[workflow] = stack.enter_context(Team(gated.url, fresh_project(), workflow))
                made[workflow].enrol()
            return made[workflow]

        yield crew


@pytest.fixture
def team(crews: Callable[[str], Team]) -> Iterator[Team]:
    """The built-in workflow's roles."""
    with played(crews(GATED)) as ready:
        yield ready


@pytest.fixture
def writers(crews: Callable[[str], Team]) -> Iterator[Team]:
    """The roles of a workflow whose first phase goes two ways, and may complete too."""
    with played(crews(FORK)) as ready:
        yield ready


@pytest.fixture
def newcomers(gated: BrokerProcess) -> Iterator[Team]:
    """As `team`, with keys and sessions that the test may spoil."""
    with Team(gated.url, fresh_project()) as opened:
        opened.enrol()
        yield opened
        check_story(opened)

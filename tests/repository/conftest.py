"""Shared by the tests of gates: a broker, and for each test a repository with the gate on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acceptance.checking import checking, project
from tests.broker import BrokerProcess
from tests.repository.gating import Gated, gate_on, new_repository
from tests.repository.rolling_back import Plan, Task, optimistic, with_lines

__all__ = ["checking", "project"]


@pytest.fixture(scope="session")
def shared_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """One broker, on SQLite; a test that stops it starts it again."""
    with BrokerProcess(tmp_path_factory.mktemp("broker")) as started:
        yield started
        # P8: the log tells everything that the tests did, and the state agrees with the log.
        started.assert_intact()


@pytest.fixture(autouse=True)
def _own_settings(config_dir: Path) -> None:
    """Each test has the user's configuration folder for itself."""


@pytest.fixture
def plain(tmp_path: Path) -> Path:
    """A repository with one commit, without a gate: `a.txt` of three lines, `b.txt` of two."""
    return new_repository(tmp_path / "repository")


@pytest.fixture
def gated(shared_broker: BrokerProcess, plain: Path) -> Gated:
    """The repository `plain` with its gate on."""
    return gate_on(shared_broker, plain)


@pytest.fixture
def own_gated(tmp_path: Path) -> Iterator[Gated]:
    """As `gated`, with a broker of its own, which a test may stop."""
    (tmp_path / "broker").mkdir()
    with BrokerProcess(tmp_path / "broker") as broker:
        yield gate_on(broker, new_repository(tmp_path / "repository"))


@pytest.fixture
def plan(gated: Gated, monkeypatch: pytest.MonkeyPatch) -> Plan:
    """A plan in the optimistic mode, in that repository."""
    return optimistic(gated, monkeypatch.chdir)


@pytest.fixture
def task(plan: Plan) -> Task:
    """A rejected commit that changes a file and adds one."""
    found = plan.commit({"f.txt": with_lines(l3="three"), "new.txt": "new\n"}, "feat(03-02): count")
    plan.reject(found.review)
    return found

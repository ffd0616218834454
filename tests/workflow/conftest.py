"""What the tests of gates share: a broker for each module, and a repository with the gate on for each test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.broker import BrokerProcess
from tests.workflow.gating import Gated, gate_on, new_repository


@pytest.fixture(scope="module")
def module_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """One broker, on SQLite, for all tests of a module."""
    with BrokerProcess(tmp_path_factory.mktemp("broker")) as started:
        yield started
        # P8: whatever the tests did, the log tells it and the state is what the log says.
        verified = started.run("audit", "verify")
        assert verified.returncode == 0, verified.stdout + verified.stderr


@pytest.fixture
def plain(tmp_path: Path) -> Path:
    """A repository with one commit, without a gate: `a.txt` of three lines, `b.txt` of two."""
    return new_repository(tmp_path / "repository")


@pytest.fixture
def gated(module_broker: BrokerProcess, plain: Path, config_dir: Path) -> Gated:
    """The repository `plain` with its gate on; `config_dir` is the user's configuration folder."""
    return gate_on(module_broker, plain)

"""What the tests of reviewer processes share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.reviewers.peer import Peer, running_peer
from tests.reviewers.supervising import OrderBook, Scene
from tests.reviewers.working import StartReviewer, reviewers


@pytest.fixture
def peer() -> Iterator[Peer]:
    """The other end of a reviewer's calls."""
    with running_peer() as found:
        yield found


@pytest.fixture
def start(tmp_path: Path, peer: Peer) -> Iterator[StartReviewer]:
    """Starts reviewer processes: `start(command, **settings of its job)`."""
    with reviewers(tmp_path, peer) as found:
        yield found


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    """The folders of supervisors."""
    return Scene(tmp_path)


@pytest.fixture
def book() -> OrderBook:
    """The other end of a supervisor's calls."""
    return OrderBook()

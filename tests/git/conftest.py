"""Repositories for the tests of `tandem.git`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tandem.git.repository import Repository
from tests.git.sandbox import Sandbox


@pytest.fixture(autouse=True)
def stray_settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """As in a git hook, where such variables point elsewhere."""
    for name in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY"):
        monkeypatch.setenv(name, str(tmp_path / "nowhere"))


@pytest.fixture(params=["sha1", "sha256"])
def any_format(request: pytest.FixtureRequest, tmp_path: Path) -> Sandbox:
    return Sandbox(tmp_path / "repository", str(request.param))


@pytest.fixture
def sandbox(tmp_path: Path) -> Sandbox:
    return Sandbox(tmp_path / "repository")


@pytest.fixture
def repository(sandbox: Sandbox) -> Iterator[Repository]:
    with Repository(sandbox.root) as opened:
        yield opened

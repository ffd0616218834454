"""One broker for all modules that need nothing special of it, and the command line in a project of the test's own."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator
from pathlib import Path

import pytest

from tests.broker import DATA_DIRS
from tests.commandline import Inside, Shell, repository, running_broker
from tests.interfaces.broker_process import WatchedBroker, watched_broker
from tests.interfaces.screen_stage import Stage, stage


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Generator[str]:
    """The URL of a broker without settings."""
    data_dir = tmp_path_factory.mktemp("broker") / "data"
    with running_broker(data_dir) as address:
        DATA_DIRS[address] = data_dir
        yield address


@pytest.fixture(scope="module")
def broker(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Generator[WatchedBroker]:
    """A broker of the module's own, with the settings that it states in `BROKER`."""
    with watched_broker(tmp_path_factory.mktemp("broker"), **(stated_broker(request) or {})) as running:
        yield running


@pytest.fixture(scope="module")
def url(request: pytest.FixtureRequest) -> str:
    """Where the module's broker answers: its own one, or the shared one."""
    if stated_broker(request) is None:
        return request.getfixturevalue("shared")
    return request.getfixturevalue("broker").url


def stated_broker(request: pytest.FixtureRequest) -> dict[str, str] | None:
    """The settings of the module's own broker; None if it needs none."""
    return getattr(request.module, "BROKER", None)  # pyright: ignore[reportUnknownArgumentType, reportUnknownMemberType] pytest leaves it open


@pytest.fixture
def tandem(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Inside:
    """The command line in a registered project of the test's own."""
    root = repository(tmp_path / tmp_path.name)
    monkeypatch.chdir(root)
    found = Inside(url, root)
    assert found.run("project", "add").status == 0
    return found


@pytest.fixture(scope="module")
def shell(url: str, tmp_path_factory: pytest.TempPathFactory) -> Shell:
    """A registered project with a change, for commands in processes of their own."""
    folder = tmp_path_factory.mktemp("shell")
    found = Shell(url, repository(folder / folder.name))
    found.run("project", "add")
    (found.cwd / "a.txt").write_bytes(b"one\n2\n")
    return found


@pytest.fixture
async def at(url: str, tmp_path: Path) -> AsyncGenerator[Stage]:
    """A fresh project, and the screen of `tandem review` open on it."""
    async with stage(url, tmp_path) as found:
        yield found


@pytest.fixture
async def review_id(at: Stage) -> str:
    """A review that is open on the screen."""
    made = await at.create()
    await at.opened(made)
    return made

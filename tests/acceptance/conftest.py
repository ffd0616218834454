"""What the acceptance tests share: a real broker, and a project of each test's own."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.acceptance.checking import Checked, checked, project
from tests.acceptance.gating import Branch
from tests.acceptance.reviewing import AgentDesk, Desk
from tests.broker import BrokerProcess, broker, database_settings, fresh_project, start_broker
from tests.commandline import ShellInside, repository
from tests.git.sandbox import Sandbox
from tests.postgres import PostgresServer, running_postgres

__all__ = ["broker", "database_settings", "project", "start_broker"]


@pytest.fixture(scope="session")
def durable_postgres() -> Iterator[PostgresServer]:
    """One to stop and to crash, for all tests here; it runs when a test ends."""
    with running_postgres(durable=True) as server:
        yield server


@pytest.fixture(scope="session")
def quiet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker for tests that count its calls and parked waits; audited at the end."""
    with BrokerProcess(tmp_path_factory.mktemp("quiet")) as started:
        yield started
        started.assert_intact()


@pytest.fixture
def desk(broker: BrokerProcess) -> Iterator[Desk]:
    """A label project: nothing is validated, so git is not asked."""
    with Desk(broker.url, fresh_project()) as opened:
        yield opened


@pytest.fixture(scope="session")
def repo_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `repo` is a copy of."""
    made = Sandbox(tmp_path_factory.mktemp("template") / "repository")
    for name in ("a.txt", "b.txt"):
        made.write(name, "".join(f"line {number}\n" for number in range(1, 11)))
    made.write("run.sh", "#!/bin/sh\nexit 0\n", executable=True)
    made.commit("start")
    for sample in (made.root / ".git/hooks").glob("*.sample"):
        # As many files as all others.
        sample.unlink()
    return made.root


@pytest.fixture
def repo(tmp_path: Path, repo_template: Path) -> Sandbox:
    """A repository with one commit: `a.txt` and `b.txt` of ten lines each, and an executable."""
    shutil.copytree(repo_template, tmp_path / "repository")
    return Sandbox(tmp_path / "repository")


@pytest.fixture
def shop(broker: BrokerProcess, repo: Sandbox) -> Iterator[Desk]:
    """A project that is registered for `repo`, so that diffs are validated and digests computed."""
    with Desk(broker.url, fresh_project()) as opened:
        opened.register(repo.root)
        yield opened


@pytest.fixture
def agents(broker: BrokerProcess, shop: Desk) -> Iterator[AgentDesk]:
    """The project of `shop` as its reviewing agents see it: their word is no person's word."""
    with AgentDesk(broker.url, shop.project) as opened:
        yield opened


@pytest.fixture
def label_agents(broker: BrokerProcess, desk: Desk) -> Iterator[AgentDesk]:
    """The project of `desk` as its reviewing agents see it; rounds of a label take no git."""
    with AgentDesk(broker.url, desk.project) as opened:
        yield opened


@pytest.fixture
def feature(shop: Desk, repo: Sandbox) -> Branch:
    """A branch beside `main`, whose gate is on."""
    return Branch(shop, repo)


@pytest.fixture
def files() -> Mapping[str, bytes] | None:
    """The files of the repository of `shell`, if not those of `repository`; modules may override it."""
    return None


@pytest.fixture
def shell(broker: BrokerProcess, tmp_path: Path, files: Mapping[str, bytes] | None) -> ShellInside:
    """The command line in a registered repository."""
    found = ShellInside(broker.url, repository(tmp_path / fresh_project(), files))
    with Desk(broker.url, found.cwd.name) as desk:
        desk.register(found.cwd)
    return found


@pytest.fixture
def others(shell: ShellInside) -> Iterator[Desk]:
    """The project of `shell`, for those who review there."""
    with Desk(shell.url, shell.cwd.name) as opened:
        yield opened


@pytest.fixture(scope="session")
def checking(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Checked]:
    """One broker that runs checks, for all tests that only need a project of their own."""
    with checked(tmp_path_factory.mktemp("checking")) as first:
        yield first
        first.broker.assert_intact()

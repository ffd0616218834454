"""Two brokers with one database on PostgreSQL. Named as a plugin by the tests of nodes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import pytest

from tests.acceptance.gated import assert_no_deadlocks, config_dir
from tests.acceptance.reviewing import Desk
from tests.broker import BrokerProcess, fresh_project
from tests.postgres import PostgresServer


class Site(NamedTuple):
    """Two brokers with the workflows of `gated`, and the database and archives that they have."""

    one: BrokerProcess
    two: BrokerProcess
    database: str
    server: str


@pytest.fixture(scope="session")
def site(postgres_server: PostgresServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Two brokers with one database, whose log verifies in the end; tests remove the projects that they register."""
    url, folder = postgres_server.create_database(), tmp_path_factory.mktemp("site")
    shared = {"database_url": url, "config_dir": config_dir(folder / "config"), "archive_dir": folder / "archives"}
    folders = [tmp_path_factory.mktemp("node") for _ in range(2)]
    with BrokerProcess(folders[0], **shared) as one, BrokerProcess(folders[1], **shared) as two:
        yield Site(one, two, url, postgres_server.url())
        one.assert_intact()
    assert_no_deadlocks(url)
    postgres_server.drop_database(url)


@pytest.fixture
def desks(site: Site) -> Iterator[tuple[Desk, Desk]]:
    """The same project at either broker."""
    project = fresh_project()
    with Desk(site.one.url, project) as one, Desk(site.two.url, project) as two:
        yield one, two

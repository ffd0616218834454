"""Two brokers with one database on PostgreSQL. Named as a plugin by the tests of nodes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import pytest

from tests.acceptance.reviewing import Desk
from tests.broker import BrokerProcess, fresh_project
from tests.postgres import PostgresServer


class Site(NamedTuple):
    """Two brokers, and the database that they have."""

    one: BrokerProcess
    two: BrokerProcess
    database: str
    server: str


@pytest.fixture(scope="module")
def site(postgres_server: PostgresServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Two brokers with one database, whose log verifies in the end."""
    url = postgres_server.create_database()
    folders = [tmp_path_factory.mktemp("node") for _ in range(2)]
    with BrokerProcess(folders[0], database_url=url) as one, BrokerProcess(folders[1], database_url=url) as two:
        yield Site(one, two, url, postgres_server.url())
        one.assert_intact()
    postgres_server.drop_database(url)


@pytest.fixture
def desks(site: Site) -> Iterator[tuple[Desk, Desk]]:
    """The same project at either broker."""
    project = fresh_project()
    with Desk(site.one.url, project) as one, Desk(site.two.url, project) as two:
        yield one, two

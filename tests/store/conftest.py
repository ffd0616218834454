"""Stores to try on: every test that asks for one runs on both databases."""

from __future__ import annotations

from typing import TYPE_CHECKING

import psycopg
import pytest

from tandem.store.engine import make_store
from tests.store.notes import SCHEMA

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tandem.store.base import Store
    from tests.postgres import PostgresServer

# A database of its own for each test would take most of the test's time.
_EMPTY = (
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
    " WHERE datname = current_database() AND pid <> pg_backend_pid();"
    "DROP SCHEMA public CASCADE; CREATE SCHEMA public"
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A database file that is not there yet."""
    return tmp_path / "data" / "tandem.db"


@pytest.fixture
def sqlite_url(path: Path) -> str:
    """Its URL."""
    return f"sqlite:///{path}"


@pytest.fixture(scope="session")
def kept_url(postgres_server: PostgresServer) -> str:
    """The database of all these tests."""
    return postgres_server.create_database()


@pytest.fixture
def postgres_url(kept_url: str) -> str:
    """It, empty again and without connections."""
    with psycopg.connect(kept_url, autocommit=True) as connection:
        connection.execute(_EMPTY)
        connection.execute(f'ALTER DATABASE "{kept_url.rpartition("/")[2]}" RESET ALL'.encode())
    return kept_url


@pytest.fixture(params=["sqlite", "postgresql"])
def database_url(request: pytest.FixtureRequest) -> str:
    """A fresh database, of each kind in turn."""
    url: str = request.getfixturevalue("sqlite_url" if request.param == "sqlite" else "postgres_url")
    return url


@pytest.fixture
def engine(database_url: str) -> Iterator[Store]:
    """An open store with the tables of `tests.store.notes`, and a single thread that writes."""
    store = make_store(database_url, schema=SCHEMA, readers=1)
    store.open_blocking()
    yield store
    store.close_blocking()

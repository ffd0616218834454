"""Stores to try on: every test that asks for one runs on both databases."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tandem.store.engine import make_store
from tests.store.notes import SCHEMA

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tandem.store.base import Store


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A database file that is not there yet."""
    return tmp_path / "data" / "tandem.db"


@pytest.fixture
def sqlite_url(path: Path) -> str:
    """Its URL."""
    return f"sqlite:///{path}"


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

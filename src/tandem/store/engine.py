"""The store's front door: from a database's URL to a store that is ready for units of work."""

from __future__ import annotations

from pathlib import Path
from typing import Final, Literal

from tandem.core.platforms import how_to_add
from tandem.errors import ConfigInvalid
from tandem.store.base import Store
from tandem.store.event import Seal, unkeyed
from tandem.store.schema import Schema
from tandem.store.sqlite import SqliteStore

_SQLITE: Final = "sqlite:///"
_POSTGRESQL: Final = ("postgresql://", "postgres://")
_SQLITE_READERS: Final = 2
_POSTGRESQL_READERS: Final = 4


def make_store(
    url: str,
    *,
    durability: Literal["full", "normal"] = "full",
    readers: int | None = None,
    schema: Schema,
    seal: Seal = unkeyed,
) -> Store:
    """A store that is not open yet.

    Args:
        url: `sqlite:///relative/path`, `sqlite:////absolute/path`, or `postgresql://user@host/database`.
        durability: `full` survives a loss of power, `normal` the end of the process only.
        readers: Threads that read, each with a connection; by default as many as either database gains from.
        schema: The tables that the database has to have.
        seal: What the hashes of events are made with; a broker gives one with its secret.

    Raises:
        ConfigInvalid: The URL is of neither kind, or the driver is missing.
    """
    if url.startswith(_SQLITE) and (path := url.removeprefix(_SQLITE)) and path != ":memory:":
        return SqliteStore(Path(path), schema, durability=durability, readers=readers or _SQLITE_READERS, seal=seal)
    if url.startswith(_POSTGRESQL):
        # The driver takes 0.1 s to import, which a broker on SQLite need not spend, and is an extra.
        try:
            from tandem.store.postgres import PostgresStore  # see above
        except ImportError as exc:
            raise ConfigInvalid(
                f"PostgreSQL needs a driver that is not installed. Install it with: {how_to_add('postgres')}",
                setting="database_url",
            ) from exc

        readers = readers or _POSTGRESQL_READERS
        return PostgresStore(url, schema, durability=durability, readers=readers, seal=seal)
    raise ConfigInvalid(
        "the database has to be sqlite:///path or postgresql://…; in memory it could not be shared by threads",
        setting="database_url",
    )

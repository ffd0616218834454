"""A running broker's own database, for what only time or a long history would bring about."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import psycopg

from tests.broker import BrokerProcess


def run_sql(broker: BrokerProcess, settings: dict[str, object], *statements: str) -> None:
    """Run statements that both databases take, in one transaction."""
    url = settings.get("database_url")
    if url is not None:
        with psycopg.connect(str(url)) as connection:
            for statement in statements:
                connection.execute(statement.encode())
        return
    with closing(sqlite3.connect(broker.data_dir / "tandem.db", timeout=30)) as database, database:
        # Moving the log into the file stays the broker's business.
        database.execute("PRAGMA wal_autocheckpoint = 0")
        for statement in statements:
            database.execute(statement)

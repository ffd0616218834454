"""What Alembic runs; the connection and the tables are handed over by `tandem.store.schema`."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from alembic import context

if TYPE_CHECKING:
    from sqlalchemy import Connection, MetaData

attributes = context.config.attributes
context.configure(
    connection=cast("Connection", attributes["connection"]),
    target_metadata=cast("MetaData", attributes["metadata"]),
    # SQLite can hardly alter a table: Alembic copies it into a new one there.
    render_as_batch=True,
)
context.run_migrations()

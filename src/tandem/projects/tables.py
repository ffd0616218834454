"""The table of projects."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Table, Text

from tandem.store.tables import metadata

projects = Table(
    "projects",
    metadata,
    Column("name", Text, primary_key=True),
    Column("root", Text, comment="null once it was removed"),
    Column("registered_at", BigInteger, nullable=False),
    Column("event_seq", BigInteger, nullable=False),
    Column("event_hash", Text, nullable=False),
    Column("mirror", Text),  # the URL that each broker keeps a mirror of; null for none
)

"""The table of files that people have marked as viewed; `tables` has the others, and says how all are made."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, ForeignKey, Integer, Table, Text

from tandem.store.metadata import metadata

viewed_files = Table(
    "viewed_files",
    metadata,
    Column("review_id", Text, ForeignKey("reviews.id"), primary_key=True),
    Column("round", Integer, primary_key=True, autoincrement=False),
    Column("person", Text, primary_key=True),
    Column("path", Text, primary_key=True),
    Column("viewed_at", BigInteger, nullable=False),
    sqlite_with_rowid=False,
    comment="Which files people have looked at; no event tells of it.",
)

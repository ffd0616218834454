"""The tables of access tokens and of logins by them."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Table, Text

from tandem.store.tables import metadata

access_tokens = Table(
    "access_tokens",
    metadata,
    Column("id", Text, primary_key=True),
    Column("name", Text, nullable=False),
    Column("roles", Text, nullable=False, comment="separated by commas, sorted"),
    Column("project", Text, comment="null for all"),
    Column("token_hash", Text, nullable=False, comment="SHA-256 of the token's text, hexadecimal"),
    Column("created_at", BigInteger, nullable=False),
    Column("created_by", Text, nullable=False),
    Column("expires_at", BigInteger),
    Column("revoked_at", BigInteger),
    Column("event_seq", BigInteger, nullable=False),
    Column("event_hash", Text, nullable=False),
    sqlite_with_rowid=False,
)

ended_logins = Table(
    "ended_logins",
    metadata,
    Column("login_hash", Text, primary_key=True, comment="SHA-256 of what the browser's cookie names, hexadecimal"),
    Column("until", BigInteger, nullable=False, comment="the cookie is void by itself from then on"),
    sqlite_with_rowid=False,
    comment="Browsers that were logged out; no event tells of it.",
)

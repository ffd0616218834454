"""The tables of webhooks and of what is to be delivered to them."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Index, Integer, Table, Text

from tandem.store.tables import metadata

webhooks = Table(
    "webhooks",
    metadata,
    Column("id", Text, primary_key=True),
    Column("project", Text, comment="null for all"),
    Column("url", Text, nullable=False, comment="may hold a secret; without its path once it is removed"),
    Column("kinds", Text, nullable=False, comment="beginnings of kinds, separated by commas; empty for all"),
    Column("format", Text, nullable=False),
    Column("allow_private", Integer, nullable=False),
    Column("secret", Text, nullable=False, comment="signs the messages, so it is kept readable; empty once removed"),
    Column("created_at", BigInteger, nullable=False),
    Column("created_by", Text, nullable=False),
    Column("removed_at", BigInteger),
    Column("scanned_seq", BigInteger, nullable=False, comment="events up to here are delivered, or are deliveries"),
    Column("event_seq", BigInteger, nullable=False),
    Column("event_hash", Text, nullable=False),
    sqlite_with_rowid=False,
)

deliveries = Table(
    "deliveries",
    metadata,
    Column("webhook_id", Text, primary_key=True),
    Column("seq", BigInteger, primary_key=True, comment="the event"),
    Column("subject", Text, nullable=False, comment="the event's; one after the other"),
    Column("state", Text, nullable=False, comment="waiting, delivered or failed"),
    Column("attempts", Integer, nullable=False),
    Column("queued_at", BigInteger, nullable=False),
    Column("not_before", BigInteger, nullable=False),
    Column("ended_at", BigInteger),
    Column("status", Integer),
    Column("answer", Text),
    Index("ix_deliveries_state", "webhook_id", "state", "not_before"),
    Index("ix_deliveries_subject", "webhook_id", "subject", "seq"),
    sqlite_with_rowid=False,
    comment="Events on their way to webhooks; no event tells of it.",
)

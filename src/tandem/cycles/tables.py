"""The tables of cycles: their role keys, sessions and hand-offs."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, ForeignKey, Index, Integer, Table, Text

from tandem.store.tables import metadata, partial_index

ARCHIVED_WITH_CONTENTS = "archived_at IS NOT NULL AND removed_at IS NULL"

cycle_keys = Table(
    "cycle_keys",
    metadata,
    Column("project", Text, primary_key=True),
    Column("workflow", Text, primary_key=True),
    Column("role", Text, primary_key=True),
    Column("key_hash", Text, nullable=False, comment="a salted hash; empty once the key was revoked"),
    Column("created_at", BigInteger, nullable=False),
    Column("revoked_at", BigInteger),
    Column("event_seq", BigInteger, nullable=False),
    Column("event_hash", Text, nullable=False),
    sqlite_with_rowid=False,
)

sessions = Table(
    "sessions",
    metadata,
    Column("id", Text, primary_key=True, comment="the token is derived from it and a key outside the database"),
    Column("project", Text, nullable=False),
    Column("workflow", Text, nullable=False),
    Column("role", Text, nullable=False),
    Column("opened_at", BigInteger, nullable=False),
    Column("last_seen_at", BigInteger, nullable=False),
    Column("ended_at", BigInteger),
    Column("end_reason", Text, comment="closed, idle, rotated or revoked"),
    Column("event_seq", BigInteger, nullable=False),
    Column("event_hash", Text, nullable=False),
    partial_index("ix_sessions_open", "last_seen_at", where="ended_at IS NULL"),
    sqlite_with_rowid=False,
)

cycles = Table(
    "cycles",
    metadata,
    Column("id", Text, primary_key=True),
    Column("project", Text, nullable=False),
    Column("workflow", Text, nullable=False),
    Column("feature", Text, nullable=False),
    Column("mode", Text, nullable=False, comment="direct or approval"),
    Column("definition", Text, nullable=False, comment="the workflow as it was at the start"),
    Column("phase", Text, nullable=False),
    Column("active_role", Text, nullable=False, comment="who holds the lock"),
    Column("rotation", Integer, nullable=False, comment="of the lock; its token is derived from it"),
    Column("lock_acquired_at", BigInteger),
    Column("review_id", Text, ForeignKey("reviews.id"), comment="of the hand-off that waits for approval"),
    Column("handoffs", Integer, nullable=False, comment="how many were written"),
    Column("created_at", BigInteger, nullable=False),
    Column("updated_at", BigInteger, nullable=False),
    Column("completed_at", BigInteger),
    Column("archived_at", BigInteger),
    Column("status_seq", BigInteger, nullable=False, comment="the newest event that changed the status"),
    Column("event_seq", BigInteger, nullable=False),
    Column("event_hash", Text, nullable=False),
    Column("removed_at", BigInteger, comment="when its payloads were removed; null while they are there"),
    Column("removed_seq", BigInteger, comment="the newest event whose contents were removed"),
    Index("ix_cycles_newest", "project", "workflow", "event_seq"),
    Index("ix_cycles_created", "created_at", "id"),
    partial_index("ix_cycles_archived", "event_seq", where=ARCHIVED_WITH_CONTENTS),
    partial_index("ix_cycles_removed", "removed_seq", where="removed_seq IS NOT NULL"),
    partial_index("uq_cycles_active", "project", "workflow", where="archived_at IS NULL", unique=True),
    sqlite_with_rowid=False,
)

handoffs = Table(
    "handoffs",
    metadata,
    Column("cycle_id", Text, ForeignKey("cycles.id"), primary_key=True),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("target", Text, nullable=False),
    Column("producer", Text, nullable=False),
    Column("phase", Text, nullable=False),
    Column("next_phase", Text, nullable=False),
    Column("content_id", Text, ForeignKey("contents.id"), nullable=False),
    Column("review_id", Text, ForeignKey("reviews.id")),
    Column("round", Integer),
    Column("written_at", BigInteger, nullable=False),
    Column("advanced_at", BigInteger, comment="null until it was approved"),
    Index("ix_handoffs_content", "content_id"),
    partial_index("ix_handoffs_review", "review_id", where="review_id IS NOT NULL"),
    sqlite_with_rowid=False,
)

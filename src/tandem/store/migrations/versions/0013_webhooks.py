"""Webhooks, and the events on their way to them."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0013_webhooks"
down_revision = "0012_activity"


def upgrade() -> None:
    """Take the step."""
    op.create_table(
        "webhooks",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("project", sa.Text(), nullable=True, comment="null for all"),
        sa.Column("url", sa.Text(), nullable=False, comment="may hold a secret; without its path once it is removed"),
        sa.Column(
            "kinds", sa.Text(), nullable=False, comment="beginnings of kinds, separated by commas; empty for all"
        ),
        sa.Column("format", sa.Text(), nullable=False),
        sa.Column("allow_private", sa.Integer(), nullable=False),
        sa.Column(
            "secret",
            sa.Text(),
            nullable=False,
            comment="signs the messages, so it is kept readable; empty once removed",
        ),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("created_by", sa.Text(), nullable=False),
        sa.Column("removed_at", sa.BigInteger(), nullable=True),
        sa.Column(
            "scanned_seq",
            sa.BigInteger(),
            nullable=False,
            comment="events up to here are delivered, or are deliveries",
        ),
        sa.Column("event_seq", sa.BigInteger(), nullable=False),
        sa.Column("event_hash", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_webhooks")),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "deliveries",
        sa.Column("webhook_id", sa.Text(), nullable=False),
        sa.Column("seq", sa.BigInteger(), nullable=False, comment="the event"),
        sa.Column("subject", sa.Text(), nullable=False, comment="the event's; one after the other"),
        sa.Column("state", sa.Text(), nullable=False, comment="waiting, delivered or failed"),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("queued_at", sa.BigInteger(), nullable=False),
        sa.Column("not_before", sa.BigInteger(), nullable=False),
        sa.Column("ended_at", sa.BigInteger(), nullable=True),
        sa.Column("status", sa.Integer(), nullable=True),
        sa.Column("answer", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("webhook_id", "seq", name=op.f("pk_deliveries")),
        comment="Events on their way to webhooks; no event tells of it.",
        sqlite_with_rowid=False,
    )
    op.create_index("ix_deliveries_state", "deliveries", ["webhook_id", "state", "not_before"])
    op.create_index("ix_deliveries_subject", "deliveries", ["webhook_id", "subject", "seq"])

"""Hand-off cycles: keys, sessions, cycles and what is handed over."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002_cycles"
down_revision = "0001_initial"


def upgrade() -> None:
    """Take the step."""
    _create_cycle_keys()
    _create_sessions()
    _create_cycles()
    _create_handoffs()


def _create_cycle_keys() -> None:
    op.create_table(
        "cycle_keys",
        sa.Column("project", sa.Text(), nullable=False),
        sa.Column("workflow", sa.Text(), nullable=False),
        sa.Column("role", sa.Text(), nullable=False),
        sa.Column("key_hash", sa.Text(), nullable=False, comment="a salted hash; empty once the key was revoked"),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("revoked_at", sa.BigInteger(), nullable=True),
        sa.Column("event_seq", sa.BigInteger(), nullable=False),
        sa.Column("event_hash", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("project", "workflow", "role", name=op.f("pk_cycle_keys")),
        sqlite_with_rowid=False,
    )


def _create_sessions() -> None:
    op.create_table(
        "sessions",
        sa.Column(
            "id", sa.Text(), nullable=False, comment="the token is derived from it and a key outside the database"
        ),
        sa.Column("project", sa.Text(), nullable=False),
        sa.Column("workflow", sa.Text(), nullable=False),
        sa.Column("role", sa.Text(), nullable=False),
        sa.Column("opened_at", sa.BigInteger(), nullable=False),
        sa.Column("last_seen_at", sa.BigInteger(), nullable=False),
        sa.Column("ended_at", sa.BigInteger(), nullable=True),
        sa.Column("end_reason", sa.Text(), nullable=True, comment="closed, idle, rotated or revoked"),
        sa.Column("event_seq", sa.BigInteger(), nullable=False),
        sa.Column("event_hash", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_sessions")),
        sqlite_with_rowid=False,
    )
    op.create_index(
        "ix_sessions_open",
        "sessions",
        ["last_seen_at"],
        unique=False,
        postgresql_where=sa.text("ended_at IS NULL"),
        sqlite_where=sa.text("ended_at IS NULL"),
    )


def _create_cycles() -> None:
    op.create_table(
        "cycles",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("project", sa.Text(), nullable=False),
        sa.Column("workflow", sa.Text(), nullable=False),
        sa.Column("feature", sa.Text(), nullable=False),
        sa.Column("mode", sa.Text(), nullable=False, comment="direct or approval"),
        sa.Column("definition", sa.Text(), nullable=False, comment="the workflow as it was at the start"),
        sa.Column("phase", sa.Text(), nullable=False),
        sa.Column("active_role", sa.Text(), nullable=False, comment="who holds the lock"),
        sa.Column("rotation", sa.Integer(), nullable=False, comment="of the lock; its token is derived from it"),
        sa.Column("lock_acquired_at", sa.BigInteger(), nullable=True),
        sa.Column("review_id", sa.Text(), nullable=True, comment="of the hand-off that waits for approval"),
        sa.Column("handoffs", sa.Integer(), nullable=False, comment="how many were written"),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.Column("completed_at", sa.BigInteger(), nullable=True),
        sa.Column("archived_at", sa.BigInteger(), nullable=True),
        sa.Column("status_seq", sa.BigInteger(), nullable=False, comment="the newest event that changed the status"),
        sa.Column("event_seq", sa.BigInteger(), nullable=False),
        sa.Column("event_hash", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["review_id"], ["reviews.id"], name=op.f("fk_cycles_review_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_cycles")),
        sqlite_with_rowid=False,
    )
    op.create_index("ix_cycles_created", "cycles", ["created_at", "id"], unique=False)
    op.create_index("ix_cycles_newest", "cycles", ["project", "workflow", "event_seq"], unique=False)
    op.create_index(
        "uq_cycles_active",
        "cycles",
        ["project", "workflow"],
        unique=True,
        postgresql_where=sa.text("archived_at IS NULL"),
        sqlite_where=sa.text("archived_at IS NULL"),
    )


def _create_handoffs() -> None:
    op.create_table(
        "handoffs",
        sa.Column("cycle_id", sa.Text(), nullable=False),
        sa.Column("number", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("target", sa.Text(), nullable=False),
        sa.Column("producer", sa.Text(), nullable=False),
        sa.Column("phase", sa.Text(), nullable=False),
        sa.Column("next_phase", sa.Text(), nullable=False),
        sa.Column("content_id", sa.Text(), nullable=False),
        sa.Column("review_id", sa.Text(), nullable=True),
        sa.Column("round", sa.Integer(), nullable=True),
        sa.Column("written_at", sa.BigInteger(), nullable=False),
        sa.Column("advanced_at", sa.BigInteger(), nullable=True, comment="null until it was approved"),
        sa.ForeignKeyConstraint(["content_id"], ["contents.id"], name=op.f("fk_handoffs_content_id")),
        sa.ForeignKeyConstraint(["cycle_id"], ["cycles.id"], name=op.f("fk_handoffs_cycle_id")),
        sa.ForeignKeyConstraint(["review_id"], ["reviews.id"], name=op.f("fk_handoffs_review_id")),
        sa.PrimaryKeyConstraint("cycle_id", "number", name=op.f("pk_handoffs")),
        sqlite_with_rowid=False,
    )
    op.create_index(
        "ix_handoffs_review",
        "handoffs",
        ["review_id"],
        unique=False,
        postgresql_where=sa.text("review_id IS NOT NULL"),
        sqlite_where=sa.text("review_id IS NOT NULL"),
    )

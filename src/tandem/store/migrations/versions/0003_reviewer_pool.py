"""The reviewer pool: supervisors, their reviewers, and runs without a verdict."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003_reviewer_pool"
down_revision = "0002_cycles"


def upgrade() -> None:
    """Take the step."""
    _create_pools()
    _create_reviewers()
    op.add_column(
        "reviews",
        sa.Column(
            "attempts",
            sa.Integer(),
            server_default=sa.text("0"),
            nullable=False,
            comment="runs in a row without a verdict",
        ),
    )


def _create_pools() -> None:
    op.create_table(
        "pools",
        sa.Column("id", sa.Text(), nullable=False, comment="the supervisor's"),
        sa.Column("incarnation", sa.Text(), nullable=False, comment="of the supervisor's latest start"),
        sa.Column("host", sa.Text(), nullable=False),
        sa.Column("provider", sa.Text(), nullable=False),
        sa.Column("mode", sa.Text(), nullable=False),
        sa.Column("model", sa.Text(), nullable=True),
        sa.Column("projects", sa.Text(), nullable=True, comment="a JSON list; null for all that are registered"),
        sa.Column("rules", sa.Text(), nullable=False),
        sa.Column("registered_at", sa.BigInteger(), nullable=False),
        sa.Column("ended_at", sa.BigInteger(), nullable=True),
        sa.Column("paused", sa.Text(), nullable=True, comment="why, in words"),
        sa.Column("paused_kind", sa.Text(), nullable=True),
        sa.Column("paused_by", sa.Text(), nullable=True),
        sa.Column("paused_at", sa.BigInteger(), nullable=True),
        sa.Column("circuit_until", sa.BigInteger(), nullable=True),
        sa.Column("circuit_opened", sa.Integer(), nullable=False),
        sa.Column("forgiven", sa.Integer(), nullable=False),
        sa.Column("last_seen_at", sa.BigInteger(), nullable=False),
        sa.Column("event_seq", sa.BigInteger(), nullable=False),
        sa.Column("event_hash", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_pools")),
        sqlite_with_rowid=False,
    )


def _create_reviewers() -> None:
    op.create_table(
        "reviewers",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("pool_id", sa.Text(), nullable=False),
        sa.Column("incarnation", sa.Text(), nullable=False),
        sa.Column("project", sa.Text(), nullable=False),
        sa.Column("provider", sa.Text(), nullable=False),
        sa.Column("mode", sa.Text(), nullable=False),
        sa.Column("model", sa.Text(), nullable=True),
        sa.Column("host", sa.Text(), nullable=False),
        sa.Column("requested_by", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("pid", sa.BigInteger(), nullable=True),
        sa.Column("started_us", sa.BigInteger(), nullable=True),
        sa.Column("spawned_at", sa.BigInteger(), nullable=False),
        sa.Column("last_active_at", sa.BigInteger(), nullable=False),
        sa.Column("drain_reason", sa.Text(), nullable=True),
        sa.Column("drained_at", sa.BigInteger(), nullable=True),
        sa.Column("kill", sa.Integer(), nullable=False),
        sa.Column("ended_at", sa.BigInteger(), nullable=True),
        sa.Column("exit_code", sa.BigInteger(), nullable=True),
        sa.Column("end_reason", sa.Text(), nullable=True),
        sa.Column("quick", sa.Integer(), nullable=False),
        sa.Column("reviews_completed", sa.Integer(), nullable=False),
        sa.Column("approvals", sa.Integer(), nullable=False),
        sa.Column("rejections", sa.Integer(), nullable=False),
        sa.Column("review_us", sa.BigInteger(), nullable=False),
        sa.Column("outcomes", sa.Text(), nullable=False),
        sa.Column("tokens_in", sa.BigInteger(), nullable=False),
        sa.Column("tokens_out", sa.BigInteger(), nullable=False),
        sa.Column("cost_microusd", sa.BigInteger(), nullable=False),
        sa.Column("event_seq", sa.BigInteger(), nullable=False),
        sa.Column("event_hash", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["pool_id"], ["pools.id"], name=op.f("fk_reviewers_pool_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_reviewers")),
        sqlite_with_rowid=False,
    )
    op.create_index(
        "ix_reviewers_live",
        "reviewers",
        ["pool_id"],
        unique=False,
        postgresql_where=sa.text("ended_at IS NULL"),
        sqlite_where=sa.text("ended_at IS NULL"),
    )
    op.create_index("ix_reviewers_number", "reviewers", ["pool_id", "incarnation", "number"], unique=False)
    op.create_index("ix_reviewers_spawned", "reviewers", ["spawned_at", "id"], unique=False)

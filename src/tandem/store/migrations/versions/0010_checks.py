"""The checks of rounds."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0010_checks"
down_revision = "0009_keyed_log"


def upgrade() -> None:
    """Take the step."""
    op.add_column(
        "reviews",
        sa.Column(
            "checks",
            sa.Text(),
            nullable=True,
            comment="what the required checks of the round come to; null without any",
        ),
    )
    op.create_table(
        "checks",
        sa.Column("review_id", sa.Text(), nullable=False),
        sa.Column("round", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("project", sa.Text(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False, comment="order in their file"),
        sa.Column("source", sa.Text(), nullable=False, comment="SHA-256 of the file that names it"),
        sa.Column("command", sa.Text(), nullable=False),
        sa.Column("command_hash", sa.Text(), nullable=False),
        sa.Column("setup", sa.Text(), nullable=True),
        sa.Column("timeout_seconds", sa.Integer(), nullable=False),
        sa.Column("required", sa.Integer(), nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("requested_at", sa.BigInteger(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.Column("runner", sa.Text(), nullable=True),
        sa.Column("tree", sa.Text(), nullable=True, comment="id of the git tree that it ran on"),
        sa.Column("exit_status", sa.Integer(), nullable=True),
        sa.Column("duration_us", sa.BigInteger(), nullable=True),
        sa.Column("log_id", sa.Text(), nullable=True),
        sa.Column("started_at", sa.BigInteger(), nullable=True),
        sa.Column("finished_at", sa.BigInteger(), nullable=True),
        sa.ForeignKeyConstraint(["log_id"], ["contents.id"], name=op.f("fk_checks_log_id")),
        sa.ForeignKeyConstraint(["review_id"], ["reviews.id"], name=op.f("fk_checks_review_id")),
        sa.PrimaryKeyConstraint("review_id", "round", "name", name=op.f("pk_checks")),
        comment="What is run on a round, and its latest run.",
        sqlite_with_rowid=False,
    )
    op.create_index("ix_checks_tree", "checks", ["project", "tree", "name"])
    op.create_index(
        "ix_checks_unfinished",
        "checks",
        ["requested_at", "review_id"],
        postgresql_where=sa.text("status IN ('queued', 'running')"),
        sqlite_where=sa.text("status IN ('queued', 'running')"),
    )

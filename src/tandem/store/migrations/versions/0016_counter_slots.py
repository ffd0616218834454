"""Counters in slots, over which those who write at the same time are spread."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0016_counter_slots"
down_revision = "0015_removed_contents"

_KEPT = "project, day, category, reviewer_id, metric, count, total_us"


def upgrade() -> None:
    """Take the step: what is counted already is in slot 0."""
    op.drop_index("ix_counters_day", "counters")
    op.rename_table("counters", "counters_before")
    if op.get_bind().dialect.name == "postgresql":
        op.execute("ALTER TABLE counters_before RENAME CONSTRAINT pk_counters TO pk_counters_before")
    op.create_table(
        "counters",
        sa.Column("project", sa.Text(), nullable=False),
        sa.Column("day", sa.Text(), nullable=False, comment="ISO date, or empty for all time"),
        sa.Column("category", sa.Text(), nullable=False),
        sa.Column("reviewer_id", sa.Text(), nullable=False, comment="empty for what no reviewer did"),
        sa.Column("metric", sa.Text(), nullable=False),
        sa.Column("slot", sa.Integer(), nullable=False, comment="whose part of the sum it is"),
        sa.Column("count", sa.BigInteger(), nullable=False),
        sa.Column("total_us", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint(
            "project", "day", "category", "reviewer_id", "metric", "slot", name=op.f("pk_counters")
        ),
        comment="Statistics, kept as things happen; in slots, or all writers would wait for one row.",
        sqlite_with_rowid=False,
    )
    op.execute(f"INSERT INTO counters ({_KEPT}, slot) SELECT {_KEPT}, 0 FROM counters_before")  # noqa: S608 - a text of ours
    op.drop_table("counters_before")
    op.create_index("ix_counters_day", "counters", ["day"])

"""Gates: their switches, overrides, the commits that were made, and what was rolled back."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004_gates"
down_revision = "0003_reviewer_pool"


def upgrade() -> None:
    """Take the step."""
    op.create_table(
        "commit_reviews",
        sa.Column("project", sa.Text(), nullable=False),
        sa.Column("commit_id", sa.Text(), nullable=False),
        sa.Column("review_id", sa.Text(), nullable=False, comment="as the commit's message names it, known or not"),
        sa.Column("plan", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("project", "commit_id", "review_id", name=op.f("pk_commit_reviews")),
        comment="Which commits name which review.",
        sqlite_with_rowid=False,
    )
    op.create_index("ix_commit_reviews_review", "commit_reviews", ["review_id"], unique=False)

    op.create_table(
        "commits",
        sa.Column("project", sa.Text(), nullable=False),
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("parent", sa.Text(), nullable=True),
        sa.Column("branch", sa.Text(), nullable=True),
        sa.Column("phase", sa.Text(), nullable=True),
        sa.Column("plan", sa.Text(), nullable=True),
        sa.Column("task", sa.Text(), nullable=True),
        sa.Column("review_ids", sa.Text(), nullable=False),
        sa.Column("unreviewed", sa.Integer(), nullable=False),
        sa.Column("depends_on", sa.Text(), nullable=False),
        sa.Column("replaces", sa.Text(), nullable=True),
        sa.Column("inverse", sa.Text(), nullable=True, comment="digest of the change that takes it back"),
        sa.Column("recorded_at", sa.BigInteger(), nullable=False),
        sa.Column("recorded_by", sa.Text(), nullable=False),
        sa.Column("event_seq", sa.BigInteger(), nullable=False),
        sa.Column("event_hash", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("project", "id", name=op.f("pk_commits")),
        sqlite_with_rowid=False,
    )
    op.create_index(
        "ix_commits_inverse",
        "commits",
        ["project", "inverse", "event_seq"],
        unique=False,
        postgresql_where=sa.text("inverse IS NOT NULL"),
        sqlite_where=sa.text("inverse IS NOT NULL"),
    )
    op.create_index("ix_commits_plan", "commits", ["project", "plan", "event_seq"], unique=False)
    op.create_index("ix_commits_recorded", "commits", ["project", "event_seq"], unique=False)
    op.create_index(
        "ix_commits_replaces",
        "commits",
        ["replaces"],
        unique=False,
        postgresql_where=sa.text("replaces IS NOT NULL"),
        sqlite_where=sa.text("replaces IS NOT NULL"),
    )

    op.create_table(
        "gates",
        sa.Column("project", sa.Text(), nullable=False),
        sa.Column("enabled", sa.Integer(), nullable=False),
        sa.Column("branches", sa.Text(), nullable=False, comment="a JSON list: the base branches"),
        sa.Column(
            "accepted", sa.Text(), nullable=False, comment="a JSON list: refs whose commits are taken as they are"
        ),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.Column("switched_at", sa.BigInteger(), nullable=False),
        sa.Column("switched_by", sa.Text(), nullable=False),
        sa.Column("event_seq", sa.BigInteger(), nullable=False),
        sa.Column("event_hash", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("project", name=op.f("pk_gates")),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "overrides",
        sa.Column("project", sa.Text(), nullable=False),
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column("branch", sa.Text(), nullable=True),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("overridden_at", sa.BigInteger(), nullable=False),
        sa.Column("overridden_by", sa.Text(), nullable=False),
        sa.Column("recorded_at", sa.BigInteger(), nullable=False),
        sa.Column("event_seq", sa.BigInteger(), nullable=False),
        sa.Column("event_hash", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("project", "id", name=op.f("pk_overrides")),
        sqlite_with_rowid=False,
    )
    op.create_index("ix_overrides_digest", "overrides", ["digest"], unique=False)

    op.create_table(
        "plan_refusals",
        sa.Column("project", sa.Text(), nullable=False),
        sa.Column("plan", sa.Text(), nullable=False),
        sa.Column("review_id", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("project", "plan", "review_id", name=op.f("pk_plan_refusals")),
        comment="Reviews of a plan's commits that were ever decided against, so that few have to be looked at.",
        sqlite_with_rowid=False,
    )
    op.create_table(
        "rollbacks",
        sa.Column("review_id", sa.Text(), nullable=False),
        sa.Column("head_after", sa.Text(), nullable=False),
        sa.Column("project", sa.Text(), nullable=False),
        sa.Column("plan", sa.Text(), nullable=False),
        sa.Column("branch", sa.Text(), nullable=False),
        sa.Column("head_before", sa.Text(), nullable=False),
        sa.Column("reverted", sa.Text(), nullable=False),
        sa.Column("carried", sa.Text(), nullable=False),
        sa.Column("rework", sa.Text(), nullable=False),
        sa.Column("rolled_back_at", sa.BigInteger(), nullable=False),
        sa.Column("rolled_back_by", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["review_id"], ["reviews.id"], name=op.f("fk_rollbacks_review_id")),
        sa.PrimaryKeyConstraint("review_id", "head_after", name=op.f("pk_rollbacks")),
        sqlite_with_rowid=False,
    )
    op.create_index("ix_rollbacks_plan", "rollbacks", ["project", "plan", "rolled_back_at"], unique=False)

    op.create_table(
        "taken_back",
        sa.Column("project", sa.Text(), nullable=False),
        sa.Column("commit_id", sa.Text(), nullable=False),
        sa.Column("review_id", sa.Text(), nullable=False),
        sa.Column("head_after", sa.Text(), nullable=False),
        sa.Column("reverted_by", sa.Text(), nullable=True),
        sa.Column("becomes", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(["review_id"], ["reviews.id"], name=op.f("fk_taken_back_review_id")),
        sa.PrimaryKeyConstraint("project", "commit_id", "review_id", "head_after", name=op.f("pk_taken_back")),
        comment="What rollbacks did to which commits.",
        sqlite_with_rowid=False,
    )
    op.create_index("ix_taken_back_review", "taken_back", ["review_id"], unique=False)

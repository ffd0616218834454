"""Drafts, the questions from the side that reviews have, and rounds by their content."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0026_drafts"
down_revision = "0025_findings"


def upgrade() -> None:
    """Take the step."""
    op.execute("ALTER TABLE reviews ADD COLUMN question_id TEXT")
    op.create_table(
        "drafts",
        sa.Column("person", sa.Text(), nullable=False),
        sa.Column("review_id", sa.Text(), nullable=False),
        sa.Column("draft_id", sa.Text(), nullable=False),
        sa.Column("round", sa.Integer(), nullable=False, comment="the round that it was begun on"),
        sa.Column("kind", sa.Text(), nullable=False, comment="finding, message or verdict"),
        sa.Column("file", sa.Text(), nullable=True),
        sa.Column("line", sa.Integer(), nullable=True),
        sa.Column("end_line", sa.Integer(), nullable=True),
        sa.Column("side", sa.Text(), nullable=True, comment="before or after; null without a line"),
        sa.Column("severity", sa.Text(), nullable=True),
        sa.Column("body", sa.Text(), nullable=False),
        sa.Column("category", sa.Text(), nullable=True),
        sa.Column("failure", sa.Text(), nullable=True),
        sa.Column("suggestion", sa.Text(), nullable=True),
        sa.Column("pre_existing", sa.Integer(), nullable=False),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["review_id"], ["reviews.id"], name=op.f("fk_drafts_review_id")),
        sa.PrimaryKeyConstraint("person", "review_id", "draft_id", name=op.f("pk_drafts")),
        sqlite_with_rowid=False,
        comment="What people write on the page before they send it; no event tells of it.",
    )
    op.create_index("ix_drafts_review", "drafts", ["review_id"])
    has_digest = sa.text("digest IS NOT NULL")
    op.create_index("ix_rounds_digest", "rounds", ["digest"], postgresql_where=has_digest, sqlite_where=has_digest)

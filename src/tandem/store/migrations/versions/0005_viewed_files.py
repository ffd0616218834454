"""Files that people have marked as viewed."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005_viewed_files"
down_revision = "0004_gates"


def upgrade() -> None:
    """Take the step."""
    op.create_table(
        "viewed_files",
        sa.Column("review_id", sa.Text(), nullable=False),
        sa.Column("round", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("person", sa.Text(), nullable=False),
        sa.Column("path", sa.Text(), nullable=False),
        sa.Column("viewed_at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["review_id"], ["reviews.id"], name=op.f("fk_viewed_files_review_id")),
        sa.PrimaryKeyConstraint("review_id", "round", "person", "path", name=op.f("pk_viewed_files")),
        comment="Which files people have looked at; no event tells of it.",
        sqlite_with_rowid=False,
    )

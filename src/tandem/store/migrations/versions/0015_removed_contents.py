"""Reviews whose contents were removed; indexes on what names a content."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0015_removed_contents"
down_revision = "0014_base_files"

_NAMED = (
    ("ix_rounds_description", "rounds", "description_id"),
    ("ix_rounds_diff", "rounds", "diff_id"),
    ("ix_rounds_base_files", "rounds", "base_files_id"),
    ("ix_checks_log", "checks", "log_id"),
    ("ix_reviews_removed", "reviews", "removed_seq"),
)


def upgrade() -> None:
    """Take the step."""
    removed_at = "when its contents were removed; null while they are there"
    op.add_column("reviews", sa.Column("removed_at", sa.BigInteger(), nullable=True, comment=removed_at))
    removed_seq = "the newest event whose contents were removed"
    op.add_column("reviews", sa.Column("removed_seq", sa.BigInteger(), nullable=True, comment=removed_seq))
    with_contents = sa.text("state = 'closed' AND removed_at IS NULL")
    op.create_index(
        "ix_reviews_closed", "reviews", ["event_seq"], postgresql_where=with_contents, sqlite_where=with_contents
    )
    for name, table, column in _NAMED:
        known = sa.text(f"{column} IS NOT NULL")
        op.create_index(name, table, [column], postgresql_where=known, sqlite_where=known)
    op.create_index("ix_counter_patches_content", "counter_patches", ["content_id"])
    op.create_index("ix_handoffs_content", "handoffs", ["content_id"])

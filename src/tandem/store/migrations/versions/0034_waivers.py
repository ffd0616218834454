"""A review knows the waivers of its requirements, and until when they are owed."""

from __future__ import annotations

from alembic import op

revision = "0034_waivers"
down_revision = "0033_seats"


def upgrade() -> None:
    """Take the step."""
    op.execute("ALTER TABLE reviews ADD COLUMN waived TEXT")
    op.execute("ALTER TABLE reviews ADD COLUMN owed_until BIGINT")
    op.execute(
        "CREATE INDEX ix_reviews_owed ON reviews (priority, created_at, id)"
        " WHERE owed_until IS NOT NULL AND approved_round IS NOT NULL"
    )

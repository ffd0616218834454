"""A pool's reviewers have a profile, and a review knows the profiles that had their turn at its round."""

from __future__ import annotations

from alembic import op

revision = "0036_profiles"
down_revision = "0035_telling_lines"


def upgrade() -> None:
    """Take the step."""
    op.execute("ALTER TABLE reviewers ADD COLUMN profile TEXT")
    op.execute(
        "CREATE INDEX ix_reviewers_profile ON reviewers (pool_id, incarnation, profile, number)"
        " WHERE profile IS NOT NULL"
    )
    op.execute("ALTER TABLE pools ADD COLUMN profiles_out TEXT")
    op.execute("ALTER TABLE reviews ADD COLUMN looked TEXT")

"""A review under a policy knows all claims that are held at a time."""

from __future__ import annotations

from alembic import op

revision = "0037_claims_beside"
down_revision = "0036_profiles"


def upgrade() -> None:
    """Take the step."""
    op.execute("ALTER TABLE reviews ADD COLUMN at_work TEXT")
    op.execute("ALTER TABLE reviews ADD COLUMN leases TEXT")
    op.execute("ALTER TABLE reviews ADD COLUMN generations INTEGER DEFAULT 0 NOT NULL")
    op.execute("ALTER TABLE reviews ADD COLUMN seats_free INTEGER DEFAULT 0 NOT NULL")
    op.execute("ALTER TABLE reviews ADD COLUMN ends_as TEXT")

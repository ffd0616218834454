"""A finding that came from another review says which one."""

from __future__ import annotations

from alembic import op

revision = "0038_found_in"
down_revision = "0037_claims_beside"


def upgrade() -> None:
    """Take the step."""
    op.execute("ALTER TABLE findings ADD COLUMN found_in TEXT")

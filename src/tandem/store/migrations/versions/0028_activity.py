"""What a pool's reviewer does."""

from __future__ import annotations

from alembic import op

revision = "0028_activity"
down_revision = "0027_counters"


def upgrade() -> None:
    """Take the step."""
    op.execute("ALTER TABLE reviewers ADD COLUMN activity TEXT")

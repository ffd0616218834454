"""A finding knows who wrote the content that it was found on."""

from __future__ import annotations

from alembic import op

revision = "0031_finding_authors"
down_revision = "0030_contested_files"


def upgrade() -> None:
    """Take the step."""
    op.execute("ALTER TABLE findings ADD COLUMN written_by TEXT")

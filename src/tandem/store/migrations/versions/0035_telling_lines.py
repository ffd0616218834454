"""A finding is found by the most telling of its lines, where a change makes them again."""

from __future__ import annotations

from alembic import op

revision = "0035_telling_lines"
down_revision = "0034_waivers"


def upgrade() -> None:
    """Take the step."""
    op.execute("ALTER TABLE findings ADD COLUMN telling TEXT")
    op.execute("CREATE INDEX ix_findings_telling ON findings (project, telling) WHERE telling IS NOT NULL")

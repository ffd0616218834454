"""A finding is known by the first of its lines, wherever a change makes them again."""

from __future__ import annotations

from alembic import op

revision = "0035_first_lines"
down_revision = "0034_waivers"


def upgrade() -> None:
    """Take the step."""
    op.execute("ALTER TABLE findings ADD COLUMN first_line TEXT")
    op.execute("CREATE INDEX ix_findings_first_line ON findings (project, first_line) WHERE first_line IS NOT NULL")

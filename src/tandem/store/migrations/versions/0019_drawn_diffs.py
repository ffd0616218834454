"""Diffs that the broker drew."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0019_drawn_diffs"
down_revision = "0018_removed_payloads"


def upgrade() -> None:
    """Take the step."""
    comment = "what git did that the diff did not say, as JSON; null for a diff as it was sent"
    op.add_column("rounds", sa.Column("notes", sa.Text(), nullable=True, comment=comment))

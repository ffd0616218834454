"""What a gate makes of commits on branches that are no base branch; empty, as before, where they are reviewed."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0023_commits_of_a_gate"
down_revision = "0022_access_mode"


def upgrade() -> None:
    """Take the step."""
    commits = sa.Column("commits", sa.Text(), nullable=True, comment="free, followed or reviewed; null is reviewed")
    op.add_column("gates", commits)

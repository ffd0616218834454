"""What rounds stand on, what checks ran on, and which diffs the broker drew."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0019_grounds"
down_revision = "0018_removed_payloads"


def upgrade() -> None:
    """Take the step."""
    notes = "what git did that the diff did not say, as JSON; null for a diff as it was sent"
    op.add_column("rounds", sa.Column("notes", sa.Text(), nullable=True, comment=notes))
    stands_on = "JSON: what it stands on; null where nobody can tell"
    op.add_column("rounds", sa.Column("ground", sa.Text(), nullable=True, comment=stands_on))
    ran_on = "JSON: what it ran on, or is going to; null for runs of earlier versions"
    op.add_column("checks", sa.Column("ground", sa.Text(), nullable=True, comment=ran_on))

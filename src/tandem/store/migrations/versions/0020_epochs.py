"""Which copy of a log a cursor is of."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0020_epochs"
down_revision = "0019_grounds"


def upgrade() -> None:
    """Take the step."""
    comment = "places and names of restored copies, for cursors"
    added = sa.Column("epochs", sa.Text(), nullable=False, server_default=sa.text("''"), comment=comment)
    op.add_column("log_head", added)

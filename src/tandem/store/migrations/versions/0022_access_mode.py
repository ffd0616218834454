"""How the last start let callers in."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0022_access_mode"
down_revision = "0021_quota_pauses"


def upgrade() -> None:
    """Take the step."""
    comment = "the setting `auth` of the last start; empty if that did not say it"
    added = sa.Column("auth", sa.Text(), nullable=False, server_default=sa.text("''"), comment=comment)
    op.add_column("log_head", added)

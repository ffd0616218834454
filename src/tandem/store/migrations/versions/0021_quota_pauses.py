"""When a pool's pause for its provider's quota ends."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0021_quota_pauses"
down_revision = "0020_epochs"


def upgrade() -> None:
    """Take the step."""
    comment = "when a pause for a provider's quota ends"
    op.add_column("pools", sa.Column("paused_until", sa.BigInteger(), comment=comment))

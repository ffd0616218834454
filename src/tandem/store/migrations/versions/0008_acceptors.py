"""Who sent and who accepted counter-patches."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0008_acceptors"
down_revision = "0007_ended_logins"


def upgrade() -> None:
    """Take the step."""
    op.add_column(
        "rounds",
        sa.Column(
            "accepted_by",
            sa.Text(),
            nullable=True,
            comment="who accepted a counter-patch; null if that may have been its author",
        ),
    )
    op.add_column(
        "counter_patches",
        sa.Column("sent_by", sa.Text(), nullable=True, comment="what the author's client calls itself"),
    )

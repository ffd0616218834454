"""From which event on hashes are keyed, and with which secret; the broker fills it in at its first start."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0009_keyed_log"
down_revision = "0008_acceptors"


def upgrade() -> None:
    """Take the step."""
    op.add_column(
        "log_head",
        sa.Column(
            "keyed_from",
            sa.BigInteger(),
            nullable=False,
            server_default=sa.text("0"),
            comment="the first keyed event",
        ),
    )
    op.add_column(
        "log_head",
        sa.Column(
            "key_check",
            sa.Text(),
            nullable=False,
            server_default=sa.text("''"),
            comment="tells which secret the hashes need",
        ),
    )

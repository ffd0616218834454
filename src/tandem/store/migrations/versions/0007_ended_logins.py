"""Logins of browsers that were ended."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007_ended_logins"
down_revision = "0006_access_tokens"


def upgrade() -> None:
    """Take the step."""
    op.create_table(
        "ended_logins",
        sa.Column(
            "login_hash", sa.Text(), nullable=False, comment="SHA-256 of what the browser's cookie names, hexadecimal"
        ),
        sa.Column("until", sa.BigInteger(), nullable=False, comment="the cookie is void by itself from then on"),
        sa.PrimaryKeyConstraint("login_hash", name=op.f("pk_ended_logins")),
        comment="Browsers that were logged out; no event tells of it.",
        sqlite_with_rowid=False,
    )

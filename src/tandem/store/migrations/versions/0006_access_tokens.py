"""Access tokens."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006_access_tokens"
down_revision = "0005_viewed_files"


def upgrade() -> None:
    """Take the step."""
    op.create_table(
        "access_tokens",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("roles", sa.Text(), nullable=False, comment="separated by commas, sorted"),
        sa.Column("project", sa.Text(), nullable=True, comment="null for all"),
        sa.Column("token_hash", sa.Text(), nullable=False, comment="SHA-256 of the token's text, hexadecimal"),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("created_by", sa.Text(), nullable=False),
        sa.Column("expires_at", sa.BigInteger(), nullable=True),
        sa.Column("revoked_at", sa.BigInteger(), nullable=True),
        sa.Column("event_seq", sa.BigInteger(), nullable=False),
        sa.Column("event_hash", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_access_tokens")),
        sqlite_with_rowid=False,
    )

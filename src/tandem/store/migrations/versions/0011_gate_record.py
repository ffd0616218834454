"""What a repository's gate is held against."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0011_gate_record"
down_revision = "0010_checks"


def upgrade() -> None:
    """Take the step."""
    op.add_column(
        "gates",
        sa.Column("folders", sa.Text(), nullable=True, comment="a JSON list: the git folders where it is on"),
    )
    op.add_column(
        "gates",
        sa.Column(
            "trusted",
            sa.Text(),
            nullable=True,
            comment="a JSON list: contents that a person trusts, SHA-256 and file",
        ),
    )
    op.add_column(
        "gates",
        sa.Column(
            "signers", sa.Text(), nullable=True, comment="a JSON list: whose brokers' signatures count, name=key"
        ),
    )
    if op.get_bind().dialect.name == "postgresql":
        # SQLite keeps no comments.
        op.alter_column("gates", "accepted", comment="a JSON list: commits that are taken as they are")

"""Cycles whose hand-offs lost their payloads."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0018_removed_payloads"
down_revision = "0017_mirrors"


def upgrade() -> None:
    """Take the step."""
    removed_at = "when its payloads were removed; null while they are there"
    op.add_column("cycles", sa.Column("removed_at", sa.BigInteger(), nullable=True, comment=removed_at))
    removed_seq = "the newest event whose contents were removed"
    op.add_column("cycles", sa.Column("removed_seq", sa.BigInteger(), nullable=True, comment=removed_seq))
    for name, column, where in (
        ("ix_cycles_archived", "event_seq", "archived_at IS NOT NULL AND removed_at IS NULL"),
        ("ix_cycles_removed", "removed_seq", "removed_seq IS NOT NULL"),
    ):
        op.create_index(name, "cycles", [column], postgresql_where=sa.text(where), sqlite_where=sa.text(where))

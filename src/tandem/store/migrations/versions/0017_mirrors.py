"""The URLs that brokers keep mirrors of."""

from __future__ import annotations

from alembic import op

revision = "0017_mirrors"
down_revision = "0016_counter_slots"


def upgrade() -> None:
    """Take the step."""
    # In words that both databases take: Alembic would have SQLite write the whole table anew.
    op.execute("ALTER TABLE projects ADD COLUMN mirror TEXT")

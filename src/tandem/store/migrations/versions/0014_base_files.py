"""The touched files as the base has them, for brokers without the repository."""

from __future__ import annotations

from alembic import op

revision = "0014_base_files"
down_revision = "0013_webhooks"


def upgrade() -> None:
    """Take the step."""
    # In words that both databases take: Alembic would have SQLite write the whole table anew.
    op.execute(
        "ALTER TABLE rounds ADD COLUMN base_files_id TEXT CONSTRAINT fk_rounds_base_files_id REFERENCES contents (id)"
    )

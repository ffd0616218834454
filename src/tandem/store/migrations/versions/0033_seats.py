"""A review knows what the project's policy needs of it, and who gave what."""

from __future__ import annotations

from alembic import op

revision = "0033_seats"
down_revision = "0032_objections"


def upgrade() -> None:
    """Take the step; no review of an earlier version was made under a policy."""
    for name in ("needs", "seats"):
        op.execute(f"ALTER TABLE reviews ADD COLUMN {name} TEXT")
    op.execute("ALTER TABLE reviews ADD COLUMN by_checks INTEGER DEFAULT 0 NOT NULL")

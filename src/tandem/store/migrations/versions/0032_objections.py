"""A review counts the rounds to which a reviewer objected, and not those without a reviewer."""

from __future__ import annotations

from alembic import op

revision = "0032_objections"
down_revision = "0031_finding_authors"


def upgrade() -> None:
    """Take the step; earlier rounds are not counted, as no event has their number."""
    for name in ("objections", "objected_round"):
        op.execute(f"ALTER TABLE reviews ADD COLUMN {name} INTEGER DEFAULT 0 NOT NULL")

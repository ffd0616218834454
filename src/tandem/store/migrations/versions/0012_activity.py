"""Indexes: reviews by newest activity, and by what they are about."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0012_activity"
down_revision = "0011_gate_record"


def upgrade() -> None:
    """Take the step."""
    op.create_index("ix_reviews_activity", "reviews", ["state", "event_seq"])
    op.create_index("ix_reviews_project_activity", "reviews", ["project", "state", "event_seq"])
    known = sa.text("digest IS NOT NULL")
    op.create_index("ix_reviews_digest", "reviews", ["project", "digest"], postgresql_where=known, sqlite_where=known)

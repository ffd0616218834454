"""The bytes of the files that findings are on, and whether their lines changed before they went on elsewhere."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0029_found_files"
down_revision = "0028_activity"


def upgrade() -> None:
    """Take the step."""
    # Those that are there count for the whole content that they were written on.
    op.execute("ALTER TABLE findings ADD COLUMN blob TEXT")
    op.execute("ALTER TABLE findings ADD COLUMN changed INTEGER")
    where = sa.text("blob IS NOT NULL AND state IN ('open', 'reopened', 'fixed', 'refuted', 'deferred')")
    op.create_index(
        "ix_findings_blob", "findings", ["project", "file", "blob"], postgresql_where=where, sqlite_where=where
    )

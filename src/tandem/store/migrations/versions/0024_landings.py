"""Landings."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0024_landings"
down_revision = "0023_commits_of_a_gate"


def upgrade() -> None:
    """Take the step."""
    comments = {"branch": "the base branch", "source": "the branch that lands", "review_ids": "a JSON list"}
    texts = ("id", "project", "branch", "source", "head", "proposer", "state", "review_ids")
    columns = (
        *((name, sa.Text, False) for name in texts),
        *((name, sa.Integer, False) for name in ("generation", "number")),
        *((name, sa.BigInteger, name == "ended_at") for name in ("changed_at", "last_seen_at", "ended_at")),
        *((name, sa.Text, True) for name in ("tip", "commit_id", "reason")),
        *(("event_seq", sa.BigInteger, False), ("event_hash", sa.Text, False)),
    )
    op.create_table(
        "landings",
        *(
            sa.Column(name, kind(), autoincrement=False, nullable=optional, comment=comments.get(name))
            for name, kind, optional in columns
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_landings")),
        sqlite_with_rowid=False,
    )
    is_open = sa.text("ended_at IS NULL")
    op.create_index("ix_landings_line", "landings", ["project", "id"], postgresql_where=is_open, sqlite_where=is_open)
    op.create_index("ix_landings_newest", "landings", ["project", "id"])

"""Findings stand on the files of every round that had them, and not only on those of the round that they came with."""

from __future__ import annotations

import orjson
import sqlalchemy as sa
from alembic import op

revision = "0030_contested_files"
down_revision = "0029_found_files"


def upgrade() -> None:
    """Take the step."""
    op.execute("DROP INDEX ix_findings_blob")
    op.execute("ALTER TABLE findings ADD COLUMN settled_round INTEGER")
    table = op.create_table(
        "contested_files",
        sa.Column("project", sa.Text(), nullable=False),
        sa.Column("path", sa.Text(), nullable=False),
        sa.Column("blob_after", sa.Text(), nullable=False),
        sa.Column("review_id", sa.Text(), nullable=False),
        sa.Column("round", sa.Integer(), autoincrement=False, nullable=False),
        sa.ForeignKeyConstraint(["review_id"], ["reviews.id"], name=op.f("fk_contested_files_review_id")),
        sa.PrimaryKeyConstraint(
            *("project", "path", "blob_after", "review_id", "round"), name=op.f("pk_contested_files")
        ),
        comment="The files of every round of a review with findings: an index of rounds.",
        sqlite_with_rowid=False,
    )
    op.create_index("ix_contested_files_review", "contested_files", ["review_id", "round"])
    rounds = sa.text(
        "SELECT r.project, o.review_id, o.round, o.changes FROM rounds o JOIN reviews r ON r.id = o.review_id"
        " WHERE EXISTS (SELECT 1 FROM findings f WHERE f.review_id = o.review_id AND f.source <> 'check')"
    )
    for project, review_id, number, changes in op.get_bind().execute(rounds):
        shared = {"project": project, "review_id": review_id, "round": number}
        rows = [{**shared, "path": one["path"], "blob_after": one["blob_after"]} for one in orjson.loads(changes)]
        op.bulk_insert(table, rows)

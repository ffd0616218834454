"""The tables of Tandem 0.1.0, where every upgrade begins: for the tests of the migrations, and for making the next one.

No broker needs them: it makes a fresh database with the newest tables.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from alembic.migration import MigrationContext
from alembic.operations import Operations
from sqlalchemy import Connection


def create(connection: Connection) -> None:
    """Make the tables in an empty database."""
    with Operations.context(MigrationContext.configure(connection)):
        _create_all()


def _create_all() -> None:
    _create_contents()
    _create_counters()
    _create_events()
    _create_idempotency()
    _create_log_head()
    _create_projects()
    _create_reviews()
    _create_approvals()
    _create_approved_paths()
    _create_counter_patches()
    _create_rounds()
    _create_verdicts()
    _create_messages()


def _create_contents() -> None:
    op.create_table(
        "contents",
        sa.Column("id", sa.Text(), nullable=False, comment="SHA-256 of the body's UTF-8 bytes, hexadecimal"),
        sa.Column("body", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_contents")),
        comment="Diffs and texts, kept once each; events and rounds name them by hash.",
        sqlite_with_rowid=False,
    )


def _create_counters() -> None:
    op.create_table(
        "counters",
        sa.Column("project", sa.Text(), nullable=False),
        sa.Column("day", sa.Text(), nullable=False, comment="ISO date, or empty for all time"),
        sa.Column("category", sa.Text(), nullable=False),
        sa.Column("reviewer_id", sa.Text(), nullable=False, comment="empty for what no reviewer did"),
        sa.Column("metric", sa.Text(), nullable=False),
        sa.Column("count", sa.BigInteger(), nullable=False),
        sa.Column("total_us", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("project", "day", "category", "reviewer_id", "metric", name=op.f("pk_counters")),
        comment="Statistics, kept as things happen.",
        sqlite_with_rowid=False,
    )
    op.create_index("ix_counters_day", "counters", ["day"])


def _create_events() -> None:
    op.create_table(
        "events",
        sa.Column("seq", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=False, nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("project", sa.Text(), nullable=False),
        sa.Column("subject", sa.Text(), nullable=False),
        sa.Column("actor", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("old", sa.Text(), nullable=True),
        sa.Column("new", sa.Text(), nullable=True),
        sa.Column("data", sa.Text(), nullable=False),
        sa.Column("delta", sa.Text(), nullable=False),
        sa.Column("previous", sa.Text(), nullable=False),
        sa.Column("hash", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("seq", name=op.f("pk_events")),
    )
    op.create_index("ix_events_project", "events", ["project", "seq"])
    op.create_index("ix_events_subject", "events", ["subject", "seq"])


def _create_idempotency() -> None:
    op.create_table(
        "idempotency",
        sa.Column("principal", sa.Text(), nullable=False),
        sa.Column("project", sa.Text(), nullable=False),
        sa.Column("operation", sa.Text(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("body_hash", sa.Text(), nullable=False),
        sa.Column("answer", sa.Text(), nullable=True),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("principal", "project", "operation", "key", name=op.f("pk_idempotency")),
        sqlite_with_rowid=False,
    )
    op.create_index("ix_idempotency_created_at", "idempotency", ["created_at"])


def _create_log_head() -> None:
    op.create_table(
        "log_head",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False, comment="always 1"),
        sa.Column("log_id", sa.Text(), nullable=False, comment="which log a cursor belongs to"),
        sa.Column(
            "seq", sa.BigInteger(), nullable=False, comment="the newest event; numbers are given in commit order"
        ),
        sa.Column("checkpoint_seq", sa.BigInteger(), nullable=False, comment="the newest checkpoint event"),
        sa.Column("event_hash", sa.Text(), nullable=False, comment="hash of the newest event of the subject `log`"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_log_head")),
        comment="One row; its lock makes sequence numbers follow the order of commits.",
    )


def _create_projects() -> None:
    op.create_table(
        "projects",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("root", sa.Text(), nullable=True, comment="null once it was removed"),
        sa.Column("registered_at", sa.BigInteger(), nullable=False),
        sa.Column("event_seq", sa.BigInteger(), nullable=False),
        sa.Column("event_hash", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_projects")),
    )


def _create_reviews() -> None:
    op.create_table(
        "reviews",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("project", sa.Text(), nullable=False),
        sa.Column("category", sa.Text(), nullable=False),
        sa.Column("priority", sa.Integer(), nullable=False),
        sa.Column("proposer_id", sa.Text(), nullable=False),
        sa.Column("parent_id", sa.Text(), nullable=True),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("intent", sa.Text(), nullable=False),
        sa.Column("agent_type", sa.Text(), nullable=False),
        sa.Column("agent_role", sa.Text(), nullable=False),
        sa.Column("phase", sa.Text(), nullable=True),
        sa.Column("plan", sa.Text(), nullable=True),
        sa.Column("task", sa.Text(), nullable=True),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("outcome", sa.Text(), nullable=True),
        sa.Column("round", sa.Integer(), nullable=False),
        sa.Column("digest", sa.Text(), nullable=True),
        sa.Column("validated", sa.Integer(), nullable=False),
        sa.Column("claim_generation", sa.Integer(), nullable=False),
        sa.Column("reviewer_id", sa.Text(), nullable=True),
        sa.Column("claim_round", sa.Integer(), nullable=True),
        sa.Column("claimed_at", sa.BigInteger(), nullable=True),
        sa.Column("lease_expires_at", sa.BigInteger(), nullable=True),
        sa.Column("speaker", sa.Text(), nullable=True),
        sa.Column("speaker_kind", sa.Text(), nullable=True),
        sa.Column("turn", sa.Text(), nullable=True),
        sa.Column("attention", sa.Text(), nullable=True),
        sa.Column("not_before", sa.BigInteger(), nullable=True),
        sa.Column("verdict", sa.Text(), nullable=True),
        sa.Column("verdict_reason", sa.Text(), nullable=True),
        sa.Column("verdict_id", sa.Text(), nullable=True),
        sa.Column("verdict_by", sa.Text(), nullable=True),
        sa.Column("approved_round", sa.Integer(), nullable=True),
        sa.Column("counter_patch_id", sa.Text(), nullable=True),
        sa.Column("counter_patch_status", sa.Text(), nullable=True),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.Column("first_claimed_at", sa.BigInteger(), nullable=True),
        sa.Column("decided_at", sa.BigInteger(), nullable=True),
        sa.Column("closed_at", sa.BigInteger(), nullable=True),
        sa.Column("event_seq", sa.BigInteger(), nullable=False),
        sa.Column("event_hash", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["parent_id"], ["reviews.id"], name=op.f("fk_reviews_parent_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_reviews")),
        sqlite_with_rowid=False,
    )
    op.create_index(
        "ix_reviews_attention",
        "reviews",
        ["priority", "created_at", "id"],
        postgresql_where=sa.text("attention IS NOT NULL"),
        sqlite_where=sa.text("attention IS NOT NULL"),
    )
    op.create_index("ix_reviews_category", "reviews", ["category", "priority", "created_at", "id"])
    op.create_index(
        "ix_reviews_parent",
        "reviews",
        ["parent_id"],
        postgresql_where=sa.text("parent_id IS NOT NULL"),
        sqlite_where=sa.text("parent_id IS NOT NULL"),
    )
    op.create_index("ix_reviews_project_category", "reviews", ["project", "category", "priority", "created_at", "id"])
    op.create_index("ix_reviews_project_state", "reviews", ["project", "state", "priority", "created_at", "id"])
    op.create_index("ix_reviews_state", "reviews", ["state", "priority", "created_at", "id"])
    op.create_index(
        "ix_reviews_turn",
        "reviews",
        ["turn", "priority", "created_at", "id"],
        postgresql_where=sa.text("turn IS NOT NULL"),
        sqlite_where=sa.text("turn IS NOT NULL"),
    )


def _create_approvals() -> None:
    op.create_table(
        "approvals",
        sa.Column("project", sa.Text(), nullable=False),
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column("review_id", sa.Text(), nullable=False),
        sa.Column("round", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(["review_id"], ["reviews.id"], name=op.f("fk_approvals_review_id")),
        sa.PrimaryKeyConstraint("project", "digest", "review_id", name=op.f("pk_approvals")),
        sqlite_with_rowid=False,
    )
    op.create_index("ix_approvals_review", "approvals", ["review_id"])


def _create_approved_paths() -> None:
    op.create_table(
        "approved_paths",
        sa.Column("project", sa.Text(), nullable=False),
        sa.Column("path", sa.Text(), nullable=False),
        sa.Column("blob_after", sa.Text(), nullable=False),
        sa.Column("review_id", sa.Text(), nullable=False),
        sa.Column("round", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("kind", sa.Text(), nullable=False, comment="change or text"),
        sa.Column("mode_before", sa.Text(), nullable=False),
        sa.Column("blob_before", sa.Text(), nullable=False),
        sa.Column("mode_after", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["review_id"], ["reviews.id"], name=op.f("fk_approved_paths_review_id")),
        sa.PrimaryKeyConstraint("project", "path", "blob_after", "review_id", "round", name=op.f("pk_approved_paths")),
        comment="What the gate opens for: the raw entries of every approved round, until a revision ends it.",
        sqlite_with_rowid=False,
    )
    op.create_index("ix_approved_paths_review", "approved_paths", ["review_id", "round"])


def _create_counter_patches() -> None:
    op.create_table(
        "counter_patches",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("review_id", sa.Text(), nullable=False),
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.Column("round", sa.Integer(), nullable=False),
        sa.Column("author", sa.Text(), nullable=False),
        sa.Column("content_id", sa.Text(), nullable=False),
        sa.Column("is_text", sa.Integer(), nullable=False),
        sa.Column("digest", sa.Text(), nullable=True),
        sa.Column("affected_files", sa.Text(), nullable=False),
        sa.Column("status", sa.Text(), nullable=False, comment="pending, accepted, rejected or superseded"),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("decided_at", sa.BigInteger(), nullable=True),
        sa.ForeignKeyConstraint(["content_id"], ["contents.id"], name=op.f("fk_counter_patches_content_id")),
        sa.ForeignKeyConstraint(["review_id"], ["reviews.id"], name=op.f("fk_counter_patches_review_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_counter_patches")),
    )
    op.create_index("ix_counter_patches_review", "counter_patches", ["review_id", "seq"])


def _create_rounds() -> None:
    op.create_table(
        "rounds",
        sa.Column("review_id", sa.Text(), nullable=False),
        sa.Column("round", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("origin", sa.Text(), nullable=False, comment="proposal, revision or counter_patch"),
        sa.Column("author", sa.Text(), nullable=False),
        sa.Column("intent", sa.Text(), nullable=False),
        sa.Column("agent_type", sa.Text(), nullable=False),
        sa.Column("agent_role", sa.Text(), nullable=False),
        sa.Column("phase", sa.Text(), nullable=True),
        sa.Column("plan", sa.Text(), nullable=True),
        sa.Column("task", sa.Text(), nullable=True),
        sa.Column("description_id", sa.Text(), nullable=True),
        sa.Column("diff_id", sa.Text(), nullable=True),
        sa.Column("base", sa.Text(), nullable=True),
        sa.Column("base_commit", sa.Text(), nullable=True),
        sa.Column("path", sa.Text(), nullable=True),
        sa.Column("metadata", sa.Text(), nullable=False),
        sa.Column("digest", sa.Text(), nullable=True),
        sa.Column("validated", sa.Integer(), nullable=False),
        sa.Column("affected_files", sa.Text(), nullable=False),
        sa.Column("changes", sa.Text(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["description_id"], ["contents.id"], name=op.f("fk_rounds_description_id")),
        sa.ForeignKeyConstraint(["diff_id"], ["contents.id"], name=op.f("fk_rounds_diff_id")),
        sa.ForeignKeyConstraint(["review_id"], ["reviews.id"], name=op.f("fk_rounds_review_id")),
        sa.PrimaryKeyConstraint("review_id", "round", name=op.f("pk_rounds")),
        sqlite_with_rowid=False,
    )


def _create_verdicts() -> None:
    op.create_table(
        "verdicts",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("review_id", sa.Text(), nullable=False),
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.Column("round", sa.Integer(), nullable=False),
        sa.Column("claim_generation", sa.Integer(), nullable=False),
        sa.Column("verdict", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.Column("reviewer_id", sa.Text(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["review_id"], ["reviews.id"], name=op.f("fk_verdicts_review_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_verdicts")),
    )
    op.create_index("ix_verdicts_review", "verdicts", ["review_id", "seq"])


def _create_messages() -> None:
    op.create_table(
        "messages",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("review_id", sa.Text(), nullable=False),
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False, comment="order among the comments of one verdict"),
        sa.Column("round", sa.Integer(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False, comment="message or comment (on a line, with a verdict)"),
        sa.Column("sender_role", sa.Text(), nullable=False),
        sa.Column("sender_id", sa.Text(), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.Column("metadata", sa.Text(), nullable=False),
        sa.Column("verdict_id", sa.Text(), nullable=True),
        sa.Column("file", sa.Text(), nullable=True),
        sa.Column("line", sa.Integer(), nullable=True),
        sa.Column("resolves", sa.Text(), nullable=True),
        sa.Column("resolved_by", sa.Text(), nullable=True),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["review_id"], ["reviews.id"], name=op.f("fk_messages_review_id")),
        sa.ForeignKeyConstraint(["verdict_id"], ["verdicts.id"], name=op.f("fk_messages_verdict_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_messages")),
    )
    op.create_index("ix_messages_review", "messages", ["review_id", "seq", "position"])

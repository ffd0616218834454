"""The tables, once, for both databases.

Only plain types: statements are compiled once and run on the raw cursor, so no type processor
would run. Times are microseconds since the epoch, JSON is text, booleans are 0 or 1.

Column order is the field order of the domain record that a table holds.
"""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, ForeignKey, Index, Integer, Table, Text, text

from tandem.store.access_tables import access_tokens, ended_logins
from tandem.store.gate_tables import commit_reviews, commits, gates, overrides, plan_refusals, rollbacks, taken_back
from tandem.store.metadata import metadata
from tandem.store.pool_tables import pools, reviewers
from tandem.store.viewed_tables import viewed_files

__all__ = [
    "access_tokens",
    "commit_reviews",
    "commits",
    "ended_logins",
    "gates",
    "metadata",
    "overrides",
    "plan_refusals",
    "pools",
    "reviewers",
    "rollbacks",
    "taken_back",
    "viewed_files",
]

log_head = Table(
    "log_head",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False, comment="always 1"),
    Column("log_id", Text, nullable=False, comment="which log a cursor belongs to"),
    Column("seq", BigInteger, nullable=False, comment="the newest event; numbers are given in commit order"),
    Column("checkpoint_seq", BigInteger, nullable=False, comment="the newest checkpoint event"),
    Column("event_hash", Text, nullable=False, comment="hash of the newest event of the subject `log`"),
    Column("keyed_from", BigInteger, nullable=False, server_default=text("0"), comment="the first keyed event"),
    Column("key_check", Text, nullable=False, server_default=text("''"), comment="tells which secret the hashes need"),
    comment="One row; its lock makes sequence numbers follow the order of commits.",
)

events = Table(
    "events",
    metadata,
    Column("seq", BigInteger().with_variant(Integer, "sqlite"), primary_key=True, autoincrement=False),
    Column("at", BigInteger, nullable=False),
    Column("project", Text, nullable=False),
    Column("subject", Text, nullable=False),
    Column("actor", Text, nullable=False),
    Column("kind", Text, nullable=False),
    Column("old", Text),
    Column("new", Text),
    Column("data", Text, nullable=False),
    Column("delta", Text, nullable=False),
    Column("previous", Text, nullable=False),
    Column("hash", Text, nullable=False),
    Index("ix_events_subject", "subject", "seq"),
    Index("ix_events_project", "project", "seq"),
)

projects = Table(
    "projects",
    metadata,
    Column("name", Text, primary_key=True),
    Column("root", Text, comment="null once it was removed"),
    Column("registered_at", BigInteger, nullable=False),
    Column("event_seq", BigInteger, nullable=False),
    Column("event_hash", Text, nullable=False),
)

contents = Table(
    "contents",
    metadata,
    Column("id", Text, primary_key=True, comment="SHA-256 of the body's UTF-8 bytes, hexadecimal"),
    Column("body", Text, nullable=False),
    sqlite_with_rowid=False,
    comment="Diffs and texts, kept once each; events and rounds name them by hash.",
)

reviews = Table(
    "reviews",
    metadata,
    Column("id", Text, primary_key=True),
    Column("project", Text, nullable=False),
    Column("category", Text, nullable=False),
    Column("priority", Integer, nullable=False),
    Column("proposer_id", Text, nullable=False),
    Column("parent_id", Text, ForeignKey("reviews.id")),
    Column("created_at", BigInteger, nullable=False),
    Column("intent", Text, nullable=False),
    Column("agent_type", Text, nullable=False),
    Column("agent_role", Text, nullable=False),
    Column("phase", Text),
    Column("plan", Text),
    Column("task", Text),
    Column("state", Text, nullable=False),
    Column("outcome", Text),
    Column("round", Integer, nullable=False),
    Column("digest", Text),
    Column("validated", Integer, nullable=False),
    Column("claim_generation", Integer, nullable=False),
    Column("reviewer_id", Text),
    Column("claim_round", Integer),
    Column("claimed_at", BigInteger),
    Column("lease_expires_at", BigInteger),
    Column("speaker", Text),
    Column("speaker_kind", Text),
    Column("turn", Text),
    Column("attention", Text),
    Column("not_before", BigInteger),
    Column("verdict", Text),
    Column("verdict_reason", Text),
    Column("verdict_id", Text),
    Column("verdict_by", Text),
    Column("approved_round", Integer),
    Column("counter_patch_id", Text),
    Column("counter_patch_status", Text),
    Column("updated_at", BigInteger, nullable=False),
    Column("first_claimed_at", BigInteger),
    Column("decided_at", BigInteger),
    Column("closed_at", BigInteger),
    Column("event_seq", BigInteger, nullable=False),
    Column("event_hash", Text, nullable=False),
    Column("attempts", Integer, nullable=False, server_default=text("0"), comment="runs in a row without a verdict"),
    # Lists are read in queue order by keyset. Every index costs each write, so there are just these:
    # what names no state is read state by state and merged, and what is open is few enough to look through.
    Index("ix_reviews_state", "state", "priority", "created_at", "id"),
    Index("ix_reviews_project_state", "project", "state", "priority", "created_at", "id"),
    Index("ix_reviews_category", "category", "priority", "created_at", "id"),
    Index("ix_reviews_project_category", "project", "category", "priority", "created_at", "id"),
    Index(
        "ix_reviews_parent",
        "parent_id",
        postgresql_where=text("parent_id IS NOT NULL"),
        sqlite_where=text("parent_id IS NOT NULL"),
    ),
    Index(
        "ix_reviews_turn",
        "turn",
        "priority",
        "created_at",
        "id",
        postgresql_where=text("turn IS NOT NULL"),
        sqlite_where=text("turn IS NOT NULL"),
    ),
    Index(
        "ix_reviews_attention",
        "priority",
        "created_at",
        "id",
        postgresql_where=text("attention IS NOT NULL"),
        sqlite_where=text("attention IS NOT NULL"),
    ),
    sqlite_with_rowid=False,
)

rounds = Table(
    "rounds",
    metadata,
    Column("review_id", Text, ForeignKey("reviews.id"), primary_key=True),
    Column("round", Integer, primary_key=True, autoincrement=False),
    Column("origin", Text, nullable=False, comment="proposal, revision or counter_patch"),
    Column("author", Text, nullable=False),
    Column("intent", Text, nullable=False),
    Column("agent_type", Text, nullable=False),
    Column("agent_role", Text, nullable=False),
    Column("phase", Text),
    Column("plan", Text),
    Column("task", Text),
    Column("description_id", Text, ForeignKey("contents.id")),
    Column("diff_id", Text, ForeignKey("contents.id")),
    Column("base", Text),
    Column("base_commit", Text),
    Column("path", Text),
    Column("metadata", Text, nullable=False),
    Column("digest", Text),
    Column("validated", Integer, nullable=False),
    Column("affected_files", Text, nullable=False),
    Column("changes", Text, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("accepted_by", Text, comment="who accepted a counter-patch; null if that may have been its author"),
    sqlite_with_rowid=False,
)

verdicts = Table(
    "verdicts",
    metadata,
    Column("id", Text, primary_key=True),
    Column("review_id", Text, ForeignKey("reviews.id"), nullable=False),
    Column("seq", BigInteger, nullable=False),
    Column("round", Integer, nullable=False),
    Column("claim_generation", Integer, nullable=False),
    Column("verdict", Text, nullable=False),
    Column("reason", Text),
    Column("reviewer_id", Text, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Index("ix_verdicts_review", "review_id", "seq"),
)

counter_patches = Table(
    "counter_patches",
    metadata,
    Column("id", Text, primary_key=True),
    Column("review_id", Text, ForeignKey("reviews.id"), nullable=False),
    Column("seq", BigInteger, nullable=False),
    Column("round", Integer, nullable=False),
    Column("author", Text, nullable=False),
    Column("content_id", Text, ForeignKey("contents.id"), nullable=False),
    Column("is_text", Integer, nullable=False),
    Column("digest", Text),
    Column("affected_files", Text, nullable=False),
    Column("status", Text, nullable=False, comment="pending, accepted, rejected or superseded"),
    Column("reason", Text),
    Column("created_at", BigInteger, nullable=False),
    Column("decided_at", BigInteger),
    Column("sent_by", Text, comment="what the author's client calls itself"),
    Index("ix_counter_patches_review", "review_id", "seq"),
)

messages = Table(
    "messages",
    metadata,
    Column("id", Text, primary_key=True),
    Column("review_id", Text, ForeignKey("reviews.id"), nullable=False),
    Column("seq", BigInteger, nullable=False),
    Column("position", Integer, nullable=False, comment="order among the comments of one verdict"),
    Column("round", Integer, nullable=False),
    Column("kind", Text, nullable=False, comment="message or comment (on a line, with a verdict)"),
    Column("sender_role", Text, nullable=False),
    Column("sender_id", Text, nullable=False),
    Column("body", Text, nullable=False),
    Column("metadata", Text, nullable=False),
    Column("verdict_id", Text, ForeignKey("verdicts.id")),
    Column("file", Text),
    Column("line", Integer),
    Column("resolves", Text),
    Column("resolved_by", Text),
    Column("created_at", BigInteger, nullable=False),
    Index("ix_messages_review", "review_id", "seq", "position"),
)

approved_paths = Table(
    "approved_paths",
    metadata,
    Column("project", Text, primary_key=True),
    Column("path", Text, primary_key=True),
    Column("blob_after", Text, primary_key=True),
    Column("review_id", Text, ForeignKey("reviews.id"), primary_key=True),
    Column("round", Integer, primary_key=True, autoincrement=False),
    Column("kind", Text, nullable=False, comment="change or text"),
    Column("mode_before", Text, nullable=False),
    Column("blob_before", Text, nullable=False),
    Column("mode_after", Text, nullable=False),
    Index("ix_approved_paths_review", "review_id", "round"),
    sqlite_with_rowid=False,
    comment="What the gate opens for: the raw entries of every approved round, until a revision ends it.",
)

approvals = Table(
    "approvals",
    metadata,
    Column("project", Text, primary_key=True),
    Column("digest", Text, primary_key=True),
    Column("review_id", Text, ForeignKey("reviews.id"), primary_key=True),
    Column("round", Integer, nullable=False),
    Index("ix_approvals_review", "review_id"),
    sqlite_with_rowid=False,
)

counters = Table(
    "counters",
    metadata,
    Column("project", Text, primary_key=True),
    Column("day", Text, primary_key=True, comment="ISO date, or empty for all time"),
    Column("category", Text, primary_key=True),
    Column("reviewer_id", Text, primary_key=True, comment="empty for what no reviewer did"),
    Column("metric", Text, primary_key=True),
    Column("count", BigInteger, nullable=False),
    Column("total_us", BigInteger, nullable=False),
    Index("ix_counters_day", "day"),
    sqlite_with_rowid=False,
    comment="Statistics, kept as things happen.",
)

idempotency = Table(
    "idempotency",
    metadata,
    Column("principal", Text, primary_key=True),
    Column("project", Text, primary_key=True),
    Column("operation", Text, primary_key=True),
    Column("key", Text, primary_key=True),
    Column("body_hash", Text, nullable=False),
    Column("answer", Text),
    Column("created_at", BigInteger, nullable=False),
    Index("ix_idempotency_created_at", "created_at"),
    sqlite_with_rowid=False,
)

cycle_keys = Table(
    "cycle_keys",
    metadata,
    Column("project", Text, primary_key=True),
    Column("workflow", Text, primary_key=True),
    Column("role", Text, primary_key=True),
    Column("key_hash", Text, nullable=False, comment="a salted hash; empty once the key was revoked"),
    Column("created_at", BigInteger, nullable=False),
    Column("revoked_at", BigInteger),
    Column("event_seq", BigInteger, nullable=False),
    Column("event_hash", Text, nullable=False),
    sqlite_with_rowid=False,
)

sessions = Table(
    "sessions",
    metadata,
    Column("id", Text, primary_key=True, comment="the token is derived from it and a key outside the database"),
    Column("project", Text, nullable=False),
    Column("workflow", Text, nullable=False),
    Column("role", Text, nullable=False),
    Column("opened_at", BigInteger, nullable=False),
    Column("last_seen_at", BigInteger, nullable=False),
    Column("ended_at", BigInteger),
    Column("end_reason", Text, comment="closed, idle, rotated or revoked"),
    Column("event_seq", BigInteger, nullable=False),
    Column("event_hash", Text, nullable=False),
    Index(
        "ix_sessions_open",
        "last_seen_at",
        postgresql_where=text("ended_at IS NULL"),
        sqlite_where=text("ended_at IS NULL"),
    ),
    sqlite_with_rowid=False,
)

cycles = Table(
    "cycles",
    metadata,
    Column("id", Text, primary_key=True),
    Column("project", Text, nullable=False),
    Column("workflow", Text, nullable=False),
    Column("feature", Text, nullable=False),
    Column("mode", Text, nullable=False, comment="direct or approval"),
    Column("definition", Text, nullable=False, comment="the workflow as it was at the start"),
    Column("phase", Text, nullable=False),
    Column("active_role", Text, nullable=False, comment="who holds the lock"),
    Column("rotation", Integer, nullable=False, comment="of the lock; its token is derived from it"),
    Column("lock_acquired_at", BigInteger),
    Column("review_id", Text, ForeignKey("reviews.id"), comment="of the hand-off that waits for approval"),
    Column("handoffs", Integer, nullable=False, comment="how many were written"),
    Column("created_at", BigInteger, nullable=False),
    Column("updated_at", BigInteger, nullable=False),
    Column("completed_at", BigInteger),
    Column("archived_at", BigInteger),
    Column("status_seq", BigInteger, nullable=False, comment="the newest event that changed the status"),
    Column("event_seq", BigInteger, nullable=False),
    Column("event_hash", Text, nullable=False),
    Index("ix_cycles_newest", "project", "workflow", "event_seq"),
    Index("ix_cycles_created", "created_at", "id"),
    Index(
        "uq_cycles_active",
        "project",
        "workflow",
        unique=True,
        postgresql_where=text("archived_at IS NULL"),
        sqlite_where=text("archived_at IS NULL"),
    ),
    sqlite_with_rowid=False,
)

handoffs = Table(
    "handoffs",
    metadata,
    Column("cycle_id", Text, ForeignKey("cycles.id"), primary_key=True),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("target", Text, nullable=False),
    Column("producer", Text, nullable=False),
    Column("phase", Text, nullable=False),
    Column("next_phase", Text, nullable=False),
    Column("content_id", Text, ForeignKey("contents.id"), nullable=False),
    Column("review_id", Text, ForeignKey("reviews.id")),
    Column("round", Integer),
    Column("written_at", BigInteger, nullable=False),
    Column("advanced_at", BigInteger, comment="null until it was approved"),
    Index(
        "ix_handoffs_review",
        "review_id",
        postgresql_where=text("review_id IS NOT NULL"),
        sqlite_where=text("review_id IS NOT NULL"),
    ),
    sqlite_with_rowid=False,
)

"""The tables of cycles: their role keys, sessions and hand-offs."""

from __future__ import annotations

from sqlalchemy import Index

from tandem.cycles.rules import Cycle, CycleKey, Handoff, Session
from tandem.store.tables import partial_index, record_table

ARCHIVED_WITH_CONTENTS = "archived_at IS NOT NULL AND removed_at IS NULL"

cycle_keys = record_table(
    "cycle_keys",
    CycleKey,
    key=("project", "workflow", "role"),
    comments={"key_hash": "a salted hash; empty once the key was revoked"},
)

sessions = record_table(
    "sessions",
    Session,
    partial_index("ix_sessions_open", "last_seen_at", where="ended_at IS NULL"),
    comments={
        "id": "the token is derived from it and a key outside the database",
        "end_reason": "closed, idle, rotated or revoked",
    },
)

cycles = record_table(
    "cycles",
    Cycle,
    Index("ix_cycles_newest", "project", "workflow", "event_seq"),
    Index("ix_cycles_created", "created_at", "id"),
    partial_index("ix_cycles_archived", "event_seq", where=ARCHIVED_WITH_CONTENTS),
    partial_index("ix_cycles_removed", "removed_seq", where="removed_seq IS NOT NULL"),
    partial_index("uq_cycles_active", "project", "workflow", where="archived_at IS NULL", unique=True),
    small=("rotation", "handoffs"),
    foreign={"review_id": "reviews.id"},
    comments={
        "mode": "direct or approval",
        "definition": "the workflow as it was at the start",
        "active_role": "who holds the lock",
        "rotation": "of the lock; its token is derived from it",
        "review_id": "of the hand-off that waits for approval",
        "handoffs": "how many were written",
        "status_seq": "the newest event that changed the status",
        "removed_at": "when its payloads were removed; null while they are there",
        "removed_seq": "the newest event whose contents were removed",
    },
)

handoffs = record_table(
    "handoffs",
    Handoff,
    Index("ix_handoffs_content", "content_id"),
    partial_index("ix_handoffs_review", "review_id", where="review_id IS NOT NULL"),
    key=("cycle_id", "number"),
    small=("number", "round"),
    foreign={"cycle_id": "cycles.id", "content_id": "contents.id", "review_id": "reviews.id"},
    comments={"advanced_at": "null until it was approved"},
)

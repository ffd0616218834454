"""The tables of reviewer pools."""

from __future__ import annotations

from sqlalchemy import Index

from tandem.pool.rules import Pool, Reviewer
from tandem.store.tables import partial_index, record_table

pools = record_table(
    "pools",
    Pool,
    small=("circuit_opened", "forgiven"),
    comments={
        "id": "the supervisor's",
        "incarnation": "of the supervisor's latest start",
        "projects": "a JSON list; null for all that are registered",
        "paused": "why, in words",
        "paused_until": "when a pause for a provider's quota ends",
    },
)

reviewers = record_table(
    "reviewers",
    Reviewer,
    Index("ix_reviewers_number", "pool_id", "incarnation", "number"),
    Index("ix_reviewers_spawned", "spawned_at", "id"),
    partial_index("ix_reviewers_profile", "pool_id", "incarnation", "profile", "number", where="profile IS NOT NULL"),
    partial_index("ix_reviewers_live", "pool_id", where="ended_at IS NULL"),
    small=("number", "kill", "quick", "reviews_completed", "approvals", "rejections"),
    foreign={"pool_id": "pools.id"},
)

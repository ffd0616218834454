"""The tables of gates."""

from __future__ import annotations

from sqlalchemy import Column, Index, Table, Text

from tandem.gate.rules import CommitRow, Gate, Override
from tandem.store.tables import metadata, partial_index, record_table

gates = record_table(
    "gates",
    Gate,
    key=("project",),
    small=("enabled",),
    comments={
        "branches": "a JSON list: the base branches",
        "accepted": "a JSON list: commits that are taken as they are",
        "folders": "a JSON list: the git folders where it is on",
        "trusted": "a JSON list: contents that a person trusts, SHA-256 and file",
        "signers": "a JSON list: whose brokers' signatures count, name=key",
        "commits": "free, followed or reviewed; null is reviewed",
        "threshold": "from which severity on an open finding keeps an approval back; null is major",
    },
)

overrides = record_table("overrides", Override, Index("ix_overrides_digest", "digest"), key=("project", "id"))

commits = record_table(
    "commits",
    CommitRow,
    Index("ix_commits_recorded", "project", "event_seq"),
    Index("ix_commits_plan", "project", "plan", "event_seq"),
    partial_index("ix_commits_inverse", "project", "inverse", "event_seq", where="inverse IS NOT NULL"),
    partial_index("ix_commits_replaces", "replaces", where="replaces IS NOT NULL"),
    key=("project", "id"),
    small=("unreviewed",),
    comments={"inverse": "digest of the change that takes it back"},
)

commit_reviews = Table(
    "commit_reviews",
    metadata,
    Column("project", Text, primary_key=True),
    Column("commit_id", Text, primary_key=True),
    Column("review_id", Text, primary_key=True, comment="as the commit's message names it, known or not"),
    Column("plan", Text),
    Index("ix_commit_reviews_review", "review_id"),
    sqlite_with_rowid=False,
    comment="Which commits name which review.",
)

plan_refusals = Table(
    "plan_refusals",
    metadata,
    Column("project", Text, primary_key=True),
    Column("plan", Text, primary_key=True),
    Column("review_id", Text, primary_key=True),
    sqlite_with_rowid=False,
    comment="Reviews of a plan's commits that were ever decided against, so that few have to be looked at.",
)

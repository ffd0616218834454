"""The tables of gates."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Index, Integer, Table, Text

from tandem.store.tables import metadata, partial_index

gates = Table(
    "gates",
    metadata,
    Column("project", Text, primary_key=True),
    Column("enabled", Integer, nullable=False),
    Column("branches", Text, nullable=False, comment="a JSON list: the base branches"),
    Column("accepted", Text, nullable=False, comment="a JSON list: commits that are taken as they are"),
    Column("reason", Text),
    Column("switched_at", BigInteger, nullable=False),
    Column("switched_by", Text, nullable=False),
    Column("event_seq", BigInteger, nullable=False),
    Column("event_hash", Text, nullable=False),
    Column("folders", Text, comment="a JSON list: the git folders where it is on"),
    Column("trusted", Text, comment="a JSON list: contents that a person trusts, SHA-256 and file"),
    Column("signers", Text, comment="a JSON list: whose brokers' signatures count, name=key"),
    sqlite_with_rowid=False,
)

overrides = Table(
    "overrides",
    metadata,
    Column("project", Text, primary_key=True),
    Column("id", Text, primary_key=True),
    Column("digest", Text, nullable=False),
    Column("branch", Text),
    Column("reason", Text, nullable=False),
    Column("overridden_at", BigInteger, nullable=False),
    Column("overridden_by", Text, nullable=False),
    Column("recorded_at", BigInteger, nullable=False),
    Column("event_seq", BigInteger, nullable=False),
    Column("event_hash", Text, nullable=False),
    Index("ix_overrides_digest", "digest"),
    sqlite_with_rowid=False,
)

commits = Table(
    "commits",
    metadata,
    Column("project", Text, primary_key=True),
    Column("id", Text, primary_key=True),
    Column("parent", Text),
    Column("branch", Text),
    Column("phase", Text),
    Column("plan", Text),
    Column("task", Text),
    Column("review_ids", Text, nullable=False),
    Column("unreviewed", Integer, nullable=False),
    Column("depends_on", Text, nullable=False),
    Column("replaces", Text),
    Column("inverse", Text, comment="digest of the change that takes it back"),
    Column("recorded_at", BigInteger, nullable=False),
    Column("recorded_by", Text, nullable=False),
    Column("event_seq", BigInteger, nullable=False),
    Column("event_hash", Text, nullable=False),
    Index("ix_commits_recorded", "project", "event_seq"),
    Index("ix_commits_plan", "project", "plan", "event_seq"),
    partial_index("ix_commits_inverse", "project", "inverse", "event_seq", where="inverse IS NOT NULL"),
    partial_index("ix_commits_replaces", "replaces", where="replaces IS NOT NULL"),
    sqlite_with_rowid=False,
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

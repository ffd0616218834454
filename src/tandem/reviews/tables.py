"""The tables of reviews: rounds, verdicts, discussions, findings, approvals, reverts, checks, drafts."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, ForeignKey, Index, Integer, Table, Text

from tandem.contract.request import WORK
from tandem.reviews.check_rules import CheckRun
from tandem.reviews.finding_rules import Finding
from tandem.reviews.rounds import CounterPatch, Message, Verdict
from tandem.reviews.rules import Review, Rollback
from tandem.store.tables import metadata, partial_index, record_table

CLOSED_WITH_CONTENTS = "state = 'closed' AND removed_at IS NULL"
OWED = "owed_until IS NOT NULL AND approved_round IS NOT NULL"

reviews = record_table(
    "reviews",
    Review,
    # Lists are read in queue order by keyset. Every index costs each write, so there are just these:
    # a list of any state is read state by state and merged, and open reviews are few enough to look through.
    Index("ix_reviews_state", "state", "priority", "created_at", "id"),
    Index("ix_reviews_project_state", "project", "state", "priority", "created_at", "id"),
    Index("ix_reviews_category", "category", "priority", "created_at", "id"),
    Index("ix_reviews_project_category", "project", "category", "priority", "created_at", "id"),
    # For lists by newest activity, likewise state by state.
    Index("ix_reviews_activity", "state", "event_seq"),
    Index("ix_reviews_project_activity", "project", "state", "event_seq"),
    partial_index("ix_reviews_digest", "project", "digest", where="digest IS NOT NULL"),
    partial_index("ix_reviews_parent", "parent_id", where="parent_id IS NOT NULL"),
    partial_index("ix_reviews_turn", "turn", "priority", "created_at", "id", where="turn IS NOT NULL"),
    partial_index("ix_reviews_attention", "priority", "created_at", "id", where="attention IS NOT NULL"),
    partial_index("ix_reviews_owed", "priority", "created_at", "id", where=OWED),
    partial_index("ix_reviews_closed", "event_seq", where=CLOSED_WITH_CONTENTS),
    partial_index("ix_reviews_removed", "removed_seq", where="removed_seq IS NOT NULL"),
    small=(
        "priority",
        "round",
        "validated",
        "claim_generation",
        "claim_round",
        "approved_round",
        "attempts",
        "objections",
        "objected_round",
        "by_checks",
        "generations",
        "seats_free",
    ),
    foreign={"parent_id": "reviews.id"},
    comments={
        "attempts": "runs in a row without a verdict",
        "checks": "what the required checks of the round come to; null without any",
        "removed_at": "when its contents were removed; null while they are there",
        "removed_seq": "the newest event whose contents were removed",
    },
    defaults=dict.fromkeys(("attempts", "objections", "objected_round", "by_checks", "generations", "seats_free"), "0"),
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
    *(Column(name, Text) for name in WORK),
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
    Column("base_files_id", Text, ForeignKey("contents.id")),
    Column("notes", Text, comment="what git did that the diff did not say, as JSON; null for a diff as it was sent"),
    Column("ground", Text, comment="JSON: its base; null where that is unknown"),
    # For what nothing names any more.
    partial_index("ix_rounds_description", "description_id", where="description_id IS NOT NULL"),
    partial_index("ix_rounds_diff", "diff_id", where="diff_id IS NOT NULL"),
    partial_index("ix_rounds_base_files", "base_files_id", where="base_files_id IS NOT NULL"),
    # For findings by their content.
    partial_index("ix_rounds_digest", "digest", where="digest IS NOT NULL"),
    sqlite_with_rowid=False,
)

verdicts = record_table(
    "verdicts",
    Verdict,
    Index("ix_verdicts_review", "review_id", "seq"),
    small=("round", "claim_generation"),
    foreign={"review_id": "reviews.id"},
    sqlite_with_rowid=True,
)

counter_patches = record_table(
    "counter_patches",
    CounterPatch,
    Index("ix_counter_patches_review", "review_id", "seq"),
    Index("ix_counter_patches_content", "content_id"),
    small=("round", "is_text"),
    foreign={"review_id": "reviews.id", "content_id": "contents.id"},
    comments={
        "status": "pending, accepted, rejected or superseded",
        "sent_by": "what the author's client calls itself",
    },
    sqlite_with_rowid=True,
)

messages = record_table(
    "messages",
    Message,
    Index("ix_messages_review", "review_id", "seq"),
    small=("round",),
    foreign={"review_id": "reviews.id"},
    comments={"kind": "message, or question: of a person from the side"},
    sqlite_with_rowid=True,
)

OPEN_FINDINGS = "state IN ('open', 'reopened', 'fixed', 'refuted', 'deferred')"
LESSONS = "lesson = 1"
TELLING = "telling IS NOT NULL"

findings = record_table(
    "findings",
    Finding,
    Index("ix_findings_review", "review_id", "seq", "position"),
    Index("ix_findings_project", "project", "seq", "position"),
    partial_index("ix_findings_open", "project", "seq", "position", where=OPEN_FINDINGS),
    partial_index("ix_findings_lessons", "project", "seq", "position", where=LESSONS),
    partial_index("ix_findings_known", "project", "fingerprint", where=LESSONS),
    partial_index("ix_findings_telling", "project", "telling", where=TELLING),
    small=(
        *("position", "round", "line", "end_line", "pre_existing", "reopenings", "lesson", "is_request", "changed"),
        "settled_round",
    ),
    foreign={"review_id": "reviews.id", "verdict_id": "verdicts.id"},
    comments={
        "position": "order among the findings of one verdict",
        "source": "person, agent or check",
        "state": "open, fixed, refuted, deferred, verified, upheld, reopened, late or suppressed",
        "reopenings": "how often a reviewer reopened it",
        "lesson": "1 while the same finding is a false alarm",
        "is_request": "1 if it stands for a person's request for changes",
    },
    sqlite_with_rowid=True,
)

contested_files = Table(
    "contested_files",
    metadata,
    Column("project", Text, primary_key=True),
    Column("path", Text, primary_key=True),
    Column("blob_after", Text, primary_key=True),
    Column("review_id", Text, ForeignKey("reviews.id"), primary_key=True),
    Column("round", Integer, primary_key=True, autoincrement=False),
    Index("ix_contested_files_review", "review_id", "round"),
    sqlite_with_rowid=False,
    comment="The files of every round of a review with findings: an index of rounds.",
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

rollbacks = record_table(
    "rollbacks",
    Rollback,
    Index("ix_rollbacks_plan", "project", "plan", "rolled_back_at"),
    key=("review_id", "head_after"),
    foreign={"review_id": "reviews.id"},
)

taken_back = Table(
    "taken_back",
    metadata,
    Column("project", Text, primary_key=True),
    Column("commit_id", Text, primary_key=True),
    Column("review_id", Text, ForeignKey("reviews.id"), primary_key=True),
    Column("head_after", Text, primary_key=True),
    Column("reverted_by", Text),
    Column("becomes", Text),
    Index("ix_taken_back_review", "review_id"),
    sqlite_with_rowid=False,
    comment="What rollbacks did to which commits.",
)

UNFINISHED_CHECKS = "status IN ('queued', 'running')"

checks = record_table(
    "checks",
    CheckRun,
    Index("ix_checks_tree", "project", "tree", "name"),
    partial_index("ix_checks_log", "log_id", where="log_id IS NOT NULL"),
    partial_index("ix_checks_unfinished", "requested_at", "review_id", where=UNFINISHED_CHECKS),
    key=("review_id", "round", "name"),
    small=("round", "position", "timeout_seconds", "required", "exit_status"),
    foreign={"review_id": "reviews.id", "log_id": "contents.id"},
    comments={
        "position": "order in their file",
        "source": "SHA-256 of the file that names it",
        "tree": "id of the git tree that it ran on",
        "ground": "JSON: its base when it ran, or will run; null for runs of earlier versions",
    },
    comment="Checks of a round, and the latest run of each.",
)

viewed_files = Table(
    "viewed_files",
    metadata,
    Column("review_id", Text, ForeignKey("reviews.id"), primary_key=True),
    Column("round", Integer, primary_key=True, autoincrement=False),
    Column("person", Text, primary_key=True),
    Column("path", Text, primary_key=True),
    Column("viewed_at", BigInteger, nullable=False),
    sqlite_with_rowid=False,
    comment="Which files people have looked at; no event tells of it.",
)

drafts = Table(
    "drafts",
    metadata,
    Column("person", Text, primary_key=True),
    Column("review_id", Text, ForeignKey("reviews.id"), primary_key=True),
    Column("draft_id", Text, primary_key=True),
    Column("round", Integer, nullable=False, comment="the round that it was begun on"),
    Column("kind", Text, nullable=False, comment="finding, message or verdict"),
    Column("file", Text),
    Column("line", Integer),
    Column("end_line", Integer),
    Column("side", Text, comment="before or after; null without a line"),
    Column("severity", Text),
    Column("body", Text, nullable=False),
    Column("category", Text),
    Column("failure", Text),
    Column("suggestion", Text),
    Column("pre_existing", Integer, nullable=False),
    Column("updated_at", BigInteger, nullable=False),
    Index("ix_drafts_review", "review_id"),
    sqlite_with_rowid=False,
    comment="What people write on the page before they send it; no event tells of it.",
)

"""Findings in place of comments on lines, which become minor ones."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0025_findings"
down_revision = "0024_landings"

_OPEN = "state IN ('open', 'reopened', 'fixed', 'refuted', 'deferred')"
_LESSONS = "lesson = 1"


def upgrade() -> None:
    """Take the step."""
    _create()
    _take_over()
    grave = "from which severity on an open finding keeps an approval back; null is major"
    op.add_column("gates", sa.Column("threshold", sa.Text(), nullable=True, comment=grave))
    _narrow_messages()


def _narrow_messages() -> None:
    """Make the table of messages again: dropped columns would leave gaps in one database and not in the other."""
    comments = {"kind": "message, or question: of a person from the side"}
    optional = {"resolves": True, "resolved_by": True}
    columns = (
        *((name, sa.Text(), False) for name in ("id", "review_id")),
        *(("seq", sa.BigInteger(), False), ("round", sa.Integer(), False)),
        *(
            (name, sa.Text(), optional.get(name, False))
            for name in ("kind", "sender_role", "sender_id", "body", "metadata", "resolves", "resolved_by")
        ),
        ("created_at", sa.BigInteger(), False),
    )
    names = ", ".join(name for name, _, _ in columns)
    op.execute(f"CREATE TABLE kept_messages AS SELECT {names} FROM messages")  # noqa: S608 - names of ours
    op.drop_table("messages")
    op.create_table(
        "messages",
        *(
            sa.Column(name, kind, autoincrement=False, nullable=nullable, comment=comments.get(name))
            for name, kind, nullable in columns
        ),
        sa.ForeignKeyConstraint(["review_id"], ["reviews.id"], name=op.f("fk_messages_review_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_messages")),
    )
    op.create_index("ix_messages_review", "messages", ["review_id", "seq"])
    op.execute(f"INSERT INTO messages ({names}) SELECT {names} FROM kept_messages")  # noqa: S608 - likewise
    op.drop_table("kept_messages")


def _create() -> None:
    text, small, large = sa.Text(), sa.Integer(), sa.BigInteger()
    comments = {
        "position": "order among the findings of one verdict",
        "source": "person, agent or check",
        "state": "open, fixed, refuted, deferred, verified, upheld, reopened, late or suppressed",
        "reopenings": "how often a reviewer reopened it",
        "lesson": "1 while the same finding is a false alarm",
        "is_request": "1 if it stands for a person's request for changes",
    }
    columns = (
        *((name, text, False) for name in ("id", "review_id", "project")),
        ("seq", large, False),
        *((name, small, False) for name in ("position", "round")),
        ("verdict_id", text, True),
        *((name, text, False) for name in ("source", "author")),
        ("file", text, True),
        *((name, small, True) for name in ("line", "end_line")),
        *((name, text, False) for name in ("side", "severity")),
        ("category", text, True),
        ("claim", text, False),
        *((name, text, True) for name in ("failure", "suggestion")),
        ("pre_existing", small, False),
        *((name, text, True) for name in ("lines", "fingerprint")),
        ("state", text, False),
        ("created_at", large, False),
        *((name, text, True) for name in ("answer", "answered_by", "settled_by", "settled_reason")),
        *((name, small, False) for name in ("reopenings", "lesson")),
        ("suppressed_by", text, True),
        ("is_request", small, False),
    )
    op.create_table(
        "findings",
        *(
            sa.Column(name, kind, autoincrement=False, nullable=optional, comment=comments.get(name))
            for name, kind, optional in columns
        ),
        sa.ForeignKeyConstraint(["review_id"], ["reviews.id"], name=op.f("fk_findings_review_id")),
        sa.ForeignKeyConstraint(["verdict_id"], ["verdicts.id"], name=op.f("fk_findings_verdict_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_findings")),
    )
    op.create_index("ix_findings_review", "findings", ["review_id", "seq", "position"])
    op.create_index("ix_findings_project", "findings", ["project", "seq", "position"])
    for name, columns_of, condition in (
        ("ix_findings_open", ["project", "seq", "position"], _OPEN),
        ("ix_findings_lessons", ["project", "seq", "position"], _LESSONS),
        ("ix_findings_known", ["project", "fingerprint"], _LESSONS),
    ):
        where = sa.text(condition)
        op.create_index(name, "findings", columns_of, postgresql_where=where, sqlite_where=where)


def _take_over() -> None:
    op.execute(
        "INSERT INTO findings (id, review_id, project, seq, position, round, verdict_id, source, author, file, line,"
        " side, severity, claim, pre_existing, state, created_at, reopenings, lesson, is_request)"
        " SELECT m.id, m.review_id, r.project, m.seq, m.position, m.round, m.verdict_id, 'agent', m.sender_id, m.file,"
        " m.line, 'new', 'minor', m.body, 0, CASE WHEN m.resolved_by IS NULL THEN 'open' ELSE 'fixed' END,"
        " m.created_at, 0, 0, 0 FROM messages m JOIN reviews r ON r.id = m.review_id WHERE m.kind = 'comment'"
    )
    op.execute("DELETE FROM messages WHERE kind = 'comment'")

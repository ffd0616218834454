"""Rounds to approval and the use of reviewers over all time: counted after the fact."""

from __future__ import annotations

from alembic import op

revision = "0027_counters"
down_revision = "0026_drafts"

_DAYS = {
    "sqlite": "date(v.created_at / 1000000, 'unixepoch')",
    "postgresql": "to_char(to_timestamp(v.created_at / 1000000) AT TIME ZONE 'UTC', 'YYYY-MM-DD')",
}
_INSERT = "INSERT INTO counters (project, day, category, reviewer_id, metric, slot, count, total_us)"


def upgrade() -> None:
    """Take the step."""
    for day in ("''", _DAYS[op.get_bind().dialect.name]):
        op.execute(
            f"{_INSERT} SELECT r.project, {day}, r.category, v.reviewer_id, 'rounds', 0, SUM(v.round), 0"  # noqa: S608 - all of it stands in this file
            " FROM verdicts v JOIN reviews r ON r.id = v.review_id WHERE v.verdict = 'approved' GROUP BY 1, 2, 3, 4"
        )
    op.execute(
        f"{_INSERT} SELECT project, '', category, reviewer_id, metric, 0, SUM(count), 0 FROM counters"  # noqa: S608 - likewise
        " WHERE metric IN ('tokens_in', 'tokens_out', 'cost_microusd') GROUP BY 1, 3, 4, 5"
    )

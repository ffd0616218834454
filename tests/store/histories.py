"""Many reviews at once, written into the tables by SQL that both databases take: enough for lists and searches.

An audit would not accept the log.
"""

from __future__ import annotations

_NUMBERS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {reviews})"
_STATE = """CASE WHEN i % {step} <> 0 THEN 'closed' WHEN i / {step} % 5 = 0 THEN 'claimed'
    WHEN i / {step} % 5 = 1 THEN 'changes_requested' WHEN i / {step} % 5 = 2 THEN 'rejected' ELSE 'pending' END"""
_PROJECT = "CASE WHEN i % 7 = 0 THEN 'beta' ELSE 'alpha' END"
_STATEMENTS = (
    "INSERT INTO contents (id, body) VALUES ('text', 'The description.')",
    f"""INSERT INTO reviews (id, project, category, priority, proposer_id, created_at, intent, agent_type, agent_role,
        state, outcome, round, validated, claim_generation, reviewer_id, lease_expires_at, turn, attention, updated_at,
        event_seq, event_hash, objections)
    {_NUMBERS} SELECT id, project, category, i % 3, 'agent-' || (i % 40), i * 10000, 'Change it', 'agent', 'proposer',
        state, CASE WHEN state = 'closed' THEN 'approved' END, 3, 0, 1, CASE WHEN state = 'claimed' THEN 'rita' END,
        CASE WHEN state = 'claimed' THEN 1 END,
        CASE WHEN state IN ('pending', 'claimed') THEN 'reviewer' WHEN state <> 'closed' THEN 'proposer' END,
        CASE WHEN state = 'pending' AND i / {{step}} % 2 = 0 THEN 'two failed' END, i * 10000, i * 2, '',
        3 FROM (SELECT i, 'rv_' || (1000000 + i) AS id, {_STATE} AS state, {_PROJECT} AS project,
        CASE WHEN (i / {{step}} + i % {{step}}) % 4 = 0 THEN 'handoff' ELSE 'code_change' END AS category
        FROM n) AS numbered""",
    f"""INSERT INTO rounds (review_id, round, origin, author, intent, agent_type, agent_role, description_id, metadata,
        validated, affected_files, changes, created_at)
    {_NUMBERS} SELECT 'rv_' || (1000000 + i), 3, 'proposal', 'agent-' || (i % 40), 'Change it', 'agent', 'proposer',
        'text', '{{{{}}}}', 0, '[]', '[]', i * 10000 FROM n""",
    f"""INSERT INTO events (seq, at, project, subject, actor, kind, data, delta, previous, hash)
    {_NUMBERS} SELECT i * 2 - k, i * 10000, {_PROJECT}, 'rv_' || (1000000 + i), 'agent', 'message_sent', '{{{{}}}}',
        '{{{{}}}}', '', '' FROM n CROSS JOIN (SELECT 0 AS k UNION ALL SELECT 1) AS twice""",
    f"""INSERT INTO counters (project, day, category, reviewer_id, metric, slot, count, total_us)
    {_NUMBERS} SELECT {_PROJECT}, CASE WHEN i > 60 THEN '2001-01-01' ELSE '2002-01-01' END, 'code_change',
        'agent-' || i, 'approved', 0, 1, 1 FROM n""",
    "INSERT INTO commit_reviews (project, commit_id, review_id, plan) SELECT project, id, id, 'p' FROM reviews",
)


def statements(reviews: int, open_reviews: int) -> list[str]:
    """Returns the SQL that adds so many reviews, so many of them open, to a database without any.

    Number i has the id `rv_` and 1,000,000 + i, and was proposed i hundredths of a second after 1970 began.
    """
    return [one.format(reviews=reviews, step=reviews // open_reviews) for one in _STATEMENTS]

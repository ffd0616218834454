"""Long histories, written straight into the store's tables: as consistent as lists, feeds and claims need them.

The hashes are only numbers, so an audit would refuse such a log.
"""

from __future__ import annotations

import hashlib
import shutil
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

from tandem.core.secret_key import Tokens, load_or_make
from tandem.schema import TANDEM
from tandem.store.event import LOG_SUBJECT, Event, Seal
from tandem.store.schema import SQLITE_WORDS
from tandem.store.statement import SQLITE
from tandem.store.tables import metadata

LAST_WEEK = "2026-10-25"
_SEED_VERSION = 2
_LAST_US = 1_793_491_200_000_000
"""2026-11-01."""

_YEAR_US = 365 * 86_400 * 1_000_000
_FAR_FUTURE_US = 4_102_444_800_000_000
_EVENTS_A_REVIEW = 4
_LAST_EVENT = """CASE state WHEN 'pending' THEN 1 WHEN 'claimed' THEN 2 WHEN 'in_review' THEN 2
    WHEN 'closed' THEN 4 ELSE 3 END"""
_REVIEWERS = 12
_SETTINGS = (
    "PRAGMA journal_mode = OFF",
    "PRAGMA synchronous = OFF",
    "PRAGMA temp_store = MEMORY",
    "PRAGMA cache_size = -1000000",
)

_NUMBERED = """
    CREATE TEMP TABLE numbered AS
    WITH RECURSIVE numbers(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < :reviews)
    SELECT n, 'rv_' || printf('%018d', n) AS id, :first_us + n * :step_us AS at,
        CASE WHEN n % 10 < 7 THEN 'alpha' WHEN n % 10 = 7 THEN 'beta' WHEN n % 10 = 8 THEN 'gamma' ELSE 'delta' END
            AS project,
        CASE n % 7 WHEN 0 THEN 'plan_review' WHEN 1 THEN 'verification' WHEN 2 THEN 'handoff' ELSE 'code_change' END
            AS category,
        CASE WHEN n % 11 = 0 THEN 0 WHEN n % 7 = 1 THEN 2 ELSE 1 END AS priority,
        'reviewer-' || (n % :reviewers) AS reviewer,
        CASE WHEN n * :open / :reviews = (n - 1) * :open / :reviews THEN 'closed'
            ELSE CASE (n * :open / :reviews) % 20 WHEN 0 THEN 'claimed' WHEN 1 THEN 'claimed' WHEN 2 THEN 'in_review'
            WHEN 3 THEN 'in_review' WHEN 4 THEN 'rejected' WHEN 5 THEN 'approved' WHEN 6 THEN 'approved'
            WHEN 7 THEN 'changes_requested' WHEN 8 THEN 'changes_requested' WHEN 9 THEN 'changes_requested'
            ELSE 'pending' END END AS state
    FROM numbers
"""
_HELD = "state IN ('claimed', 'in_review')"
_DECIDED = "state IN ('approved', 'changes_requested', 'rejected', 'closed')"
_VERDICT = "CASE WHEN state = 'closed' THEN 'approved' ELSE state END"

_REVIEW: Mapping[str, str] = {
    "id": "id",
    "project": "project",
    "category": "category",
    "priority": "priority",
    "proposer_id": "'gsd-executor-' || (n % 40)",
    "created_at": "at",
    "intent": "'Change number ' || n || ' of the parser, so that it takes what people write'",
    "agent_type": "'gsd-executor'",
    "agent_role": "'proposer'",
    "phase": "printf('%02d', n % 30)",
    "plan": "printf('%02d', n % 9)",
    "state": "state",
    "outcome": "CASE WHEN state = 'closed' THEN 'approved' END",
    "round": "1",
    "validated": "0",
    "claim_generation": "CASE WHEN state = 'pending' THEN 0 ELSE 1 END",
    "reviewer_id": f"CASE WHEN {_HELD} THEN reviewer END",
    "claim_round": f"CASE WHEN {_HELD} THEN 1 END",
    "claimed_at": f"CASE WHEN {_HELD} THEN at + 60000000 END",
    "lease_expires_at": f"CASE WHEN {_HELD} THEN {_FAR_FUTURE_US} END",
    "turn": """CASE WHEN state IN ('pending', 'claimed', 'in_review') THEN 'reviewer'
        WHEN state != 'closed' THEN 'proposer' END""",
    "attention": "CASE WHEN state = 'pending' AND n % 13 = 0 THEN 'two reviewers failed' END",
    "verdict": f"CASE WHEN {_DECIDED} THEN {_VERDICT} END",
    "verdict_by": f"CASE WHEN {_DECIDED} THEN reviewer END",
    "approved_round": "CASE WHEN state IN ('approved', 'closed') THEN 1 END",
    "updated_at": "at + 120000000",
    "first_claimed_at": "CASE WHEN state != 'pending' THEN at + 60000000 END",
    "decided_at": f"CASE WHEN {_DECIDED} THEN at + 90000000 END",
    "closed_at": "CASE WHEN state = 'closed' THEN at + 120000000 END",
    "event_seq": f"(n - 1) * {_EVENTS_A_REVIEW} + {_LAST_EVENT}",
    "event_hash": f"printf('%064x', (n - 1) * {_EVENTS_A_REVIEW} + {_LAST_EVENT})",
}
_ROUND: Mapping[str, str] = {
    "review_id": "id",
    "round": "1",
    "origin": "'proposal'",
    "author": "'gsd-executor-' || (n % 40)",
    "intent": "'Change number ' || n || ' of the parser, so that it takes what people write'",
    "agent_type": "'gsd-executor'",
    "agent_role": "'proposer'",
    "description_id": "'content'",
    "metadata": "'{}'",
    "validated": "0",
    "affected_files": "'[]'",
    "changes": "'[]'",
    "created_at": "at",
}
_EVENT: Mapping[str, str] = {
    "seq": f"(n - 1) * {_EVENTS_A_REVIEW} + k",
    "at": "at + k * 30000000",
    "project": "project",
    "subject": "id",
    "actor": "CASE WHEN k IN (2, 3) THEN reviewer ELSE 'gsd-executor-' || (n % 40) END",
    "kind": """CASE k WHEN 1 THEN 'review_created' WHEN 2 THEN 'review_claimed' WHEN 3 THEN 'verdict_submitted'
        ELSE 'review_closed' END""",
    "old": "CASE k WHEN 2 THEN 'pending' WHEN 3 THEN 'claimed' WHEN 4 THEN 'approved' END",
    "new": "CASE k WHEN 1 THEN 'pending' WHEN 2 THEN 'claimed' WHEN 3 THEN 'approved' ELSE 'closed' END",
    "data": """'{"round":1,"claim_generation":1}'""",
    "delta": "'{}'",
    "previous": f"CASE k WHEN 1 THEN '' ELSE printf('%064x', (n - 1) * {_EVENTS_A_REVIEW} + k - 1) END",
    "hash": f"printf('%064x', (n - 1) * {_EVENTS_A_REVIEW} + k)",
}
_DAY = "date(at / 1000000, 'unixepoch')"
_COUNTS = (
    # Metric, reviewer, microseconds for the mean, of which reviews.
    ("'submitted'", "''", "0", "1"),
    ("'first_claimed'", "reviewer", "60000000", "state != 'pending'"),
    (_VERDICT, "reviewer", "30000000", _DECIDED),
    ("'closed:approved'", "''", "0", "state = 'closed'"),
)


def make_history(cache: Path, reviews: int, open_reviews: int) -> Path:
    """A broker's data folder with so many reviews; made once, and kept until the schema is another one.

    Args:
        cache: Where it is kept.
        reviews: How many reviews there are, over a year.
        open_reviews: How many of them are not closed, spread over the whole year.
    """
    folder = cache / f"history-{_schema_name()}-{reviews}-{open_reviews}"
    if not folder.exists():
        for outdated in cache.glob(f"history-*-{reviews}-{open_reviews}"):
            shutil.rmtree(outdated)
        unfinished = folder.with_name(f"{folder.name}.unfinished")
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir(parents=True, mode=0o700)
        with closing(sqlite3.connect(unfinished / "tandem.db", isolation_level=None)) as connection:
            _seed(connection, reviews, open_reviews, Tokens(load_or_make(unfinished / "secret.key")).seal_event)
        unfinished.rename(folder)
    return folder


def _schema_name() -> str:
    """Tells this schema from every other: while a version is in the making, its number does not."""
    # Sorted, because a table's indexes come in any order.
    stated = "\n".join([*sorted(TANDEM.ddl(SQLITE)), str(_SEED_VERSION)])
    return f"{TANDEM.version}-{hashlib.sha256(stated.encode()).hexdigest()[:12]}"


def _seed(connection: sqlite3.Connection, reviews: int, open_reviews: int, seal: Seal) -> None:
    TANDEM.prepare(connection, SQLITE_WORDS)
    for setting in _SETTINGS:
        connection.execute(setting)
    # Filled first and indexed afterwards: each index is then sorted once.
    indexes: list[tuple[str, str]] = connection.execute(
        "SELECT name, sql FROM sqlite_master WHERE type = 'index' AND sql IS NOT NULL"
    ).fetchall()
    connection.execute("BEGIN")
    for name, _ in indexes:
        connection.execute(f'DROP INDEX "{name}"')
    step_us = _YEAR_US // reviews
    parameters = {"reviews": reviews, "open": open_reviews, "reviewers": _REVIEWERS}
    connection.execute(_NUMBERED, {**parameters, "first_us": _LAST_US - _YEAR_US, "step_us": step_us})
    connection.execute("INSERT INTO contents (id, body) VALUES ('content', 'What the change is about.')")
    _fill(connection, "reviews", _REVIEW, "numbered ORDER BY n")
    _fill(connection, "rounds", _ROUND, "numbered ORDER BY n")
    steps = "(SELECT 1 AS k UNION ALL SELECT 2 UNION ALL SELECT 3 UNION ALL SELECT 4)"
    _fill(connection, "events", _EVENT, f"numbered CROSS JOIN {steps} WHERE k <= {_LAST_EVENT} ORDER BY n, k")
    _count(connection)
    newest = connection.execute("SELECT max(seq) FROM events").fetchone()[0]
    # As if the whole of it had just been covered: else the broker would begin to.
    facts = f'{{"first":1,"last":{newest},"events":{newest}}}'
    event = Event(newest + 1, _LAST_US, "", LOG_SUBJECT, "broker", "checkpoint", None, None, facts, "{}", "").sealed(
        seal
    )
    connection.execute(f"INSERT INTO events VALUES ({', '.join('?' * len(event))})", event)  # noqa: S608 - only marks
    head = (1, "benchlog", event.seq, newest, event.hash, 1, seal(b"log benchlog 1"))
    connection.execute("INSERT INTO log_head VALUES (?, ?, ?, ?, ?, ?, ?)", head)
    for _, statement in indexes:
        connection.execute(statement)
    connection.execute("COMMIT")


def _fill(connection: sqlite3.Connection, table: str, columns: Mapping[str, str], source: str) -> None:
    """Insert a row of expressions for each of the numbered reviews; columns that are not named stay empty."""
    assert set(columns) <= set(metadata.tables[table].columns.keys())
    names = ", ".join(f'"{name}"' for name in columns)
    connection.execute(f"INSERT INTO {table} ({names}) SELECT {', '.join(columns.values())} FROM {source}")  # noqa: S608 - all of it stands in this file


def _count(connection: sqlite3.Connection) -> None:
    """The statistics that would have been kept on the way."""
    insert = "INSERT INTO counters (project, day, category, reviewer_id, metric, count, total_us)"
    for metric, reviewer, total, condition in _COUNTS:
        for day in ("''", _DAY):
            connection.execute(
                f"{insert} SELECT project, {day}, category, {reviewer}, {metric}, count(*), count(*) * {total}"  # noqa: S608 - all of it stands in this file
                f" FROM numbered WHERE {condition} GROUP BY 1, 2, 3, 4, 5"
            )
    states = "SELECT project, '', category, '', 'open:' || state, count(*), 0 FROM numbered GROUP BY 1, 3, 5"
    connection.execute(f"{insert} {states}")

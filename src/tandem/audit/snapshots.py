"""Reading the state row by row, to hold it against the log."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from sqlalchemy import ColumnElement, Table, bindparam, exists, select, tuple_

from tandem.access import tables as access_tables
from tandem.cycles import tables as cycle_tables
from tandem.gate import tables as gate_tables
from tandem.gate.commit_queries import AGAINST
from tandem.pool import tables as pool_tables
from tandem.projects import tables as project_tables
from tandem.reviews import tables as review_tables
from tandem.store import tables
from tandem.store.base import Unit
from tandem.store.event import Event, EventKind
from tandem.store.sqlite_unit import ILLEGIBLE
from tandem.store.statement import Statement

Row = dict[str, Any]
Key = tuple[Any, ...]
_PAGE = 1_000
_e = tables.events.c

_OF_REVIEW: Final = {
    review_tables.reviews: review_tables.reviews.c.id,
    review_tables.rounds: review_tables.rounds.c.review_id,
    review_tables.verdicts: review_tables.verdicts.c.review_id,
    review_tables.messages: review_tables.messages.c.review_id,
    review_tables.counter_patches: review_tables.counter_patches.c.review_id,
    review_tables.approvals: review_tables.approvals.c.review_id,
    review_tables.approved_paths: review_tables.approved_paths.c.review_id,
    review_tables.rollbacks: review_tables.rollbacks.c.review_id,
    review_tables.taken_back: review_tables.taken_back.c.review_id,
}

_OF_PREFIX: Final[dict[str, dict[Table, ColumnElement[Any]]]] = {
    "project:": {project_tables.projects: project_tables.projects.c.name},
    "session:": {cycle_tables.sessions: cycle_tables.sessions.c.id},
    "cycle:": {cycle_tables.cycles: cycle_tables.cycles.c.id, cycle_tables.handoffs: cycle_tables.handoffs.c.cycle_id},
    "pool:": {pool_tables.pools: pool_tables.pools.c.id},
    "reviewer:": {pool_tables.reviewers: pool_tables.reviewers.c.id},
    "gate:": {gate_tables.gates: gate_tables.gates.c.project},
    "token:": {access_tables.access_tokens: access_tables.access_tokens.c.id},
    "key:": {
        cycle_tables.cycle_keys: cycle_tables.cycle_keys.c.project
        + "/"
        + cycle_tables.cycle_keys.c.workflow
        + "/"
        + cycle_tables.cycle_keys.c.role
    },
}
"""What is stored of the subjects that are no reviews: by the prefix of their names, the column that has the rest."""

_OF_PROJECT: Final[dict[str, dict[Table, tuple[ColumnElement[Any], ColumnElement[Any]]]]] = {
    "override:": {gate_tables.overrides: (gate_tables.overrides.c.project, gate_tables.overrides.c.id)},
    "commit:": {
        gate_tables.commits: (gate_tables.commits.c.project, gate_tables.commits.c.id),
        gate_tables.commit_reviews: (gate_tables.commit_reviews.c.project, gate_tables.commit_reviews.c.commit_id),
    },
}
"""Likewise, of which there are many: the two columns by which they are found, a slash between them in the name."""


def _by_subject(columns: Mapping[Table, ColumnElement[Any]]) -> dict[Table, Statement]:
    return {table: Statement(select(table).where(column == bindparam("subject"))) for table, column in columns.items()}


_by_review = _by_subject(_OF_REVIEW)
_by_prefix = {prefix: _by_subject(columns) for prefix, columns in _OF_PREFIX.items()}
_by_project = {
    prefix: {
        table: Statement(select(table).where(project == bindparam("project"), name == bindparam("name")))
        for table, (project, name) in columns.items()
    }
    for prefix, columns in _OF_PROJECT.items()
}
_events = Statement(
    select(tables.events)
    .where(tuple_(_e.subject, _e.seq) > tuple_(bindparam("after_subject"), bindparam("after_seq")))
    .order_by(_e.subject, _e.seq)
    .limit(_PAGE)
)
_unexplained = tuple(
    Statement(select(name).where(~exists().where(_e.subject == name)).limit(bindparam("limit")))
    for name in (
        *(prefix + column for prefix, columns in _OF_PREFIX.items() for column in columns.values()),
        *(
            prefix + project + "/" + name
            for prefix, columns in _OF_PROJECT.items()
            for project, name in columns.values()
        ),
    )
)
_unexplained_reviews = (
    # Other subjects have events too: a review is made by one of a kind of its own.
    Statement(
        select(review_tables.reviews.c.id)
        .where(~exists().where(_e.subject == review_tables.reviews.c.id, _e.kind == str(EventKind.REVIEW_CREATED)))
        .limit(bindparam("limit"))
    ),
    *(
        Statement(
            select(name).distinct().where(~exists().where(review_tables.reviews.c.id == name)).limit(bindparam("limit"))
        )
        for table, name in _OF_REVIEW.items()
        if table is not review_tables.reviews
    ),
    # Of a name with a slash in it nobody could tell which project it is of.
    *(
        Statement(select(project + "/" + name).where(name.contains("/")).limit(bindparam("limit")))
        for columns in _OF_PROJECT.values()
        for project, name in columns.values()
    ),
)
_missing_contents = tuple(
    Statement(
        select(of, name)
        .where(name.is_not(None), ~exists().where(tables.contents.c.id == name))
        .limit(bindparam("limit"))
    )
    for of, name in (
        (review_tables.rounds.c.review_id, review_tables.rounds.c.description_id),
        (review_tables.rounds.c.review_id, review_tables.rounds.c.diff_id),
        (review_tables.counter_patches.c.review_id, review_tables.counter_patches.c.content_id),
        (cycle_tables.handoffs.c.cycle_id, cycle_tables.handoffs.c.content_id),
    )
)
_p, _cr, _v = gate_tables.plan_refusals.c, gate_tables.commit_reviews.c, review_tables.verdicts.c
_refused = exists().where(_v.review_id == _cr.review_id, _v.verdict.in_(AGAINST)).correlate(gate_tables.commit_reviews)
_wrong_refusals = (
    Statement(
        select(_p.project, _p.plan, _p.review_id)
        .where(
            ~exists()
            .where(_cr.project + "" == _p.project, _cr.plan == _p.plan, _cr.review_id == _p.review_id, _refused)
            .correlate(gate_tables.plan_refusals)
        )
        .limit(bindparam("limit"))
    ),
    Statement(
        select(_cr.project, _cr.plan, _cr.review_id)
        .where(
            _cr.plan.is_not(None),
            _refused,
            ~exists()
            .where(_p.project == _cr.project, _p.plan == _cr.plan, _p.review_id == _cr.review_id)
            .correlate(gate_tables.commit_reviews),
        )
        .limit(bindparam("limit"))
    ),
)
_contents = Statement(
    select(tables.contents)
    .where(tables.contents.c.id > bindparam("after"))
    .order_by(tables.contents.c.id)
    .limit(bindparam("limit"))
)
_CONTENT_PAGE = 100
_counters = Statement(select(tables.counters))


def events_by_subject(unit: Unit) -> Iterator[Event]:
    """The whole log, subject by subject, each in its order."""
    subject, seq = "", 0
    while page := unit.all(_events, after_subject=subject, after_seq=seq):
        for row in page:
            yield Event(*row)
        subject, seq = page[-1][3], page[-1][0]


def rows_of(unit: Unit, subject: str) -> dict[str, dict[Key, Row]]:
    """Everything that is stored of a subject of events, by table and primary key."""
    for prefix, found in _by_project.items():
        if subject.startswith(prefix):
            project, _, name = subject.removeprefix(prefix).rpartition("/")
            return {
                table.name: _keyed(table, unit.all(statement, project=project, name=name))
                for table, statement in found.items()
            }
    prefix = next((prefix for prefix in _by_prefix if subject.startswith(prefix)), "")
    statements = _by_prefix.get(prefix, _by_review)
    name = subject.removeprefix(prefix)
    return {table.name: _keyed(table, unit.all(statement, subject=name)) for table, statement in statements.items()}


def list_unexplained(unit: Unit, limit: int) -> list[str]:
    """Reviews and other subjects that are stored although no event speaks of them."""
    return [
        str(row[0]) for statement in (*_unexplained_reviews, *_unexplained) for row in unit.all(statement, limit=limit)
    ]


def list_missing_contents(unit: Unit, limit: int) -> list[tuple[str, str]]:
    """Texts that are not in the content store, each behind the review or cycle that needs it."""
    return [(row[0], row[1]) for statement in _missing_contents for row in unit.all(statement, limit=limit)]


def list_wrong_refusals(unit: Unit, limit: int) -> list[str]:
    """What is noted of refused reviews in plans, and does not follow from commits and verdicts, or the reverse."""
    return [" ".join(row) for statement in _wrong_refusals for row in unit.all(statement, limit=limit)]


def list_contents(unit: Unit) -> Iterator[tuple[str, str]]:
    """Every text of the content store with its name."""
    after = ""
    while page := unit.all(_contents, after=after, limit=_CONTENT_PAGE):
        yield from ((name, body) for name, body in page)
        after = page[-1][0]
        if ILLEGIBLE in str(after):
            # There is no going on from a name that is no text.
            return


def list_counters(unit: Unit) -> dict[Key, tuple[int, int]]:
    """Every counter by its key (project, day, category, reviewer, metric): count and total."""
    return {tuple(row[:5]): (row[5], row[6]) for row in unit.all(_counters)}


def _keyed(table: Table, found: list[tuple[Any, ...]]) -> dict[Key, Row]:
    names = [column.name for column in table.columns]
    keys = [column.name for column in table.primary_key]
    rows = [dict(zip(names, row, strict=True)) for row in found]
    return {tuple(row[name] for name in keys): row for row in rows}

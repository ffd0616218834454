"""Commits that hooks told of, and what rollbacks did to them: reading, and writing together with the event."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Final

from sqlalchemy import FromClause, and_, bindparam, exists, func, insert, or_, select
from sqlalchemy.dialects import postgresql

from tandem.gate import tables
from tandem.gate.rules import CommitRow, commit_reviews_of
from tandem.reviews import tables as review_tables
from tandem.reviews.rules import Rollback
from tandem.store import ledger
from tandem.store.base import Unit
from tandem.store.event import EventKind
from tandem.store.statement import Statement

_c = tables.commits.c
_cr = tables.commit_reviews.c
_r = review_tables.reviews.c
_v = review_tables.verdicts.c
_p = tables.plan_refusals.c
_b = review_tables.rollbacks.c
_t = review_tables.taken_back.c

AGAINST: Final = ("changes_requested", "rejected")
"""Verdicts that decide against a change; states of a review as well."""
_PLAN_ROLLBACKS = 200
_FEW = 20


def _aside(column: Any) -> Any:
    """The column as a condition only: the rows are to be found by another one, which fewer of them share."""
    return column + ("" if column.type.python_type is str else 0)


_get = Statement(select(tables.commits).where(_c.project == bindparam("project"), _c.id == bindparam("commit")))
_insert_review = Statement(insert(tables.commit_reviews))


def _refusals(*conditions: Any) -> Statement:
    """Notes which plans a review's commits are of, unless they are noted."""
    found = select(_cr.project, _cr.plan, _cr.review_id).distinct().where(_cr.plan.is_not(None), *conditions)
    wanted = postgresql.insert(tables.plan_refusals).from_select(["project", "plan", "review_id"], found)
    return Statement(wanted.on_conflict_do_nothing())


_note_review = _refusals(_cr.review_id == bindparam("review_id"))
_note_commit = _refusals(
    _cr.project == bindparam("project"),
    _cr.commit_id == bindparam("commit"),
    exists().where(_v.review_id == _cr.review_id, _v.verdict.in_(AGAINST)).correlate(tables.commit_reviews),
)


def _was(table: FromClause, *conditions: Any) -> Any:
    return exists().where(*conditions).correlate_except(table)


# A commit that still stands: no rollback took it back, and no amend or rebase put another in its place.
_newer = tables.commits.alias("newer")
_stands = and_(
    ~_was(review_tables.taken_back, _t.project == _cr.project, _t.commit_id == _cr.commit_id),
    ~_was(_newer, _aside(_newer.c.project) == _cr.project, _newer.c.replaces == _cr.commit_id),
)
_against = Statement(
    select(_r.id)
    .join(tables.plan_refusals, _p.review_id == _r.id)
    .where(
        _p.project == bindparam("project"),
        _p.plan == bindparam("plan"),
        _r.project == _p.project,
        or_(_r.verdict.in_(AGAINST), _r.state.in_(AGAINST), _r.outcome == "rejected"),
        ~_was(review_tables.rollbacks, _b.review_id == _r.id),
        _was(
            tables.commit_reviews,
            _aside(_cr.project) == _p.project,
            _cr.review_id == _r.id,
            _cr.plan == _p.plan,
            _stands,
        ),
    )
    .order_by(_r.created_at, _r.id)
)
_rolled_back = Statement(
    select(_b.review_id)
    .where(_b.project == bindparam("project"), _b.plan == bindparam("plan"))
    .order_by(_b.rolled_back_at.desc(), _b.review_id)
    .limit(_PLAN_ROLLBACKS)
)
_replaced = Statement(
    select(_c.id)
    .where(_aside(_c.project) == bindparam("project"), _c.replaces == bindparam("commit"))
    .order_by(_c.event_seq.desc())
    .limit(1)
)
_taken = Statement(
    select(_t.reverted_by, _t.becomes).where(_t.project == bindparam("project"), _t.commit_id == bindparam("commit"))
)
_rollback = Statement(
    select(review_tables.rollbacks).where(
        _b.review_id == bindparam("review_id"), _b.head_after == bindparam("head_after")
    )
)
_latest_rollback = Statement(
    select(review_tables.rollbacks)
    .where(_b.review_id == bindparam("review_id"))
    .order_by(_b.rolled_back_at.desc())
    .limit(1)
)
_plan_of = Statement(
    select(func.max(_cr.plan)).where(
        _cr.review_id == bindparam("review_id"), _aside(_cr.project) == bindparam("project")
    )
)
_of_review = (
    exists().where(_cr.project == _c.project, _cr.commit_id == _c.id, _r.id == _cr.review_id).correlate(tables.commits)
)
# What a reviewer let through is not taken back without being reviewed again.
_of_approved = _of_review.where(_r.approved_round.is_not(None))
_earlier = tables.commits.alias("earlier")
_inverses = Statement(
    select(tables.commits)
    .where(
        _c.project == bindparam("project"),
        _c.inverse == bindparam("digest"),
        or_(_c.unreviewed == 1, _of_review),
        ~_of_approved,
        # What itself took back an earlier commit: to take that back would bring the refused change again.
        ~_was(
            _earlier,
            _earlier.c.project == _c.project,
            _earlier.c.inverse == bindparam("digest_of_commit"),
            _earlier.c.event_seq < _c.event_seq,
        ),
    )
    .order_by(_c.event_seq.desc())
    .limit(_FEW)
)


_standing = Statement(
    select(tables.commits)
    .join(tables.commit_reviews, and_(_c.project == _cr.project, _c.id == _cr.commit_id))
    .where(_cr.review_id == bindparam("review_id"), _aside(_cr.project) == bindparam("project"), _stands)
    .order_by(_aside(_c.event_seq))
    .limit(bindparam("limit"))
)


@cache
def _page(name: str | None, *, after: bool) -> Statement:
    statement = select(tables.commits)
    order: Any = _c.event_seq
    if name == "review_id":
        # From the few commits of the review, not through all of the project in their order.
        order = _aside(_c.event_seq)
        joined = and_(_c.project == _cr.project, _c.id == _cr.commit_id)
        statement = statement.join(tables.commit_reviews, joined)
        statement = statement.where(
            _cr.review_id == bindparam("review_id"), _aside(_cr.project) == bindparam("project")
        )
    else:
        statement = statement.where(_c.project == bindparam("project"))
    if name == "plan":
        statement = statement.where(_c.plan == bindparam("plan"))
    if after:
        statement = statement.where(order > bindparam("after"))
    return Statement(statement.order_by(order).limit(bindparam("limit")))


def find(unit: Unit, project: str, commit: str) -> CommitRow | None:
    """A commit, if a hook told of it."""
    row = unit.one_or_none(_get, project=project, commit=commit)
    return CommitRow(*row) if row else None


def list_page(
    unit: Unit, project: str, *, limit: int, after: int | None, plan: str | None = None, review_id: str | None = None
) -> list[CommitRow]:
    """Commits in the order in which they were recorded, after an event's number; of one plan or of one review."""
    name = "plan" if plan is not None else "review_id" if review_id is not None else None
    given = {"plan": plan, "review_id": review_id, "after": after}
    params = {key: value for key, value in given.items() if value is not None}
    rows = unit.all(_page(name, after=after is not None), project=project, limit=limit, **params)
    return [CommitRow(*row) for row in rows]


def list_standing(unit: Unit, project: str, review_id: str, limit: int = _FEW) -> list[CommitRow]:
    """Commits that name a review and that nothing took back or replaced, oldest first; of very many, the first."""
    return [CommitRow(*row) for row in unit.all(_standing, project=project, review_id=review_id, limit=limit)]


def fate(unit: Unit, commit: CommitRow) -> tuple[str | None, str | None]:
    """The commit that a commit became, and the one that reverted it."""
    newer = unit.one_or_none(_replaced, project=commit.project, commit=commit.id)
    taken = unit.all(_taken, project=commit.project, commit=commit.id)
    becomes = next((row[1] for row in taken if row[1]), None)
    return (becomes or (newer[0] if newer else None), next((row[0] for row in taken if row[0]), None))


def add(unit: Unit, commit: CommitRow, data: Mapping[str, Any]) -> CommitRow:
    """Write a commit with its event, and note the plan if one of its reviews was decided against."""
    row = ledger.changes(None, commit)
    written = ledger.write(
        unit,
        tables.commits,
        None,
        commit,
        at=commit.recorded_at,
        actor=commit.recorded_by,
        kind=EventKind.COMMIT_RECORDED,
        old=None,
        new="recorded",
        data=data,
        delta={"commit": row},
    )
    named = commit_reviews_of(row)
    for one in named:
        unit.execute(_insert_review, **one)
    if named and commit.plan is not None:
        unit.execute(_note_commit, project=commit.project, commit=commit.id)
    return written


def note_refusal(unit: Unit, review_id: str) -> None:
    """Note, in the unit that decides against a review, the plans that its commits are of.

    Its event has been appended: so nobody else records a commit of the review meanwhile.
    """
    unit.execute(_note_review, review_id=review_id)


def list_against(unit: Unit, project: str, plan: str) -> tuple[str, ...]:
    """The reviews of a plan that were decided against and whose commits stand, oldest first."""
    return tuple(row[0] for row in unit.all(_against, project=project, plan=plan))


def list_rolled_back(unit: Unit, project: str, plan: str) -> tuple[str, ...]:
    """The reviews of a plan whose change was rolled back, oldest first; of very many, the newest."""
    newest = unit.all(_rolled_back, project=project, plan=plan)
    return tuple(dict.fromkeys(row[0] for row in reversed(newest)))


def list_inverse(unit: Unit, project: str, digest: str, digest_of_commit: str) -> list[CommitRow]:
    """Commits of optimistic or rejected changes that exactly this difference takes back, newest first.

    Args:
        unit: The unit of work.
        project: The project.
        digest: The difference's digest.
        digest_of_commit: The digest of its inverse, which is what such a commit changed.
    """
    rows = unit.all(_inverses, project=project, digest=digest, digest_of_commit=digest_of_commit)
    return [CommitRow(*row) for row in rows]


def plan_of(unit: Unit, project: str, review_id: str, commits: Sequence[str]) -> str | None:
    """The plan of these commits, else that of the commits that name a review."""
    found = (find(unit, project, commit) for commit in commits)
    named = next((commit.plan for commit in found if commit is not None and commit.plan is not None), None)
    if named is not None:
        return named
    row = unit.one_or_none(_plan_of, review_id=review_id, project=project)
    return row[0] if row else None


def find_rollback(unit: Unit, review_id: str, head_after: str | None = None) -> Rollback | None:
    """A rollback of a review's change, by where it left the branch; without that, the latest."""
    if head_after is None:
        row = unit.one_or_none(_latest_rollback, review_id=review_id)
    else:
        row = unit.one_or_none(_rollback, review_id=review_id, head_after=head_after)
    return Rollback(*row) if row else None

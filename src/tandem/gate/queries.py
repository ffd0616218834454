"""Gates, overrides, commits that hooks told of, and approvals: tables, reading, and writing together with the event."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any, Final, NamedTuple

from sqlalchemy import (
    Column,
    FromClause,
    Index,
    Table,
    Text,
    and_,
    bindparam,
    exists,
    func,
    insert,
    or_,
    select,
)
from sqlalchemy.dialects import postgresql

from tandem.gate.rules import LISTS, CommitRow, Gate, Override, commit_reviews_of, commits_of, names
from tandem.reviews import report_queries as reports
from tandem.reviews import tables as review_tables
from tandem.reviews.rules import Rollback, State
from tandem.store import ledger
from tandem.store import tables as log_tables
from tandem.store.base import Unit
from tandem.store.event import EventKind
from tandem.store.statement import Statement, aside, equal, keys_table, stated
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


_g = gates.c
_o = overrides.c
_e = log_tables.events.c


_get_gate = Statement(select(gates).where(*equal(_g, "project")))
_list_enabled = Statement(select(gates).where(_g.enabled == 1))
_get_override = Statement(select(overrides).where(*equal(_o, "project", "id")))
_by_digest = Statement(
    select(overrides)
    # The project is a condition only: it has many overrides, a digest has few.
    .where(*equal(_o, "digest"), aside(_o.project) == bindparam("project"))
    .order_by(_o.id)
    .limit(1)
)


_seen = Statement(
    select(_e.seq).where(_e.subject == bindparam("subject"), _e.kind == EventKind.OVERRIDE_SEEN.value).limit(1)
)


@cache
def _unseen(*, project: bool) -> Statement:
    # Few enough to be looked through: for each, a person typed the project's name.
    subject = "override:" + _o.project + "/" + _o.id
    seen = exists().where(
        _e.subject == subject, _e.kind == EventKind.OVERRIDE_SEEN.value, _e.actor == bindparam("person")
    )
    statement = select(overrides).where(_o.recorded_at >= bindparam("since"), ~seen.correlate(overrides))
    if project:
        statement = statement.where(_o.project == bindparam("project"))
    return Statement(statement.order_by(_o.recorded_at.desc()).limit(bindparam("limit")))


def find_gate(unit: Unit, project: str) -> Gate | None:
    """The switch of a project, if it was ever touched."""
    return unit.find(Gate, _get_gate, project=project)


def list_enabled(unit: Unit) -> list[Gate]:
    """The gates of all projects that are on."""
    return unit.list_of(Gate, _list_enabled)


def put_gate(unit: Unit, before: Gate | None, after: Gate, proved_by: str | None) -> Gate:
    """Write a project's switch, new or in place of the one before, with its event.

    Args:
        unit: The unit of work.
        before: The switch before; None if it was never touched.
        after: The switch.
        proved_by: The key that proves that a person decided it; None where it needed no proof.
    """
    data = {
        "enabled": bool(after.enabled),
        **{name: names(getattr(after, name)) for name in LISTS},
        "commits": commits_of(after),
        "threshold": after.threshold,
        "reason": after.reason,
        "proved_by": proved_by,
    }
    return ledger.write(
        unit,
        gates,
        before,
        after,
        at=after.switched_at,
        actor=after.switched_by,
        kind=EventKind.GATE_SWITCHED,
        old=None if before is None else _position(before),
        new=_position(after),
        data=data,
    )


def find_override(unit: Unit, project: str, override_id: str) -> Override | None:
    """An override by its id."""
    return unit.find(Override, _get_override, project=project, id=override_id)


def find_override_of(unit: Unit, project: str, digest: str) -> Override | None:
    """An override of a difference, if there is one; of several, always the same."""
    return unit.find(Override, _by_digest, project=project, digest=digest)


def is_seen(unit: Unit, override: Override) -> bool:
    """Whether any person has seen an override."""
    return bool(unit.all(_seen, subject=override.subject))


def list_unseen(unit: Unit, person: str, *, project: str | None, since_us: int, limit: int) -> list[Override]:
    """The newest overrides since a time that a person has not seen yet."""
    params: dict[str, Any] = {"person": person, "since": since_us, "limit": limit} | stated(project=project)
    return unit.list_of(Override, _unseen(project=project is not None), **params)


def put_override(
    unit: Unit, before: Override | None, after: Override, data: Mapping[str, Any], **about: Any
) -> Override:
    """Write an override with an event, `about` which are its time, its actor and its kind."""
    return ledger.write(unit, overrides, before, after, new="overridden", data=data, **about)


def _position(gate: Gate) -> str:
    return "on" if gate.enabled else "off"


_c = commits.c
_cr = commit_reviews.c
_r = review_tables.reviews.c
_v = review_tables.verdicts.c
_p = plan_refusals.c
_b = review_tables.rollbacks.c
_t = review_tables.taken_back.c

AGAINST: Final = ("changes_requested", "rejected")
"""Verdicts that decide against a change; states of a review as well."""
_PLAN_ROLLBACKS = 200
_FEW = 20


_get_commit = Statement(select(commits).where(*equal(_c, "project", "id")))
_insert_review = Statement(insert(commit_reviews))


def _refusals(*conditions: Any) -> Statement:
    """Notes which plans a review's commits are of, unless they are noted."""
    found = select(_cr.project, _cr.plan, _cr.review_id).distinct().where(_cr.plan.is_not(None), *conditions)
    wanted = postgresql.insert(plan_refusals).from_select(["project", "plan", "review_id"], found)
    return Statement(wanted.on_conflict_do_nothing())


_note_review = _refusals(_cr.review_id == bindparam("review_id"))
_note_commit = _refusals(
    _cr.project == bindparam("project"),
    _cr.commit_id == bindparam("commit"),
    exists().where(_v.review_id == _cr.review_id, _v.verdict.in_(AGAINST)).correlate(commit_reviews),
)


def _was(table: FromClause, *conditions: Any) -> Any:
    return exists().where(*conditions).correlate_except(table)


# A commit that still stands: no rollback took it back, and no amend or rebase put another in its place.
_newer = commits.alias("newer")
_stands = and_(
    ~_was(review_tables.taken_back, _t.project == _cr.project, _t.commit_id == _cr.commit_id),
    ~_was(_newer, aside(_newer.c.project) == _cr.project, _newer.c.replaces == _cr.commit_id),
)
_against = Statement(
    select(_r.id)
    .join(plan_refusals, _p.review_id == _r.id)
    .where(
        *equal(_p, "project", "plan"),
        _r.project == _p.project,
        or_(_r.verdict.in_(AGAINST), _r.state.in_(AGAINST), _r.outcome == "rejected"),
        ~_was(review_tables.rollbacks, _b.review_id == _r.id),
        _was(
            commit_reviews,
            aside(_cr.project) == _p.project,
            _cr.review_id == _r.id,
            _cr.plan == _p.plan,
            _stands,
        ),
    )
    .order_by(_r.created_at, _r.id)
)
_rolled_back = Statement(
    select(_b.review_id)
    .where(*equal(_b, "project", "plan"))
    .order_by(_b.rolled_back_at.desc(), _b.review_id)
    .limit(_PLAN_ROLLBACKS)
)
_replaced = Statement(
    select(_c.id)
    .where(aside(_c.project) == bindparam("project"), _c.replaces == bindparam("commit"))
    .order_by(_c.event_seq.desc())
    .limit(1)
)
_taken = Statement(select(_t.reverted_by, _t.becomes).where(*equal(_t, "project", "commit_id")))
_rollback = Statement(select(review_tables.rollbacks).where(*equal(_b, "review_id", "head_after")))
_latest_rollback = Statement(
    select(review_tables.rollbacks).where(*equal(_b, "review_id")).order_by(_b.rolled_back_at.desc()).limit(1)
)
_named_by = (*equal(_cr, "review_id"), aside(_cr.project) == bindparam("project"))
"""Finds the commits that name a review by the few of it, not among all of the project."""
_commits_naming = select(commits).join(
    commit_reviews, and_(_c.project == _cr.project, _c.id == _cr.commit_id, *_named_by)
)
_plan_of = Statement(select(func.max(_cr.plan)).where(*_named_by))
_of_review = (
    exists().where(_cr.project == _c.project, _cr.commit_id == _c.id, _r.id == _cr.review_id).correlate(commits)
)
# A change that a reviewer approved is not reverted without another review.
_of_approved = _of_review.where(_r.approved_round.is_not(None))
_earlier = commits.alias("earlier")
_inverses = Statement(
    select(commits)
    .where(
        _c.project == bindparam("project"),
        _c.inverse == bindparam("digest"),
        or_(_c.unreviewed == 1, _of_review),
        ~_of_approved,
        # A commit that reverted an earlier one: reverting it would restore the refused change.
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


_standing = Statement(_commits_naming.where(_stands).order_by(aside(_c.event_seq)).limit(bindparam("limit")))


@cache
def _page(name: str | None, *, after: bool) -> Statement:
    if name == "review_id":
        statement, order = _commits_naming, aside(_c.event_seq)
    else:
        statement, order = select(commits).where(*equal(_c, "project", *([name] if name else ()))), _c.event_seq
    if after:
        statement = statement.where(order > bindparam("after"))
    return Statement(statement.order_by(order).limit(bindparam("limit")))


def find_commit(unit: Unit, project: str, commit: str) -> CommitRow | None:
    """A commit, if a hook told of it."""
    return unit.find(CommitRow, _get_commit, project=project, id=commit)


def list_commits(
    unit: Unit, project: str, *, limit: int, after: int | None, plan: str | None = None, review_id: str | None = None
) -> list[CommitRow]:
    """Commits in the order in which they were recorded, after an event's number; of one plan or of one review."""
    name = "plan" if plan is not None else "review_id" if review_id is not None else None
    params = stated(plan=plan, review_id=review_id, after=after)
    return unit.list_of(CommitRow, _page(name, after=after is not None), project=project, limit=limit, **params)


def list_standing(unit: Unit, project: str, review_id: str, limit: int = _FEW) -> list[CommitRow]:
    """Commits that name a review and were neither reverted nor replaced, oldest first; of very many, the first."""
    return unit.list_of(CommitRow, _standing, project=project, review_id=review_id, limit=limit)


def fate(unit: Unit, commit: CommitRow) -> tuple[str | None, str | None]:
    """The commit that a commit became, and the one that reverted it."""
    newer = unit.value(_replaced, project=commit.project, commit=commit.id)
    taken = unit.all(_taken, project=commit.project, commit_id=commit.id)
    becomes = next((row[1] for row in taken if row[1]), None)
    return (becomes or newer, next((row[0] for row in taken if row[0]), None))


def add_commit(unit: Unit, commit: CommitRow, data: Mapping[str, Any]) -> CommitRow:
    """Write a commit with its event, and note the plan if one of its reviews was decided against."""
    written = ledger.write(
        unit,
        commits,
        None,
        commit,
        at=commit.recorded_at,
        actor=commit.recorded_by,
        kind=EventKind.COMMIT_RECORDED,
        new="recorded",
        data=data,
    )
    named = commit_reviews_of(commit._asdict())
    for one in named:
        unit.execute(_insert_review, **one)
    if named and commit.plan is not None:
        unit.execute(_note_commit, project=commit.project, commit=commit.id)
    return written


def note_refusal(unit: Unit, review_id: str) -> None:
    """Note, in the unit that decides against a review, the plans that its commits are of.

    Its event has been appended, so no other unit records a commit of the review meanwhile.
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
    """Commits of optimistic or rejected changes that exactly this difference reverts, newest first.

    Args:
        unit: The unit of work.
        project: The project.
        digest: The difference's digest.
        digest_of_commit: The digest of its inverse, the change of such a commit.
    """
    return unit.list_of(CommitRow, _inverses, project=project, digest=digest, digest_of_commit=digest_of_commit)


def plan_of(unit: Unit, project: str, review_id: str, commits: Sequence[str]) -> str | None:
    """The plan of these commits, else that of the commits that name a review."""
    found = (find_commit(unit, project, commit) for commit in commits)
    named = next((commit.plan for commit in found if commit is not None and commit.plan is not None), None)
    return named if named is not None else unit.value(_plan_of, review_id=review_id, project=project)


def find_rollback(unit: Unit, review_id: str, head_after: str | None = None) -> Rollback | None:
    """A rollback of a review's change, by where it left the branch; without that, the latest."""
    if head_after is None:
        return unit.find(Rollback, _latest_rollback, review_id=review_id)
    return unit.find(Rollback, _rollback, review_id=review_id, head_after=head_after)


_ap = review_tables.approved_paths.c


@cache
def _approved_at(count: int) -> Statement:
    keys = keys_table(count, "review_id")
    statement = select(_r.id, _v.seq).select_from(keys).join(review_tables.reviews, _r.id == keys.c.review_id)
    return Statement(statement.join(review_tables.verdicts, _v.id == _r.verdict_id))


@cache
def _approving(count: int) -> Statement:
    keys = keys_table(count, "path", "blob_after")
    same = and_(_ap.path == keys.c.path, _ap.blob_after == keys.c.blob_after, _ap.project == bindparam("project"))
    return Statement(
        select(_ap.path, _ap.blob_after, _ap.review_id, _ap.round, _ap.kind, _ap.mode_after)
        .select_from(keys)
        .join(review_tables.approved_paths, same)
        .order_by(_ap.review_id, _ap.round)
        .limit(bindparam("limit"))
    )


@cache
def _approved_paths(count: int) -> Statement:
    keys = keys_table(count, "review_id", "round")
    same = and_(_ap.review_id == keys.c.review_id, _ap.round == keys.c.round)
    entry = (_ap.path, _ap.mode_before, _ap.blob_before, _ap.mode_after, _ap.blob_after)
    statement = select(_ap.review_id, _ap.round, *entry).select_from(keys).join(review_tables.approved_paths, same)
    return Statement(statement.limit(bindparam("limit")))


_WITHDRAWN: Final = "withdrawn"
_reviews_of_content = Statement(
    select(_r.id, _r.round, _r.state, _r.outcome, _r.verdict_reason)
    .where(
        *equal(_r, "project", "digest"),
        or_(
            _r.state.not_in([State.APPROVED.value, State.CLOSED.value]),
            _r.outcome.in_(["rejected", _WITHDRAWN]),
        ),
    )
    # One that was withdrawn says the least.
    .order_by(func.coalesce(_r.outcome, "") == _WITHDRAWN, _r.id.desc())
    .limit(1)
)
_starts_of_path = Statement(
    select(_ap.review_id, _ap.blob_before).where(*equal(_ap, "project", "path")).limit(bindparam("limit"))
)


def list_approved_at(unit: Unit, review_ids: Sequence[str]) -> dict[str, int]:
    """By review, the place in the log of the verdict that it stands at; those without one are missing."""
    keys = [(one,) for one in review_ids]
    return dict(row for rows in unit.list_by_keys(_approved_at, ("review_id",), keys) for row in rows)


def list_approving(
    unit: Unit, project: str, ends: Sequence[tuple[str, str]], limit: int
) -> Iterator[list[tuple[str, str, str, int, str, str]]]:
    """Approved entries of paths with a blob, some at a time: path, blob, review, round, kind, mode after."""
    return unit.list_by_keys(_approving, ("path", "blob_after"), ends, limit, project=project)


def find_approved_from(unit: Unit, project: str, path: str, blob_before: str, limit: int) -> str | None:
    """The newest review that approved a change of a path from a content, of so many approvals of the path."""
    rows = unit.all(_starts_of_path, project=project, path=path, limit=limit)
    return max((row[0] for row in rows if row[1] == blob_before), default=None)


class Concerned(NamedTuple):
    """A review whose content is exactly this, and that does not approve it."""

    review_id: str
    round: int
    state: str
    outcome: str | None
    reason: str | None

    @property
    def words(self) -> str:
        """The review's state or decision on the content."""
        match self.outcome or self.state:
            case State.REJECTED:
                return f"{self.review_id} rejected exactly this: '{self.reason}'"
            case State.CHANGES_REQUESTED:
                return f"{self.review_id}, round {self.round}, wants exactly this changed: '{self.reason}'"
            case "withdrawn":
                why = f": '{self.reason}'" if self.reason else ", and no reason was given"
                return f"{self.review_id} of exactly this was closed without approval{why}"
            case _:
                return f"{self.review_id}, round {self.round}, has exactly this content and no verdict yet"


def find_concerned(unit: Unit, project: str, digest: str) -> Concerned | None:
    """The newest review whose content is exactly this: open or rejected, else one that was withdrawn."""
    found = unit.find(Concerned, _reviews_of_content, project=project, digest=digest)
    if found is None or found.outcome != _WITHDRAWN:
        return found
    return found._replace(reason=reports.find_close_reason(unit, found.review_id))


def list_approved_paths(
    unit: Unit, rounds: Sequence[tuple[str, int]], limit: int
) -> Iterator[list[tuple[str, int, str, str, str, str, str]]]:
    """All entries of approved rounds, some at a time: review, round, and the fields of `git.changes.Change`."""
    return unit.list_by_keys(_approved_paths, ("review_id", "round"), rounds, limit)

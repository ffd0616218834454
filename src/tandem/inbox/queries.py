"""Queries of the inbox. They find open reviews by whose turn it is, so they do not scan closed ones."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any, Final, Literal

import orjson
from sqlalchemy import bindparam, exists, func, or_, select, text, true

from tandem.contract.caller import Names
from tandem.cycles import queries as cycle_tables
from tandem.gate import queries as gate_tables
from tandem.reviews import tables as review_tables
from tandem.reviews.queries import IS_OWN, own_params
from tandem.reviews.rules import MOST_OBJECTIONS, Review, State
from tandem.store.base import Unit
from tandem.store.statement import Statement, among, in_pieces

_r = review_tables.reviews.c
_cr = gate_tables.commit_reviews.c
_t = review_tables.taken_back.c
_b = review_tables.rollbacks.c
_newer = gate_tables.commits.alias("newer")

Special = Literal["own", "offered", "held", "attention", "escalated", "rejected", "overdue", "owed"]

LOOK_LIMIT: Final = 5_000
"""Open reviews that one search for special ones reads at most; only a neglected broker has more."""

_h = cycle_tables.handoffs.c
# An approved hand-off that moved its cycle has taken full effect, although its review may never be closed.
_is_open = or_(
    _r.state != State.APPROVED.value,
    _r.category != "handoff",
    ~exists().where(_h.review_id == _r.id, _h.advanced_at.is_not(None)).correlate(review_tables.reviews),
)
_order = (_r.priority, _r.created_at, _r.id)
_held = _r.state.in_([State.CLAIMED.value, State.IN_REVIEW.value])
# The condition that finds them by an index, and the one that selects among those.
SPECIAL: Final[dict[Special, tuple[Any, Any]]] = {
    "own": (_r.turn == "proposer", _r.proposer_id == bindparam("person")),
    "offered": (_r.turn == "reviewer", _r.proposer_id == bindparam("person")),
    "held": (_held, _r.reviewer_id == bindparam("person")),
    "attention": (_r.attention.is_not(None), true()),
    "escalated": (_r.state == State.CHANGES_REQUESTED.value, _r.objections >= MOST_OBJECTIONS),
    "rejected": (_r.state == State.REJECTED.value, true()),
    "overdue": (_held, _r.lease_expires_at <= bindparam("before")),
    "owed": (text(review_tables.OWED), true()),
}
_OF_PROPOSER: Final = frozenset({"own", "offered"})
_d = review_tables.drafts.c
# From the open reviews, not from the drafts: those on closed ones only grow in number.
_drafted = Statement(
    select(_r.id).where(
        _r.turn.is_not(None),
        exists().where(_d.person == bindparam("person"), _d.review_id == _r.id).correlate(review_tables.reviews),
    )
)
_standing = Statement(
    select(_cr.commit_id)
    .where(
        _cr.review_id == bindparam("review_id"),
        ~exists().where(_b.review_id == _cr.review_id).correlate(gate_tables.commit_reviews),
        ~exists().where(_t.project == _cr.project, _t.commit_id == _cr.commit_id).correlate(gate_tables.commit_reviews),
        ~exists()
        .where(_newer.c.project + "" == _cr.project, _newer.c.replaces == _cr.commit_id)
        .correlate(gate_tables.commit_reviews),
    )
    .limit(1)
)


_round = review_tables.rounds.c
_open_findings = (
    select(func.count())
    .select_from(review_tables.findings)
    .where(review_tables.findings.c.review_id == _r.id, text(f"findings.{review_tables.OPEN_FINDINGS}"))
    .correlate(review_tables.reviews)
    .scalar_subquery()
)
_sizes = Statement(
    select(_r.id, _round.affected_files, _open_findings)
    .join(review_tables.rounds, (_round.review_id == _r.id) & (_round.round == _r.round))
    .where(among(_r.id))
)


@cache
def _side(*, project: bool) -> Statement:
    statement = select(review_tables.reviews, IS_OWN).where(_r.turn == bindparam("turn"))
    return Statement(_of(statement, project=project).order_by(*_order).limit(bindparam("limit")))


@cache
def _special(name: Special, *, project: bool) -> Statement:
    source, condition = SPECIAL[name]
    looked = _of(select(_r.id).where(source), project=project).order_by(*_order).limit(LOOK_LIMIT).subquery()
    is_own = true() if name in _OF_PROPOSER else IS_OWN
    statement = select(review_tables.reviews, is_own).join(looked, looked.c.id == _r.id).where(condition)
    return Statement(statement.order_by(*_order).limit(bindparam("limit")))


def _of(statement: Any, *, project: bool) -> Any:
    # A condition only: of a project there are many reviews, of open ones few.
    found = statement.where(_is_open)
    return found.where(_r.project + "" == bindparam("project")) if project else found


def list_open(
    unit: Unit, turn: Literal["proposer", "reviewer"], *, names: Names, project: str | None, limit: int
) -> list[tuple[Review, bool]]:
    """Open reviews where it is a side's turn, in queue order, each with whether its content is somebody's own."""
    params = own_params(names) | ({} if project is None else {"project": project})
    rows = unit.all(_side(project=project is not None), turn=turn, limit=limit, **params)
    return [(Review(*row[:-1]), bool(row[-1])) for row in rows]


def list_special(
    unit: Unit, name: Special, *, person: str, names: Names, project: str | None, limit: int, before_us: int
) -> list[tuple[Review, bool]]:
    """Open reviews of which a person must hear wherever they are in the queue.

    Args:
        unit: The unit of work.
        name: Which.
        person: Whose inbox it is.
        names: The names that they go by.
        project: Only of this project; None for all.
        limit: How many at most.
        before_us: The time before which a lease that ran out is overdue.
    """
    params: dict[str, Any] = {} if project is None else {"project": project}
    if name not in _OF_PROPOSER:
        params |= own_params(names)
    if name in {*_OF_PROPOSER, "held"}:
        params["person"] = person
    if name == "overdue":
        params["before"] = before_us
    rows = unit.all(_special(name, project=project is not None), limit=limit, **params)
    return [(Review(*row[:-1]), bool(row[-1])) for row in rows]


def list_drafted(unit: Unit, person: str) -> frozenset[str]:
    """The open reviews on which a person has drafts."""
    return frozenset(row[0] for row in unit.all(_drafted, person=person))


def list_sizes(unit: Unit, review_ids: Sequence[str]) -> dict[str, dict[str, int]]:
    """How large the current rounds of these reviews are, and how many of their findings are open."""
    found: dict[str, dict[str, int]] = {}
    for some in in_pieces(review_ids):
        for review_id, stored, findings in unit.all(_sizes, **some):
            files = orjson.loads(stored)
            added, removed = (sum(one.get(name) or 0 for one in files) for name in ("added", "removed"))
            sizes = {"files": len(files), "added": added, "removed": removed, "open_findings": findings}
            found[review_id] = sizes
    return found


def is_standing(unit: Unit, review_id: str) -> bool:
    """Whether a commit that names a review stands: not reverted, not replaced, the review not rolled back."""
    return bool(unit.all(_standing, review_id=review_id))

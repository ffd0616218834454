"""Reading reviews, their rounds and texts; writing goes through the ledger."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import ColumnElement, Integer, Text, bindparam, exists, func, or_, select, update

from tandem.contract.access import Names
from tandem.contract.work import WORK
from tandem.errors import NotFound
from tandem.reviews import tables
from tandem.reviews.claim_rules import COUNTER_PATCH
from tandem.reviews.rounds import Round
from tandem.reviews.rules import Review, State
from tandem.store import tables as log_tables
from tandem.store.base import Unit
from tandem.store.statement import Statement

_r = tables.reviews.c
_held = _r.state.in_([State.CLAIMED.value, State.IN_REVIEW.value])

_get = select(tables.reviews).where(_r.id == bindparam("review_id"))
_get_plain = Statement(_get)
_get_locked = Statement(_get.with_for_update())
_renew = Statement(
    update(tables.reviews)
    .where(_r.id == bindparam("key"), _r.claim_generation == bindparam("generation"), _held)
    .values(lease_expires_at=bindparam("new_lease"))
)
_expired = Statement(
    select(_r.id)
    .where(_held, (_r.lease_expires_at <= bindparam("now")) | (_r.lease_expires_at > bindparam("latest")))
    .order_by(_r.lease_expires_at)
    .limit(bindparam("limit"))
)
_get_round = Statement(
    select(tables.rounds).where(
        tables.rounds.c.review_id == bindparam("review_id"), tables.rounds.c.round == bindparam("round")
    )
)
_rounds = Statement(
    select(tables.rounds).where(tables.rounds.c.review_id == bindparam("review_id")).order_by(tables.rounds.c.round)
)
_SAME = ("category", "proposer_id", "agent_type", "agent_role", *WORK)
"""Beside project and digest, what two proposals of the same content have in common, too."""
_open_of_content = Statement(
    select(tables.reviews)
    .where(
        _r.project == bindparam("project"),
        _r.digest == bindparam("digest"),
        # As conditions only, found by the digest.
        *((_r[name] + "").is_not_distinct_from(bindparam(name, type_=Text)) for name in _SAME),
        _r.state.not_in([State.REJECTED.value, State.CLOSED.value]),
    )
    .order_by(_r.event_seq.desc())
    .limit(1)
)
REVIEW_COLUMNS: Final = len(_r)
_ROUND_NAMES: Final = tuple(column.name for column in tables.rounds.c)
_child = tables.reviews.alias("children").c
_children = (
    select(_child.id)
    .where(_child.parent_id == bindparam("review_id"))
    .order_by(_child.created_at, _child.id)
    .subquery("child_ids")
)
_diffs, _texts = log_tables.contents.alias("diffs"), log_tables.contents.alias("texts")
_get_with_content = Statement(
    select(
        tables.reviews,
        tables.rounds,
        _diffs.c.body,
        _texts.c.body,
        select(func.aggregate_strings(_children.c.id, " ")).scalar_subquery(),
    )
    .select_from(
        tables.reviews.outerjoin(
            tables.rounds,
            (tables.rounds.c.review_id == _r.id)
            & (tables.rounds.c.round == func.coalesce(bindparam("round", type_=Integer), _r.round)),
        )
        .outerjoin(_diffs, _diffs.c.id == tables.rounds.c.diff_id)
        .outerjoin(_texts, _texts.c.id == tables.rounds.c.description_id)
    )
    .where(_r.id == bindparam("review_id"))
)
_get_content = Statement(select(log_tables.contents.c.body).where(log_tables.contents.c.id == bindparam("id")))
_get_submitter = Statement(
    select(tables.rounds.c.author)
    .where(
        tables.rounds.c.review_id == bindparam("review_id"),
        tables.rounds.c.round < bindparam("before"),
        tables.rounds.c.origin != COUNTER_PATCH,
    )
    .order_by(tables.rounds.c.round.desc())
    .limit(1)
)
_later = tables.rounds.alias("later")
_name, _other_name, _name_end = (bindparam(name, type_=Text) for name in ("name", "other_name", "name_end"))


def _is_mine(column: Any) -> ColumnElement[bool]:
    """As `Names.include`."""
    ended = column + _name_end
    return or_(*(func.substr(ended, 1, func.length(name)) == name for name in (_name, _other_name)))


# As `claims.is_own`: what somebody may give no verdict on would only be in their way.
IS_OWN: Final = or_(
    _is_mine(_r.proposer_id),
    exists()
    .where(
        tables.rounds.c.review_id == _r.id,
        tables.rounds.c.origin != COUNTER_PATCH,
        _is_mine(tables.rounds.c.author),
        ~exists()
        .where(
            _later.c.review_id == tables.rounds.c.review_id,
            _later.c.round > tables.rounds.c.round,
            _later.c.origin != COUNTER_PATCH,
        )
        .correlate(tables.rounds),
    )
    .correlate(tables.reviews),
    exists()
    .where(
        tables.rounds.c.review_id == _r.id,
        tables.rounds.c.round == _r.round,
        tables.rounds.c.origin == COUNTER_PATCH,
        _is_mine(tables.rounds.c.author),
        or_(tables.rounds.c.accepted_by.is_(None), _is_mine(tables.rounds.c.accepted_by)),
    )
    .correlate(tables.reviews),
)
"""Whether a review's current content is somebody's own; takes `own_params` besides."""


def own_params(names: Names) -> dict[str, str]:
    """The parameters of `IS_OWN` for somebody who goes by one name or two."""
    return {"name": names.own[0], "other_name": names.own[-1], "name_end": names.end}


def _next_pending(*, project: bool, category: bool, skip_locked: bool) -> Statement:
    """The head of the queue that a reviewer may take; on PostgreSQL perhaps passing over what others hold."""
    statement = (
        select(tables.reviews)
        .where(
            _r.state == State.PENDING.value,
            _r.attention.is_(None),
            or_(_r.not_before.is_(None), _r.not_before <= bindparam("now")),
            ~IS_OWN,
        )
        .order_by(_r.priority, _r.created_at, _r.id)
        .limit(1)
        .with_for_update(skip_locked=skip_locked)
    )
    if project:
        statement = statement.where(_r.project == bindparam("project"))
    if category:
        # A condition only: found by its state, as the pending ones are few and a category may be long.
        statement = statement.where(_r.category + "" == bindparam("category"))
    return Statement(statement)


_EITHER = (False, True)
_queue_heads = {
    (p, c, s): _next_pending(project=p, category=c, skip_locked=s) for p in _EITHER for c in _EITHER for s in _EITHER
}


@dataclass(frozen=True, slots=True)
class RoundContent:
    """A review and one of its rounds, with the round's texts: all in one question, for a database that is far away.

    Attributes:
        child_ids: The reviews that resubmit this one, oldest first.
        diff: Null for a text.
        text: The description, which is the content of a text.
    """

    review: Review
    round: Round
    diff: str | None
    text: str | None
    child_ids: tuple[str, ...]


def find(unit: Unit, review_id: str, *, lock: bool = False) -> Review | None:
    """A review, if there is one; with `lock`, nobody else changes it before this transaction ends."""
    row = unit.one_or_none(_get_locked if lock else _get_plain, review_id=review_id)
    return Review(*row) if row else None


def find_same(unit: Unit, review: Review) -> Review | None:
    """The newest open review in which the same agent put up the same content as the same work."""
    stated = {name: getattr(review, name) for name in ("project", "digest", *_SAME)}
    row = unit.one_or_none(_open_of_content, **stated)
    return Review(*row) if row else None


def get(unit: Unit, review_id: str, project: str | None = None, *, lock: bool = False) -> Review:
    """A review; of the project, if one is named.

    Raises:
        NotFound: There is none of that id, or it is another project's.
    """
    found = find(unit, review_id, lock=lock)
    if found is None:
        raise unknown(review_id)
    return _of(project, found)


def _of(project: str | None, found: Review) -> Review:
    if project is not None and found.project != project:
        raise NotFound(f"The project '{project}' has no review '{found.id}'.", review_id=found.id, project=project)
    return found


def unknown(review_id: str) -> NotFound:
    """What is said of an id that no review has."""
    return NotFound(f"There is no review '{review_id}'. list_reviews shows what there is.", review_id=review_id)


def find_next(unit: Unit, *, names: Names, now_us: int, project: str | None, category: str | None) -> Review | None:
    """The head of the queue for a reviewer, locked: highest priority, then oldest, never their own."""
    params: dict[str, Any] = {"now": now_us, **own_params(names)}
    if project is not None:
        params["project"] = project
    if category is not None:
        params["category"] = category
    shape = (project is not None, category is not None)
    row = unit.one_or_none(_queue_heads[*shape, True], **params)
    if row is None and unit.dialect == "postgresql":
        # What was passed over may only be spoken about just now: wait for it, before the queue is called empty.
        row = unit.one_or_none(_queue_heads[*shape, False], **params)
    return Review(*row) if row else None


def renew(unit: Unit, review_id: str, generation: int, lease_expires_at: int) -> bool:
    """Extend a lease if that generation still holds the claim; whether it does."""
    touched = unit.execute(_renew, key=review_id, generation=generation, new_lease=lease_expires_at)
    return touched == 1


def list_expired(unit: Unit, now_us: int, latest_us: int, limit: int) -> list[str]:
    """Reviews whose lease has run out, longest overdue first, or ends later than one that is taken now."""
    return [row[0] for row in unit.all(_expired, now=now_us, latest=latest_us, limit=limit)]


def get_round(unit: Unit, review_id: str, number: int) -> Round:
    """One round of a review.

    Raises:
        NotFound: The review has no such round.
    """
    row = unit.one_or_none(_get_round, review_id=review_id, round=number)
    if row is None:
        raise _no_round(review_id, number)
    return _as_round(row)


def get_content(unit: Unit, review_id: str, project: str | None = None, number: int | None = None) -> RoundContent:
    """A review, of the project if one is named, and a round of it with its texts, by default the current one.

    Raises:
        NotFound: There is no such review (in that project), or round.
    """
    row = unit.one_or_none(_get_with_content, review_id=review_id, round=number)
    if row is None:
        raise unknown(review_id)
    review = _of(project, Review(*row[:REVIEW_COLUMNS]))
    *columns, diff, text, children = row[REVIEW_COLUMNS:]
    if columns[0] is None:
        raise _no_round(review_id, number)
    current = _as_round(columns)
    texts = (_kept(current.diff_id, diff), _kept(current.description_id, text))
    return RoundContent(review, current, *texts, tuple((children or "").split()))


def _as_round(columns: Sequence[Any]) -> Round:
    return Round(**dict(zip(_ROUND_NAMES, columns, strict=True)))


def _no_round(review_id: str, number: int | None) -> NotFound:
    return NotFound(f"The review '{review_id}' has no round {number}.", review_id=review_id, round=number)


def list_rounds(unit: Unit, review_id: str) -> list[Round]:
    """All rounds of a review, oldest first."""
    return [_as_round(row) for row in unit.all(_rounds, review_id=review_id)]


def submitter(unit: Unit, current: Round) -> str:
    """Who sent the content that a round is, or that its accepted counter-patches go back to."""
    if current.origin != COUNTER_PATCH:
        return current.author
    row = unit.one_or_none(_get_submitter, review_id=current.review_id, before=current.round)
    return current.author if row is None else str(row[0])


def find_content(unit: Unit, content_id: str | None) -> str | None:
    """A text from the content store; null for no name."""
    if content_id is None:
        return None
    row = unit.one_or_none(_get_content, id=content_id)
    return _kept(content_id, row[0] if row else None)


def _kept(content_id: str | None, body: str | None) -> str | None:
    if content_id is not None and body is None:
        raise LookupError(f"the content {content_id} is missing from the store")
    return body

"""What a search looks through: reviews in one order, a bounded piece at a time, however long the history is.

A piece is found on an index alone wherever there may be many; only then the reviews themselves are read.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any, Final, Literal, NamedTuple

from sqlalchemy import bindparam, case, func, select, tuple_, union_all

from tandem.reviews import tables
from tandem.reviews.queries import REVIEW_COLUMNS
from tandem.reviews.rules import PRIORITIES, Review, State
from tandem.store import tables as log_tables
from tandem.store.base import Unit
from tandem.store.statement import Statement

_r = tables.reviews.c
_o = tables.rounds.c
_e = log_tables.events.c
_texts = log_tables.contents.c

Sort = Literal["queue", "newest", "oldest", "updated"]
Key = tuple[Any, ...]

KEYS: Final[dict[Sort, tuple[type, ...]]] = {
    "queue": (int, int, str),
    "newest": (int, str),
    "oldest": (int, str),
    "updated": (int,),
}
"""What a place in each order is made of."""

_COLUMNS: Final[dict[Sort, tuple[str, ...]]] = {
    "queue": ("priority", "created_at", "id"),
    "newest": ("created_at", "id"),
    "oldest": ("created_at", "id"),
    "updated": ("event_seq",),
}
_BACKWARDS: Final = frozenset({"newest", "updated"})

EVENT_LIMIT: Final = 5_000
"""Events that a page by latest activity goes back at most; beyond it the next page goes on."""
BEFORE_ALL: Final = 2**62
"""Behind every event."""


LONG_FILES: Final = 100_000
"""Letters of a round's files from which on they are read one round at a time."""


class SearchHit(NamedTuple):
    """A review that may be what is looked for.

    Attributes:
        review: The review.
        affected_files: Of its current round, as JSON text; None if that is long: `get_files` has it.
        description: Of its current round, if it was asked for and has one.
    """

    review: Review
    affected_files: str | None
    description: str | None


@dataclass(frozen=True, slots=True)
class Shape:
    """What tells one statement from another.

    Attributes:
        sort: The order.
        filters: Which columns have to be equal to what is given: project, state, category, priority, turn. Closed
            reviews of a category are found by the category alone, as most of them are closed.
        state: The state that is given.
        attention: Whether only those that wait for a person are looked through.
        after: Whether it goes on from a place.
        texts: Whether descriptions are read.
    """

    sort: Sort
    filters: frozenset[str]
    state: str | None
    attention: bool
    after: bool
    texts: bool

    @property
    def is_open(self) -> bool:
        """Whether it names something that only open reviews have: they are few, and may be sorted."""
        return self.attention or "turn" in self.filters or self.state not in (None, State.CLOSED)

    @property
    def columns(self) -> tuple[str, ...]:
        """What it is ordered by, but for a priority that is the same in all rows."""
        return tuple(name for name in _COLUMNS[self.sort] if name not in self.filters)

    def place(self, review: Review) -> Key:
        """A review's place in this order."""
        return tuple(getattr(review, name) for name in _COLUMNS[self.sort])


def list_candidates(
    unit: Unit, shape: Shape, *, after: Key | None, limit: int, given: dict[str, Any]
) -> list[SearchHit]:
    """The next reviews in an order.

    Args:
        unit: The unit of work.
        shape: Which reviews, in which order; not by latest activity unless only open ones are looked through.
        after: The place to go on from.
        limit: How many.
        given: The values of the shape's filters.
    """
    place = {} if after is None else dict(zip(_COLUMNS[shape.sort], after, strict=True))
    here = {f"after_{name}": place[name] for name in shape.columns if place}
    return [_candidate(row, shape.texts) for row in unit.all(_piece(shape), limit=limit, **given, **here)]


def list_active(
    unit: Unit, *, project: str | None, texts: bool, before: int, floor: int, limit: int
) -> list[SearchHit]:
    """The next reviews by latest activity, found by going back in the log from one event to another."""
    params: dict[str, Any] = {} if project is None else {"project": project}
    statement = _active(project=project is not None, texts=texts)
    rows = unit.all(statement, before=before, floor=floor, limit=limit, **params)
    return [_candidate(row, texts) for row in rows]


def find_log_end(unit: Unit, *, project: str | None, before: int) -> tuple[int, int] | None:
    """The event down to which a call goes back in the log, and its time; None for all of it."""
    params: dict[str, Any] = {} if project is None else {"project": project}
    row = unit.one_or_none(_log_end(project=project is not None), before=before, **params)
    return (row[0], row[1]) if row else None


def get_files(unit: Unit, review: Review) -> str:
    """The affected files of a review's current round, as JSON text."""
    row = unit.one_or_none(_files, review_id=review.id, round=review.round)
    return row[0] if row else "[]"


def _candidate(row: tuple[Any, ...], texts: bool) -> SearchHit:  # noqa: FBT001 - by the order of the columns
    description = row[REVIEW_COLUMNS + 1] if texts else None
    return SearchHit(Review(*row[:REVIEW_COLUMNS]), row[REVIEW_COLUMNS], description)


def aside(column: Any) -> Any:
    """The column as a condition or order only: keeps the planner off its index, for one that leaves fewer rows."""
    return column + ("" if column.type.python_type is str else 0)


# A change may have 80,000 files: of many reviews at once, they would take gigabytes.
_short_files = case((func.length(_o.affected_files) <= LONG_FILES, _o.affected_files))
_files = Statement(
    select(_o.affected_files).where(_o.review_id == bindparam("review_id"), _o.round == bindparam("round"))
)


@cache
def _piece(shape: Shape) -> Statement:
    keys = _open_keys(shape) if shape.is_open else _all_keys(shape)
    found = keys.subquery("keys")
    order = _directed(shape, [found.c[name] for name in shape.columns])
    join = found.join(tables.reviews, _r.id == found.c["id"])
    return Statement(_with_round(join, texts=shape.texts).order_by(*order))


def _with_round(join: Any, *, texts: bool) -> Any:
    """The reviews of a join, with what a search reads of their current rounds."""
    join = join.join(tables.rounds, (_o.review_id == _r.id) & (_o.round == _r.round))
    if not texts:
        return select(tables.reviews, _short_files).select_from(join)
    join = join.outerjoin(log_tables.contents, _texts.id == _o.description_id)
    return select(tables.reviews, _short_files, _texts.body).select_from(join)


def _open_keys(shape: Shape) -> Any:
    """Open reviews by what only they have; in any order, they are sorted."""
    columns: list[Any] = [_r[name] for name in dict.fromkeys((*_COLUMNS[shape.sort], "id"))]
    statement = select(*columns)
    if shape.attention:
        statement = statement.where(_r.attention.is_not(None))
    strong = "" if shape.attention else "turn" if "turn" in shape.filters else "state"
    for name in sorted(shape.filters):
        column = _r[name] if name == strong else aside(_r[name])
        statement = statement.where(column == bindparam(name))
    return _from_place(shape, statement, [aside(_r[name]) for name in shape.columns])


def _all_keys(shape: Shape) -> Any:
    """Reviews of the whole history: parts that are in order on an index, merged."""
    base = select(_r.priority, _r.created_at, _r.id)
    for name in sorted(shape.filters):
        base = base.where(_r[name] == bindparam(name))
    splits = [base]
    # A category has an index of its own, without the state.
    if not shape.filters & {"category", "state"}:
        splits = [base.where(_r.state == state.value) for state in State]
    if shape.sort != "queue" and "priority" not in shape.filters:
        splits = [split.where(_r.priority == number) for split in splits for number in range(len(PRIORITIES))]
    order: list[Any] = [_r[name] for name in shape.columns]
    merged = union_all(*(select(_from_place(shape, split, order).subquery()) for split in splits)).subquery()
    place = _directed(shape, [merged.c[name] for name in shape.columns])
    return select(merged).order_by(*place).limit(bindparam("limit"))


def _from_place(shape: Shape, statement: Any, order: list[Any]) -> Any:
    """The next rows of a statement, in their order."""
    if shape.after:
        here: list[Any] = [bindparam(f"after_{name}") for name in shape.columns]
        place = tuple_(*order)
        statement = statement.where(place < tuple_(*here) if _is_backwards(shape) else place > tuple_(*here))
    return statement.order_by(*_directed(shape, order)).limit(bindparam("limit"))


def _is_backwards(shape: Shape) -> bool:
    return shape.sort in _BACKWARDS


def _directed(shape: Shape, order: list[Any]) -> list[Any]:
    return [column.desc() for column in order] if _is_backwards(shape) else order


@cache
def _log_end(*, project: bool) -> Statement:
    statement = select(_e.seq, _e.at).where(_e.seq < bindparam("before"))
    statement = statement.order_by(_e.seq.desc()).offset(EVENT_LIMIT - 1).limit(1)
    return Statement(statement.where(_e.project == bindparam("project")) if project else statement)


WITH_NEWEST_EVENT: Final = log_tables.events.join(tables.reviews, (_r.id == _e.subject) & (_r.event_seq == _e.seq))
"""Reviews with the newest event of each, which are found by going back in the log."""


def newest_events(statement: Any, *, project: bool) -> Any:
    """A piece of `WITH_NEWEST_EVENT`, latest first: no index has to be kept up for that."""
    within = statement.where(_e.seq < bindparam("before"), _e.seq >= bindparam("floor"))
    within = within.where(_e.project == bindparam("project")) if project else within
    return within.order_by(_e.seq.desc()).limit(bindparam("limit"))


@cache
def _active(*, project: bool, texts: bool) -> Statement:
    return Statement(newest_events(_with_round(WITH_NEWEST_EVENT, texts=texts), project=project))

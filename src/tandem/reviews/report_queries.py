"""Read models: lists, feeds, searches and statistics that cost the same however long the history is.

A piece of the history is found on an index alone wherever there may be many; only then the reviews themselves are read.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, Literal, NamedTuple

import orjson
from sqlalchemy import bindparam, case, func, null, or_, select, tuple_, union_all

from tandem.present.words import PRIORITIES
from tandem.reviews import rounds, tables
from tandem.reviews.queries import REVIEW_COLUMNS
from tandem.reviews.rules import Review, State
from tandem.reviews.writing import OPEN_PREFIX
from tandem.store import events
from tandem.store import tables as log_tables
from tandem.store.base import Row, Unit
from tandem.store.event import ALL_TIME, Event, EventKind
from tandem.store.statement import Statement, among, aside, in_pieces, stated

_r = tables.reviews.c
_c = log_tables.counters.c
_o = tables.rounds.c
_e = log_tables.events.c
_texts = log_tables.contents.c
_EQUALS = ("project", "state", "category", "priority", "turn")
OPEN: Final = "open"
"""As a state: all of them but closed."""
COST: Final = "cost_microusd"
"""What a pool's reviewer spent."""
_SETTLINGS: Final = 100
"""Of a review, so many objections to waived requirements, and ends of them, are read."""


def _condition(name: str, weak: frozenset[str]) -> Any:
    column = _r[name]
    return (aside(column) if name in weak else column) == bindparam(name)


@dataclass(frozen=True, slots=True)
class _Shape:
    """What tells one list's statement from another's."""

    filters: tuple[str, ...]
    attention: bool | None
    after: bool
    state: str | None

    @property
    def order(self) -> tuple[Any, ...]:
        """The columns of queue order, but for a priority that is the same in all rows."""
        whole = (_r.priority, _r.created_at, _r.id)
        return whole[1:] if "priority" in self.filters else whole


@cache
def _queue_page(shape: _Shape) -> Statement:
    """A page of a list, by the index that leaves the fewest rows; which one, the planner cannot know.

    Those that wait for a person are rare. Open reviews are few, and only they are somebody's turn, or wait for a
    person. Of all reviews or of closed ones, a category is the smaller part. What names none of these is read state
    by state and merged, so that every part is in queue order already.
    """
    if shape.attention:
        return _by_index(shape, weak=frozenset(_EQUALS))
    if "turn" in shape.filters:
        return _by_index(shape, weak=frozenset({"project", "state", "category"}))
    if shape.state not in (None, OPEN, State.CLOSED):
        return _by_index(shape, weak=frozenset({"category"}))
    if "category" in shape.filters and shape.state != OPEN:
        return _by_index(shape, weak=frozenset({"state"}))
    if shape.state == State.CLOSED:
        return _by_index(shape, weak=frozenset())
    rows = _rows(shape, weak=frozenset({"category"}))
    parts = (select(_ordered(shape, rows.where(_r.state == state)).subquery()) for state in _states(shape.state))
    merged = union_all(*parts).subquery()
    order: list[Any] = [merged.c[column.name] for column in shape.order]
    return Statement(select(merged).order_by(*order).limit(bindparam("limit")))


def _states(state: str | None) -> tuple[str, ...]:
    """The states that are meant by one, by `OPEN`, or by none."""
    if state not in (None, OPEN):
        return (state,)
    return tuple(one.value for one in State if state is None or one is not State.CLOSED)


def _by_index(shape: _Shape, *, weak: frozenset[str]) -> Statement:
    return Statement(_ordered(shape, _rows(shape, weak=weak)))


def _rows(shape: _Shape, *, weak: frozenset[str]) -> Any:
    statement = select(tables.reviews).where(*(_condition(name, weak) for name in shape.filters))
    if shape.attention is not None:
        statement = statement.where(_r.attention.is_not(None) if shape.attention else _r.attention.is_(None))
    if shape.after:
        place: list[Any] = [bindparam(f"after_{column.name}") for column in shape.order]
        statement = statement.where(tuple_(*shape.order) > tuple_(*place))
    return statement


def _ordered(shape: _Shape, statement: Any) -> Any:
    return statement.order_by(*shape.order).limit(bindparam("limit"))


_of_content = Statement(
    select(tables.reviews)
    .where(_r.id.in_(select(_o.review_id).where(_o.digest == bindparam("digest"))), _r.project == bindparam("project"))
    .order_by(_r.created_at.desc(), _r.id.desc())
)


def list_of_content(unit: Unit, project: str, digest: str) -> list[Review]:
    """All reviews of which a round has a digest, the newest first."""
    return unit.list_of(Review, _of_content, project=project, digest=digest)


def with_objections(unit: Unit, review: Review) -> Review:
    """The review with the objections to its content in others, where it lacks the approval that they lack."""
    owing, known = rounds.owed(review), review.requirements
    if not owing or review.digest is None:
        return review
    met = {one.word for one in known.needs if all(one.word != debt.need for debt in owing)} if known else ()
    others = [one for one in list_of_content(unit, review.project, review.digest) if one.id != review.id]
    said = [
        f"{objection} (in {one.id})"
        for one in others
        for need, objection in _objections(unit, one, review.digest).items()
        if need not in met and objection
    ]
    if not said:
        return review
    own = [owing[0].objection] if owing[0].objection else []
    return rounds.with_waiver(review, owing[0]._replace(objection="; ".join([*own, *said])))


def _objections(unit: Unit, review: Review, digest: str) -> dict[str, str | None]:
    """By need that was waived of a content, the objection that stands in a review, which may have gone on since."""
    if review.digest == digest and review.waived:
        return {debt.need: debt.objection for debt in rounds.waived(review)}
    kinds = (EventKind.WAIVER_OBJECTED, EventKind.WAIVER_SETTLED)
    known = [one for kind in kinds for one in events.list_newest(unit, _SETTLINGS, subject=review.id, kind=kind)]
    found: dict[str, str | None] = {}
    for one in sorted(known, key=lambda event: event.seq):
        data = orjson.loads(one.data)
        # Of a review whose contents were removed it has none of these.
        if data.get("digest") == digest:
            objects = one.kind == EventKind.WAIVER_OBJECTED
            found[data["need"]] = rounds.objection_by(one.actor, data["reason"]) if objects else None
    return found


def list_queue(
    unit: Unit,
    *,
    limit: int,
    attention: bool | None,
    after: tuple[int, int, str] | None,
    **filters: Any,
) -> list[Review]:
    """Reviews by priority and age, after a place; filters are project, state (or `OPEN`), category, priority, turn."""
    state = filters.get("state")
    params = stated(**{name: filters.get(name) for name in _EQUALS})
    if state == OPEN:
        del params["state"]
    shape = _Shape(tuple(params), attention, after is not None, state)
    if after is not None:
        place = dict(zip(("priority", "created_at", "id"), after, strict=True))
        params |= {f"after_{column.name}": place[column.name] for column in shape.order}
    return unit.list_of(Review, _queue_page(shape), limit=limit, **params)


@cache
def _latest_page(states: tuple[str, ...], *, project: bool, before: bool, events: bool) -> Statement:
    """A page of reviews by their newest event, and that event if it is asked for: state by state, each by its index."""
    rows = select(tables.reviews)
    if project:
        rows = rows.where(_r.project == bindparam("project"))
    if before:
        rows = rows.where(_r.event_seq < bindparam("before"))
    newest_first = rows.order_by(_r.event_seq.desc()).limit(bindparam("limit"))
    parts = (select(newest_first.where(_r.state == state).subquery()) for state in states)
    merged = union_all(*parts).subquery()
    page = select(merged).order_by(merged.c.event_seq.desc()).limit(bindparam("limit"))
    if not events:
        return Statement(page)
    found = page.subquery()
    joined = found.join(log_tables.events, _e.seq == found.c.event_seq)
    return Statement(select(found, log_tables.events).select_from(joined).order_by(found.c.event_seq.desc()))


def list_latest(unit: Unit, *, limit: int, before: int | None, project: str | None, state: str | None) -> list[Review]:
    """Reviews of a state, of `OPEN` or of all, newest activity first, whose newest event is before a place."""
    statement = _latest_page(_states(state), project=project is not None, before=before is not None, events=False)
    return unit.list_of(Review, statement, limit=limit, **stated(project=project, before=before))


def list_activity(
    unit: Unit, *, limit: int, before: int | None, project: str | None, state: str | None
) -> list[tuple[Review, Event]]:
    """As `list_latest`, each with its newest event."""
    statement = _latest_page(_states(state), project=project is not None, before=before is not None, events=True)
    rows = unit.all(statement, limit=limit, **stated(project=project, before=before))
    return [(Review(*row[:REVIEW_COLUMNS]), Event(*row[REVIEW_COLUMNS:])) for row in rows]


@cache
def _tallies(*names: str, project: bool, since: bool) -> Statement:
    columns = [_c[name] for name in (*names, "metric")]
    statement = select(*columns, func.sum(_c.count), func.sum(_c.total_us)).group_by(*columns)
    if "category" not in names:
        statement = statement.where(or_(_c.category != "", _c.metric == COST))
    if project:
        statement = statement.where(_c.project == bindparam("project"))
    days = _c.day >= bindparam("since") if since else _c.day == ALL_TIME
    return Statement(statement.where(days))


@cache
def _open(*, project: bool) -> Statement:
    statement = (
        select(_c.metric, func.sum(_c.count))
        .where(_c.day == ALL_TIME, _c.reviewer_id == "", _c.metric.startswith(OPEN_PREFIX))
        .group_by(_c.metric)
    )
    if project:
        statement = statement.where(_c.project == bindparam("project"))
    return Statement(statement)


def list_counts(
    unit: Unit, *names: Literal["category", "reviewer_id", "day", "project"], project: str | None, since_day: str | None
) -> list[Row]:
    """The named columns, metric, count and total microseconds, over all time or since a day.

    Those of no category of reviews are among them by category only, but for the cost of reviewers. The project is not
    the first name: SQLite would then read all days in the order of projects.
    """
    statement = _tallies(*names, project=project is not None, since=since_day is not None)
    rows = unit.all(statement, **stated(project=project, since=since_day))
    # PostgreSQL's sums are decimals.
    return [(*row[:-2], int(row[-2]), int(row[-1])) for row in rows]


def list_open(unit: Unit, *, project: str | None) -> dict[str, int]:
    """How many reviews are in each state now."""
    rows = unit.all(_open(project=project is not None), **stated(project=project))
    return {str(row[0]).removeprefix(OPEN_PREFIX): int(row[1]) for row in rows if row[1]}


MOST_COUNTED: Final = 10_000
"""Reviews of one state that are counted at most, so that counting costs the same however many there are."""
_of_state = select(_r.created_at).where(_r.state == bindparam("state")).limit(bindparam("limit")).subquery()
_count_state = Statement(select(func.count(), func.min(_of_state.c.created_at)))
_for_people = select(_r.priority).where(_r.attention.is_not(None)).limit(bindparam("limit")).subquery()
_count_attention = Statement(select(func.count()).select_from(_for_people))


def count_open(unit: Unit) -> dict[str, tuple[int, int | None]]:
    """How many reviews are in each open state, and when the oldest of them was created."""
    found: dict[str, tuple[int, int | None]] = {}
    for state in _states(OPEN):
        [(count, oldest)] = unit.all(_count_state, state=state, limit=MOST_COUNTED)
        found[state] = (count, oldest)
    return found


def count_attention(unit: Unit) -> int:
    """How many reviews wait for a person."""
    return unit.value(_count_attention, limit=MOST_COUNTED)


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


LONG_FILES: Final = 100_000
"""Letters of a round's files from which on they are read one round at a time."""


def place_of(review: Review, sort: Sort) -> Key:
    """A review's place in an order."""
    return tuple(getattr(review, name) for name in _COLUMNS[sort])


class SearchHit(NamedTuple):
    """A review that may match a search.

    Attributes:
        review: The review.
        affected_files: Of its current round, as JSON text; None if that is long: it is read with the round.
        description: Of its current round, if it was asked for and has one.
    """

    review: Review
    affected_files: str | None
    description: str | None


@dataclass(frozen=True, slots=True)
class Shape:
    """The parts of a search that decide its statement.

    Attributes:
        sort: The order.
        filters: The columns that must equal a given value: project, state, category, priority, turn. Closed
            reviews of a category are found by the category alone, as most of them are closed. The whole history by
            latest activity is found by project and state.
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
        """The columns of the order, except a priority that is the same in all rows."""
        return tuple(name for name in _COLUMNS[self.sort] if name not in self.filters)


def list_candidates(
    unit: Unit, shape: Shape, *, after: Key | None, limit: int, given: dict[str, Any]
) -> list[SearchHit]:
    """The next reviews in an order.

    Args:
        unit: The unit of work.
        shape: Which reviews, in which order.
        after: The place to go on from.
        limit: How many.
        given: The values of the shape's filters.
    """
    place = {} if after is None else dict(zip(_COLUMNS[shape.sort], after, strict=True))
    here = {f"after_{name}": place[name] for name in shape.columns if place}
    rows = unit.all(_piece(shape), limit=limit, **given, **here)
    return [SearchHit(Review(*row[:REVIEW_COLUMNS]), *row[REVIEW_COLUMNS:]) for row in rows]


# A change may have 80,000 files: of many reviews at once, they would take gigabytes.
_short_files = case((func.length(_o.affected_files) <= LONG_FILES, _o.affected_files))


@cache
def _piece(shape: Shape) -> Statement:
    """The reviews of some keys, with what a search reads of their current rounds."""
    keys = _open_keys(shape) if shape.is_open else _all_keys(shape)
    found = keys.subquery("keys")
    join = found.join(tables.reviews, _r.id == found.c["id"])
    join = join.join(tables.rounds, (_o.review_id == _r.id) & (_o.round == _r.round))
    description: Any = null()
    if shape.texts:
        join, description = join.outerjoin(log_tables.contents, _texts.id == _o.description_id), _texts.body
    order = _directed(shape, [found.c[name] for name in shape.columns])
    return Statement(select(tables.reviews, _short_files, description).select_from(join).order_by(*order))


def _keys(shape: Shape) -> Any:
    return select(*(_r[name] for name in dict.fromkeys((*_COLUMNS[shape.sort], "id"))))


def _open_keys(shape: Shape) -> Any:
    """Open reviews by what only they have; in any order, they are sorted."""
    statement = _keys(shape)
    if shape.attention:
        statement = statement.where(_r.attention.is_not(None))
    strong = "" if shape.attention else "turn" if "turn" in shape.filters else "state"
    for name in sorted(shape.filters):
        column = _r[name] if name == strong else aside(_r[name])
        statement = statement.where(column == bindparam(name))
    return _from_place(shape, statement, [aside(_r[name]) for name in shape.columns])


def _all_keys(shape: Shape) -> Any:
    """Reviews of the whole history: parts that are in order on an index, merged."""
    base = _keys(shape).where(*(_r[name] == bindparam(name) for name in sorted(shape.filters)))
    splits = [base]
    # A category has an index of its own, without the state.
    if not shape.filters & {"category", "state"}:
        splits = [base.where(_r.state == state.value) for state in State]
    if shape.sort in ("newest", "oldest") and "priority" not in shape.filters:
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
        statement = statement.where(place < tuple_(*here) if shape.sort in _BACKWARDS else place > tuple_(*here))
    return statement.order_by(*_directed(shape, order)).limit(bindparam("limit"))


def _directed(shape: Shape, order: list[Any]) -> list[Any]:
    return [column.desc() for column in order] if shape.sort in _BACKWARDS else order


_titles = Statement(select(_r.id, _r.intent).where(among(_r.id)))


def titles(unit: Unit, subjects: Iterable[str | None]) -> dict[str, str]:
    """The intents of the reviews among these subjects, by their ids."""
    ids = sorted({one for one in subjects if one and ":" not in one})
    return {review_id: intent for some in in_pieces(ids) for review_id, intent in unit.all(_titles, **some)}


_CLOSED_WITHIN = 20
"""Of a closed review's newest events, those among which the one that closed it is sought."""


def find_close_reason(unit: Unit, review_id: str) -> str | None:
    """Why a closed review was closed, or its approval was withdrawn after that; None if no reason was given."""
    kinds = (EventKind.REVIEW_CLOSED, EventKind.APPROVAL_WITHDRAWN)
    recent = reversed(events.list_newest(unit, _CLOSED_WITHIN, subject=review_id))
    return next((orjson.loads(one.data).get("reason") for one in recent if one.kind in kinds), None)

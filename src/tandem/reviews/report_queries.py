"""Read models: lists, feeds and statistics that cost the same however long the history is."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, Literal, NamedTuple

import orjson
from sqlalchemy import Integer, Text, and_, bindparam, column, func, or_, select, tuple_, union_all, values

from tandem.reviews import tables
from tandem.reviews.queries import REVIEW_COLUMNS
from tandem.reviews.rules import Review, State
from tandem.reviews.search_queries import WITH_NEWEST_EVENT, aside, find_log_end, newest_events
from tandem.reviews.statistics import OPEN_PREFIX
from tandem.store import events
from tandem.store import tables as log_tables
from tandem.store.base import Row, Unit
from tandem.store.event import ALL_TIME, Event, EventKind
from tandem.store.statement import Statement

_r = tables.reviews.c
_c = log_tables.counters.c
_v = tables.verdicts.c
_a = tables.approvals.c
_ap = tables.approved_paths.c
_EQUALS = ("project", "state", "category", "priority", "turn")
OPEN: Final = "open"
"""As a state: all of them but closed."""


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
    parts = [_ordered(shape, rows.where(_r.state == state)) for state in _states(shape.state)]
    return _merged(parts, lambda merged: [merged.c[column.name] for column in shape.order])


def _states(state: str | None) -> tuple[str, ...]:
    """The states that are meant by one, by `OPEN`, or by none."""
    if state not in (None, OPEN):
        return (state,)
    return tuple(one.value for one in State if state is None or one is not State.CLOSED)


def _merged(parts: list[Any], order: Callable[[Any], list[Any]]) -> Statement:
    """One page from the first rows of each part."""
    merged = union_all(*(select(part.subquery()) for part in parts)).subquery()
    return Statement(select(merged).order_by(*order(merged)).limit(bindparam("limit")))


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
    params = {name: filters[name] for name in _EQUALS if filters.get(name) is not None}
    if state == OPEN:
        del params["state"]
    shape = _Shape(tuple(params), attention, after is not None, state)
    if after is not None:
        place = dict(zip(("priority", "created_at", "id"), after, strict=True))
        params |= {f"after_{column.name}": place[column.name] for column in shape.order}
    return [Review(*row) for row in unit.all(_queue_page(shape), limit=limit, **params)]


@cache
def _latest_page(states: tuple[str, ...], *, project: bool, before: bool) -> Statement:
    """A page of reviews by their newest event, state by state, each by its index."""
    rows = select(tables.reviews)
    if project:
        rows = rows.where(_r.project == bindparam("project"))
    if before:
        rows = rows.where(_r.event_seq < bindparam("before"))
    newest_first = rows.order_by(_r.event_seq.desc()).limit(bindparam("limit"))
    return _merged([newest_first.where(_r.state == state) for state in states], lambda all_: [all_.c.event_seq.desc()])


def list_latest(unit: Unit, *, limit: int, before: int | None, project: str | None, state: str | None) -> list[Review]:
    """Reviews of a state, of `OPEN` or of all, newest activity first, whose newest event is before a place."""
    params = {name: value for name, value in (("project", project), ("before", before)) if value is not None}
    statement = _latest_page(_states(state), project=project is not None, before=before is not None)
    return [Review(*row) for row in unit.all(statement, limit=limit, **params)]


_ACTIVITY_FILTERS = ("state", "category")


@cache
def _activity_page(filters: tuple[str, ...], *, project: bool) -> Statement:
    """Reviews by their newest event, found by going back in the log: no index has to be kept up for that."""
    statement = newest_events(select(tables.reviews, log_tables.events).select_from(WITH_NEWEST_EVENT), project=project)
    for name in filters:
        statement = statement.where(aside(_r[name]) == bindparam(name))
    return Statement(statement)


def list_activity(
    unit: Unit, *, limit: int, before: int, project: str | None, **filters: Any
) -> tuple[list[tuple[Review, Event]], int]:
    """Reviews with their newest event, latest first, and the event number down to which was looked (0: all)."""
    within = {} if project is None else {"project": project}
    end = find_log_end(unit, project=project, before=before)
    floor = end[0] if end else 0
    params = within | {name: filters[name] for name in _ACTIVITY_FILTERS if filters.get(name) is not None}
    statement = _activity_page(tuple(name for name in params if name != "project"), project=project is not None)
    rows = unit.all(statement, limit=limit, before=before, floor=floor, **params)
    return [(Review(*row[:REVIEW_COLUMNS]), Event(*row[REVIEW_COLUMNS:])) for row in rows], floor


@cache
def _tallies(*names: str, project: bool, since: bool) -> Statement:
    columns = [_c[name] for name in (*names, "metric")]
    statement = select(*columns, func.sum(_c.count), func.sum(_c.total_us)).group_by(*columns)
    if "category" not in names:
        # What reviewers use up has no category.
        statement = statement.where(_c.category != "")
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
    """The named columns, metric, count and total microseconds, over all time or since a day."""
    params = {name: value for name, value in (("project", project), ("since", since_day)) if value is not None}
    rows = unit.all(_tallies(*names, project=project is not None, since=since_day is not None), **params)
    # PostgreSQL's sums are decimals.
    return [(*row[:-2], int(row[-2]), int(row[-1])) for row in rows]


def list_open(unit: Unit, *, project: str | None) -> dict[str, int]:
    """How many reviews are in each state now."""
    params = {} if project is None else {"project": project}
    rows = unit.all(_open(project=project is not None), **params)
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
        row = unit.one_or_none(_count_state, state=state, limit=MOST_COUNTED)
        found[state] = (int(row[0]), row[1]) if row else (0, None)
    return found


def count_attention(unit: Unit) -> int:
    """How many reviews wait for a person."""
    row = unit.one_or_none(_count_attention, limit=MOST_COUNTED)
    return int(row[0]) if row else 0


_by_digest = Statement(
    select(_a.review_id, _a.round)
    .where(_a.project == bindparam("project"), _a.digest == bindparam("digest"))
    .order_by(_a.review_id)
    .limit(bindparam("limit"))
)


@cache
def _approved_at(count: int) -> Statement:
    keys = _keys(count, "review_id")
    statement = select(_r.id, _v.seq).select_from(keys).join(tables.reviews, _r.id == keys.c.review_id)
    return Statement(statement.join(tables.verdicts, _v.id == _r.verdict_id))


@cache
def _approving(count: int) -> Statement:
    keys = _keys(count, "path", "blob_after")
    same = and_(_ap.path == keys.c.path, _ap.blob_after == keys.c.blob_after, _ap.project == bindparam("project"))
    return Statement(
        select(_ap.path, _ap.blob_after, _ap.review_id, _ap.round, _ap.kind, _ap.mode_after)
        .select_from(keys)
        .join(tables.approved_paths, same)
        .order_by(_ap.review_id, _ap.round)
        .limit(bindparam("limit"))
    )


@cache
def _approved_paths(count: int) -> Statement:
    keys = _keys(count, "review_id", "round")
    same = and_(_ap.review_id == keys.c.review_id, _ap.round == keys.c.round)
    entry = (_ap.path, _ap.mode_before, _ap.blob_before, _ap.mode_after, _ap.blob_after)
    statement = select(_ap.review_id, _ap.round, *entry).select_from(keys).join(tables.approved_paths, same)
    return Statement(statement.limit(bindparam("limit")))


_AT_ONCE: Final = (1, 16, 256)
"""How many keys a statement may ask for: few sizes, so that there are few statements."""


def _keys(count: int, *names: str) -> Any:
    """So many keys as a table, for statements that find the rows of each by an index."""
    types = {"round": Integer}
    columns = [column(name, types.get(name, Text)) for name in names]
    rows = [tuple(bindparam(f"{one.name}_{number}", type_=one.type) for one in columns) for number in range(count)]
    return values(*columns, name="wanted").data(rows).cte("wanted")


def _parts(
    unit: Unit,
    made: Callable[[int], Statement],
    names: tuple[str, ...],
    keys: Sequence[tuple[Any, ...]],
    limit: int | None = None,
    **params: Any,
) -> Iterator[list[Row]]:
    """The rows of many keys, those of some keys at a time; so many rows at most."""
    at = 0
    while at < len(keys) and limit != 0:
        size = next((one for one in _AT_ONCE if one >= len(keys) - at), _AT_ONCE[-1])
        part = [*keys[at : at + size]]
        part += [(None,) * len(names)] * (size - len(part))
        given = {
            f"{name}_{number}": value for number, key in enumerate(part) for name, value in zip(names, key, strict=True)
        }
        rows = unit.all(made(size), **given, **params, **({} if limit is None else {"limit": limit}))
        limit = None if limit is None else limit - len(rows)
        at += size
        yield rows


_WITHDRAWN: Final = "withdrawn"
_CLOSED_WITHIN = 20
"""Of a closed review's newest events, those among which the one that closed it is sought."""
_of_content = Statement(
    select(_r.id, _r.round, _r.state, _r.outcome, _r.verdict_reason)
    .where(
        _r.project == bindparam("project"),
        _r.digest == bindparam("digest"),
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
    select(_ap.review_id, _ap.blob_before)
    .where(_ap.project == bindparam("project"), _ap.path == bindparam("path"))
    .limit(bindparam("limit"))
)


def list_approvals(unit: Unit, project: str, digest: str, limit: int) -> list[tuple[str, int]]:
    """The reviews and rounds that approved a digest and still do."""
    return [(row[0], row[1]) for row in unit.all(_by_digest, project=project, digest=digest, limit=limit)]


def list_approved_at(unit: Unit, review_ids: Sequence[str]) -> dict[str, int]:
    """By review, the place in the log of the verdict that it stands at; those without one are missing."""
    keys = [(one,) for one in review_ids]
    return dict(row for rows in _parts(unit, _approved_at, ("review_id",), keys) for row in rows)


def list_approving(
    unit: Unit, project: str, ends: Sequence[tuple[str, str]], limit: int
) -> Iterator[list[tuple[str, str, str, int, str, str]]]:
    """Approved entries of paths with a blob, some at a time: path, blob, review, round, kind, mode after."""
    return _parts(unit, _approving, ("path", "blob_after"), ends, limit, project=project)


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
        """What it says of the content."""
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
    row = unit.one_or_none(_of_content, project=project, digest=digest)
    found = Concerned(*row) if row else None
    if found is None or found.outcome != _WITHDRAWN:
        return found
    return found._replace(reason=find_close_reason(unit, found.review_id))


def find_close_reason(unit: Unit, review_id: str) -> str | None:
    """Why a closed review was closed, or its approval was withdrawn after that; None if no reason was given."""
    kinds = (EventKind.REVIEW_CLOSED, EventKind.APPROVAL_WITHDRAWN)
    recent = reversed(events.list_newest(unit, _CLOSED_WITHIN, subject=review_id))
    return next((orjson.loads(one.data).get("reason") for one in recent if one.kind in kinds), None)


def list_approved_paths(
    unit: Unit, rounds: Sequence[tuple[str, int]], limit: int
) -> Iterator[list[tuple[str, int, str, str, str, str, str]]]:
    """All entries of approved rounds, some at a time: review, round, and the fields of `git.changes.Change`."""
    return _parts(unit, _approved_paths, ("review_id", "round"), rounds, limit)

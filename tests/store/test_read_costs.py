"""The cost of inboxes and searches, in the databases' own steps and not in time, does not grow with the history."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from tandem.contract.caller import Names
from tandem.inbox import queries as inbox
from tandem.pool import queries as pool
from tandem.reviews import queries as reviews
from tandem.reviews import report_queries as reports
from tandem.reviews.report_queries import Shape
from tandem.schema import TANDEM
from tandem.store.base import Unit
from tandem.store.engine import make_store
from tandem.store.event import unkeyed
from tandem.store.pipeline import Pipeline
from tandem.store.postgres_unit import READING, Node, PostgresUnit, Transaction
from tandem.store.sqlite_unit import SqliteUnit
from tests.modes import VARIATION
from tests.store.histories import statements

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence

    from tandem.store.base import Row
    from tandem.store.event import CounterMove
    from tandem.store.statement import Statement

FEW, MANY = 3_000, 30_000
OPEN = 60
"""As many are open, however many there are."""


class Weighed(Unit):
    """A unit of work that counts the database's steps: SQLite's instructions, PostgreSQL's rows."""

    def __init__(self, unit: Unit, explain: Callable[[Statement, dict[str, Any]], int], reviews: int) -> None:
        super().__init__(unit.seal)
        self._unit = unit
        self._explain = explain
        self.dialect = unit.dialect
        self.reviews = reviews
        self.steps = 0

    @property
    def settled(self) -> int:
        """See `Unit`."""
        return self._unit.settled

    def count(self, moves: Sequence[CounterMove]) -> None:
        """See `Unit`."""

    def put(self, statement: Statement, **params: Any) -> None:
        """See `Unit`."""
        self._unit.put(statement, **params)

    def put_one(self, statement: Statement, **params: Any) -> None:
        """See `Unit`."""
        self._unit.put_one(statement, **params)

    def all(self, statement: Statement, **params: Any) -> list[Row]:
        """See `Unit`."""
        self.steps += self._explain(statement, params)
        return self._unit.all(statement, **params)

    def execute(self, statement: Statement, **params: Any) -> int:
        """See `Unit`."""
        return self._unit.execute(statement, **params)


def _rows_of(plan: dict[str, Any]) -> int:
    loops = plan["Actual Loops"]
    touched = plan["Actual Rows"] + sum(count for name, count in plan.items() if name.startswith("Rows Removed by"))
    return round(touched * loops) + sum(_rows_of(inner) for inner in plan.get("Plans", ()))


def _on_sqlite(path: str, reviews: int) -> Generator[Weighed]:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for statement in statements(reviews, OPEN):
            connection.execute(statement)

        def explain(statement: Statement, params: dict[str, Any]) -> int:
            steps = 0

            def count() -> None:
                nonlocal steps
                steps += 10

            connection.set_progress_handler(count, 10)
            connection.execute(statement.sqlite.sql, statement.sqlite.bind(params)).fetchall()
            connection.set_progress_handler(None, 0)
            return steps

        yield Weighed(SqliteUnit(connection.cursor()), explain, reviews)


def _on_postgresql(url: str, reviews: int) -> Generator[Weighed]:
    with (
        psycopg.connect(url, autocommit=True) as connection,
        psycopg.RawCursor(connection) as cursor,
        closing(Pipeline(psycopg.connect(url, autocommit=True))) as pipeline,
    ):
        for statement in (*statements(reviews, OPEN), "ANALYZE"):
            cursor.execute(statement.encode())

        def explain(statement: Statement, params: dict[str, Any]) -> int:
            compiled = statement.postgresql
            told = cursor.execute(
                f"EXPLAIN (ANALYZE, TIMING OFF, FORMAT JSON) {compiled.sql}".encode(), compiled.bind(params)
            ).fetchone()
            assert told is not None
            [plan] = json.loads(json.dumps(told[0]))
            return _rows_of(plan["Plan"])

        yield Weighed(PostgresUnit(Transaction(pipeline, READING, Node("", unkeyed))), explain, reviews)


def seeded(kind: str, request: pytest.FixtureRequest, tmp_path: Any, reviews: int) -> Generator[Weighed]:
    """A database with so many reviews, of which few are open."""
    server = request.getfixturevalue("postgres_server") if kind == "postgresql" else None
    path = tmp_path / f"{reviews}.db"
    url = server.create_database() if server else f"sqlite:///{path}"
    store = make_store(url, schema=TANDEM)
    store.open_blocking()
    store.close_blocking()
    yield from _on_postgresql(url, reviews) if server else _on_sqlite(str(path), reviews)
    if server:
        server.drop_database(url)


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def pair(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Generator[tuple[Weighed, Weighed]]:
    """A short history and a long one."""
    folder = tmp_path_factory.mktemp("costs")
    made = [seeded(request.param, request, folder, reviews) for reviews in (FEW, MANY)]
    yield next(made[0]), next(made[1])
    for one in made:
        assert next(one, None) is None


LATER = 2**62
ANNA = Names.of("anna", by_token=False)


def weigh(unit: Weighed, read: Callable[[Weighed], object]) -> int:
    unit.steps = 0
    read(unit)
    return unit.steps


def check(pair: tuple[Weighed, Weighed], read: Callable[[Weighed], object]) -> None:
    """Ten times the history may cost a little more: trees are deeper, and pages are other ones."""
    few, many = (weigh(unit, read) for unit in pair)
    assert few > 0
    assert many < 1.5 * few + 300


@pytest.mark.parametrize("project", [None, "beta"])
@pytest.mark.parametrize("state", [None, "open", "closed"])
@pytest.mark.parametrize("deep", [False, True])
def test_a_list_by_newest_activity_costs_the_same(
    pair: tuple[Weighed, Weighed], state: str | None, project: str | None, *, deep: bool
) -> None:
    def read(unit: Weighed) -> None:
        before = unit.reviews if deep else None
        found = reports.list_latest(unit, limit=5, before=before, project=project, state=state)
        told = reports.list_activity(unit, limit=5, before=before, project=project, state=state)
        assert [(one, one.event_seq) for one in found] == [(review, event.seq) for review, event in told]
        assert [one.event_seq for one in found] == sorted((one.event_seq for one in found), reverse=True)
        assert len(found) == 5 or (deep and state == "open")

    check(pair, read)


def test_an_open_review_of_the_same_content_is_found_by_its_digest(pair: tuple[Weighed, Weighed]) -> None:
    def read(unit: Weighed) -> None:
        [review] = reports.list_latest(unit, limit=1, before=None, project="beta", state="open")
        assert reviews.find_same(unit, review._replace(digest="none")) is None

    check(pair, read)


def test_what_is_open_is_counted_without_the_closed(pair: tuple[Weighed, Weighed]) -> None:
    def read(unit: Weighed) -> None:
        found = reports.count_open(unit)
        assert sum(count for count, _ in found.values()) == OPEN
        assert all(oldest for count, oldest in found.values() if count)
        assert 0 < reports.count_attention(unit) <= OPEN

    check(pair, read)


def test_what_waits_for_reviewers_is_found_among_open_reviews(pair: tuple[Weighed, Weighed]) -> None:
    def count(unit: Weighed) -> None:
        assert 0 < pool.count_claimable(unit, LATER)["beta"][0] <= OPEN
        pool.next_retry(unit, 0)

    def listed(unit: Weighed) -> None:
        assert 0 < len(reviews.list_waiting(unit, "beta", LATER)) <= OPEN

    check(pair, count)
    check(pair, listed)


@pytest.mark.parametrize("project", [None, "beta"])
@pytest.mark.parametrize("side", ["reviewer", "proposer"])
def test_an_inbox_looks_at_open_reviews_only(pair: tuple[Weighed, Weighed], side: Any, project: str | None) -> None:
    def read(unit: Weighed) -> None:
        assert 0 < len(inbox.list_open(unit, side, names=ANNA, project=project, limit=1_000)) <= OPEN

    check(pair, read)


@pytest.mark.parametrize("name", ["own", "offered", "held", "attention", "escalated", "rejected", "overdue"])
def test_what_a_person_must_hear_of_is_found_among_open_reviews(pair: tuple[Weighed, Weighed], name: Any) -> None:
    found: list[object] = []

    def read(unit: Weighed) -> None:
        person = "rita" if name == "held" else "agent-20"
        names = Names.of(person, by_token=False)
        found.append(inbox.list_special(unit, name, person=person, names=names, project=None, limit=51, before_us=2))

    check(pair, read)
    assert all(found) or name in {"own", "offered"}


def test_how_large_changes_are_is_found_by_their_reviews(pair: tuple[Weighed, Weighed]) -> None:
    def read(unit: Weighed) -> None:
        some = [review.id for review, _ in inbox.list_open(unit, "reviewer", names=ANNA, project=None, limit=10)]
        assert inbox.list_sizes(unit, some).keys() == set(some)

    check(pair, read)


def test_whether_a_commit_stands_is_found_by_its_review(pair: tuple[Weighed, Weighed]) -> None:
    check(pair, lambda unit: inbox.is_standing(unit, "rv_1000007"))


@pytest.mark.parametrize("project", [None, "beta"])
def test_statistics_since_a_day_look_at_no_day_before(pair: tuple[Weighed, Weighed], project: str | None) -> None:
    def read(unit: Weighed) -> None:
        since: dict[str, Any] = {"project": project, "since_day": "2002-01-01"}
        assert 0 < len(reports.list_counts(unit, "category", "project", "reviewer_id", **since)) <= OPEN
        assert len(reports.list_counts(unit, "day", **since)) == 1
        assert pool.list_models(unit, **since) == {}

    check(pair, read)


FILTERS: list[dict[str, Any]] = [
    {},
    {"project": "beta"},
    {"state": "closed"},
    {"state": "pending"},
    {"state": "changes_requested", "project": "beta"},
    {"turn": "proposer", "category": "handoff"},
    {"category": "handoff"},
    {"category": "handoff", "project": "alpha"},
    {"priority": 2},
    {"priority": 0, "project": "alpha", "state": "closed"},
]


@pytest.mark.parametrize("sort", ["queue", "newest", pytest.param("oldest", marks=VARIATION), "updated"])
@pytest.mark.parametrize("given", FILTERS, ids=lambda given: "-".join(given) or "all")
@pytest.mark.parametrize("deep", [False, True])
def test_a_piece_of_a_search_costs_the_same(
    pair: tuple[Weighed, Weighed], given: dict[str, Any], sort: Any, *, deep: bool
) -> None:
    if sort == "updated" and "turn" not in given and given.get("state") in (None, "closed"):
        given = {name: value for name, value in given.items() if name in ("project", "state")}

    def read(unit: Weighed) -> None:
        shape = Shape(sort, frozenset(given), given.get("state"), attention=False, after=deep, texts=True)
        half = unit.reviews * 10_000 // 2
        middle = {"queue": (1, half, "rv_"), "updated": (unit.reviews,)}.get(sort, (half, "rv_"))
        after = middle if deep else None
        reports.list_candidates(unit, shape, after=after, limit=100, given=given)

    check(pair, read)

"""Several units a commit, and each of them alone in its fate."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import bindparam, text, update

from tandem.errors import NotFound, Unavailable
from tandem.store.base import Conflict, Store
from tandem.store.engine import make_store
from tandem.store.statement import Statement
from tests.store.notes import LINK, SCHEMA, SEE, SEEN, add, ids, notes, together

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tandem.store.base import Unit

pytestmark = pytest.mark.anyio

DEFER = Statement(text("PRAGMA defer_foreign_keys = ON"))
SEE_AFTER = Statement(
    update(notes)
    .where(notes.c.id == bindparam("key"), notes.c.seen == bindparam("before"))
    .values(seen=bindparam("after"))
)
CAP = Statement(text("PRAGMA max_page_count = 40"))
UNCAP = Statement(text("PRAGMA max_page_count = 1000000"))


@pytest.fixture
def sqlite(sqlite_url: str) -> Iterator[Store]:
    store = make_store(sqlite_url, schema=SCHEMA)
    store.open_blocking()
    yield store
    store.close_blocking()


def refuses(unit: Unit) -> None:
    add("half made")(unit)
    raise NotFound("no such review")


def fails_at_commit(unit: Unit) -> None:
    """A constraint that is checked only at the end: a COMMIT that really fails."""
    unit.execute(DEFER)
    unit.execute(LINK, id="orphan", note_id="missing")


@pytest.mark.parametrize(("count", "commits"), [(100, range(1, 4)), (600, range(3, 601))])
async def test_units_that_wait_are_committed_together_as_many_as_a_commit_takes(
    sqlite: Store, count: int, commits: range
) -> None:
    keys = [f"{number:03}" for number in range(count)]
    assert await together(sqlite, *(add(key) for key in keys)) == keys
    done = sqlite.statistics()
    assert done.units == count + 1
    assert done.commits in commits
    assert await sqlite.read(ids) == keys


@pytest.mark.parametrize(
    ("position", "fails", "error"), [(0, refuses, NotFound), (1, add("a"), Conflict), (2, refuses, NotFound)]
)
async def test_a_unit_that_fails_leaves_the_others_of_its_commit(
    engine: Store, position: int, fails: Callable[[Unit], Any], error: type[Exception]
) -> None:
    units: list[Callable[[Unit], Any]] = [add("a"), add("b")]
    units.insert(position, fails)
    answers = await together(engine, *units)
    assert isinstance(answers.pop(position), error)
    assert answers == ["a", "b"]
    assert await engine.read(ids) == ["a", "b"]
    assert engine.statistics().failed == 1


def sees(key: str, met: list[str]) -> Callable[[Unit], int]:
    """Reads how often a note was seen, and writes one more, as often as that was still so when it is written."""

    def unit(unit: Unit) -> int:
        met.append("reads")
        seen = int(unit.value(SEEN, id=key))
        met.append("writes")
        unit.put_one(SEE_AFTER, key=key, before=seen, after=seen + 1)
        return seen

    return unit


async def test_units_that_work_on_one_thing_come_one_after_the_other(engine: Store) -> None:
    await engine.write(add("a"))
    met: list[str] = []
    assert await together(engine, *[sees("a", met)] * 5, works_on="a") == [0, 1, 2, 3, 4]
    assert met == ["reads", "writes"] * 5
    assert await engine.read(lambda unit: unit.one_or_none(SEEN, id="a")) == (5,)


async def test_units_that_work_on_different_things_ask_postgresql_at_the_same_time(postgres_url: str) -> None:
    engine = make_store(postgres_url, schema=SCHEMA, readers=1)
    await engine.open()
    for key in "abc":
        await engine.write(add(key))
    met: list[str] = []
    assert await together(engine, *(sees(key, met) for key in "abc")) == [0, 0, 0]
    assert met == ["reads"] * 3 + ["writes"] * 3
    await engine.close()


async def test_units_that_are_in_each_others_way_all_succeed_whatever_they_say_they_work_on(engine: Store) -> None:
    await engine.write(add("a"))
    assert sorted(await together(engine, *[sees("a", [])] * 4)) == [0, 1, 2, 3]
    assert await engine.read(lambda unit: unit.one_or_none(SEEN, id="a")) == (4,)


async def test_a_unit_that_has_to_be_alone_is_run_without_the_others(engine: Store) -> None:
    def alone(unit: Unit) -> list[str]:
        unit.execute(SEE, key="a")
        unit.be_alone()
        return ids(unit)

    answers = await together(engine, add("a"), alone, add("b"))
    assert answers[0] == "a"
    assert set(answers[1]) - {"b"} == {"a"}
    assert answers[2] == "b"
    assert await engine.read(lambda unit: unit.all(SEEN, id="a")) == [(1,)], "the writes before `be_alone` are undone"


async def test_a_commit_that_fails_fails_all_its_units_and_the_next_one_works(sqlite: Store) -> None:
    heard: list[int] = []
    sqlite.add_listener(lambda notice, _: heard.append(notice))
    answers = await together(sqlite, add("a", notice=1), fails_at_commit, add("b", notice=2))
    assert [type(answer) for answer in answers] == [Unavailable, Unavailable, Unavailable]
    assert {type(answer.__cause__) for answer in answers} == {sqlite3.IntegrityError}
    assert await sqlite.read(ids) == []
    assert await sqlite.write(add("c", notice=3)) == "c"
    assert await sqlite.read(ids) == ["c"]
    assert heard == [3]


async def test_a_disk_that_fills_up_within_a_commit_keeps_what_it_acknowledged(sqlite: Store) -> None:
    await sqlite.write(lambda unit: unit.all(CAP))
    answers = await together(sqlite, *(add(f"{number:03}", body="x" * 4000) for number in range(60)))
    kept = [answer for answer in answers if isinstance(answer, str)]
    assert {type(answer) for answer in answers} == {str, Unavailable}
    assert await sqlite.read(ids) == kept
    await sqlite.write(lambda unit: unit.all(UNCAP))
    assert await sqlite.write(add("roomy", body="x" * 4000)) == "roomy"


async def test_a_database_that_another_process_keeps_locked_is_unavailable_to_all_who_wait(
    sqlite_url: str, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tandem.store.sqlite.BUSY_TIMEOUT_MS", 20)
    store = make_store(sqlite_url, schema=SCHEMA)
    await store.open()
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        answers = await asyncio.gather(*(store.write(add(key)) for key in "abc"), return_exceptions=True)
        assert [type(answer) for answer in answers] == [Unavailable] * 3
        assert "locked by another process" in str(answers[0])
        assert await store.read(ids) == []
        other.execute("ROLLBACK")
    assert await store.write(add("a")) == "a"
    await store.close()


FILL = """
import resource, sys
from tandem.errors import Unavailable
from tandem.store.engine import make_store
from tests.store.notes import SCHEMA, add, present

store = make_store(sys.argv[1], schema=SCHEMA)
store.open_blocking()
soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, hard))
kept = []
try:
    for number in range(1000):
        kept.append(store.write_blocking(add(f"{number:04}", body="x" * 4000)))
except Unavailable as error:
    assert "disk" in error.message, error
else:
    raise SystemExit("the limit did not limit")
assert present(store) == kept
resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
kept.append(store.write_blocking(add("roomy")))
assert present(store) == kept
store.close_blocking()
print(len(kept))
"""


@pytest.mark.skipif(os.name == "nt", reason="platform: Windows has no limit on the size of a process's files")
def test_a_disk_that_stops_writing_is_reported_and_survived(sqlite_url: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", FILL, sqlite_url],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 1

"""Behaviour of a database server alone: it goes away, comes back, and serves several nodes."""

from __future__ import annotations

import asyncio
import threading
from contextlib import closing
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from sqlalchemy import bindparam, select, text

from tandem.errors import ConfigInvalid, InvalidInput, Unavailable
from tandem.store.base import REREAD, Store
from tandem.store.engine import make_store
from tandem.store.pipeline import Pipeline
from tandem.store.statement import Statement
from tests.store.notes import SCHEMA, SEE, SEEN, WAIT_SECONDS, Heard, add, ids, notes, together

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from tandem.store.base import Unit

pytestmark = pytest.mark.anyio

LOCKED = Statement(select(notes.c.seen).where(notes.c.id == bindparam("id")).with_for_update())
MY_PID = Statement(text("SELECT pg_backend_pid()"))


@pytest.fixture
async def nodes(postgres_url: str) -> AsyncIterator[Callable[[], Store]]:
    """Makes open stores on one database, as brokers on several machines have them."""
    opened: list[Store] = []

    def another() -> Store:
        store = make_store(postgres_url, schema=SCHEMA, readers=2)
        store.open_blocking()
        opened.append(store)
        return store

    yield another
    for store in opened:
        await store.close()


def terminate(url: str, condition: str) -> None:
    """Cut connections from outside, as an administrator or a fail-over does."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity"
            f" WHERE datname = current_database() AND pid <> pg_backend_pid() AND {condition}".encode()
        )


async def test_what_goes_behind_a_commit_may_fail_and_the_commit_stands(postgres_url: str) -> None:
    with closing(Pipeline(psycopg.connect(postgres_url, autocommit=True))) as pipeline:
        pipeline.send("CREATE TABLE kept (id integer)")
        pipeline.receive()
        for behind in ("SELECT * FROM nowhere", "SELECT 1 / 0", "SELECT pg_notify('tandem_events', repeat('x', 8000))"):
            # The second time it is prepared already, if it can be.
            for _ in range(2):
                for sql in ("BEGIN", "INSERT INTO kept VALUES (1)", "COMMIT"):
                    pipeline.send(sql)
                answers = pipeline.receive((behind, ()))
                assert [answer.command_status for answer in answers] == [b"BEGIN", b"INSERT 0 1", b"COMMIT"]
        pipeline.send("SELECT count(*) FROM kept")
        assert pipeline.rows(pipeline.receive()[0]) == [(6,)]


async def test_words_of_others_on_the_channel_are_passed_over(nodes: Callable[[], Store], postgres_url: str) -> None:
    here, there = nodes(), nodes()
    heard = Heard()
    there.add_listener(heard)
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute("NOTIFY tandem_events, 'hello'")
        connection.execute("NOTIFY tandem_events")
    await here.write(add("a", notice=1))
    await heard.until(1)
    assert heard.notices == [1]


async def test_a_node_that_was_cut_off_is_told_to_read_again(nodes: Callable[[], Store], postgres_url: str) -> None:
    here, there = nodes(), nodes()
    heard = Heard()
    there.add_listener(heard)
    terminate(postgres_url, "query LIKE 'LISTEN%'")
    await heard.until(REREAD)
    await here.write(add("a", notice=1))
    await heard.until(1)


async def test_a_chores_lock_is_held_by_one_node_and_free_again_afterwards(nodes: Callable[[], Store]) -> None:
    here, there = nodes(), nodes()
    async with here.advisory_lock("sweep") as mine, there.advisory_lock("sweep") as theirs:
        assert (mine, theirs) == (True, False)
        async with there.advisory_lock("recovery") as other:
            assert other
    async with there.advisory_lock("sweep") as theirs:
        assert theirs


async def test_a_chores_lock_does_not_outlive_a_caller_that_was_cancelled(nodes: Callable[[], Store]) -> None:
    here, there = nodes(), nodes()
    inside = asyncio.Event()

    async def chore() -> None:
        async with here.advisory_lock("sweep"):
            inside.set()
            await asyncio.Event().wait()

    holding = asyncio.create_task(chore())
    await asyncio.wait_for(inside.wait(), WAIT_SECONDS)
    holding.cancel()
    await asyncio.wait([holding])
    asking = asyncio.create_task(chore())
    await asyncio.sleep(0)
    asking.cancel()
    await asyncio.wait([asking])
    async with asyncio.timeout(WAIT_SECONDS):
        granted = False
        while not granted:
            async with there.advisory_lock("sweep") as granted:
                pass


async def test_a_unit_whose_connection_breaks_before_the_commit_is_run_again(
    nodes: Callable[[], Store], postgres_url: str
) -> None:
    store = nodes()
    runs: list[str] = []

    def cuts(key: str) -> Callable[[Unit], str]:
        def unit(unit: Unit) -> str:
            runs.append(key)
            if runs.count(key) == 1:
                terminate(postgres_url, f"pid = {unit.value(MY_PID)}")
            return add(key)(unit)

        return unit

    assert await store.write(cuts("a")) == "a"
    assert runs == ["a", "a"]
    assert store.statistics().repeated == 1
    assert await together(store, add("b"), cuts("c"), add("d")) == ["b", "c", "d"]
    assert await store.read(ids) == ["a", "b", "c", "d"]


async def test_a_unit_whose_connections_keep_breaking_is_unavailable(
    nodes: Callable[[], Store], postgres_url: str
) -> None:
    store = nodes()

    def unit(unit: Unit) -> None:
        terminate(postgres_url, f"pid = {unit.value(MY_PID)}")
        unit.all(MY_PID)

    with pytest.raises(Unavailable, match="lost twice"):
        await store.write(unit)
    assert await store.write(add("a")) == "a"


async def test_a_unit_that_waits_for_a_row_holds_up_none_that_it_would_share_a_transaction_with(
    nodes: Callable[[], Store], postgres_url: str
) -> None:
    store = nodes()
    for key in "ab":
        await store.write(add(key))

    def locks_and_sees(key: str) -> Callable[[Unit], Any]:
        def unit(unit: Unit) -> Any:
            row = unit.one_or_none(LOCKED, id=key)
            unit.put(SEE, key=key)
            return row

        return unit

    with psycopg.connect(postgres_url) as other:
        other.execute("SELECT id FROM notes WHERE id = 'a' FOR UPDATE")
        both = asyncio.create_task(together(store, locks_and_sees("a"), locks_and_sees("b")))
        async with asyncio.timeout(WAIT_SECONDS):
            while await store.read(lambda unit: unit.one_or_none(SEEN, id="b")) != (1,):  # noqa: ASYNC110 - only the database knows
                await asyncio.sleep(0.01)
        assert not both.done()
        other.rollback()
        assert await both == [(0,), (0,)]
    assert await store.read(lambda unit: unit.one_or_none(SEEN, id="a")) == (1,)


async def test_units_that_wait_for_each_other_in_a_circle_both_succeed(nodes: Callable[[], Store]) -> None:
    pair = nodes(), nodes()
    store = pair[0]
    for key in ("left", "right"):
        await store.write(add(key))
    first_rows = threading.Barrier(2)

    def crossing(first: str, second: str) -> Callable[[Unit], None]:
        runs: list[int] = []

        def unit(unit: Unit) -> None:
            runs.append(unit.execute(SEE, key=first))
            if len(runs) == 1:
                first_rows.wait(WAIT_SECONDS)
            unit.execute(SEE, key=second)

        return unit

    units = (crossing("left", "right"), crossing("right", "left"))
    await asyncio.gather(*(each.write(unit, works_on=("it",)) for each, unit in zip(pair, units, strict=True)))
    assert await store.read(lambda unit: unit.one_or_none(SEEN, id="left")) == (2,)
    assert await store.read(lambda unit: unit.one_or_none(SEEN, id="right")) == (2,)
    assert sum(each.statistics().repeated for each in pair) >= 1


async def test_a_value_that_postgresql_cannot_keep_is_the_callers_mistake(nodes: Callable[[], Store]) -> None:
    with pytest.raises(InvalidInput):
        await nodes().write(add("nul \x00"))


def test_a_server_that_is_not_there_is_unavailable_and_no_password_is_told() -> None:
    store = make_store("postgresql://me:secret@127.0.0.1:9/x", schema=SCHEMA)
    with pytest.raises(Unavailable, match="is it running") as caught:
        store.open_blocking()
    assert "secret" not in str(caught.value)
    store.close_blocking()


def test_a_url_that_cannot_be_read_is_refused_and_not_repeated() -> None:
    with pytest.raises(ConfigInvalid) as caught:
        make_store("postgresql://me:secret@[::1/x?what=ever", schema=SCHEMA)
    assert "secret" not in str(caught.value)


def test_commits_wait_for_the_disk_as_told(postgres_url: str) -> None:
    name = postgres_url.rpartition("/")[2]
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(f'ALTER DATABASE "{name}" SET synchronous_commit = off'.encode())
    setting = Statement(text("SELECT current_setting('synchronous_commit')"))
    full = make_store(postgres_url, schema=SCHEMA)
    normal = make_store(postgres_url, schema=SCHEMA, durability="normal")
    for store, expected in ((full, "on"), (normal, "off")):
        store.open_blocking()
        assert store.write_blocking(lambda unit: unit.value(setting)) == expected
        store.close_blocking()

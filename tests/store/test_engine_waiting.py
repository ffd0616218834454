"""Callers that vanish, listeners that are told, stores that are closed."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from tandem.errors import Unavailable
from tandem.store.engine import make_store
from tandem.store.jobs import lane
from tests.store.notes import SCHEMA, WAIT_SECONDS, Heard, Hold, add, ids, present

if TYPE_CHECKING:
    from tandem.store.base import Store, Unit

pytestmark = pytest.mark.anyio


async def held(engine: Store) -> tuple[Hold, asyncio.Task[str]]:
    """The only thread that writes, kept busy."""
    hold = Hold()
    holding = asyncio.create_task(engine.write(hold))
    await asyncio.to_thread(hold.wait_until_begun)
    return hold, holding


async def started(engine: Store, *keys: str) -> list[asyncio.Task[str]]:
    """Writes that wait for their turn."""
    tasks = [asyncio.create_task(engine.write(add(key))) for key in keys]
    await asyncio.sleep(0)
    return tasks


async def test_a_unit_whose_caller_went_before_its_turn_never_runs(engine: Store) -> None:
    hold, holding = await held(engine)
    gone, stays = await started(engine, "gone", "stays")
    gone.cancel()
    await asyncio.wait([gone])
    hold.release()
    await holding
    assert await stays == "stays"
    assert gone.cancelled()
    assert await engine.read(ids) == ["stays"]
    done = engine.statistics()
    assert (done.units, done.failed, done.dropped) == (2, 0, 1)


async def test_a_unit_that_had_begun_is_completed_though_its_caller_went(engine: Store) -> None:
    hold = Hold()

    def unit(unit: Unit) -> None:
        add("begun")(unit)
        hold(unit)

    caller = asyncio.create_task(engine.write(unit))
    await asyncio.to_thread(hold.wait_until_begun)
    caller.cancel()
    await asyncio.wait([caller])
    hold.release()
    await engine.write(add("later"))
    assert caller.cancelled()
    assert await engine.read(ids) == ["begun", "later"]


@pytest.mark.parametrize("works_on", [(), ("it",)])
async def test_p4_what_a_late_caller_was_told_is_true_of_what_becomes_of_its_unit(
    engine: Store, works_on: tuple[str, ...]
) -> None:
    hold = Hold()

    def begun(unit: Unit) -> None:
        add("begun")(unit)
        hold(unit)

    engine.answer_seconds = 0.1
    running = asyncio.create_task(engine.write(begun, works_on=works_on))
    await asyncio.to_thread(hold.wait_until_begun)
    waiting = asyncio.create_task(engine.write(add("waiting"), works_on=works_on))
    late = await asyncio.gather(running, waiting, return_exceptions=True)
    engine.answer_seconds = None
    hold.release()
    await engine.write(add("later"), works_on=works_on)
    written = await engine.read(ids)
    told = {
        name: error.retryable
        for name, error in zip(("begun", "waiting"), late, strict=True)
        if isinstance(error, Unavailable)
    }
    # SQLite's thread commits the unit that it has begun; the caller was told that the result is unknown.
    assert told == {"begun": engine.dialect == "postgresql", "waiting": True}
    assert written == sorted(["later", *(name for name, may_be_repeated in told.items() if not may_be_repeated)])


async def test_listeners_hear_nothing_of_units_that_failed_or_had_nothing_to_tell(engine: Store) -> None:
    heard = Heard()
    engine.add_listener(heard)
    await engine.write(add("a"))

    def fails(unit: Unit) -> None:
        unit.on_commit(5)
        raise LookupError

    with pytest.raises(LookupError):
        await engine.write(fails)
    await engine.write(add("b", notice=6))
    await heard.until(6)
    assert heard.notices == [6]


async def test_a_listener_that_fails_keeps_nobody_else_from_hearing(
    engine: Store, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(notice: int, _subjects: object) -> None:
        raise RuntimeError(notice)

    heard = Heard()
    engine.add_listener(broken)
    engine.add_listener(heard)
    assert await engine.write(add("a", notice=1)) == "a"
    await heard.until(1)
    assert "a listener of the store failed" in caplog.text


async def test_what_waits_when_the_store_is_closed_is_still_done(engine: Store, database_url: str) -> None:
    hold, holding = await held(engine)
    writes = await started(engine, "a", "b")
    closing = asyncio.create_task(engine.close())
    hold.release()
    await asyncio.wait_for(closing, WAIT_SECONDS)
    assert await asyncio.gather(holding, *writes) == [engine.dialect, "a", "b"]
    assert reopened(database_url) == ["a", "b"]


def reopened(database_url: str) -> list[str]:
    """Returns the notes that another store finds."""
    again = make_store(database_url, schema=SCHEMA)
    again.open_blocking()
    try:
        return present(again)
    finally:
        again.close_blocking()


async def test_closing_under_load_answers_every_call_and_keeps_what_it_acknowledged(
    engine: Store, database_url: str
) -> None:
    kept: list[str] = []
    busy = asyncio.Event()
    refused = 0

    async def writer(name: int) -> None:
        nonlocal refused
        for number in range(10_000):
            try:
                kept.append(await engine.write(add(f"{name}-{number}")))
                await engine.read(ids)
                if len(kept) >= 40:
                    busy.set()
            except Unavailable:
                refused += 1
                return

    writers = [asyncio.create_task(writer(name)) for name in range(8)]
    await asyncio.wait_for(busy.wait(), WAIT_SECONDS)
    await engine.close()
    await asyncio.wait_for(asyncio.gather(*writers), WAIT_SECONDS)
    assert refused == 8
    assert reopened(database_url) == sorted(kept)


async def test_too_many_waiting_units_are_refused(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tandem.store.jobs.WAITING_LIMIT", 3)
    store = make_store(database_url, schema=SCHEMA, readers=1)
    await store.open()
    hold, holding = await held(store)
    writes = await started(store, "a", "b", "c")
    assert store.statistics().waiting == 3
    with pytest.raises(Unavailable, match="3 units of work are waiting"):
        await store.write(add("d"))
    hold.release()
    assert await asyncio.gather(holding, *writes) == [store.dialect, "a", "b", "c"]
    await store.close()


async def test_p12_the_many_reads_of_one_project_delay_anothers_by_one(engine: Store) -> None:
    hold, order = Hold(), list[str]()

    async def asked(project: str) -> None:
        lane.set(project)
        await engine.read(lambda _: order.append(project))

    holding = asyncio.create_task(engine.read(hold))
    await asyncio.to_thread(hold.wait_until_begun)
    crowd = [asyncio.create_task(asked("crowd")) for _ in range(50)]
    await asyncio.sleep(0)
    other = asyncio.create_task(asked("shop"))
    await asyncio.sleep(0)
    hold.release()
    await asyncio.gather(*crowd, other)
    await holding
    assert "shop" in order[:2]
    assert sorted(order) == [*["crowd"] * 50, "shop"]

"""A unit of work: all of it or nothing, on both databases alike."""

from __future__ import annotations

import sqlite3
import threading
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from sqlalchemy import bindparam, insert, select, text

from tandem.errors import InvalidTransition
from tandem.store.base import Conflict, StoreError
from tandem.store.statement import Statement
from tests.store.notes import COUNT, IDS, INSERT, LINK, SEE, SEEN, WAIT_SECONDS, add, ids, notes, present

if TYPE_CHECKING:
    from tandem.store.base import Store, Unit

pytestmark = pytest.mark.anyio

DRIVER_ERRORS = (sqlite3.Error, psycopg.Error)


async def test_what_a_unit_wrote_is_there_when_write_returns(engine: Store) -> None:
    assert await engine.write(add("a")) == "a"
    assert await engine.read(ids) == ["a"]


async def test_a_unit_that_raises_leaves_nothing_and_its_exception_arrives_unchanged(engine: Store) -> None:
    refusal = InvalidTransition("no", allowed=["pending"])

    def unit(unit: Unit) -> None:
        add("a")(unit)
        raise refusal

    with pytest.raises(InvalidTransition) as caught:
        await engine.write(unit)
    assert caught.value is refusal
    assert await engine.read(ids) == []
    assert await engine.write(add("a")) == "a"


async def test_a_unit_that_raises_stop_iteration_is_answered_too(engine: Store) -> None:
    def unit(unit: Unit) -> str:
        return next(iter([row[0] for row in unit.all(IDS)]))

    with pytest.raises(RuntimeError, match="StopIteration"):
        await engine.write(unit)
    assert await engine.write(add("a")) == "a"


def repeats_an_id(unit: Unit) -> None:
    unit.execute(INSERT, id="a", body="", seen=0, attachment=None)


def leaves_out_the_body(unit: Unit) -> None:
    unit.execute(INSERT, id="b", body=None, seen=0, attachment=None)


def links_to_nothing(unit: Unit) -> None:
    unit.execute(LINK, id="l", note_id="missing")


@pytest.mark.parametrize("offence", [repeats_an_id, leaves_out_the_body, links_to_nothing])
async def test_a_broken_constraint_is_a_conflict_whose_cause_is_the_drivers_error(engine: Store, offence: Any) -> None:
    await engine.write(add("a"))
    with pytest.raises(Conflict) as caught:
        await engine.write(offence)
    assert isinstance(caught.value.__cause__, (sqlite3.IntegrityError, psycopg.IntegrityError))
    assert await engine.read(ids) == ["a"]


async def test_a_unit_that_hides_a_statements_error_is_not_kept(engine: Store) -> None:
    def unit(unit: Unit) -> None:
        add("a")(unit)
        try:
            unit.execute(INSERT, id="a", body="", seen=0, attachment=None)
        except DRIVER_ERRORS:
            return

    with pytest.raises(StoreError, match="hid an error"):
        await engine.write(unit)
    assert await engine.read(ids) == []


async def test_rows_come_as_tuples_of_plain_values(engine: Store) -> None:
    def unit(unit: Unit) -> None:
        unit.execute(INSERT, id="ä-☃", body="line\nline %s :x", seen=2**62, attachment=b"\x00\xff")

    await engine.write(unit)
    everything = Statement(select(notes))
    row = await engine.read(lambda unit: unit.one_or_none(everything))
    assert row == ("ä-☃", "line\nline %s :x", 2**62, b"\x00\xff")
    assert type(row) is tuple


async def test_one_or_none_answers_a_row_or_none_and_refuses_several(engine: Store) -> None:
    await engine.write(add("a"))
    assert await engine.read(lambda unit: unit.one_or_none(IDS)) == ("a",)
    assert await engine.read(lambda unit: unit.one_or_none(SEEN, id="b")) is None
    await engine.write(add("b"))
    with pytest.raises(LookupError, match="more than one row"):
        await engine.read(lambda unit: unit.one_or_none(IDS))


async def test_execute_answers_how_many_rows_it_touched(engine: Store) -> None:
    await engine.write(add("a"))
    assert await engine.write(lambda unit: unit.execute(SEE, key="a")) == 1
    assert await engine.write(lambda unit: unit.execute(SEE, key="b")) == 0
    assert await engine.read(lambda unit: unit.one_or_none(SEEN, id="a")) == (1,)


async def test_a_statement_can_answer_what_it_wrote(engine: Store) -> None:
    statement = Statement(insert(notes).values(id=bindparam("id"), body="", seen=7).returning(notes.c.seen))
    assert await engine.write(lambda unit: unit.one_or_none(statement, id="a")) == (7,)
    assert await engine.write(lambda unit: unit.all(statement, id="b")) == [(7,)]
    assert await engine.read(ids) == ["a", "b"]


async def test_constants_and_constant_lists_stay_with_the_statement(engine: Store) -> None:
    for key in "abc":
        await engine.write(add(key))
    chosen = Statement(
        select(notes.c.id)
        .where(notes.c.id.in_(["a", "b", "%"]), notes.c.seen == 0, notes.c.id != bindparam("other"))
        .order_by(notes.c.id)
        .limit(bindparam("limit"))
    )
    assert await engine.read(lambda unit: unit.all(chosen, other="x", limit=5)) == [("a",), ("b",)]
    assert await engine.read(lambda unit: unit.all(chosen, other="a", limit=5)) == [("b",)]
    assert await engine.read(lambda unit: unit.all(chosen, other="x", limit=1)) == [("a",)]


async def test_a_wrong_parameter_is_named(engine: Store) -> None:
    with pytest.raises(TypeError, match=r"missing parameters \['id'\], unknown parameters \['ID'\]"):
        await engine.read(lambda unit: unit.one_or_none(SEEN, ID="a"))


async def test_a_list_as_a_parameter_is_refused(engine: Store) -> None:
    statement = Statement(select(notes.c.id).where(notes.c.id.in_(bindparam("ids", expanding=True))))
    with pytest.raises(TypeError, match="no list as a parameter"):
        await engine.read(lambda unit: unit.all(statement, ids=["a"]))


async def test_a_mistake_in_a_statement_is_the_programmers_to_see(engine: Store) -> None:
    wrong = Statement(text("SELECT nothing FROM nowhere"))
    with pytest.raises(DRIVER_ERRORS):
        await engine.write(lambda unit: unit.all(wrong))
    assert await engine.write(add("a")) == "a"


async def test_a_unit_is_useless_after_its_end(engine: Store) -> None:
    kept: list[Unit] = []
    await engine.write(kept.append)
    with pytest.raises(AttributeError):
        kept[0].all(IDS)


async def test_a_read_changes_nothing(engine: Store) -> None:
    with pytest.raises(Exception, match="read"):
        await engine.read(add("a"))
    assert await engine.read(ids) == []
    assert await engine.write(add("a")) == "a"


async def test_a_read_sees_one_state_however_much_is_written_meanwhile(engine: Store) -> None:
    await engine.write(add("a"))
    looked, written = threading.Event(), threading.Event()

    def look_twice(unit: Unit) -> tuple[list[str], Any]:
        before = ids(unit)
        looked.set()
        assert written.wait(WAIT_SECONDS)
        return before, unit.one_or_none(COUNT)

    reader = threading.Thread(target=lambda: answers.append(engine.read_blocking(look_twice)))
    answers: list[tuple[list[str], Any]] = []
    reader.start()
    assert looked.wait(WAIT_SECONDS)
    await engine.write(add("b"))
    written.set()
    reader.join(WAIT_SECONDS)
    assert answers == [(["a"], (1,))]
    assert await engine.read(ids) == ["a", "b"]


def test_callers_without_an_event_loop_are_served_from_any_thread(engine: Store) -> None:
    threads = [threading.Thread(target=engine.write_blocking, args=(add(str(number)),)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAIT_SECONDS)
    assert present(engine) == [str(number) for number in range(8)]


def test_a_unit_that_waits_for_another_is_refused_instead_of_hanging(engine: Store) -> None:
    with pytest.raises(RuntimeError, match="wait for its own thread"):
        engine.write_blocking(lambda unit: engine.write_blocking(add(unit.dialect)))
    assert present(engine) == []

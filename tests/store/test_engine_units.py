"""A unit of work: all of it or nothing, on both databases alike."""

from __future__ import annotations

import sqlite3
import threading
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from tandem.errors import InvalidTransition
from tandem.store.base import Conflict, StoreError
from tests.store.notes import COUNT, INSERT, LINK, WAIT_SECONDS, add, ids

if TYPE_CHECKING:
    from tandem.store.base import Store, Unit

pytestmark = pytest.mark.anyio

DRIVER_ERRORS = (sqlite3.Error, psycopg.Error)


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

"""A supervisor keeps its reviewers while the broker is away, and gives up its place when another has it."""

from __future__ import annotations

import pytest

from tandem.errors import CursorExpired, Forbidden
from tests.reviewers.running import is_gone
from tests.reviewers.supervising import OrderBook, Scene

pytestmark = pytest.mark.anyio


def calls_of(book: OrderBook) -> list[bool]:
    """Counts the calls that come while the broker is away."""
    calls: list[bool] = []

    def away(_: object) -> bool:
        calls.append(True)
        return True

    book.away = away
    book.order(None)
    return calls


async def test_reviewers_go_on_while_the_broker_is_away(scene: Scene, book: OrderBook) -> None:
    async with scene.supervising(book, "obedient") as supervisor:
        row = book.order(scene.root)
        await scene.job(row)
        calls = calls_of(book)
        while len(calls) < 2:
            await scene.pause()
        assert supervisor.running
        assert not is_gone(row.pid)
        book.away = lambda _: False
        book.want(row, "drain")
        await book.until("it was drained", lambda: row.ended)
        assert row.told["exit_code"] == 0


async def test_an_end_in_the_meantime_is_told_afterwards(scene: Scene, book: OrderBook) -> None:
    async with scene.supervising(book, "leave", "3"):
        row = book.order(scene.root)
        book.away = lambda asked: any(one["state"] == "ended" for one in asked.get("reviewers", ()))
        await scene.note(row, "child")
        while scene.scratch(row).exists():
            await scene.pause()
        book.away = lambda _: False
        await book.until("its end is told", lambda: row.ended)
        assert (row.told["exit_code"], row.told["quick"]) == (3, True)


async def test_no_answer_of_the_broker_ends_the_supervision(scene: Scene, book: OrderBook) -> None:
    failures = [OSError(), ZeroDivisionError(), Forbidden("not today"), CursorExpired("of another log")]

    def away(asked: dict[str, object]) -> bool:
        if asked.get("reviewers") and failures:
            raise failures.pop()
        return False

    async with scene.supervising(book, "obedient") as supervisor:
        book.away = away
        row = book.order(scene.root)
        await scene.job(row)
        assert failures == []
        assert supervisor.running
        assert None in [told["cursor"] for told in book.heartbeats]


async def test_one_whose_place_was_taken_ends_its_reviewers_and_registers_anew_but_only_once(
    scene: Scene, book: OrderBook
) -> None:
    async with scene.supervising(book, "busy") as supervisor:
        row = book.order(scene.root)
        await scene.job(row)
        book.replace()
        await book.until("it registered again", lambda: len(book.registrations) == 2)
        assert is_gone(row.pid)
        assert scene.noted(row, "end") == "cancel"
        first, second = book.registrations
        assert first["secret"] == second["secret"]
        assert first["incarnation"] != second["incarnation"]
        row = book.order(scene.root)
        await scene.job(row)
        assert supervisor.running
        book.replace()
        await supervisor.wait_ended()
        assert not supervisor.running
        assert is_gone(row.pid)
        told = len(book.heartbeats)
    # It has nothing more to tell a broker for whom another has its name.
    assert (len(book.registrations), len(book.heartbeats)) == (2, told)


async def test_one_that_is_not_taken_back_ends_for_good(scene: Scene, book: OrderBook) -> None:
    async with scene.supervising(book, "busy") as supervisor:
        book.refusal = Forbidden("the token was revoked")
        book.replace()
        await supervisor.wait_ended()
        assert not supervisor.running


async def test_one_that_cannot_register_anew_at_once_tries_again(scene: Scene, book: OrderBook) -> None:
    async with scene.supervising(book, "busy") as supervisor:
        calls: list[object] = []

        def away(asked: dict[str, object]) -> bool:
            if "host" in asked:
                calls.append(asked["incarnation"])
            return "host" in asked

        book.away = away
        book.replace()
        while len(calls) < 2:
            await scene.pause()
        assert supervisor.running
        book.away = lambda _: False
        await book.until("it registered again", lambda: len(book.registrations) == 2)
        # It is one start, which the broker may have taken in without its hearing so.
        assert {*calls} == {book.registrations[1]["incarnation"]}

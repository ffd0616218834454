"""The real worker understands its supervisor: its job, the order to drain, the order to break off, the stop."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import psutil
import pytest

from tests.reviewers.peer import Peer
from tests.reviewers.running import ACTS, is_gone, number_in
from tests.reviewers.supervising import OrderBook, Scene

pytestmark = pytest.mark.anyio


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


@pytest.fixture
def book() -> OrderBook:
    return OrderBook()


def hanging(folder: Path) -> tuple[str, ...]:
    """A program that notes its number and does not come to an end."""
    return (sys.executable, str(ACTS), "note", str(folder / "program"), "sleep", "300")


async def test_a_worker_that_is_drained_while_idle_ends_in_order(scene: Scene, book: OrderBook, peer: Peer) -> None:
    async with scene.supervising(book, broker_url=peer.url):
        row = book.order(scene.root)
        await asyncio.to_thread(peer.wait_for, "list_reviews")
        book.want(row, "drain")
        await book.until("it has ended", lambda: row.ended)
        assert (row.told["exit_code"], row.told["quick"], row.told["error"]) == (0, False, None)


async def test_a_worker_that_is_killed_breaks_off_and_reports(
    scene: Scene, book: OrderBook, peer: Peer, tmp_path: Path
) -> None:
    async with scene.supervising(book, broker_url=peer.url, command=hanging(tmp_path)):
        row = book.order(scene.root, project="shop")
        peer.put_up()
        program = await asyncio.to_thread(number_in, tmp_path / "program")
        assert psutil.Process(program).environ()["TANDEM_REVIEWER"] == row.reviewer_id
        book.want(row, "kill")
        await book.until("it has ended", lambda: row.ended)
        assert (row.told["exit_code"], row.told["error"]) == (0, None)
        assert is_gone(program)
    [outcome] = peer.all("report_outcome")
    assert (outcome["reviewer_id"], outcome["outcome"]) == (row.reviewer_id, "cancelled")


async def test_a_stop_ends_a_review_that_takes_too_long(
    scene: Scene, book: OrderBook, peer: Peer, tmp_path: Path
) -> None:
    async with scene.supervising(book, broker_url=peer.url, command=hanging(tmp_path)) as supervisor:
        row = book.order(scene.root, project="shop")
        peer.put_up()
        program = await asyncio.to_thread(number_in, tmp_path / "program")
        await supervisor.stop()
        assert (row.told["exit_code"], row.told["error"]) == (0, None)
        assert is_gone(program)
    assert [one["outcome"] for one in peer.all("report_outcome")] == ["cancelled"]


async def test_a_worker_whose_program_is_missing_fails_quickly(scene: Scene, book: OrderBook, peer: Peer) -> None:
    async with scene.supervising(book, broker_url=peer.url, command=("no-such-program",)):
        row = book.order(scene.root, project="shop")
        peer.put_up()
        await book.until("it has ended", lambda: row.ended)
        assert (row.told["exit_code"], row.told["quick"]) == (3, True)
        assert "no-such-program" in row.told["error"]

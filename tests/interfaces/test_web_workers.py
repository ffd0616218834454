"""Where pages are made: apart from everything else that needs a thread, and only for who still waits."""

from __future__ import annotations

import asyncio
from threading import Event, Semaphore

import pytest

from tandem.web.diffs.syntax import Budget
from tandem.web.page import THREADS, in_worker

BUSY = 8


@pytest.mark.anyio
async def test_pages_keep_no_other_work_waiting_and_end_with_their_client() -> None:
    may_end, has_begun, begun = Event(), Semaphore(0), list[int]()

    def page(number: int) -> None:
        begun.append(number)
        has_begun.release()
        assert may_end.wait(30)

    pages = [asyncio.create_task(in_worker(page, number)) for number in range(BUSY)]
    try:
        for _ in range(THREADS):
            assert await asyncio.to_thread(has_begun.acquire, timeout=60)
        # What validates a diff takes threads of the loop's own; all of those are free.
        others = [asyncio.to_thread(may_end.is_set) for _ in range(BUSY)]
        assert not any(await asyncio.wait_for(asyncio.gather(*others), 30))
        gone = [task for number, task in enumerate(pages) if number not in begun]
        for task in gone:
            task.cancel()
        await asyncio.wait(gone)
    finally:
        may_end.set()
    await asyncio.wait(pages)
    assert len(begun) == THREADS
    assert len(gone) == BUSY - THREADS


@pytest.mark.anyio
async def test_p12_a_page_that_has_begun_ends_with_its_client() -> None:
    """A thread cannot be stopped: the page itself checks for its client, wherever it checks its budget."""
    has_begun, has_ended = Event(), Event()

    def page() -> None:
        budget = Budget(40)
        try:
            while budget.left():
                has_begun.set()
        finally:
            has_ended.set()

    task = asyncio.create_task(in_worker(page))
    assert await asyncio.to_thread(has_begun.wait, 60)
    task.cancel()
    assert await asyncio.to_thread(has_ended.wait, 30)
    with pytest.raises(asyncio.CancelledError):
        await task

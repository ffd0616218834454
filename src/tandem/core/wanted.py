"""Ends work in threads once its caller is gone: a thread cannot be stopped from outside, so it has to look."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Generator
from concurrent.futures import Executor
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from typing import TypeVar

T = TypeVar("T")


class NotWanted(Exception):
    """The caller of this thread's work has gone."""


_check: ContextVar[Callable[[], None]] = ContextVar("check", default=lambda: None)


def check() -> None:
    """Call it now and then in long work.

    Raises:
        NotWanted: The caller of `in_thread` has gone.
    """
    _check.get()()


@contextmanager
def while_wanted() -> Generator[Callable[[], None]]:
    """As `check`, for a thread that `in_thread` did not begin: a function that raises once this block has ended."""
    ended = threading.Event()

    def look() -> None:
        if ended.is_set():
            raise NotWanted

    try:
        yield look
    finally:
        ended.set()


async def in_thread(executor: Executor, work: Callable[[], T]) -> T:
    """Do work in a thread of an executor; if this is cancelled, it does not begin, or ends at its next `check`."""
    context = copy_context()
    with while_wanted() as look:
        context.run(_check.set, look)
        return await asyncio.get_running_loop().run_in_executor(executor, context.run, work)

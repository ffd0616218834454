"""Threads in which pages are made: their own, so that what renders long keeps no validation waiting."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

THREADS = 2
"""More of them would not render faster: they take turns with each other, and with the event loop."""
_pool = ThreadPoolExecutor(THREADS, thread_name_prefix="tandem-page")


async def in_worker(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Do some of a page's work in a thread; what has not begun when the request is cancelled is never done."""
    return await asyncio.get_running_loop().run_in_executor(_pool, lambda: work(*args, **kwargs))

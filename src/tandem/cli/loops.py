"""The event loop that a broker or a pool runs on, and the signals that stop it."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Callable

if sys.platform == "win32":
    import asyncio as fastest
else:
    import uvloop as fastest


def new_event_loop() -> asyncio.AbstractEventLoop:
    """The fastest event loop that there is for the platform."""
    return fastest.new_event_loop()


def on_stop_signals(loop: asyncio.AbstractEventLoop, stop: Callable[[], None]) -> None:
    """Call `stop` in the loop's thread whenever the process is asked to stop by a signal."""
    if sys.platform == "win32":
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGBREAK):
            signal.signal(number, lambda _number, _frame: loop.call_soon_threadsafe(stop))
    else:
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, stop)

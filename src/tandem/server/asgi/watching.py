"""Running a call while its client listens: cancelled when it hangs up, kept alive while it waits."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from starlette.types import Receive

from tandem.server.asgi.exchange import ClientGone

# Most calls end sooner, on a busy broker too, and then cost no more than a timer that never fires.
WATCH_AFTER_SECONDS = 0.05

Heartbeat = Callable[[], Coroutine[Any, Any, None]]
_T = TypeVar("_T")


async def run_watched(
    work: Awaitable[_T],
    receive: Receive,
    *,
    heartbeat: Heartbeat | None = None,
    first_beat_seconds: float = WATCH_AFTER_SECONDS,
    beat_seconds: float = 15.0,
) -> _T:
    """Await `work` on behalf of a client.

    Args:
        work: What to run; it is cancelled when the client hangs up.
        receive: The request's ASGI `receive`, its body read already.
        heartbeat: Called while `work` takes its time, to show that somebody is still there.
        first_beat_seconds: When to call it first.
        beat_seconds: How often to call it after that.

    Raises:
        ClientGone: The client hung up; `work` has been cancelled.
    """
    watch = _Watch(receive, heartbeat, beat_seconds)
    watch.start_later(first_beat_seconds)
    try:
        result = await work
    except asyncio.CancelledError:
        if watch.client_gone:
            watch.task.uncancel()
            raise ClientGone from None
        raise
    finally:
        await watch.end()
    if watch.client_gone:  # the work ended in spite of its cancellation
        watch.task.uncancel()
        raise ClientGone
    return result


class _Watch:
    """Listens for the end of a connection, and beats in the meantime."""

    __slots__ = ("_beat", "_beat_seconds", "_heartbeat", "_listener", "_receive", "_timer", "client_gone", "task")

    def __init__(self, receive: Receive, heartbeat: Heartbeat | None, beat_seconds: float) -> None:
        task = asyncio.current_task()
        if task is None:
            raise RuntimeError("an ASGI application runs in a task")
        self.task = task
        self.client_gone = False
        self._receive = receive
        self._heartbeat = heartbeat
        self._beat_seconds = beat_seconds
        self._timer: asyncio.TimerHandle | None = None
        self._listener: asyncio.Task[None] | None = None
        self._beat: asyncio.Task[None] | None = None

    def start_later(self, first_beat_seconds: float) -> None:
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(WATCH_AFTER_SECONDS, self._start, first_beat_seconds - WATCH_AFTER_SECONDS)

    async def end(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._listener is not None:
            self._listener.cancel()
        if self._beat is not None and not self._beat.done():
            # A beat on its way out leaves whole before the answer follows it.
            await asyncio.wait([self._beat])

    def _start(self, until_first_beat_seconds: float) -> None:
        self._timer = None
        self._listener = asyncio.create_task(self._listen())
        if self._heartbeat is None:
            return
        if until_first_beat_seconds > 0:
            self._timer = asyncio.get_running_loop().call_later(until_first_beat_seconds, self._do_beat)
        else:
            self._do_beat()

    async def _listen(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        self.client_gone = True
        self.task.cancel()

    def _do_beat(self) -> None:
        if self._heartbeat is not None and (self._beat is None or self._beat.done()):
            self._beat = asyncio.create_task(self._heartbeat())  # else the client reads too slowly for another
        self._timer = asyncio.get_running_loop().call_later(self._beat_seconds, self._do_beat)

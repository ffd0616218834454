"""The SDK behind the fast path: imported in a thread when it is first needed, or a while after the start.

Half of what a start costs is that import. Many brokers never need it: those that only the command line talks to.
"""

from __future__ import annotations

import asyncio
import gc
import importlib
import logging
from collections.abc import Mapping
from contextlib import AsyncExitStack, suppress
from typing import Any

from starlette.types import ASGIApp

from tandem.errors import Unavailable
from tandem.server.mcp.recognition import ModernCheck

_log = logging.getLogger("tandem.server.mcp")
_IDLE_SECONDS = 20.0
"""After so long without need the import begins anyway, so that the first client of a day does not wait for it."""
_GC_THRESHOLDS = (10_000, 20, 50)
_SERVERS_MODULE = "tandem.server.mcp.server"


class SdkMount:
    """The SDK's servers, one for each endpoint, from start to stop.

    Attributes:
        modern_check: The SDK's checks of revision 2026-07-28; None until they are imported.
    """

    def __init__(self, **arguments: Any) -> None:
        """Nothing is imported yet; `arguments` are those of `tandem.server.mcp.server.make_managers`."""
        self.modern_check: ModernCheck | None = None
        self._arguments = arguments
        self._runner: asyncio.Task[None] | None = None
        self._ready: asyncio.Future[Mapping[str, ASGIApp]] | None = None
        self._needed = asyncio.Event()
        self._stopping = asyncio.Event()

    def start(self) -> None:
        """Begin importing soon; requests that need the SDK have it begin at once, and wait for it."""
        self._ready = asyncio.get_running_loop().create_future()
        self._runner = asyncio.create_task(self._run(self._ready), name="mcp-sdk")

    async def stop(self) -> None:
        """Cancel what the servers still run; may be called twice, or without a start."""
        self._stopping.set()
        self._needed.set()
        if self._runner is not None:
            await asyncio.wait([self._runner])

    async def ready(self) -> Mapping[str, ASGIApp]:
        """The servers' applications by path, as soon as they run.

        Raises:
            Unavailable: They were not started, could not be, or are stopping.
        """
        if self._ready is None:
            raise Unavailable("The MCP endpoint has not been started; try again in a moment.")
        self._needed.set()
        applications = await asyncio.shield(self._ready)
        if self._stopping.is_set():
            raise Unavailable("The broker is stopping; try again in a moment.")
        return applications

    async def _run(self, ready: asyncio.Future[Mapping[str, ASGIApp]]) -> None:
        """One task from beginning to end, as the SDK's task groups require."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._needed.wait(), _IDLE_SECONDS)
        while not self._stopping.is_set():
            try:
                await self._serve(ready)
            except Exception:  # noqa: BLE001 - the edge of a task of its own; logged and told to the waiters
                _log.exception("the MCP SDK could not be started or stopped")
                _collect_from_here()
            self._needed.clear()
            if not self._stopping.is_set():
                # What failed for want of memory or open files may succeed when the next client asks.
                self._give_up(ready, "The MCP endpoint could not be started; try again. The broker's log says why.")
                self._ready = ready = asyncio.get_running_loop().create_future()
                await self._needed.wait()
        self._give_up(ready, "The broker is stopping; try again in a moment.")

    async def _serve(self, ready: asyncio.Future[Mapping[str, ASGIApp]]) -> None:
        """Import the SDK, and run its servers until the broker stops."""
        managers, self.modern_check = await asyncio.to_thread(self._build)
        async with AsyncExitStack() as stack:
            for manager in managers.values():
                await stack.enter_async_context(manager.run())
            ready.set_result({path: manager.handle_request for path, manager in managers.items()})
            _collect_from_here()
            await self._stopping.wait()

    def _give_up(self, ready: asyncio.Future[Mapping[str, ASGIApp]], why: str) -> None:
        if not ready.done():
            ready.set_exception(Unavailable(why))
            ready.exception()  # seen, even if no request asks

    def _build(self) -> tuple[Mapping[str, Any], ModernCheck]:
        module = importlib.import_module(_SERVERS_MODULE)
        return module.make_managers(**self._arguments), module.passes_modern_checks


def _collect_from_here() -> None:
    """Leave the imported modules out of every collection to come, and collect less often: calls leave little behind."""
    gc.freeze()
    gc.enable()
    gc.set_threshold(*_GC_THRESHOLDS)

"""The MCP endpoints as one ASGI application: the fast path in front, the SDK behind.

The SDK is imported in a thread when it is first needed, or a while after the start. Half of what a start costs is that
import, and many brokers never need it: those that only the command line talks to.
"""

from __future__ import annotations

import asyncio
import gc
import importlib
import logging
from collections.abc import Mapping
from contextlib import AsyncExitStack, suppress
from typing import Any

import orjson
from starlette.types import ASGIApp

from tandem.bridge.messages import as_object, has_odd_id
from tandem.contract.operation import MCP_ROLES
from tandem.errors import Unavailable
from tandem.server.asgi.calls import AGENT_HEADER, identify, parse_json
from tandem.server.asgi.exchange import Exchange, replaying, send_bytes
from tandem.server.dispatch import TRACEPARENT, Dispatcher
from tandem.server.mcp import fastpath
from tandem.server.mcp.fastpath import ODD_ID_ERROR, PARSE_ERROR, server_stamp
from tandem.server.mcp.recognition import ModernCheck, ToolCall, recognise, traceparent
from tandem.server.mcp.tools import Tools
from tandem.settings.workflows import Workflow

PATH = "/mcp"


class McpEndpoints:
    """`/mcp` and one endpoint for each role.

    No endpoint keeps anything between requests: a client may come by another connection, or to another
    broker, and go on.

    Attributes:
        paths: Their addresses.
    """

    def __init__(
        self,
        dispatcher: Dispatcher,
        *,
        version: str,
        workflows: Mapping[str, Workflow],
        fast_path: bool = True,
    ) -> None:
        """Make the endpoints; nothing is imported or started yet.

        Args:
            dispatcher: Runs the operations.
            version: The broker's version, which clients are told.
            workflows: The workflows of hand-off cycles by name; each role gets its prompt.
            fast_path: Whether tool calls are answered without the SDK where possible.
        """
        roles: tuple[str | None, ...] = (None, *MCP_ROLES)
        self._tools: Mapping[str, Tools] = {
            PATH if role is None else f"{PATH}/{role}": Tools(dispatcher, role) for role in roles
        }
        self._sdk = _SdkMount(
            endpoints=self._tools,
            workflows=workflows,
            version=version,
        )
        self.paths = frozenset(self._tools)
        self._stamp = server_stamp(version)
        self._fast_path = fast_path

    def start(self) -> None:
        """Begin importing the SDK, in a thread; needs the running event loop."""
        self._sdk.start()

    async def stop(self) -> None:
        """Cancel what the SDK still runs."""
        await self._sdk.stop()

    async def serve(self, exchange: Exchange, body: bytes) -> None:
        """Answer one POST whose body has been read.

        Raises:
            ClientGone: The client hung up, and its call has been cancelled.
            InvalidInput: A `Tandem-Agent` or `project` that cannot be used.
            TooLarge: The message holds too many values.
            Unavailable: The SDK could not be started.
        """
        tools = self._tools[exchange.path]
        agent = exchange.headers.get(AGENT_HEADER)
        identify(tools.role, exchange.query, agent)
        try:
            message = parse_json(body)
        except orjson.JSONDecodeError:
            await send_bytes(exchange.send, 400, PARSE_ERROR)
            return
        if has_odd_id(as_object(message)):
            await send_bytes(exchange.send, 400, ODD_ID_ERROR)
            return
        if (parent := traceparent(message)) is not None:
            TRACEPARENT.set(parent)
        call = self._recognise(message, exchange)
        if call is None and self._fast_path and self._sdk.modern_check is None:
            await self._sdk.ready()
            call = self._recognise(message, exchange)
        del message  # a waiting call keeps no more than it needs
        if call is None:
            application = (await self._sdk.ready())[exchange.path]
            # The HTTP parser leaves blanks behind a value, and the SDK compares.
            headers = exchange.scope["headers"]
            exchange.scope["headers"] = [(name, value.strip(b" \t")) for name, value in headers]
            await application(exchange.scope, replaying(body, exchange.receive), exchange.send)
        else:
            del body
            caller = identify(tools.role, exchange.query, agent, call.client_name, exchange.access)
            await fastpath.answer(call, tools, caller, self._stamp, exchange)

    def _recognise(self, message: object, exchange: Exchange) -> ToolCall | None:
        # A repeated header may be a contradiction: the SDK decides.
        if not self._fast_path or exchange.has_repeated_headers:
            return None
        return recognise(message, exchange.headers, self._sdk.modern_check)


_log = logging.getLogger("tandem.server.mcp")
_IDLE_SECONDS = 20.0
"""After so long without need the import begins anyway, so that the first client of a day does not wait for it."""
_GC_THRESHOLDS = (10_000, 20, 50)
_SERVERS_MODULE = "tandem.server.mcp.server"


class _SdkMount:
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

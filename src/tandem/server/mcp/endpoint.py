"""The MCP endpoints as one ASGI application: the fast path in front, the SDK behind."""

from __future__ import annotations

from collections.abc import Mapping

import orjson

from tandem.bridge.messages import as_object, has_odd_id
from tandem.contract.operation import MCP_ROLES
from tandem.server.asgi.calls import AGENT_HEADER, identify, parse_json
from tandem.server.asgi.exchange import Exchange, replaying, send_bytes
from tandem.server.dispatch import TRACEPARENT, Dispatcher
from tandem.server.mcp import fastpath
from tandem.server.mcp.fastpath import ODD_ID_ERROR, PARSE_ERROR, server_stamp
from tandem.server.mcp.mount import SdkMount
from tandem.server.mcp.recognition import ToolCall, recognise, traceparent
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
        self._sdk = SdkMount(
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

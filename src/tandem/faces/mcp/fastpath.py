"""Answers tool calls without the SDK, exactly as the SDK would.

Revision 2026-07-28 gets plain JSON when the call ends within 15 seconds and an event stream after that;
the older revisions always get an event stream. A silent stream gets a comment every 15 seconds, so that
no proxy or client takes it for dead.
"""

from __future__ import annotations

from starlette.types import Send

from tandem.contract.caller import Caller
from tandem.faces.asgi.exchange import Exchange
from tandem.faces.asgi.replies import send_bytes
from tandem.faces.asgi.watching import WATCH_AFTER_SECONDS, run_watched
from tandem.faces.mcp.messages import call_result, event
from tandem.faces.mcp.recognition import ToolCall
from tandem.faces.mcp.tools import Tools

PING_SECONDS = 15.0
_PING = b": ping\r\n\r\n"
_STREAM_HEADERS = (
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-cache, no-transform"),
    (b"connection", b"keep-alive"),
    (b"x-accel-buffering", b"no"),
)


async def answer(
    call: ToolCall, tools: Tools, caller: Caller, stamp: bytes, exchange: Exchange, ping_seconds: float
) -> None:
    """Run a call and send its answer.

    Args:
        call: What was recognised.
        tools: What the endpoint offers.
        caller: Who calls.
        stamp: From `messages.server_stamp`.
        exchange: The request, its body read already.
        ping_seconds: How long a stream may be silent.

    Raises:
        ClientGone: The client hung up, and the call has been cancelled.
    """
    stream = _Stream(exchange.send, begins_with_ping=call.modern)
    outcome = await run_watched(
        tools.call(call.name, call.arguments, caller),
        exchange.receive,
        heartbeat=stream.beat,
        first_beat_seconds=ping_seconds if call.modern else WATCH_AFTER_SECONDS,
        beat_seconds=ping_seconds,
    )
    message = call_result(call.request_id, outcome, stamp if call.modern else b"")
    if call.modern and not stream.begun:
        await send_bytes(exchange.send, 200, message)
    else:
        await stream.end(message)


class _Stream:
    """The event stream of one answer, begun as late as the revision allows."""

    __slots__ = ("_begins_with_ping", "_send", "begun")

    def __init__(self, send: Send, *, begins_with_ping: bool) -> None:
        self._send = send
        self._begins_with_ping = begins_with_ping
        self.begun = False

    async def beat(self) -> None:
        """Show that the call is alive: by the headers first, by comments after that."""
        if not self.begun:
            await self._begin()
            if not self._begins_with_ping:
                return
        await self._send({"type": "http.response.body", "body": _PING, "more_body": True})

    async def end(self, message: bytes) -> None:
        """Send the answer as the last event."""
        if not self.begun:
            await self._begin()
        await self._send({"type": "http.response.body", "body": event(message)})

    async def _begin(self) -> None:
        self.begun = True
        await self._send({"type": "http.response.start", "status": 200, "headers": _STREAM_HEADERS})

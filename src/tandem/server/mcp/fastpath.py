"""Answers tool calls without the SDK, exactly as the SDK would.

Revision 2026-07-28 gets plain JSON when the call ends within 15 seconds and an event stream after that;
the older revisions always get an event stream. A silent stream gets a comment every 15 seconds, so that
no proxy or client takes it for dead.
"""

from __future__ import annotations

import orjson
from starlette.types import Send

from tandem.bridge.messages import INVALID_REQUEST, ODD_ID
from tandem.contract.caller import Caller
from tandem.server.asgi.exchange import WATCH_AFTER_SECONDS, Exchange, run_watched, send_bytes
from tandem.server.dispatch import CallResult
from tandem.server.mcp.recognition import ToolCall
from tandem.server.mcp.tasks import Task, Tasks
from tandem.server.mcp.tools import Tools

SERVER_NAME = "tandem"
SERVER_TITLE = "Tandem"
PARSE_ERROR = b'{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"Parse error"}}'
ODD_ID_ERROR = b'{"jsonrpc":"2.0","id":null,"error":{"code":%d,"message":"%s"}}' % (INVALID_REQUEST, ODD_ID.encode())

# Clients that split lines as Python does would end an event's data at these; inside a JSON string
# (the only place they can be) the escape means the same.
_LINE_ENDS = ((b"\xe2\x80\xa8", b"\\u2028"), (b"\xe2\x80\xa9", b"\\u2029"), (b"\xc2\x85", b"\\u0085"))


def server_stamp(version: str) -> bytes:
    """What a result of revision 2026-07-28 says beside its content: that it is complete, and who says so."""
    server = {"io.modelcontextprotocol/serverInfo": {"name": SERVER_NAME, "version": version, "title": SERVER_TITLE}}
    return b',"resultType":"complete","_meta":' + orjson.dumps(server)


def call_result(request_id: int | str, outcome: CallResult, stamp: bytes = b"") -> bytes:
    """The answer to `tools/call`: the envelope as structured content, and the same bytes as text.

    Args:
        request_id: The request's id.
        outcome: What the operation answered.
        stamp: From `server_stamp` for revision 2026-07-28, nothing for older ones.
    """
    body = outcome.body()
    return b"".join(
        (
            b'{"jsonrpc":"2.0","id":',
            orjson.dumps(request_id),
            b',"result":{"content":[{"type":"text","text":',
            orjson.dumps(body.decode()),
            b'}],"structuredContent":',
            body,
            b',"isError":false' if outcome.ok else b',"isError":true',
            stamp,
            b"}}",
        )
    )


def task_created(request_id: int | str, task: Task, stamp: bytes) -> bytes:
    """The answer to a `tools/call` that became a task."""
    stated = orjson.dumps(task.stated("working"))[:-1] + stamp.replace(b"complete", b"task", 1)
    return b'{"jsonrpc":"2.0","id":' + orjson.dumps(request_id) + b',"result":' + stated + b"}}"


def event(message: bytes) -> bytes:
    """One server-sent event that carries a JSON-RPC message."""
    if not message.isascii():
        for line_end, escape in _LINE_ENDS:
            message = message.replace(line_end, escape)
    return b"event: message\r\ndata: " + message + b"\r\n\r\n"


PING_SECONDS = 15.0
"""How long a stream may be silent."""
_PING = b": ping\r\n\r\n"
_STREAM_HEADERS = (
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-cache, no-transform"),
    (b"connection", b"keep-alive"),
    (b"x-accel-buffering", b"no"),
)


async def answer(call: ToolCall, tools: Tools, caller: Caller, stamp: bytes, exchange: Exchange) -> None:
    """Run a call and send its answer.

    Args:
        call: The recognised call.
        tools: What the endpoint offers.
        caller: Who calls.
        stamp: From `messages.server_stamp`.
        exchange: The request, its body read already.

    Raises:
        ClientGone: The client hung up, and the call has been cancelled.
    """
    stream = _Stream(exchange.send, begins_with_ping=call.modern)
    runner = Tasks(tools) if call.follows_tasks else tools
    outcome = await run_watched(
        runner.call(call.name, call.arguments, caller),
        exchange.receive,
        heartbeat=stream.beat,
        first_beat_seconds=PING_SECONDS if call.modern else WATCH_AFTER_SECONDS,
        beat_seconds=PING_SECONDS,
    )
    if isinstance(outcome, Task):
        message = task_created(call.request_id, outcome, stamp)
    else:
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

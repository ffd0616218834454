"""JSON-RPC messages of tool calls as bytes, the envelope spliced in rather than built a second time."""

from __future__ import annotations

import orjson

from tandem.operations.dispatch import Outcome

SERVER_NAME = "tandem"
SERVER_TITLE = "Tandem"
PARSE_ERROR = b'{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"Parse error"}}'

# Clients that split lines as Python does would end an event's data at these; inside a JSON string
# (the only place they can be) the escape means the same.
_LINE_ENDS = ((b"\xe2\x80\xa8", b"\\u2028"), (b"\xe2\x80\xa9", b"\\u2029"), (b"\xc2\x85", b"\\u0085"))


def server_stamp(version: str) -> bytes:
    """What a result of revision 2026-07-28 says beside its content: that it is complete, and who says so."""
    server = {"io.modelcontextprotocol/serverInfo": {"name": SERVER_NAME, "version": version, "title": SERVER_TITLE}}
    return b',"resultType":"complete","_meta":' + orjson.dumps(server)


def call_result(request_id: int | str, outcome: Outcome, stamp: bytes = b"") -> bytes:
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


def event(message: bytes) -> bytes:
    """One server-sent event that carries a JSON-RPC message."""
    if not message.isascii():
        for line_end, escape in _LINE_ENDS:
            message = message.replace(line_end, escape)
    return b"event: message\r\ndata: " + message + b"\r\n\r\n"

"""Reading request bodies within a limit, and handing them on to an application behind."""

from __future__ import annotations

from typing import TypeVar

from starlette.types import Message, Receive

from tandem.errors import InvalidInput, TooLarge
from tandem.faces.asgi.exchange import Exchange

_Bytes = TypeVar("_Bytes", bytes, bytearray)


class ClientGone(Exception):
    """The client hung up; there is nobody to answer."""


async def read_body(exchange: Exchange, limit_bytes: int) -> bytes:
    """The whole request body.

    Raises:
        ClientGone: The client hung up while sending.
        TooLarge: The body is declared to be, or is, over the limit. The rest of it stays unread.
        InvalidInput: `Content-Length` is not a number.
    """
    _check_declared_length(exchange.headers.get(b"content-length"), limit_bytes)
    receive = exchange.receive
    message = await receive()
    if message["type"] == "http.request" and not message.get("more_body", False):
        return _within(message.get("body", b""), limit_bytes)
    parts = bytearray()
    while message["type"] == "http.request":
        parts += message.get("body", b"")
        _within(parts, limit_bytes)
        if not message.get("more_body", False):
            return bytes(parts)
        message = await receive()
    raise ClientGone


def replaying(body: bytes, receive: Receive) -> Receive:
    """A `receive` that gives the body once more, then what the connection really says."""
    first: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replay() -> Message:
        return first.pop() if first else await receive()

    return replay


def _check_declared_length(declared: bytes | None, limit_bytes: int) -> None:
    if declared is None:
        return
    if not declared.isdigit():
        raise InvalidInput("Content-Length must be a number.", field="Content-Length")
    # Compared by length first: int() refuses absurdly long numbers with an error of its own.
    if len(declared) > len(str(limit_bytes)) + 20 or int(declared) > limit_bytes:
        raise _too_large(limit_bytes)


def _within(body: _Bytes, limit_bytes: int) -> _Bytes:
    if len(body) > limit_bytes:
        raise _too_large(limit_bytes)
    return body


def _too_large(limit_bytes: int) -> TooLarge:
    return TooLarge(
        f"The request body is over {limit_bytes} bytes; send less, or raise body_limit_bytes in the broker's settings.",
        limit="body_limit_bytes",
        limit_bytes=limit_bytes,
    )

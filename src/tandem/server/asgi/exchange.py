"""One HTTP request, its body within a limit, and how the response leaves."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from starlette.types import Message, Receive, Scope, Send

from tandem.contract.caller import Access
from tandem.errors import InvalidInput, TandemError, TooLarge
from tandem.server.dispatch import CallResult


class Exchange:
    """What a route needs to know of a request, and the way back.

    Attributes:
        scope: The ASGI scope.
        method: The HTTP method, upper case.
        path: The path without a trailing slash.
        query: The query string as it was sent.
        headers: By lower-case name, without the blanks around a value, which are no part of it; of a repeated one, the
            last.
        receive: The ASGI `receive`.
        started: Whether the response has begun.
        access: What the caller was let in with; None on a trusted broker.
    """

    __slots__ = ("_send", "access", "headers", "method", "path", "query", "receive", "scope", "started")

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path: str = scope["path"]
        self.scope = scope
        self.method: str = scope["method"]
        self.query: bytes = scope["query_string"]
        self.path = path[:-1] if path.endswith("/") and len(path) > 1 else path
        self.headers: Mapping[bytes, bytes] = _stripped(scope["headers"])
        self.receive = receive
        self.started = False
        self.access: Access | None = None
        self._send = send

    @property
    def has_repeated_headers(self) -> bool:
        """Whether any header came more than once."""
        return len(self.headers) != len(self.scope["headers"])

    def repeats(self, name: bytes) -> bool:
        """Whether that header came more than once."""
        return self.has_repeated_headers and sum(key == name for key, _ in self.scope["headers"]) > 1

    def rename(self, name: bytes, value: bytes) -> None:
        """Give a header another value."""
        self.scope["headers"] = [(key, value if key == name else old) for key, old in self.scope["headers"]]
        self.headers = _stripped(self.scope["headers"])

    async def send(self, message: Message) -> None:
        """The ASGI `send`."""
        self.started = True
        await self._send(message)


def _stripped(headers: Iterable[tuple[bytes, bytes]]) -> dict[bytes, bytes]:
    return {name: value.strip(b" \t") for name, value in headers}


class ClientGone(Exception):
    """The client hung up; there is no client to answer."""


async def read_body(exchange: Exchange, limit_bytes: int) -> bytes:
    """The whole request body.

    Raises:
        ClientGone: The client hung up while sending.
        TooLarge: The body is declared to be, or is, over the limit. The rest of it stays unread.
        InvalidInput: `Content-Length` is not a number.
    """
    _check_declared_length(exchange.headers.get(b"content-length"), limit_bytes)
    body = bytearray()
    while (message := await exchange.receive())["type"] == "http.request":
        body += message.get("body", b"")
        if len(body) > limit_bytes:
            raise _too_large(limit_bytes)
        if not message.get("more_body", False):
            return bytes(body)
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


def _too_large(limit_bytes: int) -> TooLarge:
    return TooLarge(
        f"The request body is over {limit_bytes} bytes; send less, or raise body_limit_bytes in the broker's"
        " configuration.",
        limit="body_limit_bytes",
        limit_bytes=limit_bytes,
        setting="body_limit_bytes",
    )


Headers = tuple[tuple[bytes, bytes], ...]

JSON = (b"content-type", b"application/json")
# Answers are never to be guessed at, framed as pages or kept by a cache on the way.
_API_HEADERS: Headers = ((b"x-content-type-options", b"nosniff"), (b"cache-control", b"no-store"))


class MethodNotAllowed(InvalidInput):
    """An address was asked in a way that it does not answer; `details.allowed` lists the others."""

    status = 405

    def __init__(self, *methods: str) -> None:
        super().__init__(f"Use {' or '.join(methods)} here.", field="method", allowed=list(methods))

    @property
    def allow(self) -> str:
        """The header `Allow`."""
        return ", ".join(self.details["allowed"])


async def send_bytes(send: Send, status: int, body: bytes, headers: Headers = (JSON,)) -> None:
    """A whole response at once."""
    length = (b"content-length", b"%d" % len(body))
    await send({"type": "http.response.start", "status": status, "headers": [*headers, length]})
    await send({"type": "http.response.body", "body": body})


async def send_outcome(send: Send, outcome: CallResult, headers: Headers = ()) -> None:
    """An envelope, with its own HTTP status."""
    await send_bytes(send, outcome.status, outcome.body(), (JSON, *_API_HEADERS, *headers))


async def send_refusal(send: Send, error: TandemError, headers: Headers = ()) -> None:
    """The envelope of an error, with its own HTTP status."""
    await send_outcome(send, CallResult(error=error), headers)

"""One HTTP request: its body within a limit, how the response leaves, and a call that ends when the client hangs up."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from typing import Any, TypeVar

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
        " configuration, with diff_limit_bytes if a diff is as large, and restart the broker.",
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

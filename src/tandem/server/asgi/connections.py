"""The server's connections: how many there may be, what a client may leave half-sent or unread, and for how long.

uvicorn waits for a request as long as its client likes, and keeps an answer until its client takes it. Enough
connections on which a client sends nothing, half a request, or reads nothing would keep all others out.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import ssl
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import httptools
from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol
from uvicorn.server import ServerState

from tandem.errors import InvalidInput, TandemError, TimedOut, TooLarge
from tandem.server.dispatch import CallResult

HEAD_BYTES = 32_768
HEAD_FIELDS = 100
_REQUEST_TIMEOUT = 408
_HEAD_TOO_LARGE = 431
_SWEEP_SECONDS = 1.0
_GRACE_SECONDS = 1.0
"""A connection that is younger is closed for another one only if most connections are half-sent."""

_TAKE_BYTES = 65_536
"""How much of an answer that waits a client has to take in its time."""
_ACCEPT_SECONDS = 1.0
_log = logging.getLogger("tandem.server")


class RequestTimedOut(TimedOut):
    """A request whose client did not send all of it in time."""

    status = _REQUEST_TIMEOUT


class HeadTooLarge(TooLarge):
    """A request line and header fields over a limit."""

    status = _HEAD_TOO_LARGE


class Connections:
    """Every connection of a server, by its state.

    At the limit, a new connection takes the place of the one that is worth least: the oldest that is half-sent, then
    the one that has been idle longest, then the one that has waited longest for its answer. So who sends whole requests
    always gets in, the owner included; waits and event streams go on from their cursor when their client asks again.

    Attributes:
        head_seconds: How long a request's head may take, and a new connection's first request to begin.
        body_seconds: How long a request's body may take.
        take_seconds: How long a client may take nothing, or next to nothing, of an answer that waits for it.
        held_bytes: How much of requests that are not complete may be held in all, and as much of answers.
    """

    head_seconds, body_seconds, take_seconds = 10.0, 120.0, 30.0
    held_bytes = 256_000_000

    def __init__(self, limit: int) -> None:
        """Of so many at most."""
        self._limit = limit
        self._held = 0
        self._half_sent: OrderedDict[BrokerProtocol, float] = OrderedDict()  # with when it began
        self._idle: OrderedDict[BrokerProtocol, None] = OrderedDict()
        self._served: OrderedDict[BrokerProtocol, None] = OrderedDict()
        self._unread: OrderedDict[BrokerProtocol, tuple[float, int]] = OrderedDict()  # until when less has to wait
        self._sweep: asyncio.TimerHandle | None = None

    def counts(self) -> dict[str, int]:
        """How many there are, by state."""
        return {"half_sent": len(self._half_sent), "idle": len(self._idle), "served": len(self._served)}

    def begins(self, connection: BrokerProtocol) -> None:
        """A client connected, or began to send a request."""
        self._idle.pop(connection, None)
        self._served.pop(connection, None)
        now = connection.loop.time()
        self._half_sent[connection] = now
        connection.deadline = now + self.head_seconds
        self._watch(connection.loop)
        while len(self._half_sent) + len(self._idle) + len(self._served) > self._limit:
            self._least_worth(now).drop()

    def receives(self, connection: BrokerProtocol, size: int) -> None:
        """A part of a request came that is not all of it."""
        connection.held += size
        self._held += size
        while self._held > self.held_bytes:
            next(iter(self._half_sent)).drop()

    def serves(self, connection: BrokerProtocol) -> None:
        """All of a request is there."""
        self._forget(connection)
        self._served[connection] = None

    def stalls(self, connection: BrokerProtocol) -> None:
        """Its client does not take its answer as fast as that comes."""
        self._unread[connection] = connection.loop.time() + self.take_seconds, connection.unsent
        self._watch(connection.loop)
        while sum(one.unsent for one in self._unread) > self.held_bytes:
            next(iter(self._unread)).drop()

    def flows(self, connection: BrokerProtocol) -> None:
        """Its client has taken what waited."""
        self._unread.pop(connection, None)

    def rests(self, connection: BrokerProtocol) -> None:
        """Its request was answered, and no other has begun."""
        if connection in self._served:
            del self._served[connection]
            self._idle[connection] = None

    def ends(self, connection: BrokerProtocol) -> None:
        """It is closed."""
        self._forget(connection)
        self._idle.pop(connection, None)
        self._served.pop(connection, None)
        self._unread.pop(connection, None)

    def _watch(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._sweep is None:
            self._sweep = loop.call_later(_SWEEP_SECONDS, self._expire, loop)

    def _forget(self, connection: BrokerProtocol) -> None:
        self._half_sent.pop(connection, None)
        self._held -= connection.held
        connection.held = 0

    def _least_worth(self, now: float) -> BrokerProtocol:
        oldest = next(iter(self._half_sent))
        is_crowd = len(self._half_sent) > self._limit // 2
        if is_crowd or self._half_sent[oldest] < now - _GRACE_SECONDS or not (self._idle or self._served):
            return oldest
        return next(iter(self._idle or self._served))

    def _expire(self, loop: asyncio.AbstractEventLoop) -> None:
        now = loop.time()
        for connection in [one for one in self._half_sent if one.deadline <= now]:
            connection.expire()
        for connection, (until, before) in [*self._unread.items()]:
            if until <= now and connection.unsent > before - _TAKE_BYTES:
                connection.drop()
            elif until <= now:
                self._unread[connection] = now + self.take_seconds, connection.unsent
        self._sweep = None
        if self._half_sent or self._unread:
            self._watch(loop)


class BrokerProtocol(HttpToolsProtocol):
    """uvicorn's protocol with limits of size, number and time for what a client sends.

    Attributes:
        deadline: When the request that is half-sent must be there, by the loop's clock.
        held: How many bytes of it are there.
    """

    def __init__(
        self,
        connections: Connections,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self.deadline = 0.0
        self.held = 0
        self._all = connections
        self._is_whole = False
        self._is_head = True
        self._is_over = False
        self._chunk = 0
        self._handshake: asyncio.Task[Any] | None = None

    async def shake_hands(self, connected: socket.socket, context: ssl.SSLContext) -> None:
        """Begin TLS on a connection that was just taken; a failure then concerns its client alone."""
        self._handshake = asyncio.current_task()
        self._all.begins(self)
        with contextlib.suppress(OSError, asyncio.CancelledError):  # errors of TLS are errors of the system, too
            await self.loop.connect_accepted_socket(lambda: self, connected, ssl=context)
            return
        connected.close()
        self._all.ends(self)

    def connection_made(self, transport: asyncio.Transport) -> None:
        """Count the connection."""
        self._handshake = None
        super().connection_made(transport)
        self._all.begins(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """Count it no more."""
        self._all.ends(self)
        super().connection_lost(exc)

    @property
    def unsent(self) -> int:
        """How many bytes of answers its client has not taken."""
        return self.transport.get_write_buffer_size()

    def pause_writing(self) -> None:
        """As much waits to be sent as may."""
        super().pause_writing()
        self._all.stalls(self)

    def resume_writing(self) -> None:
        """What waited was sent."""
        super().resume_writing()
        self._all.flows(self)

    def data_received(self, data: bytes) -> None:
        """Parse the data; refuse a request that is over a limit or no HTTP."""
        parser = self.parser
        if self._is_over or parser is None:
            return
        self._unset_keepalive_if_required()
        self._chunk = len(data)
        try:
            parser.feed_data(data)
        except httptools.HttpParserCallbackError as error:
            refused = error.__context__
            self._refuse(refused if isinstance(refused, TandemError) else _not_http())
        except httptools.HttpParserUpgrade:
            # Answered like any other request. The client's next data is not HTTP.
            self._is_over = True
            if self.cycle:
                self.cycle.keep_alive = False
        except httptools.HttpParserError:
            self._refuse(_not_http())
        else:
            if not self._is_whole:
                self._all.receives(self, self._chunk)
                if self._is_head and self.held > HEAD_BYTES:
                    self._refuse(_large_head("head_bytes", HEAD_BYTES, "bytes"))

    def on_message_begin(self) -> None:
        """A request begins."""
        super().on_message_begin()
        self._is_head, self._is_whole = True, False
        self._all.begins(self)

    def on_headers_complete(self) -> None:
        """Its head is there."""
        if len(self.headers) > HEAD_FIELDS:
            raise _large_head("head_fields", HEAD_FIELDS, "header fields")
        if self._chunk + self.held > HEAD_BYTES:
            size = len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers)
            if size > HEAD_BYTES:
                raise _large_head("head_bytes", HEAD_BYTES, "bytes")
        super().on_headers_complete()
        self._is_head = False
        self.deadline += self._all.body_seconds

    def on_message_complete(self) -> None:
        """All of it is there."""
        self._is_whole = True
        self._all.serves(self)
        super().on_message_complete()
        if self.cycle.response_complete and not self.pipeline:
            self._all.rests(self)

    def on_response_complete(self) -> None:
        """It was answered."""
        super().on_response_complete()
        if not self.pipeline:
            self._all.rests(self)

    def expire(self) -> None:
        """End a request that did not come in time."""
        if self._is_over or not self.held:
            self.drop()
        else:
            self._refuse(RequestTimedOut("The request did not come in time; send all of it at once."))

    def drop(self) -> None:
        """End the connection as it is."""
        self._is_over = True
        self._all.ends(self)
        if self._handshake is not None:
            self._handshake.cancel()
        else:
            self.transport.abort()

    def _refuse(self, error: TandemError) -> None:
        """Answer in the application's place, and hang up once the client has had time to read it."""
        is_served = bool(self.cycle) and not self.cycle.response_complete
        if is_served and (self._is_head or self._is_whole or self.pipeline or self.cycle.response_started):
            # The client would take the refusal for the answer to an earlier request.
            self.drop()
            return
        self._is_over = True
        self._all.begins(self)
        self.deadline = self.loop.time()
        body = CallResult(error=error).body()
        head = b"content-type: application/json\r\ncontent-length: %d\r\nconnection: close\r\n\r\n" % len(body)
        self.transport.write(STATUS_LINE[error.status] + head + body)
        if self.transport.can_write_eof():
            self.transport.write_eof()
        else:
            self.transport.close()  # TLS has a goodbye of its own, and waits for the client's


class TlsListener:
    """Takes connections for TLS, and counts them from their first byte on.

    A server of asyncio's would tell of a connection after its handshake only: a client with enough of them that sends
    nothing would keep everybody else out.
    """

    def __init__(self, listener: socket.socket, context: ssl.SSLContext, make: Callable[[], BrokerProtocol]) -> None:
        """Make it.

        Args:
            listener: Bound and listening; does not block.
            context: The certificate.
            make: What speaks HTTP on a connection.
        """
        self._listener = listener
        self._context = context
        self._make = make
        self._handshakes: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """Take connections until cancelled; handshakes that are under way end with it."""
        loop = asyncio.get_running_loop()
        try:
            while True:
                try:
                    connected, _ = await loop.sock_accept(self._listener)
                except OSError as error:
                    # As asyncio's own servers: no file is free, which may pass.
                    _log.warning("no connection can be taken: %s", error)
                    await asyncio.sleep(_ACCEPT_SECONDS)
                else:
                    handshake = loop.create_task(self._make().shake_hands(connected, self._context))
                    self._handshakes.add(handshake)
                    handshake.add_done_callback(self._handshakes.discard)
        finally:
            for handshake in self._handshakes:
                handshake.cancel()


def _not_http() -> InvalidInput:
    return InvalidInput("This is no HTTP/1.1 request; the broker speaks nothing else.", field="request")


def _large_head(limit: str, most: int, unit: str) -> HeadTooLarge:
    return HeadTooLarge(f"The head of a request has at most {most} {unit}; send less.", limit=limit, most=most)

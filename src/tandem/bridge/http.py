"""The HTTP client for calls to a broker, of hooks, bridge, reviewers and the Python client alike.

Keeps connections, knows how far each request got, and goes on at the next address where several brokers share a
database. Written on sockets, as importing `http.client` takes as long as all else that the bridge does before its first
answer; and without `socket`, `threading` and `re` where the broker is on this machine, as each commit waits for it.
Speaks HTTP/1.1 as far as a broker needs it.
"""

from __future__ import annotations

import _socket
import _thread
import select
import time

from tandem.bridge.credentials import REFUSED_STATUS, Credentials, is_proven, new_nonce
from tandem.bridge.credentials import headers as bearing
from tandem.bridge.location import CONNECT_SECONDS, Aborted, HttpFailure, NotSent, ResponseLost, Stranger, targets
from tandem.bridge.reading import Reader, has_end

TYPE_CHECKING = False  # as in `credentials`
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any

    from tandem.bridge.location import BrokerLocation, Target

PATIENCE_SECONDS = 30.0
"""How long a request is repeated that the broker refuses as one too many; with a whole wait still under a minute."""

SILENCE_SECONDS = 60.0
"""The broker sends a ping every 15 s while it works on a request: after four missed ones it is gone."""

_HEALTH_SECONDS = 3.5
_HEALTH_TRIES = 2
"""A busy broker may miss one."""

PROOF_SECONDS = 10.0
"""How long the other side has to prove whose it is: a broker does it at once, however busy."""

_HERE = "127.0.0.1"
_UNRESERVED = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~")
_UNAVAILABLE = 503
_TOO_MANY = 429
_MOST_DIGITS = 6


class Exchange:
    """One request's hold on a connection; `abort` may be called from any thread.

    Attributes:
        deadline: When every wait ends, by the monotonic clock, even while data arrive; None for never.
        is_aborted: Whether it was given up.
    """

    def __init__(self, deadline: float | None = None) -> None:
        self.deadline = deadline
        self._lock = _thread.allocate_lock()
        self._socket: _socket.socket | None = None
        self.is_aborted = False
        self._ended = _thread.allocate_lock()
        self._ended.acquire()

    def abort(self) -> None:
        """Close the connection under the request, which then fails with `Aborted`; again is safe."""
        with self._lock:
            if not self.is_aborted:
                self.is_aborted = True
                self._ended.release()
            if self._socket is not None:
                _shut(self._socket)

    def left(self, most_seconds: float) -> float:
        """How long the next step may take: that long, unless the deadline comes before.

        Raises:
            TimeoutError: The deadline has passed.
        """
        left = most_seconds if self.deadline is None else min(most_seconds, self.deadline - time.monotonic())
        if left <= 0:
            raise TimeoutError("timed out")
        return left

    def pause(self, seconds: float) -> None:
        """Wait.

        Raises:
            Aborted: It was called, or is called meanwhile.
        """
        if self._ended.acquire(timeout=seconds):
            self._ended.release()
            raise Aborted

    def hold(self, connected: _socket.socket | None) -> None:
        """Remember what `abort` has to close.

        Raises:
            Aborted: It was called already.
        """
        with self._lock:
            self._socket = connected
            if self.is_aborted and connected is not None:
                raise Aborted

    def blame(self, kind: type[HttpFailure], cause: Exception) -> HttpFailure:
        """The failure to raise for a connection that broke, on either side."""
        return Aborted() if self.is_aborted else kind(str(cause) or type(cause).__name__)


class _Connection:
    """A connected socket and its reading side.

    Attributes:
        closings: How often its client had been closed when it was taken.
    """

    __slots__ = ("closings", "reader", "socket", "target")

    def __init__(self, target: Target, connect_seconds: float) -> None:
        self.target = target
        self.socket = _connected(target, connect_seconds)
        self.reader = Reader(self.socket)
        self.closings = 0

    def is_quiet(self) -> bool:
        """Whether an idle connection has nothing to read, as it must: anything to read can only be its end."""
        try:
            return not select.select([self.socket], [], [], 0)[0]
        except (OSError, ValueError):
            # Closed, or a number too high for select: then it is not worth keeping.
            return False

    def close(self) -> None:
        self.reader.close()
        self.socket.close()


class HttpResponse:
    """An answer whose head has arrived. Read it whole, or close it.

    Attributes:
        status: The HTTP status.
        content_type: Lower case, without parameters; empty if none was stated.
        retry_after_seconds: How long it asks to wait before the request is repeated; None if it does not ask.
    """

    def __init__(self, client: HttpClient, connection: _Connection, exchange: Exchange) -> None:
        self._client = client
        self._connection = connection
        self._exchange = exchange
        try:
            self.status, self._head = connection.reader.head()
            head = self._head
            self.content_type = head.get("content-type", "").partition(";")[0].strip().lower()
            after = head.get("retry-after", "")
            is_number = after.isascii() and after.isdecimal() and len(after) <= _MOST_DIGITS
            self.retry_after_seconds = int(after) if is_number else None
        except (OSError, ValueError) as error:
            self.close()
            client.leave(connection.target)
            raise exchange.blame(ResponseLost, error) from error
        if self.status == _UNAVAILABLE:
            client.leave(connection.target)

    def read(self) -> bytes:
        """The body; the connection then serves the next request.

        Raises:
            Lost: It did not arrive whole.
            Aborted: It was given up.
        """
        return b"".join(self._pieces(is_stream=False))

    def lines(self) -> Iterator[bytes]:
        """The body line by line as it arrives, without line ends.

        Raises:
            Lost: It did not arrive whole.
            Aborted: It was given up.
        """
        rest = b""
        for piece in self._pieces(is_stream=True):
            *lines, rest = (rest + piece).split(b"\n")
            for line in lines:
                yield line.rstrip(b"\r")
        if rest:
            yield rest

    def close(self) -> None:
        """Give up the rest of the body, and the connection with it."""
        self._exchange.hold(None)
        self._connection.close()

    def _pieces(self, *, is_stream: bool) -> Iterator[bytes]:
        """The body as it arrives."""
        is_whole = False
        try:
            for piece in self._connection.reader.body(self.status, self._head, is_stream=is_stream):
                # A stream without a pause hides that the connection was shut.
                self._exchange.pause(0)
                yield piece
            is_whole = True
        except (OSError, ValueError) as error:
            self._client.leave(self._connection.target)
            raise self._exchange.blame(ResponseLost, error) from error
        finally:
            self._exchange.hold(None)
            stays = self._head.get("connection", "").lower() != "close" and has_end(self.status, self._head)
            if is_whole and stays:
                self._client.put_back(self._connection)
            else:
                self._connection.close()


class HttpClient:
    """Requests to a broker; idle connections are kept for the next ones. Safe to share between threads.

    Args:
        targets: Where they go: to the first one, and from there to the next one whenever one does not answer, or says
            that it takes no requests now. A request goes to another one by itself only if it has not been sent.
        silence_seconds: How long it may be silent, and how long the head of an answer may take.
        credentials: The token that goes with each; None for requests that need none.
        owner_dirs: The data folders with one of whose secrets the other side has to prove first that it is this user's
            broker, within `proof_seconds`; none for one that need not.
        asks_health: Whether a broker that is silent is given up as soon as it does not answer on another connection
            either, see `reading.QUIET_SECONDS`.
    """

    def __init__(
        self,
        *targets: Target,
        silence_seconds: float = SILENCE_SECONDS,
        credentials: Credentials | None = None,
        owner_dirs: Sequence[str] = (),
        proof_seconds: float = PROOF_SECONDS,
        asks_health: bool = False,
    ) -> None:
        self.targets, self._at = targets, 0
        self._owner_dirs, self._proof_seconds = owner_dirs, proof_seconds
        self._silence_seconds, self._credentials = silence_seconds, credentials
        self._asks_health = asks_health
        self._lock, self._closings = _thread.allocate_lock(), 0
        self._idle: list[_Connection] = []

    @property
    def url(self) -> str:
        """All addresses, as they were stated."""
        return ",".join(target.url for target in self.targets)

    @property
    def target(self) -> Target:
        """Where requests go now."""
        return self.targets[self._at]

    def leave(self, target: Target) -> None:
        """Send the next requests to another one than this, if there is one."""
        with self._lock:
            if self.target is target:
                self._at = (self._at + 1) % len(self.targets)

    def request(
        self, method: str, path: str, body: bytes, headers: Mapping[str, str], exchange: Exchange | None = None
    ) -> HttpResponse:
        """Send a request and wait for the head of its answer.

        One whose token is refused is sent once more if there is a new token by now: it had no effect. One that is
        refused as too many is sent again when the broker says, for half a minute: it had none either.

        Args:
            method: E.g. `POST`.
            path: Below the target's own, with the query; already quoted.
            body: What to send; may be empty.
            headers: Beside `Host`, `Content-Length` and `Authorization`; values must be single lines.
            exchange: To give the request up by, and with its deadline.

        Raises:
            NotSent: It cannot have had an effect.
            Lost: It may have had one.
            Aborted: `exchange.abort` was called.
            ValueError: A header's value has a line end.
        """
        exchange = exchange or Exchange()
        until = exchange.deadline
        patience = PATIENCE_SECONDS if until is None else min(PATIENCE_SECONDS, until - time.monotonic())
        while True:
            answer = self._admitted(method, path, body, headers, exchange)
            seconds = answer.retry_after_seconds
            if answer.status != _TOO_MANY or seconds is None or seconds > patience:
                return answer
            answer.read()
            patience -= max(1, seconds)
            exchange.pause(max(1, seconds))

    def _admitted(
        self, method: str, path: str, body: bytes, headers: Mapping[str, str], exchange: Exchange
    ) -> HttpResponse:
        answer, url, token = self._once(method, path, body, headers, exchange)
        if self._credentials is None or answer.status != REFUSED_STATUS or not self._credentials.renewed(url, token):
            return answer
        answer.close()
        return self._once(method, path, body, headers, exchange)[0]

    def _once(
        self, method: str, path: str, body: bytes, headers: Mapping[str, str], exchange: Exchange
    ) -> tuple[HttpResponse, str, str | None]:
        """The answer, whose it is, and the token that was shown there."""
        head = [f"{name}: {value}" for name, value in headers.items()]
        head.append(f"Content-Length: {len(body)}")
        if any("\r" in line or "\n" in line for line in (path, *head)):
            raise ValueError("a header must be a single line")
        rest = "\r\n".join(head).encode() + b"\r\n\r\n" + body
        for left in reversed(range(len(self.targets))):
            target = self.target
            # A token that a broker has left is for that broker only.
            token = self._credentials.token(target.url) if self._credentials is not None else None
            begin = f"{method} {target.prefix}{path} HTTP/1.1\r\nHost: {target.authority}\r\n"
            bearer = "".join(f"{name}: {value}\r\n" for name, value in bearing(token).items())
            try:
                connection = self._send(target, f"{begin}{bearer}".encode() + rest, exchange)
            except NotSent:
                self.leave(target)
                if not left:
                    raise
            else:
                return HttpResponse(self, connection, exchange), target.url, token
        raise AssertionError("a client has a target")

    def put_back(self, connection: _Connection) -> None:
        """Keep a connection whose answer was read whole, unless the client was closed meanwhile."""
        with self._lock:
            is_kept = connection.closings == self._closings
            if is_kept:
                self._idle.append(connection)
        if not is_kept:
            connection.close()

    def close(self) -> None:
        """Close the idle connections, and those in use once they have served; the next request opens another."""
        with self._lock:
            idle, self._idle = self._idle, []
            self._closings += 1
        for connection in idle:
            connection.close()

    def _send(self, target: Target, request: bytes, exchange: Exchange) -> _Connection:
        connection: _Connection | None = None
        closings = self._closings
        try:
            connection = self._take_idle(target)
            is_new = connection is None
            connection = connection or _Connection(target, exchange.left(CONNECT_SECONDS))
            connection.closings = closings
            exchange.hold(connection.socket)
            # Of several, those on other machines have TLS and the token to say who is who.
            if is_new and self._owner_dirs and (target.is_local or len(self.targets) == 1):
                self._need_proof(connection, self._owner_dirs, exchange)
            connection.socket.settimeout(exchange.left(self._silence_seconds))
            connection.socket.sendall(request)
            held = connection.socket
            is_alive = (lambda: self._is_alive(target, held, exchange)) if self._asks_health else None
            connection.reader.begin(self._silence_seconds, exchange.deadline, is_alive)
        except (OSError, Aborted, NotSent) as error:
            exchange.hold(None)
            if connection is not None:
                connection.close()
            if isinstance(error, NotSent):
                raise
            raise exchange.blame(NotSent, error) from error
        return connection

    def _need_proof(self, connection: _Connection, owner_dirs: Sequence[str], exchange: Exchange) -> None:
        """Have the other side prove that it is this user's broker: nothing else is sent before.

        Raises:
            Stranger: It does not, or takes too long to say all of it.
            OSError: It hangs up, or is silent.
        """
        nonce = new_nonce()
        target = connection.target
        head = f"GET {target.prefix}/healthz HTTP/1.1\r\nHost: {target.authority}\r\nTandem-Nonce: {nonce}"
        seconds = min(self._proof_seconds, self._silence_seconds)
        connection.socket.settimeout(exchange.left(seconds))
        connection.socket.sendall(f"{head}\r\n\r\n".encode())
        reader = connection.reader
        reader.begin(seconds, exchange.deadline)
        if not reader.has_more():
            raise ConnectionResetError("the connection was closed before an answer")
        try:
            status, answer = reader.head()
            said = answer.get("tandem-proof")
            if not any(is_proven(said, nonce, connection.socket, folder) for folder in owner_dirs):
                raise Stranger
            for _ in reader.body(status, answer):
                pass
        except (ValueError, TimeoutError) as error:
            raise Stranger from error

    def _is_alive(self, target: Target, held: _socket.socket, exchange: Exchange) -> bool:
        """Whether a broker that is silent answers on another connection.

        Raises:
            ConnectionAbortedError: The exchange was given up.
        """
        asker = HttpClient(target, silence_seconds=_HEALTH_SECONDS)
        try:
            is_alive = any(_answers(asker, exchange) for _ in range(_HEALTH_TRIES))
            exchange.hold(held)
        except Aborted as error:
            raise ConnectionAbortedError from error
        if not is_alive:
            # The next request must not try the idle connections one by one.
            self.close()
        return is_alive

    def _take_idle(self, target: Target) -> _Connection | None:
        while True:
            with self._lock:
                if not self._idle:
                    return None
                connection = self._idle.pop()
            if connection.target is target and connection.is_quiet():
                return connection
            connection.close()


def client_of(broker: BrokerLocation, **limits: Any) -> HttpClient:
    """Requests to a broker, with the token and the proof that are its own.

    Args:
        broker: Where it is.
        limits: As `HttpClient` has them.

    Raises:
        NoToken: What the environment has for a token is none.
        ValueError: The broker runs nowhere, or that is no URL.
    """
    credentials = Credentials(broker.data_dirs)
    return HttpClient(*targets(broker.url or ""), credentials=credentials, owner_dirs=broker.owner_dirs, **limits)


def quoted(text: str) -> str:
    """A text as one part of a URL's path or query."""
    return "".join(chr(byte) if byte in _UNRESERVED else f"%{byte:02X}" for byte in text.encode(errors="replace"))


def _answers(client: HttpClient, exchange: Exchange) -> bool:
    try:
        client.request("GET", "/healthz", b"", {}, exchange).close()
    except (NotSent, ResponseLost):
        return False
    return True


def _connected(target: Target, seconds: float) -> _socket.socket:
    """A connection to a broker."""
    if target.host == _HERE and not target.secure:
        made = _socket.socket(_socket.AF_INET, _socket.SOCK_STREAM)
        made.settimeout(seconds)
        try:
            made.connect((target.host, target.port))
        except OSError:
            made.close()
            raise
    else:
        from tandem.bridge import tls  # only elsewhere are there names to look up, and certificates

        made = tls.connected(target, seconds)
    # The head and the body of a request leave in one piece; waiting for more would only delay them.
    made.setsockopt(_socket.IPPROTO_TCP, _socket.TCP_NODELAY, 1)
    return made


def _shut(connected: _socket.socket) -> None:
    try:
        # Below TLS, whose own would take the connection from under the thread that reads it.
        _socket.socket.shutdown(connected, _socket.SHUT_RDWR)
    except OSError:
        # It is closed already, as intended.
        return

"""Asking the broker, from a hook: one connection, short patience, and what its absence means said plainly."""

from __future__ import annotations

import _socket
import json

from tandem.bridge import credentials

TYPE_CHECKING = False  # as in `git`
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any, Protocol, Self

    from tandem.bridge.http import Client
    from tandem.hooks.state import GateFile

    class _Line(Protocol):
        def post(self, path: str, body: bytes, headers: Mapping[str, str]) -> bytes: ...

        def close(self) -> None: ...


SILENCE_SECONDS = 20.0
"""How long the broker may be silent. A gate answers in milliseconds; its pings come every 15 s."""

AGENT = "git-hook"
"""Who asks, in the log."""

_CONNECT_SECONDS = 5.0
_HERE = "http://127.0.0.1:"
_CHUNK_BYTES = 65_536
_LONGEST_HEAD_BYTES = 65_536
_LARGEST_PORT = 65_535


class Refused(Exception):
    """The broker answered, and said no.

    Attributes:
        code: Of the contract.
        details: Its facts.
    """

    def __init__(self, code: str, message: str, details: dict[str, Any]) -> None:
        super().__init__(message)
        self.code = code
        self.details = details

    @property
    def wants_token(self) -> bool:
        """Whether it was not looked at, for want of an access token that counts: with one the same call may pass."""
        return self.code == credentials.REFUSED_CODE


class Unreachable(Exception):
    """No broker answered; whether it acted is unknown.

    Attributes:
        url: Where it was looked for; null if it has left no address.
    """

    def __init__(self, url: str | None, reason: str) -> None:
        where = f" at {url}" if url else ""
        super().__init__(
            f"The Tandem broker{where} cannot be reached ({reason}). Start it with: tandem up --background"
        )
        self.url = url


class Asker:
    """Calls operations for the project of a gate.

    Where the broker is was written down when the gate was switched on; the environment has no say in it, as whoever
    commits sets that. It may say with which access token, which the broker judges.
    """

    def __init__(self, gate: GateFile, agent: str | None = None) -> None:
        """Nothing is contacted yet.

        Args:
            gate: The switch.
            agent: On whose behalf the broker is asked; null for the hook itself.
        """
        self._gate = gate
        self._agent = agent or AGENT
        self._url: str | None = None
        self._line: _Line | None = None
        self._token: str | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._line is not None:
            self._line.close()

    def call(self, operation: str, **arguments: Any) -> dict[str, Any]:
        """The data that an operation answers, asked for the gate's project.

        Raises:
            Refused: The broker refuses.
            Unreachable: No broker answers, or something that is none.
        """
        path = f"/api/v1/{operation}"
        body = json.dumps({"project": self._gate.project, **arguments}).encode()
        try:
            envelope = self._envelope(path, body)
            if envelope["ok"] is True:
                data: dict[str, Any] = envelope["data"]
                return data
            error: dict[str, Any] = envelope["error"]
            refused = Refused(error["code"], error["message"], error.get("details", {}))
        except NoAnswer as failure:
            raise Unreachable(self._url, str(failure)) from failure
        except (ValueError, KeyError, TypeError) as failure:
            raise Unreachable(self._url, "what answers there is no Tandem broker") from failure
        raise refused

    def _envelope(self, path: str, body: bytes) -> dict[str, Any]:
        """What the broker answers; asked once more if it was started anew meanwhile, with its new token."""
        line = self._line = self._line or self._connected()
        answer = line.post(path, body, self._head())
        envelope: dict[str, Any] = json.loads(answer)
        if envelope["ok"] is True or envelope["error"]["code"] != credentials.REFUSED_CODE:
            return envelope
        token = _token_for(self._url, credentials.published(self._gate.data_dir))
        if token is None or token == self._token:
            return envelope
        self._token = token
        renewed: dict[str, Any] = json.loads(line.post(path, body, self._head()))
        return renewed

    def _head(self) -> dict[str, str]:
        head = {"Content-Type": "application/json", "Accept": "application/json", "Tandem-Agent": self._agent}
        return {**head, **credentials.headers(self._token)}

    def check_gate(self, changes: list[dict[str, str]], head: str | None = None) -> dict[str, Any]:
        """Whether a difference is approved; the data of `check_gate`.

        Args:
            changes: The raw difference.
            head: The commit that it is a difference to; without it nothing passes as taken back.

        Raises:
            Refused: The broker refuses.
            Unreachable: No broker answers.
        """
        return self.call("check_gate", changes=changes, **({} if head is None else {"head": head}))

    def _connected(self) -> _Line:
        published = credentials.published(self._gate.data_dir)
        url = self._url = _chosen(self._gate, published)
        if url is None:
            raise Unreachable(None, f"none runs on {self._gate.data_dir}")
        self._token = _token_for(url, published)
        port = port_of(url)
        if port is not None:
            return _Wire(port)
        from tandem.bridge.http import Client, Target  # a broker elsewhere costs more anyway

        try:
            return _Distant(Client(Target(url), silence_seconds=SILENCE_SECONDS))
        except ValueError as error:
            raise Unreachable(url, str(error)) from error


def url_of(gate: GateFile) -> str | None:
    """Where a gate's broker is: the one that was named, else the one on its data; null if that has left no address."""
    return _chosen(gate, credentials.published(gate.data_dir))


def _chosen(gate: GateFile, published: credentials.Published | None) -> str | None:
    return gate.broker or (published.url if published is not None else gate.usual_url)


def _token_for(url: str | None, published: credentials.Published | None) -> str | None:
    """The token of the environment, else the one left for the owner of this broker."""
    try:
        stated = credentials.stated_token()
    except credentials.NoToken as error:
        raise Refused(credentials.REFUSED_CODE, str(error), {}) from error
    if stated is not None or published is None or url is None:
        return stated
    return published.token if url.rstrip("/") == published.url.rstrip("/") else None


class NoAnswer(Exception):
    """Nobody answered, or not whole, or not in HTTP."""


def port_of(url: str) -> int | None:
    """The port of a broker on this machine that can be asked by a `_Wire`; null for every other URL."""
    port = url.rstrip("/").removeprefix(_HERE) if url.startswith(_HERE) else ""
    if not (port.isascii() and port.isdecimal()) or not 0 < int(port) <= _LARGEST_PORT:
        return None
    return int(port)


class _Distant:
    """A broker that is not on this machine's loopback, or not at a plain address: asked by the bridge's client."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def post(self, path: str, body: bytes, headers: Mapping[str, str]) -> bytes:
        from tandem.bridge.http import HttpFailure

        try:
            return self._client.request("POST", path, body, headers).read()
        except HttpFailure as failure:
            raise NoAnswer(str(failure) or type(failure).__name__) from failure

    def close(self) -> None:
        self._client.close()


class _Wire:
    """A kept connection to a broker on this machine.

    It does what nearly every hook needs; what `bridge.http` imports takes longer than the request.
    """

    def __init__(self, port: int) -> None:
        self._port = port
        self._socket: _socket.socket | None = None

    def post(self, path: str, body: bytes, headers: Mapping[str, str]) -> bytes:
        """The body of the answer to a POST, whatever its status.

        Raises:
            NoAnswer: There was none; whether the other side acted is unknown.
        """
        head = [f"POST {path} HTTP/1.1", f"Host: 127.0.0.1:{self._port}", f"Content-Length: {len(body)}"]
        head += [f"{name}: {value}" for name, value in headers.items()]
        if any("\r" in line or "\n" in line for line in head):
            raise NoAnswer("a header must be a single line")
        try:
            connected = self._socket = self._socket or self._connected()
            connected.sendall("\r\n".join(head).encode() + b"\r\n\r\n" + body)
            return self._answer(connected)
        except (OSError, ValueError) as error:
            self.close()
            raise NoAnswer(str(error) or type(error).__name__) from error

    def close(self) -> None:
        """Hang up; twice is safe."""
        connected, self._socket = self._socket, None
        if connected is not None:
            connected.close()

    def _connected(self) -> _socket.socket:
        made = _socket.socket(_socket.AF_INET, _socket.SOCK_STREAM)
        made.settimeout(_CONNECT_SECONDS)
        try:
            made.connect(("127.0.0.1", self._port))
        except OSError:
            made.close()
            raise
        made.settimeout(SILENCE_SECONDS)
        return made

    def _answer(self, connected: _socket.socket) -> bytes:
        received = b""
        while b"\r\n\r\n" not in received:
            if len(received) > _LONGEST_HEAD_BYTES:
                raise ValueError("its head is too long")
            received += _received(connected)
        head, _, body = received.partition(b"\r\n\r\n")
        lines = head.decode("latin-1").split("\r\n")
        if not lines[0].startswith("HTTP/1.1 "):
            raise ValueError("what answers there does not speak HTTP/1.1")
        fields = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:])}
        length = int(fields.get("content-length", "-1"))
        if length < 0:
            raise ValueError("what answers there does not say how much")
        pieces = [body]
        size = len(body)
        while size < length:
            pieces.append(_received(connected))
            size += len(pieces[-1])
        if fields.get("connection", "").lower() == "close":
            self.close()
        return b"".join(pieces)[:length]


def _received(connected: _socket.socket) -> bytes:
    piece = connected.recv(_CHUNK_BYTES)
    if not piece:
        raise ValueError("the connection was closed before an answer")
    return piece

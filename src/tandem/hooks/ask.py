"""Asking the broker, from a hook: one connection, short patience, and what its absence means said plainly."""

from __future__ import annotations

import os

from tandem.hooks import jsontext
from tandem.hooks.wire import NoAnswer, Wire, port_of

TYPE_CHECKING = False  # as in `jsontext`
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any, Protocol

    from tandem.hooks.state import GateFile

    class _Line(Protocol):
        def post(self, path: str, body: bytes, headers: Mapping[str, str]) -> bytes: ...

        def close(self) -> None: ...


SILENCE_SECONDS = 20.0
"""How long the broker may be silent. A gate answers in milliseconds; its pings come every 15 s."""

_RUNTIME_FILE = "broker.json"
_TOKEN_VARIABLE = "TANDEM_TOKEN"  # noqa: S105 - the variable's name
_NO_TOKEN = "UNAUTHENTICATED"  # noqa: S105 - what the envelope says of a token that is refused or missing

AGENT = "git-hook"
"""Who asks, in the log."""


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
        return self.code == _NO_TOKEN


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

    def call(self, operation: str, **arguments: Any) -> dict[str, Any]:
        """The data that an operation answers, asked for the gate's project.

        Raises:
            Refused: The broker refuses.
            Unreachable: No broker answers, or something that is none.
        """
        path = f"/api/v1/{operation}"
        body = jsontext.dumps({"project": self._gate.project, **arguments}).encode()
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
        envelope: dict[str, Any] = jsontext.loads(answer)
        if envelope["ok"] is True or envelope["error"]["code"] != _NO_TOKEN:
            return envelope
        token = _token_for(self._url, _published(self._gate.data_dir))
        if token is None or token == self._token:
            return envelope
        self._token = token
        renewed: dict[str, Any] = jsontext.loads(line.post(path, body, self._head()))
        return renewed

    def _head(self) -> dict[str, str]:
        head = {"Content-Type": "application/json", "Accept": "application/json", "Tandem-Agent": self._agent}
        return head if self._token is None else {**head, "Authorization": f"Bearer {self._token}"}

    def check_gate(
        self, changes: list[dict[str, str]], head: str | None = None, base: str | None = None
    ) -> dict[str, Any]:
        """Whether a difference is approved; the data of `check_gate`.

        Args:
            changes: The raw difference.
            head: The commit that it is a difference to; without it nothing passes as taken back.
            base: What has it already is not taken back without a review; null for the base branches.

        Raises:
            Refused: The broker refuses.
            Unreachable: No broker answers.
        """
        where = {"head": head, "base": base}
        return self.call("check_gate", changes=changes, **{name: oid for name, oid in where.items() if oid is not None})

    def close(self) -> None:
        """Hang up; twice is safe."""
        line, self._line = self._line, None
        if line is not None:
            line.close()

    def _connected(self) -> _Line:
        published = _published(self._gate.data_dir)
        url = self._url = _chosen(self._gate, published)
        if url is None:
            raise Unreachable(None, f"none runs on {self._gate.data_dir}")
        self._token = _token_for(url, published)
        port = port_of(url)
        if port is not None:
            return Wire(port, SILENCE_SECONDS)
        from tandem.hooks.distant import Distant  # a broker elsewhere costs more anyway

        try:
            return Distant(url, SILENCE_SECONDS)
        except ValueError as error:
            raise Unreachable(url, str(error)) from error


def url_of(gate: GateFile) -> str | None:
    """Where a gate's broker is: the one that was named, else the one on its data; null if that has left no address."""
    return _chosen(gate, _published(gate.data_dir))


def _chosen(gate: GateFile, published: tuple[str | None, str | None]) -> str | None:
    return gate.broker or published[0] or gate.usual_url


def _token_for(url: str | None, published: tuple[str | None, str | None]) -> str | None:
    """As `bridge.credentials` has it: the token of the environment, else the one left for the owner of this broker."""
    stated = os.environ.get(_TOKEN_VARIABLE, "").strip()
    if not stated:
        return published[1] if url is not None and url.rstrip("/") == (published[0] or "").rstrip("/") else None
    if not (stated.isascii() and stated.isprintable()) or " " in stated:
        raise Refused(_NO_TOKEN, f"What is in {_TOKEN_VARIABLE} is no access token. Correct it or leave it out.", {})
    return stated


def _published(data_dir: str) -> tuple[str | None, str | None]:
    """The URL and the token that the running broker left in its data folder, as `bridge.credentials` reads them."""
    try:
        with open(os.path.join(data_dir, _RUNTIME_FILE), "rb") as file:
            stated = jsontext.loads(file.read())
        url, token = stated["url"], stated.get("token")
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None, None
    if not isinstance(url, str):
        return None, None
    return url, token if isinstance(token, str) else None

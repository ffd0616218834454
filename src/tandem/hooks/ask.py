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
    commits sets that.
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

    def call(self, operation: str, **arguments: Any) -> dict[str, Any]:
        """The data that an operation answers, asked for the gate's project.

        Raises:
            Refused: The broker refuses.
            Unreachable: No broker answers, or something that is none.
        """
        line = self._line = self._line or self._connected()
        body = jsontext.dumps({"project": self._gate.project, **arguments}).encode()
        head = {"Content-Type": "application/json", "Accept": "application/json", "Tandem-Agent": self._agent}
        try:
            envelope = jsontext.loads(line.post(f"/api/v1/{operation}", body, head))
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
        url = self._url = url_of(self._gate)
        if url is None:
            raise Unreachable(None, f"none runs on {self._gate.data_dir}")
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
    return gate.broker or _published_url(gate.data_dir) or gate.usual_url


def _published_url(data_dir: str) -> str | None:
    """The URL that the running broker left in its data folder, as `bridge.broker` reads it; null if none did."""
    try:
        with open(os.path.join(data_dir, _RUNTIME_FILE), "rb") as file:
            url = jsontext.loads(file.read())["url"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return url if isinstance(url, str) else None

"""Whether the broker can be asked anything right now."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Any

from tandem.bridge import credentials
from tandem.errors import Unavailable
from tandem.server.asgi.exchange import Exchange, Headers, send_outcome, send_refusal
from tandem.server.dispatch import CallResult

_NONCE = re.compile(rf"[0-9a-f]{{{2 * credentials.NONCE_BYTES}}}")
RETRY_AFTER = ((b"retry-after", b"1"),)


class BrokerPhase(StrEnum):
    """Where the broker is in its life."""

    STARTING = "starting"
    """The port is open, the data is not."""

    READY = "ready"
    """Everything is served."""

    DRAINING = "draining"
    """What runs is finished; nothing new is begun."""


Identity = Callable[[Exchange], tuple[Headers, Mapping[str, str]]]


def prove_identity(data_dir: str, owner_key: bytes, exchange: Exchange) -> tuple[Headers, Mapping[str, str]]:
    """Whose broker this is, for a client that asks at `/healthz` with a number in `Tandem-Nonce`.

    Returns:
        The proof, which only the owner can read, and where its secret is, for those on this machine.
    """
    nonce = exchange.headers.get(b"tandem-nonce", b"").decode("latin-1")
    server = exchange.scope.get("server")
    if not server or not _NONCE.fullmatch(nonce):
        return (), {}
    host, port = server
    made = credentials.proof(owner_key, nonce, host, port)
    is_here = host == "::1" or host.startswith("127.")
    return ((b"tandem-proof", made.encode()),), {"data_dir": data_dir} if is_here else {}


class Health:
    """The broker's state of life and the facts that go with it.

    Attributes:
        phase: Set by the code that starts and stops the broker.
    """

    def __init__(
        self,
        facts: Callable[[], Mapping[str, Any]],
        phase: BrokerPhase = BrokerPhase.STARTING,
        trouble: Callable[[], str | None] = lambda: None,
        identity: Identity = lambda _exchange: ((), {}),
    ) -> None:
        """Make a report.

        Args:
            facts: Cheap to call; JSON values such as `version`, `pid`, `instance_id`, `log_id`, `uptime_seconds`.
            phase: Where life begins.
            trouble: Why everything is refused though the broker runs, for people; None if it is not. Cheap.
            identity: Proves whose broker it is.
        """
        self.phase = phase
        self._facts = facts
        self._trouble = trouble
        self._identity = identity

    def check(self) -> None:
        """Let new work begin, or say why not.

        Raises:
            Unavailable: The broker is starting or draining.
        """
        if self.phase is not BrokerPhase.READY:
            raise Unavailable(f"The broker is {self.phase}; try again in a moment.", phase=self.phase)

    async def serve(self, exchange: Exchange) -> None:
        """Answer `GET /healthz`: 200 when ready, else 503, with the facts either way."""
        proof, place = self._identity(exchange)
        facts: dict[str, Any] = {"phase": self.phase, **self._facts(), **place}
        trouble = self._trouble()
        if self.phase is BrokerPhase.READY and trouble is None:
            await send_outcome(exchange.send, CallResult(facts), headers=proof)
        else:
            refusal = Unavailable(trouble or f"The broker is {self.phase}.", **facts)
            await send_refusal(exchange.send, refusal, headers=(*RETRY_AFTER, *proof))

"""Whether the broker can be asked anything right now."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Any

from tandem.errors import Unavailable
from tandem.server.asgi.exchange import Exchange, send_outcome, send_refusal
from tandem.server.dispatch import CallResult

RETRY_AFTER = ((b"retry-after", b"1"),)


class BrokerPhase(StrEnum):
    """Where the broker is in its life."""

    STARTING = "starting"
    """The port is open, the data is not."""

    READY = "ready"
    """Everything is served."""

    DRAINING = "draining"
    """What runs is finished; nothing new is begun."""


class Health:
    """The broker's state of life and the facts that go with it.

    Attributes:
        phase: Set by whoever starts and stops the broker.
    """

    def __init__(
        self,
        facts: Callable[[], Mapping[str, Any]],
        phase: BrokerPhase = BrokerPhase.STARTING,
        trouble: Callable[[], str | None] = lambda: None,
    ) -> None:
        """Make a report.

        Args:
            facts: Cheap to call; JSON values such as `version`, `pid`, `instance_id`, `log_id`, `uptime_seconds`.
            phase: Where life begins.
            trouble: Why everything is refused though the broker runs, for people; null if it is not. Cheap.
        """
        self.phase = phase
        self._facts = facts
        self._trouble = trouble

    def check(self) -> None:
        """Let new work begin, or say why not.

        Raises:
            Unavailable: The broker is starting or draining.
        """
        if self.phase is not BrokerPhase.READY:
            raise Unavailable(f"The broker is {self.phase}; try again in a moment.", phase=self.phase)

    async def serve(self, exchange: Exchange) -> None:
        """Answer `GET /healthz`: 200 when ready, else 503, with the facts either way."""
        facts = {"phase": self.phase, **self._facts()}
        trouble = self._trouble()
        if self.phase is BrokerPhase.READY and trouble is None:
            await send_outcome(exchange.send, CallResult(facts))
        else:
            refusal = Unavailable(trouble or f"The broker is {self.phase}.", **facts)
            await send_refusal(exchange.send, refusal, headers=RETRY_AFTER)

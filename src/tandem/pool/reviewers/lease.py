"""Keeping a claim while its review is under way, and noticing when it is over."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Self

from tandem.core.clock import instant_us
from tandem.errors import InvalidTransition, NotClaimant, NotFound, StaleClaim, StaleRound, TandemError
from tandem.pool.reviewers.broker_client import BrokerClient, BrokerUnreachable, CallCancelled

OVER: Final = (StaleClaim, StaleRound, NotClaimant, InvalidTransition, NotFound)
"""Refusals of a reviewer that does not hold the review any more, or not its current round."""

DEADLINE: Final = "DEADLINE"
"""Why a lease ends that the broker does not extend any further."""

_OFTEN_SECONDS = 20.0
"""A third of the shortest lease that there is; and so an ended claim is noticed before much is spent on it."""
_RARELY_SECONDS = 0.5
_SHARE = 3
_LONGEST_SECONDS = 7 * 24 * 3600.0
"""A lease that seems longer is one on a clock that is not ours."""
_LAST_SECONDS = 5.0
"""The time, besides the program's grace, to end a run and to report it within the lease."""


@dataclass(frozen=True, slots=True)
class Claimed:
    """A review that was claimed.

    Attributes:
        review_id: Which.
        project: Of which project.
        generation: The claim's.
        round: The round that was given with it.
        lease_ends: When the lease ends, microseconds since the epoch by the broker's clock.
        proposal: The round's content, as `get_proposal` answers it.
    """

    review_id: str
    project: str
    generation: int
    round: int
    lease_ends: int
    proposal: dict[str, Any]

    def request(self, **more: Any) -> dict[str, Any]:
        """A request about the review."""
        return {"review_id": self.review_id, "project": self.project, **more}


class Lease:
    """Renews a claim in a thread of its own; leaving the block ends that.

    Attributes:
        ended: Why the claim is over or about to be, a code of the contract or `DEADLINE`; None while it holds.
    """

    def __init__(
        self, broker: BrokerClient, claimed: Claimed, *, grace_seconds: float, on_end: Callable[[], None]
    ) -> None:
        """Prepare to renew.

        Args:
            broker: A connection of its own.
            claimed: The claim.
            grace_seconds: How long the run takes to end.
            on_end: Is told, once, in the thread, when the claim is over.
        """
        self.ended: str | None = None
        self._broker = broker
        self._claimed = claimed
        self._grace_seconds = grace_seconds
        self._on_end = on_end
        self._done = threading.Event()
        self._began = time.monotonic()
        # The one look at our own clock, which may be another than the broker's. From here on only differences count.
        seen = claimed.lease_ends / 1_000_000 - time.time()
        self._first_seconds = seen if 0 < seen < _LONGEST_SECONDS else None
        self._every_seconds = max(_RARELY_SECONDS, min(_OFTEN_SECONDS, (self._first_seconds or 3600) / _SHARE))
        self._cut = float("inf")
        self._thread = threading.Thread(target=self._run, name="lease", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._broker.hang_up()
        self._thread.join()
        self._broker.close()

    def _run(self) -> None:
        known, renewed = self._claimed.lease_ends, self._began
        while not self._done.wait(self._pause()):
            now = time.monotonic()
            if now >= self._cut:
                self._end(DEADLINE)
                return
            try:
                ends = self._renew()
            except CallCancelled:
                return
            except OVER as error:
                self._end(error.code)
                return
            except (TandemError, BrokerUnreachable, ValueError):
                # A broker that is away takes no claim back. When it is there again it will say whether the claim holds.
                continue
            if ends - known < (now - renewed) * 1_000_000 / 2:
                self._cut = self._cut_at(ends)
            known, renewed = ends, now

    def _pause(self) -> float:
        return max(0.0, min(self._every_seconds, self._cut - time.monotonic()))

    def _renew(self) -> int:
        arguments = self._claimed.request(claim_generation=self._claimed.generation)
        # No key, which the broker would keep for a day: a second renewal does no harm.
        answer = self._broker.call("renew_claim", arguments, until=self._done)
        return instant_us(str(answer.get("lease_expires_at")))

    def _cut_at(self, ends: int) -> float:
        """When to end the run, on the monotonic clock, now that the lease has reached its last end."""
        if self._first_seconds is None:
            return float("inf")
        whole = self._first_seconds + (ends - self._claimed.lease_ends) / 1_000_000
        left = self._began + whole - time.monotonic()
        return time.monotonic() + left - min(self._grace_seconds + _LAST_SECONDS, left / 2)

    def _end(self, why: str) -> None:
        self.ended = why
        self._on_end()

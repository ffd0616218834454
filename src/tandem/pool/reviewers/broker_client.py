"""A reviewer's calls to its broker, repeated while that is away: it may be restarting.

A lease renews the claim while its review is under way, and notices when it is over.

Every call may be made twice without harm: reads change nothing, and writes carry an idempotency key.

    TandemError         the broker refuses, and will again
    BrokerUnreachable   no broker answered in all the time that was granted
    CallCancelled       the caller does not want the answer any more
"""

from __future__ import annotations

import json
import secrets
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Self

from tandem.bridge import credentials
from tandem.bridge.http import Exchange, HttpClient
from tandem.bridge.location import HttpFailure, targets
from tandem.core.clock import instant_us
from tandem.errors import InvalidTransition, NotClaimant, NotFound, StaleClaim, StaleRound, TandemError, error_from

PATIENCE_SECONDS: Final = 60.0
"""How long a broker may be away: long enough to be restarted."""

ANSWER_SECONDS: Final = 120.0
"""A silent broker is given up on; it may wait as long as it is asked to, and validate and commit besides."""

_FIRST_PAUSE_SECONDS = 0.05
_LONGEST_PAUSE_SECONDS = 1.0


class BrokerUnreachable(Exception):
    """No broker answered as long as was waited; the message says how the last try failed."""


class CallCancelled(Exception):
    """The event that a call was made to depend on is set."""


class BrokerClient:
    """A connection to the broker, kept open between calls. Calls are made by one thread at a time."""

    def __init__(
        self, url: str, *, agent: str, access: str | None = None, answer_seconds: float = ANSWER_SECONDS
    ) -> None:
        """Choose the broker; nothing is contacted yet.

        Args:
            url: Its URL, with the path up to `/api/v1`; `URL,URL` for several on one database.
            agent: Who calls.
            access: The token that the broker lets them in with; None for one that trusts everybody.
            answer_seconds: How long one try may take.

        Raises:
            ValueError: The URL cannot be used.
        """
        self._client = HttpClient(*targets(url), silence_seconds=answer_seconds)
        self._headers = {"Content-Type": "application/json", "Accept": "application/json", "Tandem-Agent": agent}
        self._headers |= credentials.headers(access)
        self._newest: tuple[Exchange, threading.Event] | None = None

    def call(
        self,
        operation: str,
        arguments: Mapping[str, Any],
        *,
        until: threading.Event,
        hang_up: threading.Event | None = None,
        patience_seconds: float = PATIENCE_SECONDS,
        insist: bool = True,
    ) -> dict[str, Any]:
        """The data that the broker answers to one operation; blocks until it does.

        Args:
            operation: Its name.
            arguments: Its request, of a write `with_key`; fields that are None are left out.
            until: Once it is set the call is not repeated.
            hang_up: Once it is set `hang_up` also ends a call that is being answered; by default the same event.
            patience_seconds: How long to go on trying while no broker answers, or the answer is `retryable`.
            insist: Whether to go on trying when the answer is `retryable`, too.

        Raises:
            TandemError: The broker refuses; if it is retryable, it did so to the end of the patience.
            BrokerUnreachable: Nothing answered, or a program that is no broker.
            CallCancelled: One of the events is set, and there is no answer.
        """
        body = json.dumps({name: value for name, value in arguments.items() if value is not None}).encode()
        began = time.monotonic()
        pause = _FIRST_PAUSE_SECONDS
        while True:
            try:
                return self._post(operation, body, hang_up or until)
            except (TandemError, BrokerUnreachable) as error:
                is_final = isinstance(error, TandemError) and not (error.retryable and insist)
                if is_final or time.monotonic() - began + pause > patience_seconds:
                    raise
            if until.wait(pause):
                raise CallCancelled
            pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)

    def hang_up(self) -> None:
        """End the call that another thread makes, if the event that it depends on is set. Never blocks for long."""
        # Read once: the other thread may begin its next call meanwhile. One that has ended is not changed by this.
        exchange, event = self._newest or (None, None)
        if exchange is not None and event is not None and event.is_set():
            exchange.abort()

    def close(self) -> None:
        """Close the connection; the next call opens another."""
        self._client.close()

    def _post(self, operation: str, body: bytes, hang_up: threading.Event) -> dict[str, Any]:
        exchange = Exchange()
        self._newest = (exchange, hang_up)
        # Looked at where `hang_up` finds the call: nothing is missed.
        if hang_up.is_set():
            raise CallCancelled
        try:
            answer = self._client.request("POST", f"/api/v1/{operation}", body, self._headers, exchange)
            return _data(answer.status, answer.read())
        except HttpFailure as error:
            if hang_up.is_set():
                raise CallCancelled from error
            raise BrokerUnreachable(f"no broker answers at {self._client.target.host}: {error}") from error


def with_key(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The request of a write, which has its effect once however often it is sent."""
    return {**arguments, "idempotency_key": secrets.token_hex(16)}


def _data(status: int, content: bytes) -> dict[str, Any]:
    """What the envelope holds."""
    try:
        envelope = json.loads(content)
        if envelope["ok"] is True:
            data: dict[str, Any] = envelope["data"]
            return data
        refused = error_from(envelope["error"])
    except (ValueError, RecursionError, TypeError, KeyError, AttributeError):
        raise BrokerUnreachable(f"what answers is not a Tandem broker (HTTP {status})") from None
    raise refused


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

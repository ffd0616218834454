"""A reviewer's calls to its broker, repeated while that is away: it may be restarting.

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
from collections.abc import Mapping
from typing import Any, Final

from tandem.bridge import credentials
from tandem.bridge.http import Exchange, HttpClient
from tandem.bridge.target import HttpFailure, targets
from tandem.errors import TandemError, error_from

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

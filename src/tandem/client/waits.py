"""Waits that last as long as asked, made of calls that the broker answers within a minute."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

import orjson

CALL_SECONDS = 50.0
"""The longest that one call waits; the broker allows no more."""
_EARLY_ANSWER_PAUSE_SECONDS = 0.2

_DECIDED = frozenset({"approved", "changes_requested", "rejected", "closed"})
Condition = Callable[[dict[str, Any]], bool]


class Call(Protocol):
    """Sends one operation; `patient` keeps trying while a broker is away that has answered before."""

    def __call__(self, operation: str, arguments: dict[str, Any], *, patient: bool) -> Awaitable[bytes]:
        """The envelope that came back."""
        ...


def is_decided(data: dict[str, Any]) -> bool:
    """Whether a review's status is a verdict or the end, or there will be no verdict before a person has looked."""
    return data.get("status") in _DECIDED or data.get("attention") is not None


def is_proposers_turn(data: dict[str, Any]) -> bool:
    """Whether a review's proposer has something to do, or the review is over."""
    return data.get("turn") == "proposer" or data.get("status") == "closed"


def has_changed(data: dict[str, Any]) -> bool:
    """Whether the broker saw something after the cursor."""
    return bool(data.get("changed"))


async def wait_until(
    call: Call,
    operation: str,
    arguments: dict[str, Any],
    *,
    ready: Condition,
    done: Condition = has_changed,
    timeout_s: float | None = None,
) -> bytes:
    """Repeat a waiting operation until its answer satisfies, is a refusal, or the time is up.

    Args:
        call: Sends it.
        operation: An operation that takes `wait`, `cursor` and `timeout_s`.
        arguments: Its other arguments. Without a cursor the state is read first, and the wait begins there.
        ready: Whether that first answer satisfies already.
        done: Whether a later answer does.
        timeout_s: Seconds; null for as long as it takes.

    Returns:
        The last envelope.
    """
    deadline = None if timeout_s is None else time.monotonic() + timeout_s
    envelope = b""
    given = dict(arguments)
    if given.get("cursor") is None:
        envelope = await call(operation, given, patient=False)
        data = _data(envelope)
        if data is None or ready(data):
            return envelope
        # Even when the time is up: only a wait from a cursor says whether anything has changed since.
        given["cursor"] = data.get("cursor")
    while True:
        began = time.monotonic()
        asked_seconds = CALL_SECONDS if deadline is None else min(CALL_SECONDS, max(0.0, deadline - began))
        asked = {**given, "wait": True, "timeout_s": round(asked_seconds, 3)}
        envelope = await call(operation, asked, patient=True)
        data = _data(envelope)
        if data is None or done(data) or _is_past(deadline):
            return envelope
        given["cursor"] = data.get("cursor")
        if not has_changed(data) and time.monotonic() - began < asked_seconds / 2:
            # A broker that is stopping answers its waits early; do not hammer it meanwhile.
            await asyncio.sleep(_EARLY_ANSWER_PAUSE_SECONDS)


def _is_past(deadline: float | None) -> bool:
    return deadline is not None and time.monotonic() >= deadline


def _data(envelope: bytes) -> dict[str, Any] | None:
    content: dict[str, Any] = orjson.loads(envelope)
    return content["data"] if content.get("ok") else None

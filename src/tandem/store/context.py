"""The one way in which a service writes, and waits, and the context that this needs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol, TypeVar

import orjson

from tandem.contract.caller import Caller, Key
from tandem.core.clock import Clock
from tandem.settings.following import FollowedSettings
from tandem.settings.policy import Policy
from tandem.store import idempotency
from tandem.store.base import Store, Unit
from tandem.store.waits import WaitHub, wait_until

T = TypeVar("T")
_WAIT_SECONDS = 25.0
"""How long a wait lasts when the caller does not say."""


@dataclass(frozen=True)
class Context:
    """The foundation of every service; `reviews.context.Services` adds the rest.

    Attributes:
        store: Holds state and events.
        clock: Gives the time and new ids.
        settings: The broker's settings, which may change while it runs.
        waits: The parked calls.
    """

    store: Store
    clock: Clock
    settings: FollowedSettings
    waits: WaitHub

    @property
    def policy(self) -> Policy:
        """The settings that the services decide by."""
        return self.settings.policy


class Replayed(Exception):
    """The same call was answered before; carries that envelope."""

    def __init__(self, envelope: str) -> None:
        super().__init__("answered before")
        self.envelope = envelope


async def transact(
    services: Context,
    caller: Caller,
    work: Callable[[Unit], T],
    *,
    kept: Callable[[T], object] = lambda answer: answer,
    works_on: tuple[str, ...] = (),
) -> T:
    """Run a unit of work that writes, once per idempotency key.

    Args:
        services: The services.
        caller: Who asks, and under which key.
        work: What to do.
        kept: Maps the answer to the one stored for a repetition: secrets are not kept.
        works_on: Names that let others write meanwhile; see `Store.write`.

    Raises:
        Replayed: The key was used with the same body before.
        IdempotencyConflict: The key was used with another body.
    """
    key = caller.key
    if key is None:
        return await services.store.write(work, works_on=works_on)

    def keyed(unit: Unit) -> T:
        if (earlier := idempotency.find_first(unit, key)) is not None:
            raise Replayed(earlier)
        answer = work(unit)
        idempotency.keep(unit, key, envelope(kept(answer)).decode(), services.clock.now_us())
        return answer

    return await services.store.write(keyed, works_on=(*works_on, key.name) if works_on else ())


async def amend(services: Context, caller: Caller, answer: object) -> None:
    """Keep a later answer for a repetition than the one that was kept with the effect."""
    key = caller.key
    if key is not None:
        body = envelope(answer).decode()
        await services.store.write(lambda unit: idempotency.amend(unit, key, body), works_on=(key.name,))


async def keep_refusal(services: Context, key: Key, body: bytes) -> str:
    """Keep the envelope of a refusal, whose transaction came to nothing; the envelope that stands.

    Raises:
        IdempotencyConflict: The key was used with another body meanwhile.
    """

    def keep(unit: Unit) -> str:
        if (earlier := idempotency.find_first(unit, key)) is not None:
            return earlier
        idempotency.keep(unit, key, body.decode(), services.clock.now_us())
        return body.decode()

    return await services.store.write(keep, works_on=(key.name,))


def envelope(answer: object) -> bytes:
    """The envelope of a success."""
    return b'{"ok":true,"data":' + orjson.dumps(answer) + b"}"


class WaitOptions(Protocol):
    """What requests say of waiting."""

    wait: bool
    timeout_s: float | None


async def look_or_wait(
    services: Context, name: str, look: Callable[[], Awaitable[tuple[T, bool]]], request: WaitOptions, *further: str
) -> T:
    """What there is now; of a request that waits, what there is once `look` finds news, or the time is up."""
    if not request.wait:
        return (await look())[0]
    return await wait_until(services.waits, name, *further, look=look, timeout_seconds=wait_seconds(services, request))


def wait_seconds(services: Context, request: WaitOptions) -> float:
    """How long a request waits at most."""
    policy = services.policy
    return min(_WAIT_SECONDS if request.timeout_s is None else request.timeout_s, policy.wait_max_seconds)

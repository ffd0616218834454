"""What every service is given, and the one way in which a service writes, and waits."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import orjson

from tandem.contract.caller import Caller, Key
from tandem.core.clock import Clock
from tandem.core.secret_key import Tokens
from tandem.settings.policy import Policy
from tandem.settings.workflows import Workflow
from tandem.store import idempotency
from tandem.store.base import Store, Unit
from tandem.store.waits import WaitHub, wait_until

if TYPE_CHECKING:
    from tandem.access.admission import Authenticator
    from tandem.projects.registry import Projects
    from tandem.reviews.participants import Participant

T = TypeVar("T")
_WAIT_SECONDS = 25.0
"""How long a wait lasts when the caller does not say."""


class PoolReviewers(Protocol):
    """What claims ask about the reviewers of pools, in their own unit of work; everybody else is in no pool."""

    def is_draining(self, unit: Unit, reviewer_id: str) -> bool:
        """Whether it is to take nothing new."""
        ...

    def expire(self, unit: Unit, review_id: str, now_us: int) -> None:
        """Take a review back whose lease has run out, whoever holds it; a reviewer of a pool is ended."""
        ...


@dataclass(frozen=True, slots=True)
class Services:
    """What the services stand on, wired once by the composition root.

    Attributes:
        validations: Bounds how many git runs are under way at once.
        workflows: What hand-off cycles can be started with, by name.
        tokens: Derives the tokens of sessions and locks.
        authenticator: Tells who calls, and makes the passes of reviewers and the codes of logins.
        archives: The folder that archived cycles are written to.
        pool: Answers for the reviewers of pools.
        reviewer_logs: The folder of the logs of this machine's reviewers.
        participants: The subjects with a stake in reviews.
        options: The settings that the command line can name, as the broker was started with them.
        archiving: Held while one is written.
        checks_wanted: Set once a project has checks to run.
        webhooks_wanted: Set while there are webhooks, or may be.
    """

    store: Store
    clock: Clock
    policy: Policy
    projects: Projects
    waits: WaitHub
    validations: asyncio.Semaphore
    workflows: Mapping[str, Workflow]
    tokens: Tokens
    authenticator: Authenticator
    archives: Path
    pool: PoolReviewers
    reviewer_logs: Path
    participants: tuple[Participant, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])
    archiving: asyncio.Lock = field(default_factory=asyncio.Lock)
    checks_wanted: asyncio.Event = field(default_factory=asyncio.Event)
    webhooks_wanted: asyncio.Event = field(default_factory=asyncio.Event)


class Replayed(Exception):
    """The same call was answered before; carries that envelope."""

    def __init__(self, envelope: str) -> None:
        super().__init__("answered before")
        self.envelope = envelope


async def transact(
    services: Services,
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
        kept: What is stored of the answer for a repetition: one with secrets is kept without them.
        works_on: The names of what it works on, if others may write meanwhile; see `Store.write`.

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


async def amend(services: Services, caller: Caller, answer: object) -> None:
    """Keep a later answer for a repetition than the one that was kept with the effect."""
    key = caller.key
    if key is not None:
        body = envelope(answer).decode()
        await services.store.write(lambda unit: idempotency.amend(unit, key, body), works_on=(key.name,))


async def find_answer(services: Services, key: Key) -> str | None:
    """The envelope that a key was answered with, if it was used before.

    Raises:
        IdempotencyConflict: It was used with another body.
    """
    return await services.store.read(lambda unit: idempotency.find(unit, key))


async def keep_refusal(services: Services, key: Key, body: bytes) -> str:
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
    services: Services, name: str, look: Callable[[], Awaitable[tuple[T, bool]]], request: WaitOptions, *further: str
) -> T:
    """What there is now; of a request that waits, what there is once `look` finds news, or the time is up."""
    if not request.wait:
        return (await look())[0]
    return await wait_until(services.waits, name, *further, look=look, timeout_seconds=wait_seconds(services, request))


def wait_seconds(services: Services, request: WaitOptions) -> float:
    """How long a request waits at most."""
    policy = services.policy
    return min(_WAIT_SECONDS if request.timeout_s is None else request.timeout_s, policy.wait_max_seconds)

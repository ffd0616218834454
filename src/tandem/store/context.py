"""The one way in which a service writes, once per idempotency key, and waits; and the context that this needs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass
from typing import Final, Protocol, TypeVar

import orjson
from sqlalchemy import bindparam, delete, select, update

from tandem.contract.caller import Caller, Key
from tandem.core.clock import Clock
from tandem.errors import IdempotencyConflict
from tandem.settings.following import FollowedSettings
from tandem.settings.policy import Policy
from tandem.store import tables
from tandem.store.base import Store, Unit
from tandem.store.statement import Statement, insert_if_new
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
        if (earlier := _find_first_answer(unit, key)) is not None:
            raise Replayed(earlier)
        answer = work(unit)
        _keep_answer(unit, key, envelope(kept(answer)).decode(), services.clock.now_us())
        return answer

    return await services.store.write(keyed, works_on=(*works_on, key.name) if works_on else ())


async def amend(services: Context, caller: Caller, answer: object) -> None:
    """Keep a later answer for a repetition than the one that was kept with the effect."""
    key = caller.key
    if key is not None:
        body = envelope(answer).decode()
        await services.store.write(
            lambda unit: unit.put(_update_answer, new_answer=body, **_of_key(key)), works_on=(key.name,)
        )


async def keep_refusal(services: Context, key: Key, body: bytes) -> str:
    """Keep the envelope of a refusal, whose transaction came to nothing; the envelope that stands.

    Raises:
        IdempotencyConflict: The key was used with another body meanwhile.
    """

    def keep(unit: Unit) -> str:
        if (earlier := _find_first_answer(unit, key)) is not None:
            return earlier
        _keep_answer(unit, key, body.decode(), services.clock.now_us())
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


PLAIN_HASH = "sent:"
SEALED_HASH = "sealed:"
"""How hashes of requests begin; the second where the request or its answer has a secret."""
_i = tables.idempotency.c
_SAME: Final = ("principal", "project", "operation", "key")
_same = tuple(_i[name] == bindparam(f"of_{name}") for name in _SAME)
_select_answer = Statement(select(_i.body_hash, _i.answer).where(*_same))
_insert_answer = insert_if_new(tables.idempotency)
_update_answer = Statement(update(tables.idempotency).where(*_same).values(answer=bindparam("new_answer")))
_delete_keys = Statement(delete(tables.idempotency).where(_i.created_at < bindparam("before")))


def _of_key(key: Key) -> dict[str, str]:
    return {f"of_{name}": getattr(key, name) for name in _SAME}


def find_answer(unit: Unit, key: Key) -> str | None:
    """The answer that a key was used with; None if it was not.

    Raises:
        IdempotencyConflict: It was used with another body.
    """
    row = unit.one_or_none(_select_answer, **_of_key(key))
    if row is None:
        return None
    body_hash, answer = row
    if body_hash != key.body_hash:
        raise IdempotencyConflict(
            "This idempotency_key was used with another body; choose a new one for a new call.",
            idempotency_key=key.key,
            operation=key.operation,
        )
    return str(answer)


def _find_first_answer(unit: Unit, key: Key) -> str | None:
    """As `find_answer`, but locks the key first: for a transaction that will use it if no other one has."""
    unit.lock(key.name)
    return find_answer(unit, key)


def _keep_answer(unit: Unit, key: Key, answer: str, now_us: int) -> None:
    """Keep the first answer for the next call with this key."""
    unit.put_one(_insert_answer, **asdict(key), answer=answer, created_at=now_us)


def purge_keys(unit: Unit, before_us: int) -> int:
    """Forget keys from before a time; how many there were."""
    return unit.execute(_delete_keys, before=before_us)

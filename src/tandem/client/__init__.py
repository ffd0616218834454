"""The typed Python client: operations as async methods, refusals as errors, waits that last as long as asked.

It is `bridge.session` for programs that run on asyncio and want types.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from functools import cache
from threading import Thread
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

from pydantic import BaseModel, TypeAdapter, ValidationError

from tandem.bridge.http import Exchange
from tandem.bridge.location import DEFAULT_URL, Aborted, BrokerLocation, locate
from tandem.bridge.operations import OPERATIONS
from tandem.bridge.session import (
    Session,
    Unreachable,
    data_of,
    has_changed,
    is_decided,
    is_proposers_turn,
    unreachable,
)
from tandem.client.methods import Operations
from tandem.errors import InternalError

if TYPE_CHECKING:
    from tandem.bridge.session import Condition
    from tandem.reviews.answers import ReviewStatus

__all__ = ["DEFAULT_URL", "TandemClient", "Unreachable", "read_envelope"]

Answer = TypeVar("Answer")


class TandemClient(Operations):
    """Talks to a broker.

        async with TandemClient(agent="my-agent") as client:
            created = await client.create_review(intent="…", agent_type="my-agent", diff=diff)
            status = await client.wait_for_turn(created.review_id, created.cursor)

    Reads are repeated while a broker that has answered before is away or stops, until the time is up. So are writes, as
    each carries an idempotency key: the caller's, or a fresh one. The few that take none are repeated only where the
    broker certainly did not take them.

    To a broker that asks for access tokens goes the one in `TANDEM_TOKEN`, else its owner's, which a broker leaves
    in its data folder.

    Connections are kept. They are the bridge's, with a thread for each call: importing an asynchronous HTTP client
    takes longer than all else that most commands do.

    Args:
        url: The broker, or several on one database as `URL,URL`: whenever one is away, calls go to the next. By default
            the one that commands take, too: `TANDEM_BROKER`, that of the repository one is in, else this user's own.
        project: The project of calls that name none.
        agent: Who is calling, for the log (`Tandem-Agent`).
        data_dir: The data folder of that broker, if it is not the user's own.
        answer_s: The longest that a call takes in all, tries again included; default: no limit but those on silence and
            on how long the broker may be away.
    """

    def __init__(
        self,
        url: str | BrokerLocation | None = None,
        project: str | None = None,
        agent: str | None = None,
        *,
        data_dir: str | None = None,
        answer_s: float | None = None,
    ) -> None:
        location = url if isinstance(url, BrokerLocation) else locate(url, ".", data_dir)
        self.session = Session(location, project, agent, answer_s=answer_s)
        self._exchanges: set[Exchange] = set()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections, and give up the calls that still wait; closing twice is safe."""
        for exchange in self._exchanges:
            exchange.abort()
        self.session.close()

    @property
    def url(self) -> str:
        """The broker's address, or those of several; empty if it runs nowhere."""
        return self.session.url

    @property
    def location(self) -> BrokerLocation:
        """How that is known."""
        return self.session.location

    @property
    def address(self) -> str:
        """The URL of the one of several brokers that is asked now, e.g. for a page."""
        return self.session.http.target.url

    async def call(self, operation: str, arguments: Mapping[str, Any], *, within_s: float | None = None) -> bytes:
        """Any operation by name; answers with the envelope as it came, refusals included.

        Args:
            operation: The operation's name.
            arguments: The request as JSON values.
            within_s: The longest that this takes in all; default: the client's own limit.

        Raises:
            Unreachable: No broker answers.
        """
        return await self._carried_out(
            lambda exchange: self.session.call(operation, arguments, within_s=within_s, exchange=exchange)
        )

    async def data(self, operation: str, arguments: Mapping[str, Any]) -> Any:
        """Any operation by name; answers with the data as JSON values.

        Args:
            operation: The operation's name.
            arguments: The request as JSON values.

        Raises:
            TandemError: The broker refuses, or none answers; the subclass is that of the code.
        """
        return data_of(await self.call(operation, arguments))

    async def wait_for_turn(
        self, review_id: str, cursor: str | None = None, timeout_s: float | None = None
    ) -> ReviewStatus:
        """Wait until the proposer has something to do, or the time is up.

        Args:
            review_id: The review.
            cursor: Cursor of an earlier answer: wait for later changes. By default the present state counts.
            timeout_s: Seconds; by default as long as it takes.
        """
        return await self._wait_for_status(review_id, cursor, timeout_s, "turn", is_proposers_turn, has_changed)

    async def wait_for_verdict(
        self, review_id: str, cursor: str | None = None, timeout_s: float | None = None
    ) -> ReviewStatus:
        """Wait until the review is decided or closed or needs a person's attention, or the time is up.

        Args:
            review_id: The review.
            cursor: Cursor of an earlier answer: wait for later changes. By default the present state counts.
            timeout_s: Seconds; by default as long as it takes.
        """
        return await self._wait_for_status(review_id, cursor, timeout_s, "any", is_decided, is_decided)

    async def wait_until(
        self,
        operation: str,
        arguments: Mapping[str, Any],
        *,
        ready: Condition,
        done: Condition = has_changed,
        timeout_s: float | None = None,
    ) -> bytes:
        """`bridge.session.Session.wait_until`, without blocking the event loop."""
        return await self._carried_out(
            lambda exchange: self.session.wait_until(
                operation, arguments, ready=ready, done=done, timeout_s=timeout_s, exchange=exchange
            )
        )

    async def _wait_for_status(
        self,
        review_id: str,
        cursor: str | None,
        timeout_s: float | None,
        wake_on: str,
        ready: Condition,
        done: Condition,
    ) -> ReviewStatus:
        arguments = {"review_id": review_id, "wake_on": wake_on, "cursor": cursor}
        envelope = await self.wait_until("get_review_status", arguments, ready=ready, done=done, timeout_s=timeout_s)
        return read_envelope(envelope, OPERATIONS["get_review_status"].answer)

    async def _operate(self, operation: str, given: Mapping[str, Any]) -> Any:
        # Defaults are not sent, so that with the next version's defaults the same call is the same body.
        defaults: dict[str, Any] = getattr(type(self), operation).__kwdefaults__ or {}
        fields = {
            name: _json_value(value) for name, value in given.items() if name != "self" and value != defaults.get(name)
        }
        return read_envelope(await self.call(operation, fields), OPERATIONS[operation].answer)

    async def _carried_out(self, work: Callable[[Exchange], bytes]) -> bytes:
        """Work of a thread of its own; a cancelled caller hangs up."""
        exchange = Exchange()
        ended: Future[bytes] = Future()
        ended.set_running_or_notify_cancel()

        def carry_out() -> None:
            try:
                ended.set_result(work(exchange))
            except Aborted as error:
                ended.set_exception(unreachable(self.location, error))
            except BaseException as error:  # noqa: BLE001 - the caller who awaits it gets every kind
                ended.set_exception(error)

        self._exchanges.add(exchange)
        Thread(target=carry_out, name="tandem-call", daemon=True).start()
        try:
            return await asyncio.wrap_future(ended)
        finally:
            self._exchanges.discard(exchange)
            # Of an exchange that has ended, this changes nothing.
            exchange.abort()


def read_envelope(envelope: bytes, answer: type[Answer]) -> Answer:
    """The typed answer inside an envelope.

    Raises:
        TandemError: The envelope is a refusal; the subclass is that of its code.
        InternalError: The data is not what this version of the client expects.
    """
    data = data_of(envelope)
    try:
        return _adapter(answer).validate_python(data)
    except ValidationError as error:
        raise InternalError(
            f"The broker's answer is not a {answer.__name__} as this version knows it; are both of one version?",
            problems=[problem["loc"] for problem in error.errors()[:5]],
        ) from error


@cache
def _adapter(answer: type[Answer]) -> TypeAdapter[Answer]:
    return TypeAdapter(answer)


def _json_value(value: Any) -> Any:
    match value:
        case BaseModel():
            return value.model_dump(exclude_none=True, exclude_unset=True)
        case list() | tuple():
            return [_json_value(item) for item in value]  # pyright: ignore[reportUnknownVariableType] any JSON value
        case _:
            return value

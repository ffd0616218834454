"""The client: operations as methods, refusals as errors, waits that last as long as asked."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from functools import cache
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

import orjson
from pydantic import BaseModel, TypeAdapter, ValidationError

from tandem.client.connection import DEFAULT_URL, Connection
from tandem.client.methods import Operations
from tandem.client.table import OPERATIONS
from tandem.client.waits import Condition, has_changed, is_decided, is_proposers_turn, wait_until
from tandem.errors import InternalError, error_from

if TYPE_CHECKING:
    from tandem.reviews.answers import ReviewStatus

Answer = TypeVar("Answer")


class TandemClient(Operations):
    """Talks to a broker.

        async with TandemClient(agent="my-agent") as client:
            created = await client.create_review(intent="…", agent_type="my-agent", diff=diff)
            status = await client.wait_for_turn(created.review_id, created.cursor)

    Reads are repeated when the connection fails. So are writes, as each carries an idempotency key: the
    caller's, or a fresh one.

    To a broker that asks for access tokens goes the one in `TANDEM_TOKEN`, else its owner's, which a broker leaves
    in its data folder.

    Args:
        url: The broker; by default the one at its default address on this machine.
        project: The project of calls that name none.
        agent: Who is calling, for the log (`Tandem-Agent`).
        data_dir: The data folder of that broker, if it is not the user's own.
    """

    def __init__(
        self,
        url: str | None = None,
        project: str | None = None,
        agent: str | None = None,
        *,
        data_dir: str | None = None,
    ) -> None:
        self._connection = Connection(url or DEFAULT_URL, project=project, agent=agent, data_dir=data_dir)
        self._contacted = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    @property
    def url(self) -> str:
        """The broker's address."""
        return self._connection.url

    async def close(self) -> None:
        """Close the connection; closing twice is safe."""
        await self._connection.close()

    async def call(self, operation: str, arguments: Mapping[str, Any], *, patient: bool = False) -> bytes:
        """Any operation by name; answers with the envelope as it came, refusals included.

        Args:
            operation: The operation's name.
            arguments: The request as JSON values.
            patient: Keep trying for about a minute while a broker is away that has answered before.

        Raises:
            Unreachable: No broker answers.
        """
        body = dict(arguments)
        known = OPERATIONS.get(operation)
        if known and known.keyed and body.get("idempotency_key") is None:
            body["idempotency_key"] = secrets.token_hex(16)
        repeatable = known is not None and known.repeatable
        patient = patient and self._contacted
        envelope = await self._connection.call(operation, body, repeatable=repeatable, patient=patient)
        self._contacted = True
        return envelope

    async def data(self, operation: str, arguments: Mapping[str, Any]) -> Any:
        """Any operation by name; answers with the data as JSON values.

        Args:
            operation: The operation's name.
            arguments: The request as JSON values.

        Raises:
            TandemError: The broker refuses, or none answers; the subclass is that of the code.
        """
        return _data(await self.call(operation, arguments))

    async def wait_for_turn(
        self, review_id: str, cursor: str | None = None, timeout_s: float | None = None
    ) -> ReviewStatus:
        """Wait until the proposer has something to do, or the time is up.

        Args:
            review_id: The review.
            cursor: Cursor of an earlier answer: wait for what comes after it. By default the state of now counts.
            timeout_s: Seconds; by default as long as it takes.
        """
        return await self._wait_for_status(review_id, cursor, timeout_s, "turn", is_proposers_turn, has_changed)

    async def wait_for_verdict(
        self, review_id: str, cursor: str | None = None, timeout_s: float | None = None
    ) -> ReviewStatus:
        """Wait until the review is decided or closed or needs a person's attention, or the time is up.

        Args:
            review_id: The review.
            cursor: Cursor of an earlier answer: wait for what comes after it. By default the state of now counts.
            timeout_s: Seconds; by default as long as it takes.
        """
        return await self._wait_for_status(review_id, cursor, timeout_s, "any", is_decided, is_decided)

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
        envelope = await wait_until(
            self.call, "get_review_status", arguments, ready=ready, done=done, timeout_s=timeout_s
        )
        return read_envelope(envelope, OPERATIONS["get_review_status"].answer)

    async def _operate(self, operation: str, given: Mapping[str, Any]) -> Any:
        fields = {name: _json_value(value) for name, value in given.items() if value is not None and name != "self"}
        return read_envelope(await self.call(operation, fields), OPERATIONS[operation].answer)


def read_envelope(envelope: bytes, answer: type[Answer]) -> Answer:
    """The typed answer inside an envelope.

    Raises:
        TandemError: The envelope is a refusal; the subclass is that of its code.
        InternalError: The data is not what this version of the client expects.
    """
    data = _data(envelope)
    try:
        return _adapter(answer).validate_python(data)
    except ValidationError as error:
        raise InternalError(
            f"The broker's answer is not a {answer.__name__} as this version knows it; are both of one version?",
            problems=[problem["loc"] for problem in error.errors()[:5]],
        ) from error


def _data(envelope: bytes) -> Any:
    content: dict[str, Any] = orjson.loads(envelope)
    if not content.get("ok"):
        raise error_from(content.get("error") or {})
    return content.get("data")


@cache
def _adapter(answer: type[Answer]) -> TypeAdapter[Answer]:
    return TypeAdapter(answer)


def _json_value(value: Any) -> Any:
    match value:
        case BaseModel():
            return value.model_dump(exclude_none=True)
        case list() | tuple():
            return [_json_value(item) for item in value]  # pyright: ignore[reportUnknownVariableType] any JSON value
        case _:
            return value

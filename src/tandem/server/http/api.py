"""The JSON API: an operation's name in the path, its request as the body, its envelope as the answer."""

from __future__ import annotations

import asyncio
from dataclasses import Field, fields, is_dataclass
from itertools import repeat
from typing import Any, cast

import orjson

from tandem.contract.caller import Caller
from tandem.contract.operation import Operation
from tandem.errors import InvalidInput, NotFound
from tandem.server.asgi.calls import (
    AGENT_HEADER,
    MOST_LONG_LIST_VALUES,
    MOST_VALUES,
    find_operation,
    identify,
    parse_json,
)
from tandem.server.asgi.exchange import Exchange, send_outcome
from tandem.server.asgi.watching import run_watched
from tandem.server.dispatch import CallResult, Dispatcher

PREFIX = "/api/v1/"
_UNSUPPORTED_MEDIA_TYPE = 415
_KEY_FIELD = "idempotency_key"
_PIECE = 1_000
_LONG_BYTES = 100_000
"""Larger bodies with a long list are read in a thread, one after the other: the list takes several times the memory."""


class UnsupportedMediaType(InvalidInput):
    """A body that does not say it is JSON, as a foreign page's form cannot."""

    status = _UNSUPPORTED_MEDIA_TYPE


class JsonApi:
    """Runs operations for `POST /api/v1/<operation>`."""

    def __init__(self, dispatcher: Dispatcher) -> None:
        self._dispatcher = dispatcher
        self._long_lists = asyncio.Lock()

    def find(self, path: str) -> Operation:
        """The operation that a path names.

        Raises:
            NotFound: There is none.
        """
        name = path.removeprefix(PREFIX)
        operation = find_operation(self._dispatcher.registry, name)
        if operation is None:
            names = sorted(operation.name for operation in self._dispatcher.registry)
            raise NotFound(f"There is no operation '{name[:200]}'.", operation=name[:200], allowed=names)
        return operation

    async def serve(self, operation: Operation, exchange: Exchange, body: bytes) -> None:
        """Answer one POST whose body has been read.

        Raises:
            ClientGone: The client hung up, and its call has been cancelled.
            InvalidInput: The body is not JSON, or a header or the project cannot be used.
            TooLarge: It holds too many values.
        """
        headers = exchange.headers
        caller = identify(None, exchange.query, headers.get(AGENT_HEADER), access=exchange.access)
        _check_content_type(headers.get(b"content-type", b""))
        key = headers.get(b"idempotency-key")
        if operation.request.has_long_list and len(body) > _LONG_BYTES:
            work = self._in_turn(operation, caller, body, key)
        else:
            arguments = _with_key(_parsed(body, operation), operation, key)
            work = self._dispatcher.dispatch(operation.name, arguments, caller)
        del body  # a waiting call keeps no more than it needs
        outcome = await run_watched(work, exchange.receive)
        await send_outcome(exchange.send, outcome)

    async def _in_turn(self, operation: Operation, caller: Caller, body: bytes, key: bytes | None) -> CallResult:
        async with self._long_lists:
            arguments = _with_key(await asyncio.to_thread(_parsed, body, operation), operation, key)
            outcome = await self._dispatcher.dispatch(operation.name, arguments, caller)
            return await asyncio.to_thread(_serialised, outcome)


def _serialised(outcome: CallResult) -> CallResult:
    """An outcome that is JSON already, made piece by piece: a long list at once would stop every other thread."""
    answer = outcome.answer
    if not is_dataclass(answer):
        return outcome
    return CallResult(orjson.Fragment(b"{%s}" % b",".join(map(_member, fields(answer), repeat(answer)))))


def _member(field: Field[Any], answer: Any) -> bytes:
    value = getattr(answer, field.name)
    listed = cast("tuple[object, ...]", value) if isinstance(value, tuple) else ()
    if not listed:
        return b"%s:%s" % (orjson.dumps(field.name), orjson.dumps(value))
    pieces = (orjson.dumps(listed[at : at + _PIECE])[1:-1] for at in range(0, len(listed), _PIECE))
    return b"%s:[%s]" % (orjson.dumps(field.name), b",".join(pieces))


def _check_content_type(content_type: bytes) -> None:
    if content_type.partition(b";")[0].strip().lower() != b"application/json":
        raise UnsupportedMediaType("Send the request as JSON, with Content-Type: application/json.", field="body")


def _parsed(body: bytes, operation: Operation) -> Any:
    """The body's JSON; nothing at all stands for a request without fields."""
    if not body:
        return {}
    try:
        return parse_json(body, MOST_LONG_LIST_VALUES if operation.request.has_long_list else MOST_VALUES)
    except orjson.JSONDecodeError as error:
        raise InvalidInput(f"The body is not JSON: {error}.", field="body") from None


def _with_key(arguments: Any, operation: Operation, key: bytes | None) -> Any:
    """The arguments with the header's idempotency key, where they can have one and have none."""
    if key is None or not isinstance(arguments, dict) or _KEY_FIELD not in operation.request.model_fields:
        return cast("Any", arguments)
    given = cast("dict[str, Any]", arguments)
    if given.get(_KEY_FIELD) is not None:
        return given
    try:
        return {**given, _KEY_FIELD: key.decode()}
    except UnicodeDecodeError:
        raise InvalidInput("The header Idempotency-Key must be UTF-8.", field="Idempotency-Key") from None

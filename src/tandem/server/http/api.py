"""The JSON API: an operation's name in the path, its request as the body, its envelope as the answer.

Its OpenAPI 3.1 document is generated from the registry.
"""

from __future__ import annotations

import asyncio
from dataclasses import Field, fields, is_dataclass
from itertools import repeat
from pathlib import Path
from typing import Any, Literal, cast

import orjson
from pydantic import TypeAdapter

from tandem.contract.caller import Caller
from tandem.contract.operation import Operation, Registry
from tandem.errors import InvalidInput, NotFound, TandemError, by_code
from tandem.server.asgi.calls import (
    AGENT_HEADER,
    MOST_LONG_LIST_VALUES,
    MOST_VALUES,
    find_operation,
    identify,
    parse_json,
)
from tandem.server.asgi.exchange import Exchange, run_watched, send_bytes, send_outcome
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


_REFERENCE = "#/components/schemas/{model}"
_JSON = "application/json"
_SKELETON = Path(__file__).with_name("openapi.json")
"""All of the document that does not come from the registry or the error codes."""


class OpenApiDocument:
    """The document, generated when somebody first asks for it."""

    def __init__(self, registry: Registry, version: str) -> None:
        self._registry = registry
        self._version = version
        self._document: bytes | None = None
        self._generating = asyncio.Lock()

    async def serve(self, exchange: Exchange) -> None:
        """Answer with the document as JSON. The first time takes a good part of a second, in a thread."""
        async with self._generating:
            if self._document is None:
                self._document = await asyncio.to_thread(
                    lambda: orjson.dumps(openapi_of(self._registry, self._version))
                )
        await send_bytes(exchange.send, 200, self._document)


def openapi_of(registry: Registry, version: str) -> dict[str, Any]:
    """The document as an object."""
    operations = tuple(registry)
    modes: list[tuple[str, Literal["validation", "serialization"], TypeAdapter[Any]]] = [
        *((one.name, "validation", TypeAdapter(one.request)) for one in operations),
        *((one.name, "serialization", TypeAdapter(one.answer)) for one in operations),
    ]
    schemas, common = TypeAdapter.json_schemas(modes, ref_template=_REFERENCE)
    definitions = common.get("$defs", {})
    document: dict[str, Any] = orjson.loads(_SKELETON.read_bytes())
    components, errors = document["components"], dict(sorted(by_code().items()))
    document["info"]["version"] = version
    document["tags"] = [{"name": noun} for noun in sorted({operation.noun for operation in operations})]
    document["paths"] |= {
        PREFIX + one.name: {"post": _post(one, schemas[one.name, "validation"], schemas[one.name, "serialization"])}
        for one in operations
    }
    lines = [f"- `{code}` ({error.status}): {_summary(error)}" for code, error in errors.items()]
    components["schemas"] |= definitions
    components["schemas"]["ErrorCode"] |= {"enum": list(errors), "description": "\n".join(lines)}
    for name, lowest_status in (("Refused", 400), ("Failed", 500)):
        components["responses"][name]["content"][_JSON]["examples"] = {
            code: {
                "summary": f"HTTP {error.status}",
                "value": {"ok": False, "error": error(_summary(error)).as_dict()},
            }
            for code, error in errors.items()
            if lowest_status <= error.status < lowest_status + 100
        }
    return document


def _post(operation: Operation, request: dict[str, Any], answer: dict[str, Any]) -> dict[str, Any]:
    parameters = ["Project", "Agent"]
    if "idempotency_key" in operation.request.model_fields:
        parameters.append("IdempotencyKey")
    done = {"type": "object", "required": ["ok", "data"], "properties": {"ok": {"const": True}, "data": answer}}
    return {
        "operationId": operation.name,
        "summary": f"{operation.noun} {operation.verb}",
        "description": operation.description,
        "tags": [operation.noun],
        "x-tandem-roles": sorted(operation.roles),
        "parameters": [{"$ref": f"#/components/parameters/{name}"} for name in parameters],
        "requestBody": {"required": True, "content": {_JSON: {"schema": request}}},
        "responses": {
            "200": {"description": "It was done.", "content": {_JSON: {"schema": done}}},
            "4XX": {"$ref": "#/components/responses/Refused"},
            "5XX": {"$ref": "#/components/responses/Failed"},
        },
    }


def _summary(error: type[TandemError]) -> str:
    return (error.__doc__ or "").strip().partition("\n")[0]

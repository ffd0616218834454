"""The OpenAPI 3.1 document of the JSON API, generated from the registry."""

from __future__ import annotations

import asyncio
from typing import Any, Literal

import orjson
from pydantic import TypeAdapter

from tandem.contract.operation import Operation, Registry
from tandem.errors import TandemError, by_code
from tandem.server.asgi.exchange import Exchange, send_bytes
from tandem.server.http.api import PREFIX

_SAMPLES = {
    "review_id": "rv_4k2m8q0x7c1d5n3p",
    "token_id": "tok_1m824bnajk7cjb5vw7",
    "counter_patch_id": "cp_4k2m8q0x7c1d5n3p",
    "reviewer_id": "reviewer-1",
    "intent": "Refuse empty names when a project is registered",
    "agent_type": "claude-code",
    "body": "Is an empty list meant to pass here?",
    "project": "shop",
    "name": "shop",
    "root": "/home/me/shop",
    "path": "src/shop/names.py",
    "secret": "a-supervisors-own-drawn-at-random-x7Kq",
}
_COMMIT_ID = r"^[0-9a-f]{40}([0-9a-f]{24})?$"
_BY_PATTERN = {_COMMIT_ID: "9d2f0c4b7e1a6853f2c9d0b4a7e8135c6f0b2d94"}
_BY_TYPE: dict[str, Any] = {"integer": 1, "number": 1.0, "boolean": True, "object": {}, "array": []}


def example_of(schema: dict[str, Any], definitions: dict[str, Any], name: str = "") -> Any:
    """A value that the schema accepts: required fields only.

    Args:
        schema: A JSON Schema as pydantic makes them.
        definitions: What its references name.
        name: The field's name, for a telling sample.
    """
    match schema:
        case {"$ref": reference}:
            example = example_of(definitions[reference.rpartition("/")[2]], definitions, name)
        case {"const": value} | {"enum": [value, *_]}:
            example = value
        case {"anyOf": [first, *_]}:
            example = example_of(first, definitions, name)
        case {"properties": properties}:
            example = {key: example_of(properties[key], definitions, key) for key in schema.get("required", ())}
        case {"type": "string"}:
            stated = _BY_PATTERN.get(schema.get("pattern", ""))
            example = stated or _SAMPLES.get(name, name.replace("_", "-") or "text")
        case {"type": "array", "minItems": least, "items": items} if least:
            example = [example_of(items, definitions, name)]
        case _:
            example = _BY_TYPE.get(schema.get("type", ""), {})
    return example


_REFERENCE = "#/components/schemas/{model}"
_JSON = "application/json"
_DESCRIPTION = """\
Every operation of the broker, as `POST` with a JSON object. Every answer is an envelope: `ok` says whether it was
done; `data` is the answer, `error` the refusal. `error.code` never changes its meaning, `error.message` says what to
do next, and `error.retryable` whether the same call may succeed later."""
_PROJECT = {
    "name": "project",
    "in": "query",
    "description": "The project of the call, unless the request names one.",
    "schema": {"type": "string", "maxLength": 200},
}
_AGENT = {
    "name": "Tandem-Agent",
    "in": "header",
    "description": "What the calling agent or session calls itself.",
    "schema": {"type": "string", "maxLength": 200},
}
_KEY = {
    "name": "Idempotency-Key",
    "in": "header",
    "description": "Stands for the request's idempotency_key where that is left out.",
    "schema": {"type": "string", "maxLength": 200},
}


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
                self._document = await asyncio.to_thread(lambda: orjson.dumps(generate(self._registry, self._version)))
        await send_bytes(exchange.send, 200, self._document)


def generate(registry: Registry, version: str) -> dict[str, Any]:
    """The document as an object."""
    operations = tuple(registry)
    requests, answers, schemas = _schemas(operations)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Tandem",
            "version": version,
            "description": _DESCRIPTION,
            "license": {"name": "MIT", "identifier": "MIT"},
        },
        "servers": [{"url": "/"}],
        "tags": [{"name": noun} for noun in sorted({operation.noun for operation in operations})],
        "paths": {
            PREFIX + operation.name: {
                "post": _post(operation, requests[operation.name], answers[operation.name], schemas)
            }
            for operation in operations
        }
        | {"/healthz": {"get": _health()}},
        "components": {
            "schemas": {**schemas, "ErrorCode": _error_code(), "Failure": _failure()},
            "parameters": {"Project": _PROJECT, "Agent": _AGENT, "IdempotencyKey": _KEY},
            "responses": {"Refused": _refused("The call was refused.", 400), "Failed": _refused("It failed.", 500)},
        },
    }


def _schemas(operations: tuple[Operation, ...]) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """Each operation's request and answer schema by its name, and the definitions that they refer to."""
    wanted: list[tuple[tuple[str, str], Literal["validation", "serialization"], TypeAdapter[Any]]] = []
    for operation in operations:
        wanted.append((("request", operation.name), "validation", TypeAdapter(operation.request)))
        wanted.append((("answer", operation.name), "serialization", operation.answer_adapter()))
    by_key, common = TypeAdapter.json_schemas(wanted, ref_template=_REFERENCE)
    requests = {key[1]: schema for (key, mode), schema in by_key.items() if mode == "validation"}
    answers = {key[1]: schema for (key, mode), schema in by_key.items() if mode == "serialization"}
    return requests, answers, common.get("$defs", {})


def _post(
    operation: Operation, request: dict[str, Any], answer: dict[str, Any], schemas: dict[str, Any]
) -> dict[str, Any]:
    parameters = ["Project", "Agent"]
    if "idempotency_key" in operation.request.model_fields:
        parameters.append("IdempotencyKey")
    example = example_of(request, schemas)
    return {
        "operationId": operation.name,
        "summary": f"{operation.noun} {operation.verb}",
        "description": operation.description,
        "tags": [operation.noun],
        "x-tandem-roles": sorted(operation.roles),
        "parameters": [{"$ref": f"#/components/parameters/{name}"} for name in parameters],
        "requestBody": {"required": True, "content": {_JSON: {"schema": request, "example": example}}},
        "responses": {
            "200": {"description": "It was done.", "content": {_JSON: {"schema": _success(answer)}}},
            "4XX": {"$ref": "#/components/responses/Refused"},
            "5XX": {"$ref": "#/components/responses/Failed"},
        },
    }


def _success(answer: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "required": ["ok", "data"],
        "properties": {"ok": {"const": True}, "data": answer},
    }


def _failure() -> dict[str, Any]:
    return {
        "type": "object",
        "required": ["ok", "error"],
        "properties": {
            "ok": {"const": False},
            "error": {
                "type": "object",
                "required": ["code", "message", "details", "retryable"],
                "properties": {
                    "code": {"$ref": "#/components/schemas/ErrorCode"},
                    "message": {"type": "string", "description": "What went wrong and what to do next."},
                    "details": {"type": "object", "description": "The facts: expected, actual, allowed, field, …"},
                    "retryable": {"type": "boolean", "description": "Whether the same call may succeed later."},
                },
            },
        },
    }


def _error_code() -> dict[str, Any]:
    lines = [f"- `{code}` ({error.status}): {_summary(error)}" for code, error in sorted(by_code().items())]
    return {"type": "string", "enum": sorted(by_code()), "description": "\n".join(lines)}


def _refused(description: str, lowest_status: int) -> dict[str, Any]:
    examples = {
        code: {
            "summary": f"HTTP {error.status}",
            "value": {"ok": False, "error": error(_summary(error)).as_dict()},
        }
        for code, error in sorted(by_code().items())
        if lowest_status <= error.status < lowest_status + 100
    }
    content = {_JSON: {"schema": {"$ref": "#/components/schemas/Failure"}, "examples": examples}}
    return {"description": description, "content": content}


def _health() -> dict[str, Any]:
    facts = {"type": "object", "properties": {"phase": {"enum": ["starting", "ready", "draining"]}}}
    return {
        "operationId": "healthz",
        "summary": "health",
        "description": "Whether the broker takes calls now.",
        "responses": {
            "200": {"description": "It does.", "content": {_JSON: {"schema": _success(facts)}}},
            "503": {"$ref": "#/components/responses/Failed"},
        },
    }


def _summary(error: type[TandemError]) -> str:
    return (error.__doc__ or "").strip().partition("\n")[0]

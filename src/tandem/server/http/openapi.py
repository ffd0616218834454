"""The OpenAPI 3.1 document of the JSON API, generated from the registry."""

from __future__ import annotations

import asyncio
from pathlib import Path
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
    "webhook_id": "whk_1m824bnajk7cjb5vw7",
    "url": "https://ci.example.com/tandem",
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
                self._document = await asyncio.to_thread(lambda: orjson.dumps(generate(self._registry, self._version)))
        await send_bytes(exchange.send, 200, self._document)


def generate(registry: Registry, version: str) -> dict[str, Any]:
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
        PREFIX + one.name: {
            "post": _post(one, schemas[one.name, "validation"], schemas[one.name, "serialization"], definitions)
        }
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


def _post(
    operation: Operation, request: dict[str, Any], answer: dict[str, Any], definitions: dict[str, Any]
) -> dict[str, Any]:
    parameters = ["Project", "Agent"]
    if "idempotency_key" in operation.request.model_fields:
        parameters.append("IdempotencyKey")
    example = example_of(request, definitions)
    done = {"type": "object", "required": ["ok", "data"], "properties": {"ok": {"const": True}, "data": answer}}
    return {
        "operationId": operation.name,
        "summary": f"{operation.noun} {operation.verb}",
        "description": operation.description,
        "tags": [operation.noun],
        "x-tandem-roles": sorted(operation.roles),
        "parameters": [{"$ref": f"#/components/parameters/{name}"} for name in parameters],
        "requestBody": {"required": True, "content": {_JSON: {"schema": request, "example": example}}},
        "responses": {
            "200": {"description": "It was done.", "content": {_JSON: {"schema": done}}},
            "4XX": {"$ref": "#/components/responses/Refused"},
            "5XX": {"$ref": "#/components/responses/Failed"},
        },
    }


def _summary(error: type[TandemError]) -> str:
    return (error.__doc__ or "").strip().partition("\n")[0]

"""The OpenAPI document says what the JSON API does."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import pytest
from jsonschema import Draft202012Validator

from tandem.errors import by_code
from tandem.server.catalogue import REGISTRY
from tandem.server.http.api import openapi_of
from tests.interfaces.serving import serving

DOCUMENT = openapi_of(REGISTRY, "1.2.3")
OPERATIONS = [operation.name for operation in REGISTRY]


def _walk(node: Any) -> Iterator[dict[str, Any]]:
    if isinstance(node, dict):
        inner = cast("dict[str, Any]", node)
        yield inner
        for value in inner.values():
            yield from _walk(value)
    elif isinstance(node, list):
        for value in cast("list[Any]", node):
            yield from _walk(value)


def _resolve(reference: str) -> Any:
    node: Any = DOCUMENT
    for part in reference.removeprefix("#/").split("/"):
        node = node[part]
    return node


def _validate(value: Any, schema: dict[str, Any], components: dict[str, Any]) -> None:
    validator: Any = Draft202012Validator({**schema, "components": components})
    validator.validate(value)


def test_every_operation_and_no_other_is_described():
    described = {path.removeprefix("/api/v1/") for path in DOCUMENT["paths"]} - {"/healthz"}
    assert described == set(OPERATIONS)
    assert DOCUMENT["openapi"].startswith("3.1.")


def test_every_reference_leads_somewhere():
    for node in _walk(DOCUMENT):
        if "$ref" in node:
            _resolve(node["$ref"])


def test_every_schema_is_one():
    for schema in DOCUMENT["components"]["schemas"].values():
        Draft202012Validator.check_schema(schema)


@pytest.mark.parametrize("name", OPERATIONS)
def test_every_operation_is_explained(name: str):
    post = DOCUMENT["paths"][f"/api/v1/{name}"]["post"]
    assert post["operationId"] == name
    assert post["description"]
    assert post["tags"][0] in {tag["name"] for tag in DOCUMENT["tags"]}
    assert set(post["responses"]) == {"200", "4XX", "5XX"}
    assert post["requestBody"]["content"]["application/json"]["schema"]


def test_every_error_code_is_listed_with_an_example_that_fits():
    assert set(DOCUMENT["components"]["schemas"]["ErrorCode"]["enum"]) == set(by_code())
    examples: dict[str, Any] = {}
    for response in DOCUMENT["components"]["responses"].values():
        examples |= response["content"]["application/json"]["examples"]
    assert set(examples) == set(by_code())
    for example in examples.values():
        _validate(example["value"], {"$ref": "#/components/schemas/Failure"}, DOCUMENT["components"])


@pytest.mark.anyio
async def test_it_is_served_and_describes_real_answers():
    async with serving() as served:
        response = await served.http.get("/api/v1/openapi.json")
        document = response.json()
        answer = (await served.http.post("/api/v1/echo", json={"text": "x"})).json()
    assert response.headers["content-type"] == "application/json"
    assert document["info"]["version"] == "1.2.3"
    schema = document["paths"]["/api/v1/echo"]["post"]["responses"]["200"]["content"]["application/json"]["schema"]
    _validate(answer, schema, document["components"])

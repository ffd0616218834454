"""What the product's tool listings cost and say."""

from __future__ import annotations

from typing import Any, cast

import orjson
import pytest
from jsonschema import Draft202012Validator

from tandem.clock import SystemClock
from tandem.faces.mcp.schema import slim
from tandem.faces.mcp.tools import CORE_TOOLS, Tools
from tandem.operations.catalogue import REGISTRY
from tandem.operations.dispatch import Dispatcher
from tandem.services.context import Services

ROLES = ["proposer", "reviewer", "operator"]


def _listing(role: str | None) -> list[dict[str, Any]]:
    return Tools(Dispatcher(REGISTRY, cast("Services", None), SystemClock()), role).listing()


@pytest.mark.parametrize("role", ROLES)
def test_a_roles_listing_is_short(role: str):
    listing = _listing(role)
    assert len(listing) <= 12
    assert len(orjson.dumps({"tools": listing})) < 12_000
    assert not any("outputSchema" in tool for tool in listing)


@pytest.mark.parametrize("role", [None, *ROLES])
def test_every_tool_is_explained_and_sets_all_its_hints(role: str | None):
    for tool in _listing(role):
        assert tool["description"]
        assert "." not in tool["name"]
        assert set(tool["annotations"]) == {"readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"}
        assert tool["annotations"]["destructiveHint"] is False
        assert tool["annotations"]["openWorldHint"] is False


def test_the_core_tools_and_only_they_are_always_loaded():
    loaded = {tool["name"] for tool in _listing(None) if tool.get("_meta") == {"anthropic/alwaysLoad": True}}
    assert loaded == CORE_TOOLS


def test_no_administrators_operation_is_listed():
    assert not {"register_project", "remove_project"} & {tool["name"] for tool in _listing(None)}


@pytest.mark.parametrize("tool", _listing(None), ids=lambda tool: tool["name"])
def test_a_slim_schema_still_knows_every_field(tool: dict[str, Any]):
    schema = tool["inputSchema"]
    Draft202012Validator.check_schema(schema)
    request = REGISTRY.get(tool["name"]).request
    assert set(schema["properties"]) == set(request.model_fields)
    required = {name for name, field in request.model_fields.items() if field.is_required()}
    assert set(schema.get("required", ())) == required
    text = orjson.dumps(schema).decode()
    assert '"$ref"' not in text
    assert '"null"' not in text
    assert '"title":"' not in text


def test_a_field_called_title_or_description_stays():
    schema = {"type": "object", "properties": {"title": {"type": "string", "title": "Title"}, "description": {}}}
    assert slim(schema)["properties"] == {"title": {"type": "string"}, "description": {}}


def test_alternatives_beside_null_stay_alternatives():
    schema = {"properties": {"x": {"anyOf": [{"type": "integer"}, {"type": "string"}, {"type": "null"}]}}}
    assert slim(schema)["properties"]["x"] == {"anyOf": [{"type": "integer"}, {"type": "string"}]}

"""The size and the content of the product's tool listings."""

from __future__ import annotations

from typing import Any, cast

import orjson
import pytest
from jsonschema import Draft202012Validator

from tandem.core.clock import Clock
from tandem.reviews.context import Services
from tandem.server.catalogue import REGISTRY
from tandem.server.dispatch import Dispatcher
from tandem.server.mcp.tools import CORE_TOOLS, Tools

ROLES = ["proposer", "reviewer", "operator", "handoff"]
HANDOFF = {
    *("session_open", "cycle_start", "cycle_status", "lock_acquire"),
    *("handoff_write", "handoff_read", "cycle_complete", "cycle_archive"),
}


def _listing(role: str | None) -> list[dict[str, Any]]:
    return Tools(Dispatcher(REGISTRY, {}, cast("Services", None), Clock()), role).listing()


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
    tools = [*_listing(None), *_listing("handoff")]
    assert {tool["name"] for tool in tools if tool.get("_meta") == {"anthropic/alwaysLoad": True}} == CORE_TOOLS


def test_no_administrators_operation_is_listed():
    administrators = {
        "register_project",
        "remove_project",
        "session_close",
        "cycle_init",
        "cycle_rotate",
        "cycle_revoke",
    }
    for role in (None, *ROLES):
        assert not administrators & {tool["name"] for tool in _listing(role)}


def test_hand_offs_are_listed_at_their_own_endpoint_only():
    assert [tool["name"] for tool in _listing("handoff")] == [
        operation.name for operation in REGISTRY if operation.name in {*HANDOFF, "list_findings"}
    ]
    for role in (None, "proposer", "reviewer", "operator"):
        assert not HANDOFF & {tool["name"] for tool in _listing(role)}
    # The history is for the other faces: an endpoint has room for twelve tools.
    for role in (None, "operator"):
        assert not {"list_cycles", "get_cycle"} & {tool["name"] for tool in _listing(role)}


def test_hints_tell_looking_at_a_cycle_from_changing_it():
    hints = {tool["name"]: tool["annotations"] for tool in _listing("handoff")}
    assert {name for name, given in hints.items() if given["readOnlyHint"]} == {
        *("list_findings", "cycle_status", "handoff_read")
    }
    assert {name for name, given in hints.items() if given["idempotentHint"]} == {
        *("list_findings", "cycle_status", "handoff_read", "lock_acquire")
    }


def test_the_listed_schema_of_a_payload_says_what_it_must_have():
    listed = next(tool for tool in _listing("handoff") if tool["name"] == "handoff_write")["inputSchema"]
    validator: Any = Draft202012Validator(listed["properties"]["payload"])
    texts = dict.fromkeys(("cycle_id", "feature", "producer", "consumer"), "x")
    arrays: dict[str, list[Any]] = {
        name: [] for name in ("files_modified", "endpoints", "data_shapes", "assumptions", "todos", "notes")
    }
    payload: dict[str, Any] = {**texts, **arrays, "extras": {}}
    assert validator.is_valid(payload)
    assert not any(validator.is_valid({**payload, name: 7}) for name in payload)
    for name in (*texts, *arrays):
        assert not validator.is_valid({key: value for key, value in payload.items() if key != name})


@pytest.mark.parametrize("tool", [*_listing(None), *_listing("handoff")], ids=lambda tool: tool["name"])
def test_a_slim_schema_still_knows_every_field(tool: dict[str, Any]):
    schema = tool["inputSchema"]
    Draft202012Validator.check_schema(schema)
    request = REGISTRY.get(tool["name"]).request
    # Those that programs fill in are no model's business.
    unlisted = {name for name, field in request.model_fields.items() if field.json_schema_extra == {"unlisted": True}}
    assert set(schema["properties"]) == set(request.model_fields) - unlisted
    required = {name for name, field in request.model_fields.items() if field.is_required()}
    assert set(schema.get("required", ())) == required
    text = orjson.dumps(schema).decode()
    assert '"$ref"' not in text
    assert '"null"' not in text
    assert '"title":"' not in text


def test_the_fields_that_models_get_wrong_say_what_is_meant():
    def listed(role: str | None, name: str) -> dict[str, Any]:
        return next(tool for tool in _listing(role) if tool["name"] == name)["inputSchema"]["properties"]

    for role in ("proposer", "reviewer", "operator"):
        waits = listed(role, "list_reviews" if role != "proposer" else "get_review_status")["timeout_s"]
        assert waits == {"type": "number", "minimum": 0, "maximum": 50, "description": "Seconds to wait; default: 25."}
    assert listed("reviewer", "submit_verdict")["claim_generation"] == {
        "type": "integer",
        "minimum": 1,
        "description": "The claim's number, from `claim_review`.",
    }
    assert listed("proposer", "add_message")["sender_role"]["enum"] == ["proposer"]
    assert listed("reviewer", "add_message")["sender_role"]["enum"] == ["reviewer"]
    assert not {"reviewer_id", "claim_generation"} & set(listed("proposer", "add_message"))

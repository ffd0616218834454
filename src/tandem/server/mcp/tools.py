"""The tools of an MCP endpoint: how operations are listed, in few tokens, how they are found and called."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import orjson

from tandem.bridge.messages import as_object
from tandem.contract.caller import Caller
from tandem.contract.operation import Operation, Role
from tandem.errors import InvalidTool, NotFound, TandemError
from tandem.reviews.answers import Claim, Proposal
from tandem.server.asgi.calls import find_operation, is_dotted
from tandem.server.dispatch import CallResult, Dispatcher

Schema = dict[str, Any]

# What a model does not need to fill in a call. The broker checks all of it nevertheless. Fields that are marked as
# unlisted are filled in by programs.
_DROPPED = frozenset({"title", "minLength", "maxLength", "maxItems", "additionalProperties", "exclusiveMinimum"})


def slim(schema: Schema) -> Schema:
    """The schema without titles, limits, empty alternatives and references; objects and names stay."""
    definitions: dict[str, Schema] = schema.get("$defs", {})
    slimmed = _slim(schema, definitions)
    slimmed.pop("description", None)  # the tool's own description says it
    slimmed.setdefault("properties", {})
    return slimmed


def _slim(schema: Schema, definitions: dict[str, Schema]) -> Schema:
    schema = _resolved(_without_null(_resolved(schema, definitions)), definitions)
    slimmed: Schema = {}
    for key, value in schema.items():
        if key in _DROPPED or key == "$defs" or (key == "default" and value is None):
            continue
        slimmed[key] = _slim_value(key, value, definitions)
    if slimmed.get("maximum", 0) >= 2**31 - 1:
        del slimmed["maximum"]
    return slimmed


def _slim_value(key: str, value: Any, definitions: dict[str, Schema]) -> Any:
    match key:
        case "properties":
            listed = {name: inner for name, inner in value.items() if not inner.get("unlisted")}
            return {name: _slim_field(name, inner, definitions) for name, inner in listed.items()}
        case "items" | "not":
            return _slim(value, definitions)
        case "anyOf" | "oneOf" | "allOf" | "prefixItems":
            return [_slim(inner, definitions) for inner in value]
        case _:
            return value


def _slim_field(name: str, schema: Schema, definitions: dict[str, Schema]) -> Schema:
    """A field without words that only repeat its name, such as "The review." of `review_id`."""
    slimmed = _slim(schema, definitions)
    if slimmed.get("description") == f"The {name.removesuffix('_id').replace('_', '-')}.":
        del slimmed["description"]
    return slimmed


def _resolved(schema: Schema, definitions: dict[str, Schema]) -> Schema:
    """The target of a reference, with the words beside it; a definition's own description is dropped."""
    reference = schema.get("$ref")
    if reference is None:
        return schema
    target = {key: value for key, value in definitions[reference.rpartition("/")[2]].items() if key != "description"}
    return {**_resolved(target, definitions), **{key: value for key, value in schema.items() if key != "$ref"}}


def _without_null(schema: Schema) -> Schema:
    """`X` or no value is `X`: leaving an argument out says the same."""
    alternatives = schema.get("anyOf")
    if alternatives is None or {"type": "null"} not in alternatives:
        return schema
    kept = [alternative for alternative in alternatives if alternative != {"type": "null"}]
    rest = {key: value for key, value in schema.items() if key != "anyOf"}
    return {**kept[0], **rest} if len(kept) == 1 else {**rest, "anyOf": kept}


# Shown to the model at once by clients that hide most tools behind a search.
CORE_TOOLS = frozenset(
    {
        *("create_review", "get_review_status", "get_proposal", "claim_review", "submit_verdict"),
        *("session_open", "cycle_status", "lock_acquire", "handoff_read", "handoff_write"),
    }
)
_NAME_LENGTH = 200
_MOST_DIFF_CHARACTERS = 60_000
"""Of a diff that an answer has whole: clients cut longer answers off."""


def _short(answer: Any) -> Any:
    """An answer without a diff that is too long for one answer: it says how to get it file by file."""
    match answer:
        case Claim(review=Proposal(diff=str(diff)) as proposal) if len(diff) > _MOST_DIFF_CHARACTERS:
            return replace(answer, review=_short(proposal))
        case Proposal(diff=str(diff)) if len(diff) > _MOST_DIFF_CHARACTERS:
            told = (
                f"The diff has {len(diff)} characters. Read it file by file: get_proposal with review_id, round"
                f" {answer.round} and files=[path], for each path of affected_files."
            )
            return replace(answer, diff=None, diff_left_out=told)
        case _:
            return answer


class Tools:
    """What one endpoint offers.

    Attributes:
        role: The endpoint's role; None for the endpoint of all roles.
        dispatcher: Runs the operations.
    """

    def __init__(self, dispatcher: Dispatcher, role: str | None) -> None:
        self.role = role
        self.dispatcher = dispatcher
        self._offered = {operation.name: operation for operation in dispatcher.registry.for_role(role)}
        self._schemas: dict[str, dict[str, Any]] = {}

    def listing(self) -> list[dict[str, Any]]:
        """All tools as JSON, in the order of the registry."""
        return [self._listed(operation) for operation in self._offered.values()]

    def input_schema(self, name: str) -> dict[str, Any] | None:
        """The listed schema of a tool's arguments; None for a name that is not listed."""
        operation = self._offered.get(name)
        if operation is None:
            return None
        if name not in self._schemas:
            self._schemas[name] = self._for_role(operation, slim(operation.input_schema()))
        return self._schemas[name]

    def _for_role(self, operation: Operation, schema: Schema) -> Schema:
        """The schema for a side: it speaks for itself only, and a proposer has no claim to name."""
        side, properties = operation.request.side_field, schema["properties"]
        if side is None or self.role not in {Role.PROPOSER, Role.REVIEWER}:
            return schema
        properties[side]["enum"] = [str(self.role)]
        if self.role == Role.PROPOSER:
            for name in ("reviewer_id", "claim_generation"):
                properties.pop(name, None)
        return schema

    async def call(self, name: str, arguments: Any, caller: Caller) -> CallResult:
        """Run a tool; every refusal, an unknown name included, is an envelope that the model can read."""
        operation = self._offered.get(name) or find_operation(self.dispatcher.registry, name)
        if operation is None or not operation.over_mcp:
            return CallResult(error=self._unknown(name[:_NAME_LENGTH]))
        stated: object = {} if arguments is None else arguments
        result = await self.dispatcher.dispatch(operation.name, stated, caller)
        shortened = result.answer if as_object(stated).get("files") else _short(result.answer)
        return result if shortened is result.answer else replace(result, answer=shortened)

    def _unknown(self, name: str) -> TandemError:
        """The refusal of a name; those of hand-off cycles, which are published with dots, have a code of their own."""
        if self.role != Role.HANDOFF and not is_dotted(name):
            return NotFound(f"There is no tool '{name}' here.", tool=name, allowed=sorted(self._offered))
        # Beside the listed ones, the endpoint of all roles lets hand-offs through, too.
        allowed = sorted(one.name for one in self.dispatcher.registry if one.over_mcp and self.may(one.name))
        return InvalidTool(
            f"There is no tool '{name}'; details.allowed lists those there are.", tool=name, allowed=allowed
        )

    def may(self, name: str) -> bool:
        """Whether the endpoint's role may call an operation."""
        operation = self.dispatcher.registry.find(name)
        return operation is not None and (self.role is None or self.role in operation.roles)

    def _listed(self, operation: Operation) -> dict[str, Any]:
        hints = operation.hints
        tool: dict[str, Any] = {
            "name": operation.name,
            "description": operation.description,
            "inputSchema": self.input_schema(operation.name),
            "annotations": {
                "readOnlyHint": hints.read_only,
                "destructiveHint": False,
                "idempotentHint": hints.idempotent,
                "openWorldHint": hints.open_world,
            },
        }
        if operation.name in CORE_TOOLS:
            tool["_meta"] = {"anthropic/alwaysLoad": True}
        return tool


def tool_result(outcome: CallResult) -> dict[str, Any]:
    """The result of `tools/call`: the envelope as structured content, and the same as text."""
    body = outcome.body()
    return {
        "content": [{"type": "text", "text": body.decode()}],
        "structuredContent": orjson.loads(body),
        "isError": not outcome.ok,
    }

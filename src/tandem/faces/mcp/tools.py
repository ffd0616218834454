"""The tools of an MCP endpoint: how operations are listed, found and called."""

from __future__ import annotations

from typing import Any

from tandem.contract.caller import Caller
from tandem.contract.operation import Operation, Role
from tandem.errors import InvalidTool, NotFound, TandemError
from tandem.faces.asgi.names import find_operation, is_dotted
from tandem.faces.mcp.schema import slim
from tandem.operations.dispatch import Dispatcher, Outcome

# Shown to the model at once by clients that hide most tools behind a search.
CORE_TOOLS = frozenset(
    {
        *("create_review", "get_review_status", "get_proposal", "claim_review", "submit_verdict"),
        *("session_open", "cycle_status", "lock_acquire", "handoff_read", "handoff_write"),
    }
)
_NAME_LENGTH = 200


class Tools:
    """What one endpoint offers.

    Attributes:
        role: The endpoint's role; None for the endpoint of all roles.
    """

    def __init__(self, dispatcher: Dispatcher, role: str | None) -> None:
        self.role = role
        self._dispatcher = dispatcher
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
            self._schemas[name] = slim(operation.input_schema())
        return self._schemas[name]

    async def call(self, name: str, arguments: dict[str, Any] | None, caller: Caller) -> Outcome:
        """Run a tool; every refusal, an unknown name included, is an envelope that the model can read."""
        operation = self._offered.get(name) or find_operation(self._dispatcher.registry, name)
        if operation is None or not operation.over_mcp:
            return Outcome(error=self._unknown(name[:_NAME_LENGTH]))
        return await self._dispatcher.dispatch(operation.name, {} if arguments is None else arguments, caller)

    def _unknown(self, name: str) -> TandemError:
        """The refusal of a name; those of hand-off cycles, which are published with dots, have a code of their own."""
        if self.role != Role.HANDOFF and not is_dotted(name):
            return NotFound(f"There is no tool '{name}' here.", tool=name, allowed=sorted(self._offered))
        allowed = sorted(operation.name for operation in self._dispatcher.registry if self._answers(operation))
        return InvalidTool(
            f"There is no tool '{name}'; details.allowed lists those there are.", tool=name, allowed=allowed
        )

    def _answers(self, operation: Operation) -> bool:
        """Whether a call here is let through; beside the listed ones, the endpoint of all roles takes hand-offs too."""
        return operation.over_mcp and (self.role is None or self.role in operation.roles)

    def _listed(self, operation: Operation) -> dict[str, Any]:
        hints = operation.hints
        tool: dict[str, Any] = {
            "name": operation.name,
            "description": operation.description,
            "inputSchema": self.input_schema(operation.name),
            "annotations": {
                "readOnlyHint": hints.read_only,
                "destructiveHint": hints.destructive,
                "idempotentHint": hints.idempotent,
                "openWorldHint": hints.open_world,
            },
        }
        if operation.name in CORE_TOOLS:
            tool["_meta"] = {"anthropic/alwaysLoad": True}
        return tool

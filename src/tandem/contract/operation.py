"""What an operation is, and the registry that every interface is generated from."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import Any

from tandem.contract.caller import Caller
from tandem.contract.request import Request
from tandem.core.secret_key import Tokens
from tandem.errors import NotFound


class Role(StrEnum):
    """Who an operation is for; each but the last two has an MCP endpoint."""

    PROPOSER = "proposer"
    REVIEWER = "reviewer"
    OPERATOR = "operator"
    HANDOFF = "handoff"
    """A role of a hand-off cycle. Its tools are listed at its own endpoint only."""
    SUPERVISOR = "supervisor"
    """Who runs a reviewer pool. Not offered over MCP."""
    ADMIN = "admin"
    """Not offered over MCP."""


PROPOSER = frozenset({Role.PROPOSER})
REVIEWER = frozenset({Role.REVIEWER})
OPERATOR = frozenset({Role.OPERATOR})
HANDOFF = frozenset({Role.HANDOFF})
SUPERVISOR = frozenset({Role.SUPERVISOR})
ADMIN = frozenset({Role.ADMIN})
ALL = PROPOSER | REVIEWER | OPERATOR
EVERY_ROLE = frozenset(Role)
MCP_ROLES = (Role.PROPOSER, Role.REVIEWER, Role.OPERATOR, Role.HANDOFF)


@dataclass(frozen=True, slots=True)
class Hints:
    """What a client may assume about a call (MCP tool annotations)."""

    read_only: bool
    idempotent: bool = False
    open_world: bool = False


READ = Hints(read_only=True, idempotent=True)
WRITE = Hints(read_only=False)
REPEATABLE_WRITE = Hints(read_only=False, idempotent=True)

Handler = Callable[[Any, Caller, Any], Awaitable[Any]]
"""A service function: `handler(services, caller, request) -> answer`."""

Reveal = Callable[[Tokens, dict[str, Any]], dict[str, Any]]
"""`reveal(tokens, data) -> data`, with the secrets that an answer was kept without."""


@dataclass(frozen=True)
class Operation:
    """One capability, as every interface offers it. The service function of its name does it.

    Attributes:
        name: The name on every interface.
        noun: The command line's group, e.g. `review`.
        verb: The command within it, e.g. `claim`.
        request: The request model; its docstring is the operation's description.
        answer: The response type.
        roles: Who may call it; the MCP endpoint of a role lists it.
        hints: What a client may assume.
        blocking: Whether a call may wait (so an interface must watch for the client going away).
        listed: Whether it is a tool over MCP, where an endpoint has room for twelve; else its data are a resource.
        for_agents: Whether it can be called over MCP at all, if one of its roles has an endpoint.
        reveal: For answers with secrets, which are kept without them for a repetition: puts them back.
    """

    name: str
    noun: str
    verb: str
    request: type[Request]
    answer: type[Any]
    roles: frozenset[Role]
    hints: Hints
    blocking: bool = False
    listed: bool = True
    for_agents: bool = True
    reveal: Reveal | None = None

    @property
    def description(self) -> str:
        """One or two sentences, for listings and help."""
        return " ".join((self.request.__doc__ or "").split())

    @property
    def over_mcp(self) -> bool:
        """Whether an MCP endpoint answers calls of it."""
        return self.for_agents and bool(self.roles.intersection(MCP_ROLES))

    def input_schema(self) -> dict[str, Any]:
        """JSON Schema of the request."""
        return self.request.model_json_schema()


Unlisted = partial(Operation, listed=False)
ForPeople = partial(Operation, listed=False, for_agents=False)


class Registry:
    """All operations by name."""

    def __init__(self, operations: tuple[Operation, ...]) -> None:
        self._by_name = {operation.name: operation for operation in operations}

    def __iter__(self) -> Iterator[Operation]:
        return iter(self._by_name.values())

    def find(self, name: str) -> Operation | None:
        """The operation of that name, if there is one."""
        return self._by_name.get(name)

    def get(self, name: str) -> Operation:
        """The operation of that name.

        Raises:
            NotFound: There is none; `details.allowed` lists all names.
        """
        found = self._by_name.get(name)
        if found is None:
            raise NotFound(f"There is no operation '{name}'.", operation=name, allowed=sorted(self._by_name))
        return found

    def for_role(self, role: str | None) -> tuple[Operation, ...]:
        """What an MCP endpoint lists: a role's operations, or without one those of everybody who reviews."""
        wanted: frozenset[str] = ALL if role is None else frozenset({role})
        return tuple(operation for operation in self if operation.listed and operation.roles & wanted)

"""The typed requests of hand-off cycles.

Roles, targets, features and payloads are of no particular form here: what is wrong with them is answered
with the codes of cycles, in the order of their checks.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

from pydantic import Field, WithJsonSchema

from tandem.contract.request import (
    Id,
    JsonValue,
    Name,
    PageLimit,
    ProjectRequest,
    Text,
    Token,
    WaitSeconds,
    WriteRequest,
)
from tandem.domain.access import Subject
from tandem.domain.handoffs import ARRAYS, EXTRAS, TEXTS

_SECRET_LENGTH = 512

Workflow = Annotated[Name | None, Field(description="Default: the session's, else the project's only one.")]
Role = Annotated[Text, Field(max_length=_SECRET_LENGTH)]
Secret = Annotated[Text, Field(max_length=_SECRET_LENGTH)]
SessionToken = Annotated[Secret, Field(description="From session_open.")]
LockToken = Annotated[Secret, Field(description="From lock_acquire; it changes whenever the active role does.")]


def _payload_schema() -> dict[str, Any]:
    properties: dict[str, Any] = {name: {"type": "string"} for name in TEXTS}
    properties.update({name: {"type": "array", "items": {}} for name in ARRAYS})
    properties[EXTRAS] = {"type": "object"}
    return {"type": "object", "properties": properties, "required": [*TEXTS, *ARRAYS]}


Payload = Annotated[
    JsonValue,
    WithJsonSchema(_payload_schema()),
    Field(description="cycle_id and feature as cycle_status says; producer: you; consumer: the target."),
]


class SessionOpen(WriteRequest):
    """Open a session as a role of a workflow; its token goes with lock, hand-off, completion and archive."""

    holds_key: ClassVar[bool] = True

    workflow: Workflow = None
    role: Annotated[Role, Field(description="Your role in the workflow.")]
    psk: Annotated[Secret, Field(description="The role's key; empty if your bridge has it in TANDEM_PSK.")]


class CycleStart(WriteRequest):
    """Begin a cycle: one feature on its way through the workflow's phases."""

    workflow: Workflow = None
    feature: Annotated[Text, Field(description="What is to be built, in a few words.")]


class CycleStatus(ProjectRequest):
    """Where the cycle is; with wait and your role, answers when it is your turn."""

    workflow: Workflow = None
    role: Annotated[
        Role | None, Field(description="Wait until it is this role's turn; default: until anything changes.")
    ] = None
    wait: Annotated[bool, Field(description="Wait until there is something new.")] = False
    cursor: Annotated[Token | None, Field(description="From an earlier answer: wait for what comes after it.")] = None
    timeout_s: WaitSeconds | None = None


class LockAcquire(WriteRequest):
    """Take the lock's current token when it is your role's turn."""

    workflow: Workflow = None
    session_token: SessionToken


class HandoffWrite(WriteRequest):
    """Hand your work over to the next role; in approval mode it is reviewed first."""

    workflow: Workflow = None
    target: Annotated[Role, Field(description="The role that goes on.")]
    payload: Payload
    lock_token: LockToken
    session_token: SessionToken


class HandoffRead(ProjectRequest):
    """What was handed over to a role last, or {}."""

    workflow: Workflow = None
    target: Annotated[Role, Field(description="The role that it is for.")]


class CycleComplete(WriteRequest):
    """Complete the cycle, from a phase that allows it."""

    workflow: Workflow = None
    lock_token: LockToken
    session_token: SessionToken


class CycleArchive(WriteRequest):
    """Write a complete cycle to its archive; a new one can then begin."""

    workflow: Workflow = None
    lock_token: LockToken
    session_token: SessionToken


class SessionClose(WriteRequest):
    """End a session."""

    session_token: SessionToken


class CycleInit(WriteRequest):
    """Make the keys of a workflow's roles; each is shown this once, and only a hash is kept."""

    holds_key: ClassVar[bool] = True

    workflow: Workflow = None
    keys: Annotated[
        dict[str, Secret] | None, Field(description="Keys of your own by role; the others are made for you.")
    ] = None


class CycleRotate(WriteRequest):
    """Replace a role's key; its sessions end."""

    holds_key: ClassVar[bool] = True

    role: Annotated[Role, Field(description="Whose key.")]
    workflow: Workflow = None
    key: Annotated[Secret | None, Field(description="A key of your own; default: one is made for you.")] = None


class CycleRevoke(WriteRequest):
    """Make a role's key void; its sessions end, and the workflow rests until the role has a new one."""

    role: Annotated[Role, Field(description="Whose key.")]
    workflow: Workflow = None


class ListCycles(ProjectRequest):
    """Cycles, newest first, and the workflows that there are."""

    workflow: Annotated[Name | None, Field(description="Only cycles of this workflow.")] = None
    limit: PageLimit = 50
    page: Annotated[Token | None, Field(description="next_page of the page before.")] = None


class GetCycle(ProjectRequest):
    """A whole cycle: state, workflow, and every hand-off with its payload."""

    is_about: ClassVar[Mapping[str, Subject]] = {"cycle_id": "cycle"}

    cycle_id: Annotated[Id | None, Field(description="Default: the newest of the project and workflow.")] = None
    workflow: Workflow = None

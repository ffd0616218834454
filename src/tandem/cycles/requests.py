"""The operations on hand-off cycles, and their typed requests.

Roles, targets, features and payloads are of no particular form here: mistakes in them are answered
with the codes of cycles, in the order of their checks.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

from pydantic import Field, WithJsonSchema

from tandem.contract.caller import Subject
from tandem.contract.operation import ADMIN, HANDOFF, OPERATOR, READ, REPEATABLE_WRITE, WRITE, Operation, Unlisted
from tandem.contract.request import (
    Check,
    Id,
    JsonValue,
    Name,
    PageLimit,
    PageToken,
    ProjectRequest,
    Refusals,
    Text,
    WaitCursor,
    WaitFlag,
    WaitSeconds,
    WriteRequest,
)
from tandem.core.secret_key import Tokens
from tandem.cycles import answers
from tandem.cycles.payloads import ARRAYS, EXTRAS, EXTRAS_ABOUT, TEXTS
from tandem.errors import (
    ArchiveNotAllowed,
    AuthFailed,
    ConfigInvalid,
    CursorExpired,
    CycleAlreadyActive,
    InvalidInput,
    InvalidPhase,
    InvalidRole,
    InvalidSession,
    InvalidTarget,
    LockDenied,
    NoActiveCycle,
    NotFound,
    SchemaInvalid,
    TooLarge,
    Unavailable,
)

_SECRET_LENGTH = 512

Workflow = Annotated[Name | None, Field(description="Default: the session's, else the project's only one.")]
Role = Annotated[Text, Field(max_length=_SECRET_LENGTH)]
Secret = Annotated[Text, Field(max_length=_SECRET_LENGTH)]
SessionToken = Annotated[Secret, Field(description="From session_open.")]
LockToken = Annotated[Secret, Field(description="From lock_acquire; it changes whenever the active role does.")]

_KEYS = Check(ConfigInvalid, "A role of the workflow has no key, or its key was revoked.")
_SESSION = Check(InvalidSession, "There is no such session, it has ended, or it is of another project or workflow.")
_ACTIVE = Check(NoActiveCycle, "No cycle is under way.")
_UNDECIDED = Check(InvalidPhase, "The last hand-off waits for its review, which `details.review_id` names.")
_TOKEN = Check(LockDenied, "The lock token is not the current one.")


def _payload_schema() -> dict[str, Any]:
    properties: dict[str, Any] = {name: {"type": "string", "description": about} for name, about in TEXTS.items()}
    properties |= {name: {"type": "array", "items": {}, "description": about} for name, about in ARRAYS.items()}
    properties[EXTRAS] = {"type": "object", "description": EXTRAS_ABOUT}
    return {"type": "object", "properties": properties, "required": [*TEXTS, *ARRAYS]}


Payload = Annotated[
    JsonValue,
    WithJsonSchema(_payload_schema()),
    Field(description="The hand-off. cycle_id and feature as cycle_status says; producer: you; consumer: the target."),
]


class SessionOpen(WriteRequest):
    """Open a session as a role of a workflow; its token authenticates lock, hand-off, completion and archive."""

    refusals: ClassVar[Refusals] = (
        _KEYS,
        Check(InvalidRole, "The workflow has no such role."),
        Check(AuthFailed, "The key is not the role's."),
    )
    contains_key: ClassVar[bool] = True

    workflow: Workflow = None
    role: Annotated[Role, Field(description="Your role in the workflow.")]
    psk: Annotated[Secret, Field(description="The role's key; empty if your bridge has it in TANDEM_PSK.")]


class CycleStart(WriteRequest):
    """Begin a cycle: one feature on its way through the workflow's phases."""

    refusals: ClassVar[Refusals] = (
        _KEYS,
        Check(SchemaInvalid, "The feature is empty or too long."),
        Check(CycleAlreadyActive, "A cycle of this workflow is under way in the project."),
    )

    workflow: Workflow = None
    feature: Annotated[Text, Field(description="The feature to build, in a few words.")]


class CycleStatus(ProjectRequest):
    """The state of the cycle; with wait and your role, returns when it is your turn."""

    refusals: ClassVar[Refusals] = (
        Check(InvalidRole, "The workflow has no such role."),
        Check(CursorExpired, "The cursor is of another log, or ahead of this one."),
    )

    workflow: Workflow = None
    role: Annotated[
        Role | None, Field(description="Wait until it is this role's turn; default: until anything changes.")
    ] = None
    wait: WaitFlag = False
    cursor: WaitCursor = None
    timeout_s: WaitSeconds = None


class LockAcquire(WriteRequest):
    """Take the lock's current token when it is your role's turn."""

    refusals: ClassVar[Refusals] = (
        _KEYS,
        _SESSION,
        _ACTIVE,
        Check(LockDenied, "The session's role is not the active one."),
    )

    workflow: Workflow = None
    session_token: SessionToken


class HandoffWrite(WriteRequest):
    """Hand your work over to the next role; in approval mode it is reviewed first."""

    refusals: ClassVar[Refusals] = (
        _KEYS,
        _SESSION,
        _ACTIVE,
        Check(InvalidTarget, "The target is no role of the workflow."),
        Check(InvalidPhase, "The phase hands nothing to this target."),
        _UNDECIDED,
        Check(LockDenied, "The session's role is not the one that hands off in this phase."),
        _TOKEN,
        Check(SchemaInvalid, "The payload does not have its form, or speaks of another cycle or direction."),
        Check(TooLarge, "The payload is over `text_limit_bytes`."),
        Check(SchemaInvalid, "The payload contains the caller's lock token or session token."),
    )

    workflow: Workflow = None
    target: Annotated[Role, Field(description="The next role.")]
    payload: Payload
    lock_token: LockToken
    session_token: SessionToken


class HandoffRead(ProjectRequest):
    """The latest hand-off to a role, or {}."""

    refusals: ClassVar[Refusals] = (Check(InvalidTarget, "The target is no role of the workflow."),)

    workflow: Workflow = None
    target: Annotated[Role, Field(description="The role that it is for.")]


class CycleComplete(WriteRequest):
    """Complete the cycle, from a phase that allows it."""

    refusals: ClassVar[Refusals] = (
        _KEYS,
        _SESSION,
        _ACTIVE,
        Check(InvalidPhase, "The phase does not complete the cycle."),
        _UNDECIDED,
        Check(LockDenied, "The session's role is not the active one."),
        _TOKEN,
    )

    workflow: Workflow = None
    lock_token: LockToken
    session_token: SessionToken


class CycleArchive(WriteRequest):
    """Write a complete cycle to its archive; a new one can then begin."""

    refusals: ClassVar[Refusals] = (
        _KEYS,
        _SESSION,
        Check(ArchiveNotAllowed, "The cycle is not complete, or there is none."),
        Check(LockDenied, "The session's role is not the one that archives."),
        _TOKEN,
        Check(Unavailable, "The folder cannot be written."),
    )

    workflow: Workflow = None
    lock_token: LockToken
    session_token: SessionToken


class SessionClose(WriteRequest):
    """End a session."""

    refusals: ClassVar[Refusals] = (
        Check(InvalidSession, "There is no such session; one that has ended is no mistake."),
    )

    session_token: SessionToken


class CycleInit(WriteRequest):
    """Create the keys of a workflow's roles; each is shown once, and only a hash is stored."""

    refusals: ClassVar[Refusals] = (
        Check(InvalidRole, "A key is for no role of the workflow."),
        Check(InvalidInput, "A key is for a role that has one, or has not its form."),
    )
    contains_key: ClassVar[bool] = True

    workflow: Workflow = None
    keys: Annotated[
        dict[str, Secret] | None,
        Field(description="Your own keys by role, of 16 to 200 printable characters; the others are generated."),
    ] = None


class CycleRotate(WriteRequest):
    """Replace a role's key; its sessions end."""

    refusals: ClassVar[Refusals] = (
        Check(InvalidRole, "The workflow has no such role."),
        Check(InvalidInput, "The key has not its form."),
    )
    contains_key: ClassVar[bool] = True

    role: Annotated[Role, Field(description="Whose key.")]
    workflow: Workflow = None
    key: Annotated[
        Secret | None,
        Field(description="Your own key, of 16 to 200 printable characters; default: a generated one."),
    ] = None


class CycleRevoke(WriteRequest):
    """Revoke a role's key; its sessions end, and the workflow is blocked until the role has a new key."""

    refusals: ClassVar[Refusals] = (
        Check(InvalidRole, "The workflow has no such role."),
        Check(NotFound, "The role has no key that could be revoked."),
    )

    role: Annotated[Role, Field(description="Whose key.")]
    workflow: Workflow = None


class ListCycles(ProjectRequest):
    """Cycles, newest first, and the workflows that there are."""

    refusals: ClassVar[Refusals] = (Check(TooLarge, "More rows than a page may have."),)

    workflow: Annotated[Name | None, Field(description="Only cycles of this workflow.")] = None
    limit: PageLimit = 50
    page: PageToken = None


class GetCycle(ProjectRequest):
    """A whole cycle: state, workflow, and every hand-off with its payload."""

    refusals: ClassVar[Refusals] = (Check(NotFound, "There is no such cycle in the project."),)
    subject_fields: ClassVar[Mapping[str, Subject]] = {"cycle_id": "cycle"}

    cycle_id: Annotated[Id | None, Field(description="Default: the newest of the project and workflow.")] = None
    workflow: Workflow = None


def _reveal_session(tokens: Tokens, data: dict[str, Any]) -> dict[str, Any]:
    """The session's token, derived again."""
    return {**data, "session_token": tokens.session_token(data["session_id"])}


def _reveal_lock(tokens: Tokens, data: dict[str, Any]) -> dict[str, Any]:
    """The lock's token as it was then, derived again from the rotation that was kept in its place."""
    return {**data, "lock_token": tokens.lock_token(data["cycle_id"], int(data["lock_token"]))}


OPERATIONS = (
    Operation(
        "session_open", "session", "open", SessionOpen, answers.SessionOpened, HANDOFF, WRITE, reveal=_reveal_session
    ),
    Operation("cycle_start", "cycle", "start", CycleStart, answers.CycleStarted, HANDOFF, WRITE, reveal=_reveal_lock),
    Operation("cycle_status", "cycle", "status", CycleStatus, answers.CycleStatus, HANDOFF, READ, blocking=True),
    Operation(
        "lock_acquire",
        "lock",
        "acquire",
        LockAcquire,
        answers.LockAcquired,
        HANDOFF,
        REPEATABLE_WRITE,
        reveal=_reveal_lock,
    ),
    Operation("handoff_write", "handoff", "write", HandoffWrite, answers.HandoffWritten, HANDOFF, WRITE),
    Operation("handoff_read", "handoff", "read", HandoffRead, dict, HANDOFF, READ),
    Operation("cycle_complete", "cycle", "complete", CycleComplete, answers.CycleCompleted, HANDOFF, WRITE),
    Operation("cycle_archive", "cycle", "archive", CycleArchive, answers.CycleArchived, HANDOFF, WRITE),
    Operation("session_close", "session", "close", SessionClose, answers.SessionClosed, ADMIN, REPEATABLE_WRITE),
    Operation("cycle_init", "cycle", "init", CycleInit, answers.KeysMade, ADMIN, REPEATABLE_WRITE),
    Operation("cycle_rotate", "cycle", "rotate", CycleRotate, answers.KeysMade, ADMIN, WRITE),
    Operation("cycle_revoke", "cycle", "revoke", CycleRevoke, answers.KeyRevoked, ADMIN, WRITE),
    Unlisted("list_cycles", "cycle", "list", ListCycles, answers.CyclePage, OPERATOR, READ),
    Unlisted("get_cycle", "cycle", "show", GetCycle, answers.CycleHistory, OPERATOR, READ),
)

"""What the reference pages say of hand-off cycles beyond what the declarations do."""

from __future__ import annotations

from typing import Final

from tandem.domain.events import Kind
from tandem.domain.reviews import State

EVENTS: Final[dict[Kind, str]] = {
    Kind.SESSION_OPENED: "A role showed its key and was given a session. The token is in no event.",
    Kind.SESSION_CLOSED: (
        "A session ended; `reason` says how: `closed`, `idle`, `rotated` or `revoked` (the last two: its key was)."
    ),
    Kind.CYCLE_STARTED: "A cycle began in its workflow's first phase.",
    Kind.LOCK_ACQUIRED: "The active role took the lock's current token. `rotation` counts the tokens; none is there.",
    Kind.HANDOFF_WRITTEN: "A hand-off was written. With a `review_id` it waits for its review.",
    Kind.CYCLE_ADVANCED: (
        "A hand-off took the cycle to its next phase: at once, or (then with `review_id` and `round`) by its approval."
    ),
    Kind.CYCLE_COMPLETED: "The cycle is complete; its lock is the archiver's.",
    Kind.CYCLE_ARCHIVED: "The cycle is in its archive; its workflow is idle in this project.",
    Kind.TOKEN_CREATED: (
        "A role was given a key, its first one or in place of another; or an access token was made. `what` says which. "
        "Neither the secret nor its hash is there."
    ),
    Kind.TOKEN_REVOKED: "A role's key or an access token was made void.",
}

ADVICE: Final[dict[str, str]] = {
    "SCHEMA_INVALID": (
        "Correct the field that `details.field` names; `details.problems` lists every complaint. "
        "[The payload](cycles.md#the-payload) has the form."
    ),
    "INVALID_ROLE": "Use one of the roles in `details.allowed`, or name the right `workflow`.",
    "INVALID_TARGET": "Hand off to one of the roles in `details.allowed`, or name the right `workflow`.",
    "AUTH_FAILED": "Use the role's own key. Nobody can show a lost one; `tandem cycle rotate ROLE` makes a new one.",
    "INVALID_SESSION": (
        "Open a new session with `session_open`, and send its `session_token`. A supervisor of reviewers ends them and "
        "registers anew."
    ),
    "INVALID_TOOL": "Use one of the tools in `details.allowed`; names are with an underscore or with a dot.",
    "NO_ACTIVE_CYCLE": "Begin a cycle with `cycle_start`; `cycle_status` tells which project and workflow you are in.",
    "CYCLE_ALREADY_ACTIVE": "Complete and archive `details.cycle_id` first, or begin the new one in another workflow.",
    "INVALID_PHASE": (
        "Read `cycle_status`: `next_step` says what is possible now. With `details.review_id`, wait for that review."
    ),
    "LOCK_DENIED": (
        "Read `cycle_status`. If it is your turn, take the current token with `lock_acquire` and try again; else wait "
        "with `wait` and your `role`."
    ),
    "ARCHIVE_NOT_ALLOWED": "Complete the cycle first, with `cycle_complete`.",
}

_KEYS = ("CONFIG_INVALID", "A role of the workflow has no key, or its key was revoked.")
_SESSION = ("INVALID_SESSION", "There is no such session, it has ended, or it is of another project or workflow.")
_ACTIVE = ("NO_ACTIVE_CYCLE", "No cycle is under way.")
_REVIEW = ("INVALID_PHASE", "The last hand-off waits for its review, which `details.review_id` names.")
_TOKEN = ("LOCK_DENIED", "The lock token is not the current one.")

CHECKS: Final[dict[str, tuple[tuple[str, str], ...]]] = {
    "session_open": (
        _KEYS,
        ("INVALID_ROLE", "The workflow has no such role."),
        ("AUTH_FAILED", "The key is not the role's."),
    ),
    "cycle_start": (
        _KEYS,
        ("SCHEMA_INVALID", "The feature is empty or too long."),
        ("CYCLE_ALREADY_ACTIVE", "A cycle of this workflow is under way in the project."),
    ),
    "cycle_status": (
        ("INVALID_ROLE", "The workflow has no such role."),
        ("CURSOR_EXPIRED", "The cursor is of another log, or ahead of this one."),
    ),
    "lock_acquire": (_KEYS, _SESSION, _ACTIVE, ("LOCK_DENIED", "The session's role is not the active one.")),
    "handoff_write": (
        _KEYS,
        _SESSION,
        _ACTIVE,
        ("INVALID_TARGET", "The target is no role of the workflow."),
        ("INVALID_PHASE", "The phase hands nothing to this target."),
        _REVIEW,
        ("LOCK_DENIED", "The session's role is not the one that hands off in this phase."),
        _TOKEN,
        ("SCHEMA_INVALID", "The payload does not have its form, or speaks of another cycle or direction."),
        ("TOO_LARGE", "The payload is over `text_limit_bytes`."),
        ("SCHEMA_INVALID", "The payload contains the caller's lock token or session token."),
    ),
    "handoff_read": (("INVALID_TARGET", "The target is no role of the workflow."),),
    "cycle_complete": (
        _KEYS,
        _SESSION,
        _ACTIVE,
        ("INVALID_PHASE", "The phase does not complete the cycle."),
        _REVIEW,
        ("LOCK_DENIED", "The session's role is not the active one."),
        _TOKEN,
    ),
    "cycle_archive": (
        _KEYS,
        _SESSION,
        ("ARCHIVE_NOT_ALLOWED", "The cycle is not complete, or there is none."),
        ("LOCK_DENIED", "The session's role is not the one that archives."),
        _TOKEN,
        ("UNAVAILABLE", "The folder cannot be written."),
    ),
    "session_close": (("INVALID_SESSION", "There is no such session; one that has ended is no mistake."),),
    "cycle_init": (
        ("INVALID_ROLE", "A key is for no role of the workflow."),
        ("INVALID_INPUT", "A key is for a role that has one, or has not its form."),
    ),
    "cycle_rotate": (
        ("INVALID_ROLE", "The workflow has no such role."),
        ("INVALID_INPUT", "The key has not its form."),
    ),
    "cycle_revoke": (
        ("INVALID_ROLE", "The workflow has no such role."),
        ("NOT_FOUND", "The role has no key that could be revoked."),
    ),
    "list_cycles": (("TOO_LARGE", "More rows than a page may have."),),
    "get_cycle": (("NOT_FOUND", "There is no such cycle in the project."),),
}
"""What each operation checks, in this order: the code, and when it is answered."""

PROOFS: Final[dict[str, tuple[str, str, str]]] = {
    "session_open": ("the role's key", "no", "any role"),
    "cycle_start": ("nothing; but every role has to have a key", "no", "anybody"),
    "cycle_status": ("nothing", "no", "anybody"),
    "lock_acquire": ("a session", "no", "the active role"),
    "handoff_write": ("a session", "yes", "the active role, to a target of its phase"),
    "handoff_read": ("nothing", "no", "anybody"),
    "cycle_complete": ("a session", "yes", "the active role, in a phase that completes"),
    "cycle_archive": ("a session", "yes", "the archiver, once the cycle is complete"),
    "session_close": ("the session itself", "no", "whoever has its token"),
    "cycle_init": ("nothing", "no", "who administers the broker"),
    "cycle_rotate": ("nothing", "no", "who administers the broker"),
    "cycle_revoke": ("nothing", "no", "who administers the broker"),
    "list_cycles": ("nothing", "no", "the operator"),
    "get_cycle": ("nothing", "no", "the operator"),
}
"""What a caller has to show for each operation, whether a lock token is asked for, and whose it is to do."""

GATED: Final[dict[State, tuple[str, str]]] = {
    State.PENDING: ("`INVALID_PHASE` with the `review_id`", "waits"),
    State.CLAIMED: ("`INVALID_PHASE` with the `review_id`", "waits"),
    State.IN_REVIEW: ("`INVALID_PHASE` with the `review_id`", "waits"),
    State.CHANGES_REQUESTED: (
        "the next round of the same review; to another target: closes it and begins a new one",
        "is the producer's",
    ),
    State.APPROVED: ("as for any hand-off in the new phase", "has advanced, in the verdict's transaction"),
    State.REJECTED: ("a new review, whose `parent_id` is the rejected one", "is the producer's"),
    State.CLOSED: ("a new review", "is the producer's, if the review was withdrawn"),
}
"""In approval mode: what `handoff_write` does while the review is in a state, and where the cycle is."""

PAYLOAD: Final[dict[str, str]] = {
    "cycle_id": "The cycle, as `cycle_status` says it.",
    "feature": "The feature, as `cycle_status` says it.",
    "producer": "The role that hands off.",
    "consumer": "The role that goes on: the target.",
    "files_modified": "Files that were added, changed or removed.",
    "endpoints": "Interfaces that the consumer is to build or to use, such as routes and functions.",
    "data_shapes": "What goes through them: requests, answers, records, messages.",
    "assumptions": "What was taken for granted and may be wrong.",
    "todos": "What is left for the consumer.",
    "notes": "Anything else in words.",
    "extras": "Further facts, by name; the only place for fields of your own.",
}
"""The fields of a hand-off."""

WORKFLOW: Final[dict[str, str]] = {
    "roles": "Names of everybody who takes part. Each is active in at least one phase, or archives.",
    "start": "The phase in which a cycle begins.",
    "phases": "A table for each phase.",
    "archiver": "The role that archives a complete cycle. Default: the role that completed it.",
    "mode": "`direct`: a hand-off advances the cycle at once. `approval`: its review does. Default: `direct`.",
    "like": "Another workflow that this one is a copy of; beside it only `archiver` and `mode` may stand.",
}
"""The keys of a workflow's table."""

PHASE: Final[dict[str, str]] = {
    "role": "The role that is active in it.",
    "handoff": "To whom this role may hand off, and the phase that then begins, which has to be one of the target's.",
    "complete": "Whether this role may complete the cycle here. Default: `false`.",
}
"""The keys of a phase's table."""

ARCHIVE: Final[dict[str, str]] = {
    "manifest.json": (
        "Format, ids and times, the list of hand-offs with everything but their payloads, and the SHA-256 of every "
        "other file."
    ),
    "state.json": "The cycle as it ended: the same fields as in `list_cycles`.",
    "lock.json": "Who held the lock last; never a token.",
    "workflow.json": "The workflow that the cycle ran by, without keys.",
    "handoffs/NNN-ROLE.json": "One payload each, numbered in the order of writing; ROLE is the target.",
}
"""The files of an archive."""

# Where the declaration says nothing, by `Type.field`, else by the field's name alone.
FIELDS: Final[dict[str, str]] = {
    # Sessions and keys
    "session_token": "The session's token. It is shown here only, and not stored.",
    "session_id": "The session's name in the log; no secret.",
    "SessionOpened.role": "The role that it is for.",
    "SessionClosed.role": "The role that it was for.",
    "SessionClosed.closed": "Always true.",
    "KeysMade.keys": (
        "The new keys by role. They are shown this once; a repetition by idempotency key has a remark in their place."
    ),
    "CycleInit.keys": "Keys of your own by role, of 16 to 200 printable characters; the others are made for you.",
    "CycleRotate.key": "A key of your own, of 16 to 200 printable characters; default: one is made for you.",
    "kept": "Roles that had a key already, which stays.",
    "sessions_ended": "How many sessions of the role ended with its old key.",
    "KeyRevoked.role": "Whose key is void.",
    # Cycles
    "workflow": "The workflow.",
    "cycle_id": "The cycle.",
    "CycleStatus.cycle_id": "The cycle under way; null when there is none.",
    "feature": "What is built, in a few words.",
    "CycleStarted.phase": "The phase that the cycle is in.",
    "CycleStatus.phase": "The phase that the cycle is in; null when none is under way.",
    "HandoffWritten.phase": "The phase that the cycle is in now; in approval mode still the producer's.",
    "CycleCompleted.phase": "`complete`.",
    "CycleRow.phase": "The phase that the cycle is in; `complete` also once it is archived.",
    "active_role": "The role whose turn it is; it holds the lock.",
    "CycleCompleted.active_role": "The role that archives.",
    "mode": "`direct` or `approval`: whether a hand-off advances the cycle at once or by its review.",
    "lock_token": "The lock's current token. It is derived when it is asked for, and not stored.",
    "CycleStarted.lock_token": "The lock's token, for the first phase's role.",
    "CycleStatus.handoffs": "For each role, whether there is a hand-off to it that advanced the cycle.",
    "CycleRow.handoffs": "How many hand-offs were written.",
    "CycleHistory.handoffs": "Every hand-off, in the order of writing.",
    "CycleStatus.lock": "Who holds the lock.",
    "CycleHistory.lock": "Who holds the lock.",
    "CycleStatus.review": "In approval mode, the review of the last hand-off, unless that has advanced the cycle.",
    "next_step": "What is to be done now and by whom, in a sentence.",
    "ok": "Always true.",
    "archive": "The folder of the archive, on the broker's machine.",
    "completed_at": "When it was completed.",
    "archived_at": "When it was archived; null while it is under way.",
    "CycleRow.review_id": "The review of the last hand-off, unless that has advanced the cycle.",
    "HandoffWritten.review_id": "In approval mode, the hand-off's review.",
    "cycles": "The cycles of the page, newest first.",
    "workflows": "The workflows that the broker knows.",
    "WorkflowView.name": "The workflow's name.",
    "roles": "Its roles.",
    "definition": "The workflow [as the configuration writes it](cycles.md#a-workflow).",
    "CycleHistory.cycle": "The cycle.",
    # Locks and hand-offs
    "locked": "Whether anybody holds it: so while a cycle is under way.",
    "LockState.role": "Who holds it, or held it last.",
    "acquired_at": "When its token was last taken; null until the role took it.",
    "LockAcquired.role": "Whose lock it is: the session's role.",
    "HandoffState.status": "`present` or `empty`.",
    "HandoffState.updated_at": "When the newest one advanced the cycle.",
    "HandoffReview.status": "The review's state; see [approval mode](cycles.md#approval-mode).",
    "HandoffReview.reason": "The reason that came with the latest verdict.",
    "HandoffWrite.payload": "What is handed over; see [the payload](cycles.md#the-payload).",
    "payload": "What was handed over; see [the payload](cycles.md#the-payload).",
    "target": "The role that it is for.",
    "producer": "The role that wrote it.",
    "number": "Its place among the cycle's hand-offs, from 1.",
    "HandoffView.phase": "The phase in which it was written.",
    "next_phase": "The phase that it leads to.",
    "HandoffView.status": (
        "`advanced`; or in approval mode the state of its review, the outcome of a closed one, or `superseded` by a "
        "later round."
    ),
    "HandoffView.review_id": "In approval mode, its review.",
    "HandoffView.round": "In approval mode, the round of the review that has this payload.",
    "written_at": "When it was written.",
    "advanced_at": "When it advanced the cycle; null if it has not.",
    **{f"Payload.{name}": about for name, about in PAYLOAD.items()},
}

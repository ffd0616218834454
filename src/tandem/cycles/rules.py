"""The cycle: one feature on its way through a workflow's phases, one active role at a time.

What a phase allows comes from the workflow that the cycle was started with; nothing here knows a role's or a
phase's name, but for the one phase after completion. Every check answers with its own code, and the
order of the checks is part of the contract.
"""

from __future__ import annotations

import json
import re
import unicodedata
from datetime import UTC, datetime
from typing import Literal, NamedTuple

from tandem.core.clock import MICROSECONDS
from tandem.errors import ArchiveNotAllowed, InvalidPhase, InvalidRole, InvalidTarget, LockDenied, SchemaInvalid
from tandem.settings.workflows import COMPLETE, Phase, Workflow, parse, quoted, repeatable

FEATURE_LENGTH = 200
_SLUG_LENGTH = 40


class Cycle(NamedTuple):
    """One cycle as it stands. Field order is the column order of its table.

    Times are microseconds since the epoch, UTC. `active_role` holds the lock, whose token is derived from the
    cycle's id and `rotation`. `definition` is the workflow as JSON text. `review_id` is the review of the
    hand-off that was written last and has not advanced the cycle. `status_seq` is the newest event
    that changed what a status shows; taking the lock again does not. `removed_at` is when its payloads were removed,
    and `removed_seq` the newest event whose contents went with them.
    """

    id: str
    project: str
    workflow: str
    feature: str
    mode: str
    definition: str
    phase: str
    active_role: str
    rotation: int = 1
    lock_acquired_at: int | None = None
    review_id: str | None = None
    handoffs: int = 0
    created_at: int = 0
    updated_at: int = 0
    completed_at: int | None = None
    archived_at: int | None = None
    status_seq: int = 0
    event_seq: int = 0
    event_hash: str = ""
    removed_at: int | None = None
    removed_seq: int | None = None

    @property
    def subject(self) -> str:
        """What its events are about."""
        return f"cycle:{self.id}"


class Transition(NamedTuple):
    """Where a hand-off leads: from a producer's phase to the phase of the target."""

    target: str
    producer: str
    phase: str
    next_phase: str


class Handoff(NamedTuple):
    """One hand-off as it was written. Field order is the column order of its table.

    Attributes:
        cycle_id: The cycle.
        number: Its place among the cycle's hand-offs, from 1.
        target: The role it is for.
        producer: The role that wrote it.
        phase: The phase in which it was written.
        next_phase: The phase that it leads to.
        content_id: The payload in the content store, as JSON text.
        review_id: In approval mode, its review.
        round: In approval mode, the round that has this payload.
        written_at: When it was written; microseconds since the epoch, UTC.
        advanced_at: When it advanced the cycle; None until it was approved.
    """

    cycle_id: str
    number: int
    target: str
    producer: str
    phase: str
    next_phase: str
    content_id: str
    review_id: str | None = None
    round: int | None = None
    written_at: int = 0
    advanced_at: int | None = None

    @property
    def step(self) -> Transition:
        """Where it leads."""
        return Transition(self.target, self.producer, self.phase, self.next_phase)


def cycle_id(feature: str, now_us: int, letters: str) -> str:
    """A time stamp, a slug that is safe in paths, and random letters: `20261122T101500Z_login-page_k3f9q2`."""
    stamp = datetime.fromtimestamp(now_us // MICROSECONDS, tz=UTC).strftime("%Y%m%dT%H%M%SZ")
    plain = unicodedata.normalize("NFKD", feature).encode("ascii", "ignore").decode().lower()
    slug = re.sub(r"[^a-z0-9]+", "-", plain).strip("-")[:_SLUG_LENGTH].strip("-")
    return f"{stamp}_{slug or 'feature'}_{letters}"


def checked_feature(feature: str) -> str:
    """The feature's name without space around it.

    Raises:
        SchemaInvalid: It is empty, or longer than `FEATURE_LENGTH` characters.
    """
    name = feature.strip()
    if not name:
        raise SchemaInvalid("feature: name the feature to build, in a few words.", field="feature")
    if len(name) > FEATURE_LENGTH:
        raise SchemaInvalid(
            f"feature: use at most {FEATURE_LENGTH} characters; the details belong into the hand-offs.",
            field="feature",
            limit=FEATURE_LENGTH,
            actual=len(name),
        )
    return name


def workflow_of(cycle: Cycle) -> Workflow:
    """The workflow as it was when the cycle began: later changes count for the next one."""
    return parse(cycle.workflow, json.loads(cycle.definition))


def started(identity: str, workflow: Workflow, *, project: str, feature: str, now_us: int) -> Cycle:
    """A new cycle in its workflow's first phase."""
    return Cycle(
        id=identity,
        project=project,
        workflow=workflow.name,
        feature=feature,
        mode=workflow.mode,
        definition=json.dumps(workflow.as_dict(), ensure_ascii=False),
        phase=workflow.start,
        active_role=workflow.phase(workflow.start).role,
        lock_acquired_at=now_us,
        created_at=now_us,
        updated_at=now_us,
    )


def check_active_role(cycle: Cycle, role: str) -> None:
    """Refuse who wants the lock while it is another's turn.

    Raises:
        LockDenied: The role is not the active one.
    """
    if role != cycle.active_role:
        wait = f"wait with cycle_status (wait=true, role={role})"
        raise _denied(cycle, role, f"It is {cycle.active_role}'s turn (phase {cycle.phase}), not {role}'s; {wait}.")


def transition(cycle: Cycle, workflow: Workflow, target: str) -> Transition:
    """Where a hand-off to a target leads from the cycle's phase.

    Raises:
        InvalidTarget: The workflow has no such role.
        InvalidPhase: The phase hands nothing to that role.
    """
    check_known(workflow, target, field="target")
    phase = _phase(cycle, workflow)
    following = phase.handoffs.get(target) if phase else None
    if phase is None or following is None:
        allowed = sorted(phase.handoffs) if phase else []
        may = f"From here a hand-off goes to {' or '.join(allowed)}" if allowed else "It is over"
        raise InvalidPhase(
            f"The phase {cycle.phase} hands nothing to {target}. {may}; cycle_status says where the cycle is.",
            phase=cycle.phase,
            target=target,
            active_role=cycle.active_role,
            allowed=allowed,
        )
    return Transition(target, phase.role, cycle.phase, following)


def check_known(workflow: Workflow, role: str, *, field: Literal["role", "target"] = "role") -> None:
    """Refuse a role that the workflow does not have, with the name of the field that it stands in.

    Raises:
        InvalidRole: It has none of that name.
        InvalidTarget: The same of a hand-off's target.
    """
    if role not in workflow.roles:
        refusal = InvalidTarget if field == "target" else InvalidRole
        raise refusal(
            f"{quoted(role)} is no role of '{workflow.name}'; its roles are {', '.join(workflow.roles)}.",
            **{field: repeatable(role)},
            allowed=list(workflow.roles),
        )


def check_producer(cycle: Cycle, step: Transition, role: str) -> None:
    """Refuse a hand-off by anybody but the phase's own role.

    Raises:
        LockDenied: The session is of another role.
    """
    if role != step.producer:
        why = f"A hand-off to {step.target} in the phase {cycle.phase} is {step.producer}'s to write, not {role}'s."
        raise _denied(cycle, role, why, target=step.target)
    check_active_role(cycle, role)


def advanced(cycle: Cycle, step: Transition, now_us: int) -> Cycle:
    """The cycle in its next phase; the lock rotates when the active role changes."""
    return _moved(cycle, step.next_phase, step.target, now_us)


def check_complete(cycle: Cycle, workflow: Workflow) -> None:
    """Refuse to complete a cycle from a phase that does not.

    Raises:
        InvalidPhase: It cannot be completed from where it is.
    """
    phase = _phase(cycle, workflow)
    if phase is None or not phase.completes:
        allowed = list(workflow.completing_phases)
        raise InvalidPhase(
            f"A cycle of '{workflow.name}' is completed from {' or '.join(allowed)}, and this one is in {cycle.phase}.",
            phase=cycle.phase,
            allowed=allowed,
        )


def completed(cycle: Cycle, workflow: Workflow, now_us: int) -> Cycle:
    """The cycle complete, its lock with the archiver."""
    archiver = workflow.archiver_after(cycle.phase)
    return _moved(cycle, COMPLETE, archiver, now_us)._replace(completed_at=now_us)


def check_archive(cycle: Cycle | None, workflow: str) -> Cycle:
    """The cycle, if it is complete.

    Raises:
        ArchiveNotAllowed: It is not, or there is none.
    """
    if cycle is None or cycle.archived_at is not None or cycle.phase != COMPLETE:
        phase = cycle.phase if cycle is not None and cycle.archived_at is None else None
        raise ArchiveNotAllowed(
            f"Only a complete cycle can be archived; complete it first with cycle_complete. '{workflow}' is"
            f" {'in the phase ' + phase if phase else 'idle'}.",
            phase=phase,
        )
    return cycle


def check_role(cycle: Cycle, role: str, what: str) -> None:
    """Refuse who does not hold the lock.

    Raises:
        LockDenied: The session is of another role.
    """
    if role != cycle.active_role:
        raise _denied(cycle, role, f"{what} is {cycle.active_role}'s to do, who holds the lock, not {role}'s.")


def refuse_token(cycle: Cycle, role: str, *, of_another_key: bool) -> LockDenied:
    """The refusal of a lock token that is not the current one; never says the token."""
    why = (
        "This lock token was made by a broker with another secret key; brokers on one database need the same"
        " secret_key_file."
        if of_another_key
        else "This is not the lock's current token: it rotates whenever the active role changes."
    )
    return _denied(cycle, role, f"{why} Take the current one with lock_acquire and try again.")


def _denied(cycle: Cycle, role: str, why: str, **details: str) -> LockDenied:
    # The two names in another spelling are the published ones.
    return LockDenied(why, activeRole=cycle.active_role, requestedRole=role, phase=cycle.phase, **details)


def _phase(cycle: Cycle, workflow: Workflow) -> Phase | None:
    return None if cycle.phase == COMPLETE else workflow.phase(cycle.phase)


def _moved(cycle: Cycle, phase: str, role: str, now_us: int) -> Cycle:
    moved = cycle._replace(phase=phase, review_id=None, updated_at=now_us)
    if role == cycle.active_role:
        return moved
    return moved._replace(active_role=role, rotation=cycle.rotation + 1, lock_acquired_at=None)


class CycleKey(NamedTuple):
    """The pre-shared key of one role. Field order is the column order of its table.

    `key_hash` is a salted hash, and empty once the key was revoked; times are microseconds since the epoch, UTC.
    """

    project: str
    workflow: str
    role: str
    key_hash: str
    created_at: int
    revoked_at: int | None = None
    event_seq: int = 0
    event_hash: str = ""

    @property
    def subject(self) -> str:
        """What its events are about."""
        return f"key:{self.project}/{self.workflow}/{self.role}"


class Session(NamedTuple):
    """One session of a role. Field order is the column order of its table.

    Its token is not stored: it is derived from the id. Times are microseconds since the epoch, UTC.
    """

    id: str
    project: str
    workflow: str
    role: str
    opened_at: int
    last_seen_at: int
    ended_at: int | None = None
    end_reason: str | None = None
    event_seq: int = 0
    event_hash: str = ""

    @property
    def subject(self) -> str:
        """What its events are about."""
        return f"session:{self.id}"

    def idle(self, now_us: int, idle_seconds: float) -> bool:
        """Whether it was not used for too long."""
        return now_us - self.last_seen_at > idle_seconds * MICROSECONDS

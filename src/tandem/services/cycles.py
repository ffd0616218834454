"""The cycle's own steps: start, status, lock, completion and archive. Hand-offs are in `handoffs`."""

from __future__ import annotations

from dataclasses import replace

from tandem.domain import cycles as rules
from tandem.domain.cycle_answers import (
    CycleCompleted,
    CycleStarted,
    CycleStatus,
    LockAcquired,
)
from tandem.domain.cycles import Cycle
from tandem.domain.events import Kind
from tandem.domain.reviews import Review
from tandem.domain.sessions import Session
from tandem.domain.workflows import COMPLETE
from tandem.errors import CycleAlreadyActive, InvalidPhase
from tandem.services import cycle_scope, cycle_views
from tandem.services.context import Call, Services, transact
from tandem.services.cycle_keys import check_role
from tandem.services.cycle_scope import Asked
from tandem.services.reviews import Wait, close_in, look_or_wait
from tandem.services.waits import topic
from tandem.store import cycles, events, reviews
from tandem.store.base import Conflict, Unit


async def start(services: Services, call: Call, asked: Asked, feature: str) -> CycleStarted:
    """Begin a cycle.

    Raises:
        ConfigInvalid: A role of the workflow has no key.
        SchemaInvalid: The feature has no name.
        CycleAlreadyActive: One of this workflow is under way in the project.
    """
    letters = services.clock.new_id("cy")[-6:]

    def work(unit: Unit) -> CycleStarted:
        standing = cycle_scope.look(unit, services, asked)
        cycle_scope.require_keys(unit, standing)
        name = rules.checked_feature(feature)
        if standing.active is not None:
            raise _already_active(standing.active)
        now = services.clock.now_us()
        identity = rules.cycle_id(name, now, letters)
        fresh = rules.started(identity, standing.workflow, project=standing.project, feature=name, now_us=now)
        actor = call.agent or fresh.active_role
        written = cycles.start(unit, fresh, actor=actor, data={"feature": name, "mode": fresh.mode})
        return CycleStarted(
            cycle_id=written.id,
            phase=written.phase,
            active_role=written.active_role,
            lock_token=services.tokens.lock_token(written.id, written.rotation),
            project=written.project,
            workflow=written.workflow,
            feature=written.feature,
            mode=written.mode,
            cursor=services.waits.cursor(written.event_seq),
        )

    try:
        return await transact(services, call, work, kept=lambda answer: replace(answer, lock_token="1"))  # noqa: S106 - a rotation
    except Conflict:
        # Another node was first, between our look and our write.
        standing = await services.store.read(lambda unit: cycle_scope.look(unit, services, asked))
        if standing.active is None:
            raise
        raise _already_active(standing.active) from None


async def status(
    services: Services, asked: Asked, *, wait: Wait | None, cursor: str | None, role: str | None
) -> CycleStatus:
    """Where the cycle is; with a wait, once that has changed, or once it is a role's turn.

    Args:
        services: The services.
        asked: The project and workflow.
        wait: How to wait; null for an answer now.
        cursor: What the caller has seen.
        role: Whose turn counts as news; null if every change does.
    """
    hub = services.waits
    after = hub.place(cursor)

    def find(unit: Unit) -> tuple[CycleStatus, int, bool]:
        standing = cycle_scope.look(unit, services, asked)
        if role is not None:
            check_role(standing.workflow, role)
        cycle = standing.active
        handoffs = cycles.list_handoffs(unit, cycle.id) if cycle else []
        review = reviews.get(unit, cycle.review_id) if cycle and cycle.review_id else None
        place = _place(standing.cycle, review)
        if after is not None and after > place:
            hub.check_place(after, events.head(unit)[1])
        answer = cycle_views.status(standing, handoffs, review, hub.cursor(place))
        return answer, place, role is not None and _is_due(cycle, review, role)

    async def look() -> tuple[CycleStatus, bool]:
        nonlocal after
        answer, place, is_due = await services.store.read(find)
        if after is None:
            # Without a cursor, news is what happens from now on.
            after = place
            is_new = wait is None
        else:
            is_new = place > after
        # Whose turn it is has something to do, whatever it has seen; and the end of a cycle is news for everybody.
        is_over = answer.phase in (None, COMPLETE)
        moved = is_due or (is_new and (role is None or wait is None or is_over))
        if not moved and wait is not None:
            # While it is not the waiter's turn the cursor stays, so that a later wait misses nothing.
            answer = replace(answer, cursor=hub.cursor(after))
        return replace(answer, changed=moved), moved

    project = services.projects.require(asked.project, asked.endpoint_project)
    return await look_or_wait(services, topic(project=project), look, wait)


async def acquire(services: Services, call: Call, asked: Asked, session_token: str) -> LockAcquired:
    """The lock's current token, for the role whose turn it is.

    Raises:
        ConfigInvalid: A role of the workflow has no key.
        InvalidSession: The session is none, or has ended.
        NoActiveCycle: No cycle is under way.
        LockDenied: It is another role's turn.
    """
    rotation = 0

    def work(unit: Unit) -> LockAcquired:
        nonlocal rotation
        standing, session = cycle_scope.enter(unit, services, asked, session_token)
        cycle = standing.require_active()
        rules.check_active_role(cycle, session.role)
        now = services.clock.now_us()
        written = cycles.change(
            unit,
            cycle,
            cycle._replace(lock_acquired_at=now, updated_at=now),
            actor=session.role,
            kind=Kind.LOCK_ACQUIRED,
            data={"role": session.role, "rotation": cycle.rotation, "session_id": session.id},
        )
        rotation = written.rotation
        cycle_scope.used(unit, services, session)
        return LockAcquired(written.id, session.role, services.tokens.lock_token(written.id, rotation))

    return await transact(services, call, work, kept=lambda answer: replace(answer, lock_token=str(rotation)))


async def complete(
    services: Services, call: Call, asked: Asked, *, lock_token: str, session_token: str
) -> CycleCompleted:
    """Complete the cycle; the lock goes to the role that archives.

    Raises:
        ConfigInvalid: A role of the workflow has no key.
        InvalidSession: The session is none, or has ended.
        NoActiveCycle: No cycle is under way.
        InvalidPhase: It cannot be completed from its phase, or a hand-off waits for its review.
        LockDenied: It is another role's to do, or the token is not the current one.
    """

    def work(unit: Unit) -> CycleCompleted:
        standing, session = cycle_scope.enter(unit, services, asked, session_token)
        cycle = standing.require_active()
        review = reviews.find(unit, cycle.review_id, lock=True) if cycle.review_id else None
        rules.check_complete(cycle, standing.workflow)
        refuse_undecided(cycle, review)
        rules.check_role(cycle, session.role, "Completing the cycle")
        check_token(services, cycle, session, lock_token)
        now = services.clock.now_us()
        if review is not None:
            close_in(unit, services, review, session.role, "The cycle was completed without this hand-off.")
        written = cycles.change(
            unit,
            cycle,
            rules.completed(cycle, standing.workflow, now),
            actor=session.role,
            kind=Kind.CYCLE_COMPLETED,
            data={"feature": cycle.feature, "session_id": session.id},
        )
        cycle_scope.used(unit, services, session)
        place = services.waits.cursor(written.event_seq)
        return CycleCompleted(ok=True, phase=written.phase, active_role=written.active_role, cursor=place)

    return await transact(services, call, work)


def _already_active(cycle: Cycle) -> CycleAlreadyActive:
    return CycleAlreadyActive(
        f"The cycle {cycle.id} ({cycle.feature}) of '{cycle.workflow}' is under way, in the phase {cycle.phase};"
        " complete and archive it first. Another workflow can run beside it.",
        cycle_id=cycle.id,
        feature=cycle.feature,
        phase=cycle.phase,
        active_role=cycle.active_role,
    )


def _place(cycle: Cycle | None, review: Review | None) -> int:
    """The newest event that the status shows something of."""
    decided = review is not None and review.state not in cycle_views.UNDECIDED
    return max(cycle.status_seq if cycle else 0, review.event_seq if review is not None and decided else 0)


def _is_due(cycle: Cycle | None, review: Review | None, role: str) -> bool:
    """Whether there is something to do for a role."""
    waits_for_review = review is not None and review.state in cycle_views.UNDECIDED
    return cycle is not None and cycle.active_role == role and not waits_for_review


def refuse_undecided(cycle: Cycle, review: Review | None) -> None:
    """Refuse to go on while a hand-off waits for its review.

    Raises:
        InvalidPhase: It does; `details.review_id` names the review.
    """
    if review is not None and review.state in cycle_views.UNDECIDED:
        raise InvalidPhase(
            f"The hand-off of {cycle.phase} waits for its review {review.id}; go on once it is decided. cycle_status"
            " with wait=true tells when.",
            phase=cycle.phase,
            review_id=review.id,
            status=review.state,
        )


def check_token(services: Services, cycle: Cycle, session: Session, token: str) -> None:
    """Refuse a lock token that is not the current one.

    Raises:
        LockDenied: It is not.
    """
    if not services.tokens.is_lock_token(token, cycle.id, cycle.rotation):
        raise rules.refuse_token(cycle, session.role, of_another_key=services.tokens.made_by_another_key(token))

"""The cycle's own steps: start, status, lock, completion and archive. Hand-offs are in `handoffs`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tandem.contract.answer import shown, time_or_none
from tandem.contract.caller import Caller
from tandem.core.clock import isoformat
from tandem.cycles import answers, rules
from tandem.cycles import queries as cycles
from tandem.cycles import scope as cycle_scope
from tandem.cycles.answers import (
    CycleCompleted,
    CycleStarted,
    HandoffReview,
    HandoffState,
    LockAcquired,
    LockState,
)
from tandem.cycles.requests import CycleComplete, CycleStart, CycleStatus, LockAcquire
from tandem.cycles.rules import Cycle, Handoff, Session
from tandem.cycles.scope import CycleScope
from tandem.errors import CycleAlreadyActive, InvalidPhase
from tandem.reviews import queries as reviews
from tandem.reviews.context import Services, why_none
from tandem.reviews.reading import close_in
from tandem.reviews.reviewer_contract import NoReviewer
from tandem.reviews.rules import Review, State
from tandem.settings.workflows import COMPLETE
from tandem.store import events
from tandem.store.base import Conflict, Unit
from tandem.store.context import look_or_wait, transact
from tandem.store.event import EventKind
from tandem.store.waits import topic

UNDECIDED = (State.PENDING, State.CLAIMED, State.IN_REVIEW)
"""States in which a gated hand-off waits for its reviewer."""
_OF_A_CYCLE = ("cycle_id", "feature", "phase", "active_role", "created_at", "updated_at")
"""What a status says only while a cycle is under way."""
_UNLOCKED = LockState(locked=False, role=None, acquired_at=None)


async def cycle_start(services: Services, caller: Caller, request: CycleStart) -> CycleStarted:
    """Begin a cycle.

    Raises:
        ConfigInvalid: A role of the workflow has no key.
        SchemaInvalid: The feature has no name.
        CycleAlreadyActive: One of this workflow is under way in the project.
    """
    letters = services.clock.new_id("cy")[-6:]

    def work(unit: Unit) -> CycleStarted:
        standing = cycle_scope.look(unit, services, caller, request)
        cycle_scope.require_keys(unit, standing)
        name = rules.checked_feature(request.feature)
        if standing.active is not None:
            raise _already_active(standing.active)
        now = services.clock.now_us()
        identity = rules.cycle_id(name, now, letters)
        fresh = rules.started(identity, standing.workflow, project=standing.project, feature=name, now_us=now)
        actor = caller.agent or fresh.active_role
        facts = {"feature": name, "mode": fresh.mode}
        written = cycles.change(unit, None, fresh, actor=actor, kind=EventKind.CYCLE_STARTED, data=facts)
        return shown(
            CycleStarted,
            written,
            cycle_id=written.id,
            lock_token=services.tokens.lock_token(written.id, written.rotation),
            cursor=services.waits.cursor(written.event_seq, unit),
        )

    try:
        return await transact(services, caller, work, kept=lambda answer: replace(answer, lock_token="1"))  # noqa: S106 - a rotation
    except Conflict:
        # Another node was first, between our look and our write.
        standing = await services.store.read(lambda unit: cycle_scope.look(unit, services, caller, request))
        if standing.active is None:
            raise
        raise _already_active(standing.active) from None


async def cycle_status(services: Services, caller: Caller, request: CycleStatus) -> answers.CycleStatus:
    """Where the cycle is; with a wait, once that has changed, or once it is a role's turn."""
    role = request.role
    hub = services.waits
    given = hub.read(request.cursor)
    after: int | None = None
    cursor = request.cursor

    def find(unit: Unit) -> tuple[answers.CycleStatus, int, bool, int | None]:
        standing = cycle_scope.look(unit, services, caller, request)
        if role is not None:
            rules.check_known(standing.workflow, role)
        cycle = standing.active
        handoffs = cycles.list_handoffs(unit, cycle.id) if cycle else []
        review = reviews.get(unit, cycle.review_id) if cycle and cycle.review_id else None
        place = _place(standing.cycle, review)
        subjects = [one.subject for one in (standing.cycle, review) if one is not None]
        known = hub.place_among(unit, given, *subjects) if given else after
        if known is not None and known > place:
            hub.check_place(known, events.head(unit)[0])
        none = why_none(unit, services, review) if review else None
        missing = cycle_scope.without_key(unit, standing) if cycle else []
        answer = _status(standing, handoffs, review, hub.cursor(place, unit), none, missing)
        return answer, place, role is not None and _is_due(cycle, review, role), known

    async def look() -> tuple[answers.CycleStatus, bool]:
        nonlocal after, cursor
        answer, place, is_due, after = await services.store.read(find)
        if after is None:
            # Without a cursor, news is what happens from now on.
            after, cursor = place, answer.cursor
            is_new = not request.wait
        else:
            is_new = place > after
        # A role whose turn it is has something to do, news or none. News for everybody: the end of a cycle, and that
        # a person has to look.
        is_over = answer.phase in (None, COMPLETE) or (
            answer.review is not None and answer.review.attention is not None
        )
        moved = is_due or (is_new and (role is None or not request.wait or is_over))
        if not moved and request.wait:
            # While it is not the waiter's turn the cursor stays, so that a later wait misses nothing.
            answer = replace(answer, cursor=cursor or answer.cursor)
        return replace(answer, changed=moved), moved

    project = services.projects.require(request.project, caller.project)
    return await look_or_wait(services, topic(project=project), look, request)


async def lock_acquire(services: Services, caller: Caller, request: LockAcquire) -> LockAcquired:
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
        standing, session = cycle_scope.enter(unit, services, caller, request)
        cycle = standing.require_active()
        rules.check_active_role(cycle, session.role)
        now = services.clock.now_us()
        written = cycles.change(
            unit,
            cycle,
            cycle._replace(lock_acquired_at=now, updated_at=now),
            actor=session.role,
            kind=EventKind.LOCK_ACQUIRED,
            data={"role": session.role, "rotation": cycle.rotation, "session_id": session.id},
        )
        rotation = written.rotation
        cycle_scope.used(unit, services, session)
        return LockAcquired(written.id, session.role, services.tokens.lock_token(written.id, rotation))

    return await transact(services, caller, work, kept=lambda answer: replace(answer, lock_token=str(rotation)))


async def cycle_complete(services: Services, caller: Caller, request: CycleComplete) -> CycleCompleted:
    """Complete the cycle; the lock goes to the role that archives.

    Raises:
        ConfigInvalid: A role of the workflow has no key.
        InvalidSession: The session is none, or has ended.
        NoActiveCycle: No cycle is under way.
        InvalidPhase: It cannot be completed from its phase, or a hand-off waits for its review.
        LockDenied: It is another role's to do, or the token is not the current one.
    """

    def work(unit: Unit) -> CycleCompleted:
        standing, session = cycle_scope.enter(unit, services, caller, request)
        cycle = standing.require_active()
        review = reviews.find(unit, cycle.review_id, lock=True) if cycle.review_id else None
        rules.check_complete(cycle, standing.workflow)
        refuse_undecided(cycle, review)
        rules.check_role(cycle, session.role, "Completing the cycle")
        check_token(services, cycle, session, request.lock_token)
        now = services.clock.now_us()
        if review is not None:
            close_in(unit, services, review, session.role, "The cycle was completed without this hand-off.")
        written = cycles.change(
            unit,
            cycle,
            rules.completed(cycle, standing.workflow, now),
            actor=session.role,
            kind=EventKind.CYCLE_COMPLETED,
            data={"feature": cycle.feature, "session_id": session.id},
        )
        cycle_scope.used(unit, services, session)
        place = services.waits.cursor(written.event_seq, unit)
        return CycleCompleted(ok=True, phase=written.phase, active_role=written.active_role, cursor=place)

    return await transact(services, caller, work)


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
    decided = review is not None and review.state not in UNDECIDED
    return max(cycle.status_seq if cycle else 0, review.event_seq if review is not None and decided else 0)


def _is_due(cycle: Cycle | None, review: Review | None, role: str) -> bool:
    """Whether there is something to do for a role."""
    waits_for_review = review is not None and review.state in UNDECIDED
    return cycle is not None and cycle.active_role == role and not waits_for_review


def refuse_undecided(cycle: Cycle, review: Review | None) -> None:
    """Refuse to go on while a hand-off waits for its review.

    Raises:
        InvalidPhase: It does; `details.review_id` names the review.
    """
    if review is not None and review.state in UNDECIDED:
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


def _status(
    standing: CycleScope,
    handoffs: list[Handoff],
    review: Review | None,
    cursor: str,
    no_reviewer: NoReviewer | None,
    missing: list[str],
) -> answers.CycleStatus:
    """Where a cycle is, or that none is under way."""
    cycle, workflow = standing.active, standing.workflow
    about: dict[str, Any] = {
        "project": standing.project,
        "workflow": workflow.name,
        "handoffs": {role: _state(role, handoffs) for role in workflow.roles},
        "lock": lock_of(cycle),
        "review": _gated(handoffs, review, no_reviewer) if review else None,
        "next_step": _next_step(standing, review, missing),
        "changed": False,
        "cursor": cursor,
    }
    if cycle is None:
        return answers.CycleStatus(mode=workflow.mode, **dict.fromkeys(_OF_A_CYCLE), **about)
    return shown(answers.CycleStatus, cycle, cycle_id=cycle.id, **about)


def _next_step(standing: CycleScope, review: Review | None, missing: list[str]) -> str:
    """The next step and its actor, in a sentence; `missing` are the roles without a key: all wait for them."""
    cycle = standing.active
    if cycle is None:
        return "Begin a cycle with cycle_start."
    if missing:
        return f"A person makes the key for {' and '.join(missing)}: {cycle_scope.making_keys(standing)}"
    role = cycle.active_role
    if cycle.phase == COMPLETE:
        return f"{role} archives: lock_acquire, then cycle_archive."
    if review is not None and review.state in UNDECIDED:
        return f"The hand-off waits for its review {review.id}; cycle_status with wait=true tells when it is decided."
    phase = standing.workflow.phase(cycle.phase)
    ways = [f"handoff_write (target={target})" for target in phase.handoffs]
    ways += ["cycle_complete"] if phase.completes else []
    again = f" The review {review.id} asks for changes." if review and review.state == State.CHANGES_REQUESTED else ""
    return f"{role} works on {cycle.phase}: lock_acquire, then {' or '.join(ways)}.{again}"


def lock_of(cycle: Cycle | None) -> LockState:
    """The lock without its token."""
    if cycle is None or cycle.archived_at is not None:
        return _UNLOCKED
    return LockState(locked=True, role=cycle.active_role, acquired_at=time_or_none(cycle.lock_acquired_at))


def _state(role: str, handoffs: list[Handoff]) -> HandoffState:
    times = [handoff.advanced_at for handoff in handoffs if handoff.target == role and handoff.advanced_at is not None]
    if not times:
        return HandoffState("empty", None)
    return HandoffState("present", isoformat(times[-1]))


def _gated(handoffs: list[Handoff], review: Review, no_reviewer: NoReviewer | None) -> HandoffReview | None:
    about = next((handoff for handoff in reversed(handoffs) if handoff.review_id == review.id), None)
    if about is None:
        return None
    return shown(
        HandoffReview,
        review,
        review_id=review.id,
        target=about.target,
        status=review.state,
        reason=review.verdict_reason,
        written_at=isoformat(about.written_at),
        attention=review.awaits_person,
        no_reviewer=no_reviewer,
    )

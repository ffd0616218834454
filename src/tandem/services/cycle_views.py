"""From cycles and hand-offs to the contract's answers; no token, no key is among them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import orjson

from tandem.clock import isoformat
from tandem.domain.cycle_answers import (
    CycleHistory,
    CycleRow,
    CycleStatus,
    HandoffReview,
    HandoffState,
    HandoffView,
    LockState,
)
from tandem.domain.cycles import Cycle, Handoff, workflow_of
from tandem.domain.reviews import Review, State
from tandem.domain.workflows import COMPLETE, Workflow
from tandem.services.cycle_scope import Standing
from tandem.services.views import time_or_none
from tandem.store import cycles, reviews
from tandem.store.base import Unit

UNDECIDED = (State.PENDING, State.CLAIMED, State.IN_REVIEW)
"""States in which a gated hand-off waits for its reviewer."""
_UNLOCKED = LockState(locked=False, role=None, acquired_at=None)


def status(standing: Standing, handoffs: list[Handoff], review: Review | None, cursor: str) -> CycleStatus:
    """Where a cycle is, or that none is under way."""
    cycle, workflow = standing.active, standing.workflow
    gated = _gated(handoffs, review) if cycle and review else None
    return CycleStatus(
        project=standing.project,
        workflow=workflow.name,
        cycle_id=cycle.id if cycle else None,
        feature=cycle.feature if cycle else None,
        phase=cycle.phase if cycle else None,
        active_role=cycle.active_role if cycle else None,
        mode=cycle.mode if cycle else workflow.mode,
        handoffs={role: _state(role, handoffs if cycle else []) for role in workflow.roles},
        lock=lock(cycle),
        review=gated,
        next_step=next_step(cycle, workflow, review),
        created_at=isoformat(cycle.created_at) if cycle else None,
        updated_at=isoformat(cycle.updated_at) if cycle else None,
        changed=False,
        cursor=cursor,
    )


def next_step(cycle: Cycle | None, workflow: Workflow, review: Review | None) -> str:
    """What is to be done now and by whom, in a sentence."""
    if cycle is None:
        return "Begin a cycle with cycle_start."
    role = cycle.active_role
    if cycle.phase == COMPLETE:
        return f"{role} archives: lock_acquire, then cycle_archive."
    if review is not None and review.state in UNDECIDED:
        return f"The hand-off waits for its review {review.id}; cycle_status with wait=true tells when it is decided."
    phase = workflow.phase(cycle.phase)
    ways = [f"handoff_write to {target}" for target in phase.handoffs]
    ways += ["cycle_complete"] if phase.completes else []
    again = f" The review {review.id} asks for changes." if review and review.state == State.CHANGES_REQUESTED else ""
    return f"{role} works on {cycle.phase}: lock_acquire, then {' or '.join(ways)}.{again}"


def lock(cycle: Cycle | None) -> LockState:
    """The lock without its token."""
    if cycle is None or cycle.archived_at is not None:
        return _UNLOCKED
    return LockState(locked=True, role=cycle.active_role, acquired_at=time_or_none(cycle.lock_acquired_at))


def row(cycle: Cycle) -> CycleRow:
    """A cycle in a list."""
    return CycleRow(
        cycle_id=cycle.id,
        project=cycle.project,
        workflow=cycle.workflow,
        feature=cycle.feature,
        mode=cycle.mode,
        phase=cycle.phase,
        active_role=cycle.active_role,
        handoffs=cycle.handoffs,
        review_id=cycle.review_id,
        created_at=isoformat(cycle.created_at),
        updated_at=isoformat(cycle.updated_at),
        completed_at=time_or_none(cycle.completed_at),
        archived_at=time_or_none(cycle.archived_at),
    )


def history(unit: Unit, cycle: Cycle) -> CycleHistory:
    """A whole cycle, every hand-off with its payload, read in the unit."""
    found = cycles.list_handoffs(unit, cycle.id)
    names = {handoff.review_id for handoff in found if handoff.review_id}
    by_id = {name: reviews.get(unit, name) for name in names}
    return CycleHistory(
        cycle=row(cycle),
        # Of an archived cycle, who held it last.
        lock=replace(lock(cycle), role=cycle.active_role, acquired_at=time_or_none(cycle.lock_acquired_at)),
        definition=workflow_of(cycle).as_dict(),
        handoffs=tuple(_handoff(unit, handoff, by_id.get(handoff.review_id or "")) for handoff in found),
    )


def payload(unit: Unit, handoff: Handoff) -> dict[str, Any]:
    """What was handed over."""
    return orjson.loads(reviews.find_content(unit, handoff.content_id) or "{}")


def _handoff(unit: Unit, handoff: Handoff, review: Review | None) -> HandoffView:
    return HandoffView(
        number=handoff.number,
        target=handoff.target,
        producer=handoff.producer,
        phase=handoff.phase,
        next_phase=handoff.next_phase,
        status=_outcome(handoff, review),
        review_id=handoff.review_id,
        round=handoff.round,
        written_at=isoformat(handoff.written_at),
        advanced_at=time_or_none(handoff.advanced_at),
        payload=payload(unit, handoff),
    )


def _outcome(handoff: Handoff, review: Review | None) -> str:
    if handoff.advanced_at is not None:
        return "advanced"
    if review is None:
        return "written"
    if handoff.round is not None and handoff.round < review.round:
        return "superseded"
    return review.outcome or review.state


def _state(role: str, handoffs: list[Handoff]) -> HandoffState:
    times = [handoff.advanced_at for handoff in handoffs if handoff.target == role and handoff.advanced_at is not None]
    if not times:
        return HandoffState("empty", None)
    return HandoffState("present", isoformat(times[-1]))


def _gated(handoffs: list[Handoff], review: Review) -> HandoffReview | None:
    about = next((handoff for handoff in reversed(handoffs) if handoff.review_id == review.id), None)
    if about is None:
        return None
    return HandoffReview(
        review_id=review.id,
        target=about.target,
        status=review.state,
        outcome=review.outcome,
        round=review.round,
        verdict=review.verdict,
        reason=review.verdict_reason,
        written_at=isoformat(about.written_at),
    )

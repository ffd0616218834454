"""From records to the contract's answers."""

from __future__ import annotations

from typing import Any

import orjson

from tandem.clock import isoformat
from tandem.domain.answers import CounterPatchView, EventView, Proposal, ReviewRow, ReviewStatus
from tandem.domain.events import Event
from tandem.domain.patches import AffectedFile, CounterPatch, Round
from tandem.domain.reviews import PRIORITIES, Review, next_action
from tandem.services.waits import WaitHub
from tandem.store import discussion, reviews
from tandem.store.base import Unit


def time_or_none(instant_us: int | None) -> str | None:
    """ISO time, or null."""
    return None if instant_us is None else isoformat(instant_us)


def files_from(text: str) -> tuple[AffectedFile, ...]:
    """Affected files from their stored form."""
    return tuple(AffectedFile(**item) for item in orjson.loads(text))


def status(review: Review, cursor: str, *, changed: bool) -> ReviewStatus:
    """Where a review stands."""
    return ReviewStatus(
        review_id=review.id,
        project=review.project,
        status=review.state,
        outcome=review.outcome,
        round=review.round,
        digest=review.digest,
        verdict=review.verdict,
        verdict_reason=review.verdict_reason,
        reviewer_id=review.reviewer_id or review.verdict_by,
        claim_generation=review.claim_generation,
        lease_expires_at=time_or_none(review.lease_expires_at),
        counter_patch_id=review.counter_patch_id,
        counter_patch_status=review.counter_patch_status,
        turn=review.turn,
        attention=review.attention,
        next_action=next_action(review),
        changed=changed,
        cursor=cursor,
    )


def row(review: Review) -> ReviewRow:
    """One line of a list."""
    return ReviewRow(
        review_id=review.id,
        project=review.project,
        status=review.state,
        outcome=review.outcome,
        category=review.category,
        priority=PRIORITIES[review.priority],
        intent=review.intent,
        agent_type=review.agent_type,
        agent_role=review.agent_role,
        phase=review.phase,
        plan=review.plan,
        task=review.task,
        proposer_id=review.proposer_id,
        reviewer_id=review.reviewer_id or review.verdict_by,
        parent_id=review.parent_id,
        round=review.round,
        digest=review.digest,
        verdict=review.verdict,
        turn=review.turn,
        attention=review.attention,
        created_at=isoformat(review.created_at),
        updated_at=isoformat(review.updated_at),
    )


def event(record: Event, hub: WaitHub) -> EventView:
    """One event of the log, without the rows that only a replay reads."""
    return EventView(
        seq=hub.number(record.seq),
        at=isoformat(record.at),
        project=record.project,
        subject=record.subject,
        actor=record.actor,
        kind=record.kind,
        old=record.old,
        new=record.new,
        data=orjson.loads(record.data),
        hash=record.hash,
    )


def counter_patch(unit: Unit, record: CounterPatch) -> CounterPatchView:
    """A counter-patch with its content."""
    body = reviews.find_content(unit, record.content_id)
    return CounterPatchView(
        id=record.id,
        author=record.author,
        round=record.round,
        status=record.status,
        diff=None if record.is_text else body,
        description=body if record.is_text else None,
        affected_files=files_from(record.affected_files),
        digest=record.digest,
        created_at=isoformat(record.created_at),
        reason=record.reason,
    )


def proposal(unit: Unit, review: Review, found: Round) -> Proposal:
    """A round's whole content, read in the unit."""
    pending = None
    if review.counter_patch_status == "pending" and review.counter_patch_id:
        pending = discussion.find_counter_patch(unit, review.id, review.counter_patch_id)
    metadata: dict[str, Any] = orjson.loads(found.metadata)
    return Proposal(
        review_id=review.id,
        project=review.project,
        status=review.state,
        round=found.round,
        current_round=review.round,
        intent=found.intent,
        category=review.category,
        priority=PRIORITIES[review.priority],
        agent_type=found.agent_type,
        agent_role=found.agent_role,
        phase=found.phase,
        plan=found.plan,
        task=found.task,
        proposer_id=review.proposer_id,
        author=found.author,
        origin=found.origin,
        description=reviews.find_content(unit, found.description_id),
        diff=reviews.find_content(unit, found.diff_id),
        base=found.base,
        base_commit=found.base_commit,
        path=found.path,
        metadata=metadata,
        digest=found.digest,
        validated=bool(found.validated),
        affected_files=files_from(found.affected_files),
        parent_id=review.parent_id,
        child_ids=reviews.list_children(unit, review.id),
        counter_patch=counter_patch(unit, pending) if pending else None,
        created_at=isoformat(found.created_at),
        accepted_by=found.accepted_by,
        submitter=reviews.submitter(unit, found),
    )

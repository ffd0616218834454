"""Reviews that reviewers could not decide: tried again later, then raised to a person's attention."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tandem.contract import answer
from tandem.contract.caller import Caller
from tandem.errors import InvalidTransition
from tandem.reviews import claim_rules as claims
from tandem.reviews import queries as reviews
from tandem.reviews import views, writing
from tandem.reviews.answers import ReviewStatus
from tandem.reviews.context import Services
from tandem.reviews.requests import RetryReview
from tandem.reviews.rounds import with_turn
from tandem.reviews.rules import Action, Review, State, step
from tandem.store.base import Unit
from tandem.store.context import transact
from tandem.store.event import EventKind


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a claim is taken back without a verdict.

    Attributes:
        kind: The event that says so.
        actor: Who takes it back.
        reason: In words, for the log.
        retry_delay_seconds: Base of the back-off in seconds; None if this attempt is not counted.
    """

    kind: EventKind
    actor: str
    reason: str
    retry_delay_seconds: float | None


def take_back(unit: Unit, before: Review, failure: Failure, now_us: int) -> Review:
    """Put a held, locked review back into the queue; to be tried later, or by a person after too many tries."""
    found = step(Action.EXPIRE, before)
    after = claims.end_claim(before, found, now_us)
    if failure.retry_delay_seconds is not None:
        attempts = before.attempts + 1
        later = claims.retry_at(attempts, failure.retry_delay_seconds, now_us) if attempts <= claims.RETRIES else None
        after = after._replace(attempts=attempts, not_before=later)
    facts: dict[str, Any] = {
        "reviewer_id": before.reviewer_id,
        "reason": failure.reason,
        "claim_generation": after.claim_generation,
    }
    if after.attempts != before.attempts:
        facts.update(attempts=after.attempts, not_before=answer.time_or_none(after.not_before))
    written = writing.change_review(unit, before, with_turn(after), actor=failure.actor, kind=failure.kind, data=facts)
    if after.attempts == before.attempts or after.attempts <= claims.RETRIES:
        return written
    return raise_attention(
        unit, written, f"{after.attempts} reviewers gave no verdict; the last: {failure.reason}", failure.actor, now_us
    )


def raise_attention(unit: Unit, before: Review, why: str, actor: str, now_us: int) -> Review:
    """Take a pending review out of the queue until a person has looked; its proposer hears of it."""
    after = with_turn(before._replace(attention=why, not_before=None, updated_at=now_us))
    return writing.change_review(
        unit, before, after, actor=actor, kind=EventKind.ATTENTION_RAISED, data={"reason": why}
    )


def clear_attention(unit: Unit, before: Review, actor: str, now_us: int) -> Review:
    """Let a review be as if no one had failed at it; one that is not waiting for a person stays as it is."""
    if before.attention is None:
        return before
    after = with_turn(before._replace(attention=None, not_before=None, attempts=0, updated_at=now_us))
    return writing.change_review(
        unit, before, after, actor=actor, kind=EventKind.ATTENTION_CLEARED, data={"reason": before.attention}
    )


async def retry_review(services: Services, caller: Caller, request: RetryReview) -> ReviewStatus:
    """Put a review that waits for a person, or for a later try, back into the queue now.

    Raises:
        NotFound: There is no such review (in that project).
        InvalidTransition: It is not in the queue at all.
    """

    def work(unit: Unit) -> ReviewStatus:
        before = reviews.get(unit, request.review_id, request.project, lock=True)
        if before.state != State.PENDING:
            raise InvalidTransition(
                f"A review that is {before.state} waits for nobody's try; only a pending one can be tried again.",
                review_id=before.id,
                status=before.state,
                allowed=[State.PENDING.value],
            )
        after = _put_back(unit, before, caller.operator, services.clock.now_us())
        return views.status(
            unit, services, after, services.waits.cursor(after.event_seq, unit), changed=after is not before
        )

    return await transact(services, caller, work)


def _put_back(unit: Unit, before: Review, actor: str, now_us: int) -> Review:
    if before.attention is not None:
        return clear_attention(unit, before, actor, now_us)
    if before.not_before is None:
        return before
    after = before._replace(not_before=None, attempts=0, updated_at=now_us)
    return writing.change_review(
        unit, before, after, actor=actor, kind=EventKind.ATTENTION_CLEARED, data={"reason": "tried again by hand"}
    )

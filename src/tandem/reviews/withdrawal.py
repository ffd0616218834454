"""Withdrawing an approval: the gate no longer opens for it; what was committed on its strength stays."""

from __future__ import annotations

from tandem.contract.caller import Caller
from tandem.errors import InvalidTransition, NotClaimant, ReasonRequired, StaleRound
from tandem.reviews import contents, landing, views, writing
from tandem.reviews import queries as reviews
from tandem.reviews.answers import ApprovalWithdrawn
from tandem.reviews.claim_rules import decides_for_all
from tandem.reviews.context import Decision, Services
from tandem.reviews.discussion_rules import Verdict, with_turn
from tandem.reviews.requests import WithdrawApproval
from tandem.reviews.rules import Action, Review, State, allowed_actions, allowed_targets, step
from tandem.reviews.writing import Rows
from tandem.store.base import Unit
from tandem.store.context import transact
from tandem.store.event import EventKind

_AGAINST = "changes_requested"


async def withdraw_approval(services: Services, caller: Caller, request: WithdrawApproval) -> ApprovalWithdrawn:
    """End an approval. A review that was approved then has changes requested; a closed one ends withdrawn.

    Raises:
        NotFound: There is no such review (in that project).
        ReasonRequired: No reason was given.
        NotClaimant: A reviewer other than the one who approved.
        StaleRound: Another round was approved at the same moment.
        InvalidTransition: It is not approved, or it is a hand-off that its cycle has gone on with.
    """
    contents.check_text(services, "reason", request.reason)
    reason = (request.reason or "").strip()
    if not reason:
        raise ReasonRequired("Say why the approval is withdrawn: the proposer acts on it.", field="reason")
    known = await services.store.read(lambda unit: reviews.get(unit, request.review_id, request.project))
    _admit(known, caller, request)
    # Git is asked before the transaction.
    landed = await landing.find(services, known)
    verdict_id = services.clock.new_id("vd")

    def work(unit: Unit) -> ApprovalWithdrawn:
        for participant in services.participants:
            participant.lock(unit, request.review_id)
        before = reviews.get(unit, request.review_id, lock=True)
        for participant in services.participants:
            participant.check_withdrawal(unit, before)
        actor = _admit(before, caller, request)
        number = _same_round(before, known)
        # The decision that stands from now on, for whoever reads the discussion.
        given = Verdict(
            id=verdict_id,
            review_id=before.id,
            seq=0,
            round=number,
            claim_generation=before.claim_generation,
            verdict=_AGAINST,
            reason=reason,
            reviewer_id=actor,
            created_at=services.clock.now_us(),
        )
        written = writing.change_review(
            unit,
            before,
            _withdrawn(before, given),
            actor=actor,
            kind=EventKind.APPROVAL_WITHDRAWN,
            data={"reason": reason, "round": number, "digest": before.digest, "approved_by": before.verdict_by},
            rows=Rows(verdict=given),
        )
        current = reviews.get_round(unit, before.id, number)
        decision = Decision(before, current, _AGAINST, actor, given.created_at)
        for participant in services.participants:
            participant.decided(unit, services, decision)
        return views.answer(
            ApprovalWithdrawn, services.waits, unit, written, commits=landed.commits, branches=landed.branches
        )

    return await transact(services, caller, work)


def _admit(review: Review, caller: Caller, request: WithdrawApproval) -> str:
    """Who withdraws, if the review is approved and it is theirs to withdraw."""
    step(Action.WITHDRAW_APPROVAL, review)
    if review.approved_round is None:
        raise InvalidTransition(
            f"This review is {review.state} without an approval that stands; there is nothing to withdraw.",
            review_id=review.id,
            status=review.state,
            outcome=review.outcome,
            allowed=allowed_targets(State(review.state)),
            allowed_actions=[one for one in allowed_actions(State(review.state)) if one != Action.WITHDRAW_APPROVAL],
        )
    if not decides_for_all(caller) and not caller.names(request.withdrawn_by).include(review.verdict_by):
        raise NotClaimant(
            f"{review.verdict_by} approved this; only they, or an operator, withdraw that.",
            review_id=review.id,
            expected=review.verdict_by,
            actual=request.withdrawn_by or caller.agent,
        )
    return request.withdrawn_by or caller.operator


def _same_round(review: Review, known: Review) -> int:
    """The approved round, if it is still the one whose commits were looked for."""
    if review.approved_round is None or review.approved_round != known.approved_round:
        raise StaleRound(
            f"Round {review.round} was approved meanwhile; look at it, and withdraw that if you mean it.",
            review_id=review.id,
            expected=review.round,
            actual=known.approved_round,
        )
    return review.approved_round


def _withdrawn(before: Review, given: Verdict) -> Review:
    """The review without its approval."""
    found = step(Action.WITHDRAW_APPROVAL, before)
    return with_turn(
        before._replace(
            state=found.to or before.state,
            outcome=found.outcome,
            approved_round=None,
            verdict=given.verdict,
            verdict_reason=given.reason,
            verdict_id=given.id,
            verdict_by=given.reviewer_id,
            decided_at=given.created_at,
            updated_at=given.created_at,
        )
    )

"""Withdrawing an approval: the gate no longer opens for it; commits made on its strength stay."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from tandem.contract.caller import Caller
from tandem.errors import AlreadyLanded, InvalidTransition, NotClaimant, ReasonRequired, StaleRound, TandemError
from tandem.reviews import contents, views, writing
from tandem.reviews import queries as reviews
from tandem.reviews.answers import ApprovalWithdrawn
from tandem.reviews.claim_rules import decides_for_all
from tandem.reviews.context import Decision, Services
from tandem.reviews.requests import WithdrawApproval
from tandem.reviews.rounds import Round, Verdict, with_turn
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
    landed = await find_landing(services, known)
    verdict_id = services.clock.new_id("vd")

    def work(unit: Unit) -> ApprovalWithdrawn:
        for participant in services.participants:
            participant.lock(unit, request.review_id)
        before = reviews.get(unit, request.review_id, lock=True)
        for participant in services.participants:
            participant.check_withdrawal(unit, before)
        actor = _admit(before, caller, request)
        number = _same_round(before, known)
        # The decision that stands from now on, for readers of the discussion.
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


@dataclass(frozen=True, slots=True)
class Landing:
    """Where a content is committed.

    Attributes:
        commits: The recorded commits that hold it and were not rolled back.
        branches: The base branches that hold it and did not before.
    """

    commits: tuple[str, ...]
    branches: tuple[str, ...]


async def find_landing(services: Services, review: Review) -> Landing:
    """Where the content that a review approves is committed; nowhere if it approves nothing.

    Base branches are those of a project whose gate is on.
    """
    number = review.approved_round
    if number is None:
        return Landing((), ())

    def look(unit: Unit) -> tuple[Round, tuple[str, ...], tuple[str, ...]]:
        current = reviews.get_round(unit, review.id, number)
        commits = (one for part in services.participants for one in part.commits_of(unit, services, review, current))
        branches = (one for part in services.participants for one in part.protected_branches(unit, review.project))
        return current, tuple(commits), tuple(branches)

    current, commits, branches = await services.store.read(look)
    return Landing(commits, await _branches(services, review.project, current, branches))


async def _branches(services: Services, project: str, current: Round, branches: tuple[str, ...]) -> tuple[str, ...]:
    repository = await services.projects.repository(project) if branches else None
    base = current.base_commit
    if repository is None or base is None:
        return ()

    def look() -> tuple[str, ...]:
        changes = current.entries()
        return repository.landed_on(changes, base, branches) if changes else ()

    try:
        async with services.validations:
            return await asyncio.to_thread(look)
    except TandemError:
        # The repository cannot tell: recorded commits still count.
        return ()


async def refuse_if_landed(services: Services, review: Review) -> None:
    """Refuse to revise what is approved and committed: the revision would leave the commits without an approval.

    Raises:
        AlreadyLanded: It is.
    """
    landing = await find_landing(services, review)
    if not landing.commits and not landing.branches:
        return
    places = [f"on {branch}" for branch in landing.branches] or [f"as {landing.commits[0][:10]}"]
    raise AlreadyLanded(
        f"What {review.id} approves is committed already ({', '.join(places)}), and a revision would end its approval."
        " Propose what comes next as a new review: tandem submit -m 'what it is for' (create_review without"
        " review_id).",
        review_id=review.id,
        commits=list(landing.commits),
        branches=list(landing.branches),
    )

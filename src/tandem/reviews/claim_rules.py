"""Claims: who holds a review, since which generation, and until when."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import orjson

from tandem.contract.caller import Access, Caller, Names
from tandem.contract.operation import Role
from tandem.core.clock import MICROSECONDS
from tandem.errors import Forbidden, InvalidInput, NotClaimant, SelfApproval, StaleClaim, StaleRound
from tandem.reviews import rounds
from tandem.reviews.answers import Proposal
from tandem.reviews.rounds import CounterPatch, Round, left_asked, reset_turn
from tandem.reviews.rules import Action, Guard, Review, State, Step, step
from tandem.settings.policy import Policy

COUNTER_PATCH = "counter_patch"
"""The origin of a round that is an accepted counter-patch."""

RETRIES = 2
"""How often a review is tried again after a run without a verdict, before a person is asked."""

_RETRY_GROWTH = 4
_DECIDES_FOR_ALL = frozenset({Role.OPERATOR, Role.ADMIN})


class AtWork(NamedTuple):
    """One of the claims of a review that several may hold: its policy asks for it, or one of them has no vote.

    Attributes:
        generation: Its number.
        holder: Who holds it.
        claimed_at: Microseconds since the epoch, UTC.
        seat: The seat that an approval of theirs would fill; empty for a reviewer without a vote.
    """

    generation: int
    holder: str
    claimed_at: int
    seat: Sequence[Any]


def at_work(review: Review) -> tuple[AtWork, ...]:
    """The claims that are held, oldest first; none where only one may be."""
    return tuple(AtWork(*one) for one in orjson.loads(review.at_work or "[]"))


def beside(review: Review, generation: int | None = None) -> tuple[AtWork, ...]:
    """The claims beside the main one, or beside that of a number."""
    own = review.claim_generation if generation is None else generation
    return tuple(one for one in at_work(review) if one.generation != own)


def voting(those: Iterable[AtWork]) -> tuple[AtWork, ...]:
    """The claims of reviewers with a vote, who wait for no others."""
    return tuple(one for one in those if one.seat)


def seen_from(review: Review, one: AtWork) -> Review:
    """The review as it is for who holds a claim beside the main one: as if theirs were the main one."""
    return review._replace(
        state=State.CLAIMED.value,
        reviewer_id=one.holder,
        claim_generation=one.generation,
        claim_round=review.round,
        claimed_at=one.claimed_at,
        lease_expires_at=_leases(review).get(str(one.generation), 0),
    )


def seen_by(review: Review, generation: int | None, holder: str | None = None) -> Review:
    """The review as it is for the claim of a number, or without one for a holder; else as it is."""
    for one in beside(review):
        if one.generation == generation or (generation is None and one.holder == holder):
            return seen_from(review, one)
    return review


def with_lease(review: Review, generation: int, lease_expires_at: int) -> Review:
    """The review with another end of a claim beside the main one."""
    leases = _leases(review) | {str(generation): lease_expires_at}
    return review._replace(leases=orjson.dumps(leases).decode())


def _leases(review: Review) -> dict[str, int]:
    return orjson.loads(review.leases or "{}")


def _with_claims(review: Review, claims: Sequence[AtWork]) -> Review:
    kept = {str(one.generation) for one in claims if one.generation != review.claim_generation}
    leases = {name: lease for name, lease in _leases(review).items() if name in kept}
    return review._replace(
        at_work=orjson.dumps([tuple(one) for one in claims]).decode() if claims else None,
        leases=orjson.dumps(leases).decode() if leases else None,
    )


def alone(review: Review) -> Review:
    """The review with its main claim only, as at a new round; those beside it end, with their objections."""
    own = [one for one in at_work(review) if one.generation == review.claim_generation]
    return _with_claims(review, own)._replace(ends_as=None)


def _next_generation(review: Review) -> int:
    return max(review.claim_generation, review.generations) + 1


def reviewer_step(
    action: Action, review: Review, *, generation: int | None, reviewer_id: str | None, access: Access | None = None
) -> tuple[Step, str]:
    """The step of a reviewer's write and who takes it, once the fence has let it pass.

    A generation that is no longer the current one is refused before any other check: its claim is over, in every
    state of the review.

    Raises:
        StaleClaim: The generation is not the current one.
        InvalidTransition: The state has no such step.
        NotClaimant: The reviewer is not the holder (or, after a verdict, not who gave it), or the holder's name is
            not one of the caller's: to know the generation is not enough.
        InvalidInput: Neither generation nor reviewer was given.
    """
    if generation is not None and generation < review.claim_generation:
        raise _stale(review, generation)
    found = step(action, review)
    if generation is not None and generation != review.claim_generation:
        raise _stale(review, generation)
    if generation is None and reviewer_id is None:
        reviewer_id = None if access is None or access.is_owner else access.name
    if generation is None and reviewer_id is None:
        raise InvalidInput(
            "Say which claim this is: send the claim_generation that claim_review answered.", field="claim_generation"
        )
    entitled = review.verdict_by if found.guard is Guard.LAST_REVIEWER else review.reviewer_id
    go_on = f"{entitled} or a person goes on." if review.state == State.APPROVED else "Claim it first."
    if entitled is None or (reviewer_id is not None and reviewer_id != entitled):
        raise NotClaimant(
            f"This review is not yours to answer: it is {_whose(found.guard)} {entitled or 'no one'}. {go_on}",
            review_id=review.id,
            expected=entitled,
            actual=reviewer_id,
        )
    if access is not None and not access.owns(entitled):
        raise NotClaimant(
            f"This review is {_whose(found.guard)} {entitled}, who came with another token than yours. {go_on}",
            review_id=review.id,
            expected=entitled,
            actual=access.name,
        )
    return found, entitled


def _whose(guard: Guard) -> str:
    return "reviewed by" if guard is Guard.LAST_REVIEWER else "claimed by"


def _stale(review: Review, generation: int) -> StaleClaim:
    is_owed = bool(rounds.owed(review))
    settles = f"A waiver approved it: settle_waiver ('tandem review settle {review.id} approved') takes your review."
    return StaleClaim(
        f"Your claim has ended and changes nothing any more; the review is {review.state}, in round {review.round}."
        f" {settles if is_owed else 'Claim it again if it is still open.'}",
        review_id=review.id,
        expected=review.claim_generation,
        actual=generation,
        status=review.state,
    )


def is_own(names: Names, current: Round | Proposal, *, proposer: str, submitter: str) -> bool:
    """Whether a round's content is a caller's own, so that somebody else gives the verdict on it.

    A counter-patch had its second pair of eyes when another principal than its author accepted it.

    Args:
        names: The caller's.
        current: The round.
        proposer: Who proposed the review.
        submitter: Who sent the newest content that was no counter-patch.
    """
    by = current.accepted_by
    seen = current.origin == COUNTER_PATCH and by is not None and not names.include(by)
    return names.include(proposer) or names.include(submitter) or (names.include(current.author) and not seen)


def acceptor(review: Review, patch: CounterPatch, names: Names, stated: str | None) -> str | None:
    """Who accepts a counter-patch, for the record; None if that may be its author.

    Who states no name is taken for the proposer, unless the author stated none either.

    Raises:
        SelfApproval: It is its author.
    """
    if names.include(patch.author) or names.include(patch.sent_by):
        raise SelfApproval(
            "No one accepts their own counter-patch: the proposer decides about it, or sends the content as a revision."
            " Callers of one name count as one.",
            review_id=review.id,
            counter_patch_id=patch.id,
            author=patch.author,
            sent_by=patch.sent_by,
        )
    return None if stated is None and patch.sent_by is None else stated or review.proposer_id


def decides_for_all(caller: Caller) -> bool:
    """Whether it is a person's call: by an operator's token or endpoint, or on a trusted broker by no role's."""
    if caller.access is not None:
        return caller.access.is_owner or bool(caller.access.roles & _DECIDES_FOR_ALL)
    return caller.role is None or caller.role in _DECIDES_FOR_ALL


def check_concerned(review: Review, caller: Caller) -> None:
    """Refuse to let a token change what another principal proposed; on a trusted broker names only attribute.

    Raises:
        Forbidden: It is neither the proposer's, nor the reviewer's, nor an operator's.
    """
    concerned = (review.proposer_id, review.reviewer_id, review.verdict_by)
    if caller.access is None or decides_for_all(caller) or any(map(caller.names().include, concerned)):
        return
    raise Forbidden(
        f"{review.proposer_id} proposed this review, with another token than yours. They, its reviewer or an operator"
        " revise and close it and decide about its counter-patches; propose your change as a review of your own.",
        review_id=review.id,
        expected=review.proposer_id,
        actual=caller.access.name,
    )


def check_round(review: Review, asked: int | None) -> int:
    """The round that a verdict is for: the one asked for, else the one the claim was given.

    Raises:
        StaleRound: It is no longer the current one.
    """
    meant = asked if asked is not None else review.claim_round
    if meant != review.round:
        raise StaleRound(
            f"Round {review.round} is the current one; read it with get_proposal and send round={review.round}.",
            review_id=review.id,
            expected=review.round,
            actual=meant,
        )
    return review.round


def claimed(
    review: Review, reviewer_id: str, now_us: int, policy: Policy, seat: Sequence[Any] | None = None
) -> tuple[Review, bool]:
    """The review claimed by a reviewer, and whether that is a new claim (not the holder's own again).

    Where several may hold it, `seat` is what an approval of theirs would fill, empty without a vote.

    Raises:
        InvalidTransition: It cannot be claimed in this state.
    """
    found = step(Action.CLAIM, review)
    if not found.new_generation:
        return renewed(review._replace(claim_round=review.round), now_us, policy), False
    fresh = review._replace(
        state=found.to or review.state,
        claim_generation=_next_generation(review),
        reviewer_id=reviewer_id,
        claim_round=review.round,
        claimed_at=now_us,
        first_claimed_at=review.first_claimed_at or now_us,
        updated_at=now_us,
    )
    if seat is not None:
        fresh = _with_claims(fresh, [AtWork(fresh.claim_generation, reviewer_id, now_us, tuple(seat))])
    return renewed(left_asked(fresh), now_us, policy), True


def claimed_beside(review: Review, reviewer_id: str, now_us: int, policy: Policy, seat: Sequence[Any]) -> Review:
    """The held review with one more claim; the first that has a vote leads the discussion."""
    step(Action.CLAIM_BESIDE, review)
    new = AtWork(_next_generation(review), reviewer_id, now_us, tuple(seat))
    those = [*at_work(review), new]
    joined = review._replace(generations=new.generation, updated_at=now_us)
    own = renewed(seen_from(joined, new), now_us, policy)
    if voting(at_work(review)):
        return with_lease(_with_claims(joined, those), new.generation, own.lease_expires_at or now_us)
    first = with_lease(own, review.claim_generation, review.lease_expires_at or now_us)
    return left_asked(_with_claims(first, those))


def renewed(review: Review, now_us: int, policy: Policy) -> Review:
    """The review with its lease extended, though never past the claim's hard deadline."""
    # A claim of a time to come was made while the clock was ahead.
    deadline = min(review.claimed_at or now_us, now_us) + round(policy.review_deadline_seconds * MICROSECONDS)
    wanted = now_us + round(policy.claim_timeout_seconds * MICROSECONDS)
    return review._replace(lease_expires_at=min(wanted, deadline))


def end_one(review: Review, generation: int, found: Step, now_us: int) -> Review:
    """The review after one claim ended: others go on; after the last one the round ends as an objection said.

    Args:
        review: The review.
        generation: The number of the claim.
        found: Where it leads if no other claim is held, and no one has objected.
        now_us: Microseconds since the epoch.
    """
    others = beside(review, generation)
    if review.ends_as is not None and not voting(others):
        others = ()
    if others and generation != review.claim_generation:
        return _with_claims(review, others)._replace(updated_at=now_us)
    if others:
        step(Action.HAND_ON, review)
        first = (*voting(others), *others)[0]
        return left_asked(_with_claims(seen_from(review, first), others)._replace(updated_at=now_us))
    return end_claim(review, found, now_us) if review.ends_as is None else as_objected(review, now_us)


def as_objected(review: Review, now_us: int) -> Review:
    """The review after its round ended as an objection said, although others are at work; without one as it is."""
    if review.ends_as is None:
        return review
    found = step(Action.REJECT if review.ends_as == State.REJECTED else Action.REQUEST_CHANGES, review)
    # The last claim is not that of the objection: its number says nothing any more.
    return end_claim(review, found, now_us)._replace(
        claim_generation=_next_generation(review),
        reviewer_id=review.verdict_by,
        not_before=None,
        speaker="reviewer",
        speaker_kind="verdict",
    )


def end_claim(review: Review, found: Step, now_us: int) -> Review:
    """The review after all its claims ended without a verdict, or at a verdict, revision or close."""
    return review._replace(
        state=found.to or review.state,
        claim_generation=_next_generation(review) if found.new_generation else review.claim_generation,
        at_work=None,
        leases=None,
        seats_free=0,
        ends_as=None,
        reviewer_id=review.reviewer_id if found.to not in (State.PENDING, State.CLOSED) else None,
        claim_round=None,
        claimed_at=None,
        lease_expires_at=None,
        updated_at=now_us,
    )


def contested(review: Review) -> Review:
    """The review in the queue again, in the same round: a reviewer says who is right."""
    said = dict.fromkeys(("verdict", "verdict_reason", "verdict_id", "verdict_by", "decided_at", "not_before"))
    free = end_claim(review, step(Action.CONTEST, review), review.updated_at)
    return reset_turn(free._replace(**said, attempts=0))


def retry_at(attempts: int, delay_seconds: float, now_us: int) -> int:
    """When a review is tried again after so many runs without a verdict."""
    return now_us + round(delay_seconds * _RETRY_GROWTH ** (attempts - 1) * MICROSECONDS)

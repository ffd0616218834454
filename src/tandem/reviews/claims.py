"""Claims: taken, renewed, given back and run out; and reviews that reviewers could not decide."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

from tandem.contract import answer
from tandem.contract.caller import Caller, Names
from tandem.core.clock import MICROSECONDS, isoformat
from tandem.core.visible import folded
from tandem.errors import (
    AlreadyClaimed,
    Forbidden,
    InvalidTransition,
    RequirementMissing,
    SelfApproval,
    StaleClaim,
    TandemError,
    Unavailable,
)
from tandem.reviews import claim_rules as claims
from tandem.reviews import contents, finding_queries, grounds, seats, views, writing
from tandem.reviews import queries as reviews
from tandem.reviews.answers import Claim, ClaimReleased, ClaimRenewed, ReviewStatus
from tandem.reviews.check_contract import GroundView
from tandem.reviews.context import Services, is_by_person, threshold_of
from tandem.reviews.finding_contract import lesson_view, view
from tandem.reviews.finding_rules import CONTESTED, Finding, answers_due
from tandem.reviews.requests import ClaimReview, ReleaseClaim, RenewClaim, RetryReview
from tandem.reviews.rounds import Round, asked, held_by_objection, why_stopped, with_turn
from tandem.reviews.rules import NO_VERDICT, Action, Review, State, step
from tandem.store.base import Unit
from tandem.store.context import transact
from tandem.store.event import EventKind

_log = logging.getLogger("tandem.claims")


async def claim_review(services: Services, caller: Caller, request: ClaimReview) -> Claim:
    """Claim one review, or the next in the queue; an empty queue answers with no review.

    Raises:
        NotFound: There is no such review.
        SelfApproval: The caller wrote the content.
        AlreadyClaimed: Another reviewer holds it.
        InvalidTransition: It cannot be claimed in its state.
        Forbidden: An agent would take it over.
    """
    reviewer_id = request.reviewer_id
    project = services.projects.resolve(request.project, caller.project)
    heads: dict[tuple[str, int], _Now] = {}

    def work(unit: Unit) -> Claim:
        now = services.clock.now_us()
        if request.review_id is not None:
            before = reviews.get(unit, request.review_id, request.project, lock=True)
            if request.take_over:
                before = _take_over(unit, services, caller, before, reviewer_id)
            # Who may not claim it hears so before git is asked anything.
            current = admit(unit, services, before, caller, reviewer_id)
        else:
            if services.pool.is_draining(unit, reviewer_id):
                return Claim(review=None)
            found = _next(unit, services, caller, request, project, now)
            if found is None:
                return Claim(review=None)
            before, current = found
        if current.validated and (before.id, before.round) not in heads:
            raise _HeadUnknown(before.project, current)
        review = take(unit, services, before, caller, reviewer_id)
        return _claim(services, unit, review, heads.get((review.id, review.round), _Now()))

    for _ in range(_HEAD_LOOKS):
        try:
            # A reviewer of a pool may do something else meanwhile.
            works_on = () if request.take_over else (request.review_id or _QUEUE,)
            return await transact(services, caller, work, works_on=works_on)
        except _HeadUnknown as unknown:
            # Git does not run inside a transaction: this one is given up, and begun again with the answer.
            current = unknown.current
            applies = await _applies_to_head(services, unknown.project, current)
            stands_on = await grounds.shown_now(services, unknown.project, current.ground)
            heads[current.review_id, current.round] = _Now(applies, stands_on)
    raise Unavailable("The queue moves too fast to claim from; try again.")


def _next(
    unit: Unit, services: Services, caller: Caller, request: ClaimReview, project: str | None, now: int
) -> tuple[Review, Round] | None:
    """The head of the queue, of the reviews to which the caller's approval gives something; then of those held.

    Returns:
        The review and its current round; None if there is none for the caller.
    """
    names = caller.names(request.reviewer_id)
    find = partial(reviews.find_next, unit, names=names, now_us=now, project=project, category=request.category)
    for held in (False, True):
        found = None
        while (found := find(after=found, held=held)) is not None:
            if _gives(unit, services, caller, found, request.reviewer_id, now):
                # The queue leaves out the caller's own by their names as written; the rule folds these.
                with suppress(SelfApproval):
                    return found, admit(unit, services, found, caller, request.reviewer_id)
    return None


def _gives(unit: Unit, services: Services, caller: Caller, review: Review, who: str, now: int) -> bool:
    """Whether a review is one for somebody: by their profile in a pool, and by what their approval gives to it."""
    if not services.pool.takes(unit, review, who, now):
        return False
    if review.needs is None or services.pool.advises(unit, who) is not None:
        return True
    gives, names = seats.may_join if review.held else seats.gives, caller.names(who)
    # Who approved without a person's proof comes back by name: an agent would be given the same review again and again.
    is_new = not seats.holds(review, names)
    return is_new and gives(review, seats.seat_of(unit, services, caller, who, is_proved=True), names)


def _take_over(unit: Unit, services: Services, caller: Caller, before: Review, reviewer_id: str) -> Review:
    if not is_by_person(unit, services, caller, reviewer_id):
        raise Forbidden(
            "Only a person, with the role of an operator, ends a reviewer and takes over.", field="take_over"
        )
    services.pool.take_over(unit, before, reviewer_id, services.clock.now_us())
    return reviews.get(unit, before.id, lock=True)


def admit(
    unit: Unit, services: Services, before: Review, caller: Caller, reviewer_id: str, *, objects: bool = False
) -> Round:
    """The round that a reviewer would claim; who `objects` need not be one whose approval is missing.

    Raises:
        SelfApproval: The content is their own.
        AlreadyClaimed: Another reviewer holds it.
        InvalidTransition: It cannot be claimed in its state, or waits for a person.
        RequirementMissing: The policy needs others.
    """
    names = caller.names(reviewer_id)
    if folded(reviewer_id) == seats.RULE:
        raise Forbidden(
            f"'{seats.RULE}' names the policy's own approvals: choose another name.", reviewer_id=reviewer_id
        )
    is_at_work = any(one.holder == reviewer_id for one in claims.at_work(before))
    if before.attention is not None and not is_at_work and not is_by_person(unit, services, caller, reviewer_id):
        _refuse_agent(before, names, objects=objects)
    _, is_new = would_claim(unit, services, before, caller, reviewer_id)
    if not is_new:
        return reviews.get_round(unit, before.id, before.round)
    # Who approved may come back to object.
    is_asked = before.needs is not None and not objects and not seats.holds(before, names)
    if is_asked and services.pool.advises(unit, reviewer_id) is None:
        # Whether it is a person's is proved with the verdict.
        seats.check(before, seats.seat_of(unit, services, caller, reviewer_id, is_proved=True), names)
    return seats.others_round(unit, before, names)


def would_claim(
    unit: Unit, services: Services, before: Review, caller: Caller, reviewer_id: str
) -> tuple[Review, bool]:
    """What a claim would make of a review, and whether it is a new one; the holder's own again as they see it.

    Raises:
        AlreadyClaimed: Another reviewer holds it, and no approval is left for this one to give.
        InvalidTransition: It cannot be claimed in its state.
    """
    now, names = services.clock.now_us(), caller.names(reviewer_id)
    seat, own = None, claims.seen_by(before, None, reviewer_id)
    if services.pool.advises(unit, reviewer_id) is not None:
        seat = ()
    elif before.needs is not None or before.at_work is not None:
        # Whether it is a person's is proved with the verdict.
        seat = seats.seat_of(unit, services, caller, reviewer_id, is_proved=True)
        if seats.may_join(before, seat, names):
            return claims.claimed_beside(before, reviewer_id, now, services.policy, seat), True
    if own.held and own.reviewer_id != reviewer_id:
        raise _already_claimed(unit, services, before, seat, names)
    return claims.claimed(own, reviewer_id, now, services.policy, seat)


def _already_claimed(
    unit: Unit, services: Services, review: Review, seat: Sequence[Any] | None, names: Names
) -> AlreadyClaimed:
    """The refusal of a claim of what others hold, with the ways that there are."""
    holders = {review.reviewer_id or "", *(one.holder for one in claims.at_work(review))}
    waits = f"get_review_status with wait (review_id={review.id})"
    why, ways = "", f"claim another, or wait until it is released, by {waits}"
    if isinstance(seat, seats.Seat) and not (
        any(map(names.include, holders)) or seats.holds(review, names) or seats.gives(review, seat, names)
    ):
        why, ways = f", and your approval is none of those that are missing ({seats.listed(review)})", "claim another"
    elif all(services.pool.project_of(unit, one) is not None for one in holders):
        ways += f"; a person takes it over: tandem review claim {review.id} --take-over"
    return AlreadyClaimed(
        f"{review.reviewer_id} holds this review{why}: {ways}.", review_id=review.id, reviewer_id=review.reviewer_id
    )


def _refuse_agent(review: Review, names: Names, *, objects: bool) -> None:
    """Refuse an agent what waits for a person; but for who objects, or approved it already and may.

    Raises:
        RequirementMissing: The policy asks for a person.
        InvalidTransition: It waits for another reason.
    """
    if review.attention == seats.waits(review):
        if not (objects or seats.holds(review, names)):
            raise seats.refused(review, seats.NEEDLESS)
    elif review.is_disputed:
        raise InvalidTransition(
            f"This review waits for a person: {review.attention} A person claims it, or runs 'tandem review retry"
            f" {review.id}'.",
            review_id=review.id,
            status=review.state,
            attention=review.attention,
        )


_QUEUE = "queue"
_HEAD_LOOKS = 20
"""A look is lost only when another reviewer was faster, so this many mean that the queue is swarmed."""


class _Now(NamedTuple):
    """What only git can tell of a round."""

    applies_to_head: bool | None = None
    ground: GroundView | None = None


class _HeadUnknown(Exception):
    """The review that would be claimed has a change, of which it is not known yet whether it fits HEAD."""

    def __init__(self, project: str, current: Round) -> None:
        super().__init__(current.review_id)
        self.project = project
        self.current = current


def take(unit: Unit, services: Services, before: Review, caller: Caller, holder: str) -> Review:
    """The review claimed by a reviewer who was admitted, as they see it."""
    now = services.clock.now_us()
    before = clear_failures(unit, before, holder, now)
    after, is_new = would_claim(unit, services, before, caller, holder)
    if not is_new and after.claim_round == claims.seen_by(before, None, holder).claim_round:
        reviews.renew(unit, before, after.claim_generation, after.lease_expires_at or now)
        return after
    # That the holder was given a round that came up under its claim is worth an event, too: from here on a verdict
    # without a round means the new one.
    how: dict[str, Any] = {"reviewer_id": holder} if is_new else {"again": True}
    given = claims.seen_by(after, None, holder)
    written = writing.change_review(
        unit,
        before,
        seats.marked(after._replace(updated_at=now)),
        actor=holder,
        kind=EventKind.REVIEW_CLAIMED,
        data={"claim_generation": given.claim_generation, "round": after.round, **how},
    )
    return claims.seen_by(written, None, holder)


def _claim(services: Services, unit: Unit, review: Review, now: _Now) -> Claim:
    shown = views.proposal(unit, services, reviews.get_content(unit, review.id))
    if now.ground is not None:
        shown = replace(shown, ground=now.ground)
    files = {path for one in shown.affected_files for path in (one.path, one.old_path)}
    lessons: list[Finding] = []
    left: list[Finding] = []
    # Most projects have none; every claim would look twice.
    if finding_queries.has_any(unit, review.project):
        most = services.policy.page_limit
        lessons = finding_queries.list_lessons(unit, review.project, after=finding_queries.BEFORE_ALL, limit=most)
        left = [one for one in finding_queries.list_of_review(unit, review.id) if one.is_open]
    threshold = threshold_of(unit, services, review.project, review) if left else ""
    return views.answer(
        Claim,
        services.waits,
        unit,
        review,
        review=shown,
        findings=tuple(view(one, threshold) for one in left),
        lessons=tuple(lesson_view(one) for one in lessons if one.file in files),
        applies_to_head=now.applies_to_head,
    )


async def _applies_to_head(services: Services, project: str, current: Round) -> bool | None:
    """Whether the round still fits what the project has now; None where no one can tell."""
    repository, mirror = await services.projects.repository(project, grounds.HEAD), services.projects.mirror(project)
    if repository is None or (mirror is not None and mirror.problem is not None):
        return None
    try:
        async with services.validations:
            return await asyncio.to_thread(lambda: repository.applies_to(current.entries(), grounds.HEAD))
    except TandemError as error:
        # The claim stands; that git cannot say is no reason to take it back.
        _log.warning("cannot tell whether the claim applies to HEAD: %s", error.message)
        return None


async def renew_claim(services: Services, caller: Caller, request: RenewClaim) -> ClaimRenewed:
    """Extend a lease, up to the claim's hard deadline.

    Raises:
        StaleClaim: The generation does not hold the claim any more.
    """
    generation = request.claim_generation

    def work(unit: Unit) -> ClaimRenewed:
        review = reviews.get(unit, request.review_id, request.project, lock=True)
        own = claims.seen_by(review, generation)
        claims.reviewer_step(Action.RENEW, own, generation=generation, reviewer_id=None, access=caller.access)
        until = claims.renewed(own, services.clock.now_us(), services.policy).lease_expires_at or 0
        if not reviews.renew(unit, review, generation, until):
            raise StaleClaim("Your claim has ended.", review_id=review.id, actual=generation)
        return ClaimRenewed(review.id, generation, isoformat(until))

    return await transact(services, caller, work, works_on=(request.review_id,))


async def release_claim(services: Services, caller: Caller, request: ReleaseClaim) -> ClaimReleased:
    """Give a claim back; the review returns to the queue, unless others are at work on it.

    Raises:
        StaleClaim: The generation does not hold the claim any more.
    """
    contents.check_text(services, "reason", request.reason)

    def work(unit: Unit) -> ClaimReleased:
        before = reviews.get(unit, request.review_id, request.project, lock=True)
        own = claims.seen_by(before, request.claim_generation)
        found, holder = claims.reviewer_step(
            Action.RELEASE, own, generation=request.claim_generation, reviewer_id=None, access=caller.access
        )
        ended = claims.end_one(before, own.claim_generation, found, services.clock.now_us())
        threshold = threshold_of(unit, services, before.project, before)
        after = contested(unit, before, with_turn(seats.marked(ended)), threshold)
        written = writing.change_review(
            unit,
            before,
            after,
            actor=holder,
            kind=EventKind.CLAIM_RELEASED,
            data={"reason": request.reason, "claim_generation": after.claim_generation, "reviewer_id": holder},
        )
        if before.speaker_kind == "question":
            written = hear_first(unit, before, written, holder, services.clock.now_us())
        written = seats.go_on(unit, services, written, services.clock.now_us())
        return views.answer(ClaimReleased, services.waits, unit, written)

    return await transact(services, caller, work)


async def expire(services: Services, limit: int = 100) -> int:
    """Put reviews whose lease has run out back into the queue; how many there were.

    A lease that a clock ahead of this one gave is cut to what one would be that is given now.
    """
    now = services.clock.now_us()
    latest = now + round((services.policy.claim_timeout_seconds + _SINCE_THE_LOOK_SECONDS) * MICROSECONDS)
    found = await services.store.read(lambda unit: reviews.list_expired(unit, now, latest, limit))
    done = 0
    for review_id in found:
        done += await services.store.write(lambda unit, name=review_id: _expire_one(unit, services, name, now, latest))
    return done


_SINCE_THE_LOOK_SECONDS = 60
"""Leases that are taken meanwhile end a little later."""


def _expire_one(unit: Unit, services: Services, review_id: str, now: int, latest: int) -> int:
    before = reviews.get(unit, review_id, lock=True)
    held = [*(claims.seen_from(before, one) for one in claims.beside(before)), before] if before.held else []
    for one in held:
        if (one.lease_expires_at or now) > latest:
            reviews.renew(unit, before, one.claim_generation, latest)
            before = reviews.get(unit, review_id)
    over = [one for one in held if one.lease_expires_at is not None and one.lease_expires_at <= now]
    for one in over:
        services.pool.expire(unit, before.id, one.claim_generation, now)
    if over:
        seats.go_on(unit, services, reviews.get(unit, before.id), now)
    return len(over)


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a claim ends without a verdict.

    Attributes:
        kind: The event that says so.
        actor: Who ends it.
        reason: In words, for the log.
        retry_delay_seconds: Base of the back-off in seconds; None if this attempt is not counted.
        looked: The profile that has had its turn by that; None if it may try again.
    """

    kind: EventKind
    actor: str
    reason: str
    retry_delay_seconds: float | None
    looked: str | None = None


def take_back(unit: Unit, before: Review, generation: int, failure: Failure, now_us: int) -> Review:
    """End a claim of a held, locked review without a verdict; where no other is held it goes back into the queue.

    It is tried later then, or by a person after too many tries.
    """
    own = claims.seen_by(before, generation)
    found = step(Action.EXPIRE, own)
    after = contested(unit, before, seats.marked(claims.end_one(before, own.claim_generation, found, now_us)))
    if failure.looked is not None:
        after = after.after_turn(failure.looked)
    if failure.retry_delay_seconds is not None and before.ends_as is None:
        attempts = before.attempts + 1
        later = claims.retry_at(attempts, failure.retry_delay_seconds, now_us) if attempts <= claims.RETRIES else None
        after = after._replace(attempts=attempts, not_before=later)
    facts: dict[str, Any] = {
        "reviewer_id": own.reviewer_id,
        "reason": failure.reason,
        "claim_generation": after.claim_generation,
    }
    if after.attempts != before.attempts:
        facts.update(attempts=after.attempts, not_before=answer.time_or_none(after.not_before))
    written = writing.change_review(unit, before, with_turn(after), actor=failure.actor, kind=failure.kind, data=facts)
    if (heard := hear_first(unit, before, written, failure.actor, now_us)) is not written:
        return heard
    if after.attempts == before.attempts or after.attempts <= claims.RETRIES:
        return written
    return raise_attention(unit, written, f"{after.attempts}{NO_VERDICT}{failure.reason}", failure.actor, now_us)


def contested(
    unit: Unit, before: Review, after: Review, threshold: str = "nit", settled: Iterable[Finding] = ()
) -> Review:
    """The review in the queue, not for a revision, where all that the last one at work leaves was refuted or deferred.

    Args:
        unit: The unit of work.
        before: The review with the claim.
        after: The review without.
        threshold: From which severity on findings block; those of less count where none does.
        settled: Findings that change with that.
    """
    is_ended = before.ends_as is not None and after.state == State.CHANGES_REQUESTED
    if not is_ended or after.counter_patch_status == "pending":
        return after
    known = {one.id: one for one in (*finding_queries.list_of_review(unit, after.id), *settled)}.values()
    due = answers_due(known, threshold)
    return claims.contested(after) if due and due <= CONTESTED else after


def hear_first(unit: Unit, before: Review, written: Review, actor: str, now_us: int) -> Review:
    """Have a person read the answer to a question, where the claim of who asked it has ended."""
    why = asked(before)
    is_free = written.attention is None and written.state == State.PENDING
    return raise_attention(unit, written, why, actor, now_us) if why and is_free else written


def raise_attention(unit: Unit, before: Review, why: str, actor: str, now_us: int) -> Review:
    """Take a pending review out of the queue until a person has looked; its proposer hears of it."""
    after = with_turn(before._replace(attention=why, not_before=None, updated_at=now_us))
    return writing.change_review(
        unit, before, after, actor=actor, kind=EventKind.ATTENTION_RAISED, data={"reason": why}
    )


def clear_failures(unit: Unit, before: Review, actor: str, now_us: int) -> Review:
    """Let a review be as if no one had failed at it, now that somebody looks; a dispute ends with a verdict."""
    return before if before.is_disputed else clear_attention(unit, before, actor, now_us)


def clear_attention(unit: Unit, before: Review, actor: str, now_us: int) -> Review:
    """Let a review be as if no one had failed at it; one that is not waiting for a person stays as it is."""
    return before if before.attention is None else _go_on(unit, before, actor, now_us)


def _go_on(unit: Unit, before: Review, actor: str, now_us: int) -> Review:
    """Let a review be as if no one had failed at it, or objected to it where it was stopped for that."""
    free = before._replace(attention=None, not_before=None, attempts=0, updated_at=now_us)
    after = with_turn(free._replace(objections=0) if before.is_stopped else free)
    reason = before.attention or "tried again by hand"
    return writing.change_review(
        unit, before, after, actor=actor, kind=EventKind.ATTENTION_CLEARED, data={"reason": reason}
    )


async def retry_review(services: Services, caller: Caller, request: RetryReview) -> ReviewStatus:
    """Have a review that waits for a person, or for a later try, go on now.

    Raises:
        NotFound: There is no such review (in that project).
        InvalidTransition: It is not in the queue at all.
        Forbidden: It waits for a person, who gives it to the reviewers once more.
        RequirementMissing: It waits for the person that the policy asks for, or for the person who ends an objection.
    """

    def work(unit: Unit) -> ReviewStatus:
        before = reviews.get(unit, request.review_id, request.project, lock=True)
        if before.state != State.PENDING and not before.is_stopped:
            raise InvalidTransition(
                f"A review that is {before.state} cannot be tried again; only a pending one can.",
                review_id=before.id,
                status=before.state,
                allowed=[State.PENDING.value],
            )
        if before.is_stopped and not is_by_person(unit, services, caller, caller.operator):
            raise Forbidden(
                f"This review waits for a person: {why_stopped(before)} A person claims it, or runs"
                f" 'tandem review retry {before.id}' at a terminal.",
                review_id=before.id,
                attention=before.attention,
            )
        if before.attention is not None and before.attention == seats.waits(before):
            raise seats.refused(before, "No retry helps: who is asked for reviews it.")
        if objection := held_by_objection(before):
            raise RequirementMissing(f"No retry helps: {objection}.", review_id=before.id)
        waits = before.is_stopped or before.attention is not None or before.not_before is not None
        after = _go_on(unit, before, caller.operator, services.clock.now_us()) if waits else before
        return views.status(
            unit, services, after, services.waits.cursor(after.event_seq, unit), changed=after is not before
        )

    return await transact(services, caller, work)

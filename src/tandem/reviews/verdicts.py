"""Verdicts: one transaction on the claim generation, the round and the state; and approvals withdrawn.

Commits that were made on the strength of an approval stay.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from functools import partial

from tandem.contract.caller import Caller, Names
from tandem.errors import (
    AlreadyLanded,
    InvalidInput,
    InvalidTransition,
    NotClaimant,
    ReasonRequired,
    StaleRound,
    TandemError,
)
from tandem.reviews import again, contents, counter_patches, findings, seats, views, waivers, writing
from tandem.reviews import claim_rules as claims
from tandem.reviews import given as given_by
from tandem.reviews import queries as reviews
from tandem.reviews.answers import ApprovalWithdrawn, VerdictGiven
from tandem.reviews.claim_rules import decides_for_all
from tandem.reviews.claims import admit, contested, take, would_claim
from tandem.reviews.context import Decision, Services, is_by_person, is_proved, tell, threshold_of
from tandem.reviews.requests import SubmitVerdict, WithdrawApproval
from tandem.reviews.rounds import (
    Round,
    Verdict,
    asked_by,
    decided_by,
    left_asked,
    objected,
    record_speaker,
    reset_turn,
    verdict_on,
    waived,
    waiver_objections,
    with_turn,
)
from tandem.reviews.rules import ASKED, Action, Review, State, allowed_actions, allowed_targets, step
from tandem.reviews.writing import Rows
from tandem.rulings import proof
from tandem.store.base import Unit
from tandem.store.context import transact
from tandem.store.event import EventKind

COMMENT = "comment"
APPROVED = "approved"
_ACTIONS = {
    APPROVED: Action.APPROVE,
    "changes_requested": Action.REQUEST_CHANGES,
    "rejected": Action.REJECT,
    COMMENT: Action.COMMENT,
}
_OF_ONE_REVIEW = (APPROVED, COMMENT)
"""Verdicts that change one review only; the others are noted of its plan, too, which other reviews belong to."""
_OBJECTIONS = ("changes_requested", "rejected")
_SYNONYMS = {"approve": APPROVED, "request_changes": "changes_requested", "reject": "rejected"}


async def submit_verdict(services: Services, caller: Caller, request: SubmitVerdict) -> VerdictGiven:
    """Give a verdict, with findings, what became of earlier ones, and perhaps a counter-patch.

    Raises:
        StaleClaim: The claim generation is over.
        StaleRound: The round is no longer the current one.
        NotClaimant: Somebody else holds the claim.
        AlreadyClaimed: It would be claimed, and somebody else holds it.
        SelfApproval: It is the reviewer's own proposal.
        OpenFindings: It approves over findings that are open.
        RequirementMissing: It approves, and the policy needs others.
        Forbidden: It settles a person's finding without being one.
        ReasonRequired: The verdict needs a reason.
        InvalidDiff: The counter-patch does not apply.
        InvalidTransition: The review takes no verdict in its state.
        InvalidPhase: It would approve a hand-off that its cycle has gone on without.
        SchemaInvalid: The counter-patch to a hand-off is no payload for it.
    """
    return await again.knowing(services, partial(_submit, services, caller, request))


async def _submit(services: Services, caller: Caller, request: SubmitVerdict) -> VerdictGiven:
    asked = _checked(services, request)
    facts = await _offered(services, caller, request, asked)
    new_id = services.clock.new_id
    verdict_id, patch_id = new_id("vd"), new_id("cp") if facts else None
    prepared = await given_by.prepare(services, request)
    proved = await is_proved(services, caller, request.proof, proof.verdict_facts(request.model_dump()))

    def work(unit: Unit) -> VerdictGiven:
        for participant in services.participants:
            participant.lock(unit, request.review_id)
        before = reviews.get(unit, request.review_id, request.project, lock=True)
        again.ensure_known(unit, services, before.project)
        before, own = _claimed(unit, services, before, caller, request)
        reviewer, current = _admit(unit, own, asked, request, caller)
        given = verdict_on(own, verdict_id, asked, request.reason, reviewer, services.clock.now_us())
        is_last = before.ends_as is None and not claims.voting(claims.beside(before, own.claim_generation))
        others = 0 if is_last else before.round
        ruling = findings.ruled(
            unit, services, caller, (before, current), request, given, prepared, others_round=others
        )
        verdict = ruling.verdict
        given = replace(given, verdict=verdict, reason=ruling.reason or given.reason)
        now = given.created_at
        if verdict != APPROVED and facts is not None:
            before = counter_patches.make_way(unit, before, reviewer, caller.names(reviewer), now)
        elif verdict != COMMENT and is_last:
            before = counter_patches.supersede(unit, before, actor=reviewer, now_us=now, reason="the verdict")
        written = writing.change_review(
            unit,
            before,
            _decided(unit, services, caller, before, given, ruling, is_last=is_last, is_proved=proved),
            actor=reviewer,
            kind=EventKind.VERDICT_COMMENT if verdict == COMMENT else EventKind.VERDICT_SUBMITTED,
            data=_facts(given, current, ruling) | _proved(caller, is_proved=proved),
            rows=Rows(verdict=given, findings=ruling.findings),
        )
        if verdict != COMMENT:
            stands = verdict != APPROVED or written.state == State.APPROVED
            tell(unit, services, Decision(own, current, verdict, reviewer, now, stands))
        written = seats.go_on(unit, services, written, given.created_at) if ruling.looked else written
        if facts is not None and patch_id is not None:
            written = counter_patches.offer(unit, written, given, current, facts, patch_id, caller.agent)
        notes = (*ruling.notes, *_others(written, verdict), *((facts and facts.notes) or ()))
        ids = {"verdict_id": given.id, "counter_patch_id": patch_id, "verdict": verdict}
        return views.answer(VerdictGiven, services.waits, unit, written, notes=notes, **ids)

    return await transact(services, caller, work, works_on=(request.review_id,) if asked in _OF_ONE_REVIEW else ())


def _proved(caller: Caller, *, is_proved: bool) -> dict[str, str]:
    """How it is known that a person decided, for the log."""
    return {"proved_by": "page" if caller.is_page else "command"} if is_proved else {}


def _claimed(
    unit: Unit, services: Services, before: Review, caller: Caller, request: SubmitVerdict
) -> tuple[Review, Review]:
    """The review, claimed for the verdict where it asks for that; and as who gives the verdict sees it."""
    if request.claim:
        objects = _SYNONYMS.get(request.verdict, request.verdict) != APPROVED
        admit(unit, services, before, caller, request.reviewer_id or "", objects=objects)
        take(unit, services, before, caller, request.reviewer_id or "")
        before = reviews.get(unit, before.id)
    return before, _own(before, caller, request)


def _own(review: Review, caller: Caller, request: SubmitVerdict) -> Review:
    """The review as who gives the verdict sees it, who may hold a claim beside the main one."""
    access = caller.access
    named = request.reviewer_id or (None if access is None or access.is_owner else access.name)
    return claims.seen_by(review, request.claim_generation, named)


def _seated(
    unit: Unit, services: Services, caller: Caller, review: Review, given: Verdict, *, is_proved: bool
) -> Review:
    """The review with the seat that an approval takes, or without that of who objects."""
    if given.verdict != APPROVED:
        return review if given.verdict == COMMENT else seats.left(review, caller.names(given.reviewer_id))
    if review.needs is None:
        return review
    seat = seats.seat_of(unit, services, caller, given.reviewer_id, is_proved=is_proved)
    names = caller.names(given.reviewer_id)
    seats.check(review, seat, names)
    if not seat.is_person and seats.holds(review, names, proved=True):
        return review
    seated = seats.taken(seats.left(review, names), seat._replace(verdict_id=given.id))
    return waivers.settled(seated, seat, given.created_at)


def _waits_for_person(unit: Unit, services: Services, caller: Caller, review: Review, who: str) -> str | None:
    """Why a person decides, where an agent's verdict ends that not: raised while it was at work beside others."""
    is_disputed = review.at_work is not None and review.is_disputed and review.attention != seats.waits(review)
    return review.attention if is_disputed and not is_by_person(unit, services, caller, who) else None


def _others(review: Review, verdict: str) -> tuple[str, ...]:
    """That an approval alone opens no gate."""
    if verdict != APPROVED or review.state == State.APPROVED:
        return ()
    left = seats.listed(review) if review.held or review.state == State.PENDING else ""
    is_held_back = "Your approval is kept; others are at work on it, or have objected."
    return (f"Others approve it, too, before it passes the gate: {left}." if left else is_held_back,)


def _checked(services: Services, request: SubmitVerdict) -> str:
    """The verdict's own name, once everything that needs no state is checked."""
    verdict = _SYNONYMS.get(request.verdict, request.verdict)
    contents.check_text(services, "reason", request.reason)
    given_by.given_in(services, request)
    if request.claim and request.reviewer_id is None:
        raise InvalidInput("Say who claims it: send reviewer_id.", field="reviewer_id")
    if verdict != APPROVED and request.reason is None:
        raise ReasonRequired(
            f"Say why: '{verdict}' needs a reason that the proposer can act on.", field="reason", verdict=verdict
        )
    if request.counter_patch is not None and verdict not in ("changes_requested", COMMENT):
        raise InvalidInput(
            f"A counter-patch goes with changes_requested or comment, not with {verdict}.", field="counter_patch"
        )
    return verdict


async def _offered(services: Services, caller: Caller, request: SubmitVerdict, verdict: str) -> contents.Content | None:
    """What the verdict's counter-patch would be, if it has one."""
    if request.counter_patch is None:
        return None

    def may(unit: Unit, review: Review) -> None:
        if request.claim:
            admit(unit, services, review, caller, request.reviewer_id or "", objects=verdict != APPROVED)
            review, _ = would_claim(unit, services, review, caller, request.reviewer_id or "")
        _admit(unit, _own(review, caller, request), verdict, request, caller)

    return await counter_patches.facts_of(services, request.review_id, request.project, request.counter_patch, may)


def _admit(unit: Unit, review: Review, verdict: str, request: SubmitVerdict, caller: Caller) -> tuple[str, Round]:
    """Whether this verdict may be given now: by whom and on which round."""
    _, reviewer = claims.reviewer_step(
        _ACTIONS[verdict],
        review,
        generation=request.claim_generation,
        reviewer_id=request.reviewer_id,
        access=caller.access,
    )
    claims.check_round(review, request.round)
    return reviewer, seats.others_round(unit, review, caller.names(reviewer))


def _decided(
    unit: Unit,
    services: Services,
    caller: Caller,
    before: Review,
    given: Verdict,
    ruling: findings.Ruling,
    *,
    is_last: bool,
    is_proved: bool,
) -> Review:
    """The review as a verdict leaves it, with the seat that it took.

    `is_last` says that no other with a vote holds a claim, and no other holder objected to this round.
    """
    if ruling.looked is not None:
        return _advised(before, given, ruling.looked)
    waits = _waits_for_person(unit, services, caller, before, given.reviewer_id)
    before = _seated(unit, services, caller, before, given, is_proved=is_proved)
    own, now, verdict = given.claim_generation, given.created_at, given.verdict
    if verdict == APPROVED and own == before.claim_generation and before.speaker_kind != ASKED:
        # Who approves waits for no answer any more.
        before = reset_turn(before)
    completes = verdict == APPROVED and is_last and waits is None and not seats.missing(before)
    # Of two objections the harsher one is the review's.
    counts = verdict in _OBJECTIONS and (before.ends_as, verdict) != (State.REJECTED, State.CHANGES_REQUESTED)
    if verdict == COMMENT and not ruling.attention:
        changed = _commented(services, before, own, now)
    elif claims.voting(claims.beside(before, own)):
        ends = before._replace(ends_as=verdict) if counts else before
        changed = claims.end_one(ends, own, step(_ACTIONS[verdict] if counts else Action.TAKE_SEAT, before), now)
    elif completes or counts:
        changed = claims.end_claim(before, step(_ACTIONS[verdict], before), now)
    else:
        # A comment that a person has to look at ends the claim, as no agent goes on.
        ends_claim = Action.RELEASE if verdict == COMMENT else Action.TAKE_SEAT
        changed = claims.end_one(before, own, step(ends_claim, before), now)
    if completes or counts:
        changed = changed._replace(
            verdict_by=given.reviewer_id,
            decided_at=now,
            attempts=0,
            not_before=None,
            approved_round=before.round if completes else None,
            attention=waits or (waiver_objections(waived(before)) if completes else None) or None,
        )
    if counts or before.ends_as is None:
        changed = changed._replace(verdict=verdict, verdict_reason=given.reason, verdict_id=given.id)
    # It is asked of findings alone.
    is_asked = ruling.findings or before.ends_as is not None
    threshold = threshold_of(unit, services, before.project, before) if is_asked else ""
    is_held_back = any(seats.holds_rule_back(one, threshold) for one in ruling.findings)
    by_checks = 0 if is_held_back else changed.by_checks
    stated = changed._replace(attention=ruling.attention or changed.attention, by_checks=by_checks)
    if verdict == APPROVED and not completes:
        for_person = waits or (seats.waits(stated) if before.ends_as is None else stated.attention)
        stated = stated._replace(attention=for_person, attempts=0, not_before=None)
    after = seats.marked(_said(before, stated, given, ruling))
    return after if counts else contested(unit, before, after, threshold, ruling.findings)


def _advised(before: Review, given: Verdict, profile: str) -> Review:
    """The review after the turn of a reviewer without a vote, which ends its claim and nothing more."""
    ended = claims.end_one(before, given.claim_generation, step(Action.RELEASE, before), given.created_at)
    after = ended.after_turn(profile)._replace(attempts=0, not_before=None)
    return seats.marked(reset_turn(after) if after.state == State.PENDING else after)


def _commented(services: Services, before: Review, generation: int, now_us: int) -> Review:
    """The review after a comment: saying something is a sign of life, which renews the lease."""
    held = claims.renewed(claims.seen_by(before, generation), now_us, services.policy)
    if generation != before.claim_generation:
        return claims.with_lease(before, generation, held.lease_expires_at or now_us)._replace(updated_at=now_us)
    return held._replace(state=step(Action.COMMENT, before).to or held.state, updated_at=now_us)


def _said(before: Review, after: Review, given: Verdict, ruling: findings.Ruling) -> Review:
    """The review after a verdict spoke; words from beside the main claim are no part of its discussion."""
    if after.held and (after.claim_generation, before.claim_generation) != (given.claim_generation,) * 2:
        # A comment waits for the proposer, and the discussion need not wait for the answer.
        asks = given.verdict == COMMENT and after.speaker != "reviewer"
        told = after._replace(speaker="reviewer", speaker_kind=ASKED) if asks else after
        if given.verdict == COMMENT and ruling.how == "question":
            told = told._replace(attention=told.attention or asked_by(given.reviewer_id))
        said = with_turn(told if given.verdict == APPROVED else objected(told))
    elif after.state == State.PENDING and given.verdict == APPROVED and before.is_unanswered:
        said = left_asked(after)
    else:
        is_comment = after.held and (given.verdict, ruling.how) == (COMMENT, "verdict")
        said = record_speaker(after, "reviewer", COMMENT if is_comment else ruling.how)
    return said._replace(objections=0) if ruling.goes_on else said


def _facts(given: Verdict, current: Round, ruling: findings.Ruling) -> dict[str, str | int | None]:
    said = {name: getattr(given, name) for name in ("verdict", "reason", "round", "claim_generation")}
    new = sum(one.verdict_id == given.id for one in ruling.findings)
    # An approval that a person's finding holds back is stored as a comment: the log says so.
    why = {"attention": ruling.attention} if ruling.attention else {}
    return {**said, "verdict_id": given.id, "digest": current.digest, "findings": new, **why}


_AGAINST = "changes_requested"


async def withdraw_approval(services: Services, caller: Caller, request: WithdrawApproval) -> ApprovalWithdrawn:
    """End an approval. A review that was approved then has changes requested; a closed one ends withdrawn.

    Raises:
        NotFound: There is no such review (in that project).
        ReasonRequired: No reason was given.
        NotClaimant: A reviewer other than the one who approved.
        StaleRound: Another round is the current one, or was approved at the same moment.
        InvalidTransition: It is not approved, or it is a hand-off that its cycle has gone on with.
    """
    contents.check_text(services, "reason", request.reason)
    reason = (request.reason or "").strip()
    if not reason:
        raise ReasonRequired("Say why the approval is withdrawn: the proposer acts on it.", field="reason")
    known = await services.store.read(lambda unit: reviews.get(unit, request.review_id, request.project))
    _withdrawer(known, caller, request)
    # Git is asked before the transaction.
    landed = await find_landing(services, known)
    verdict_id = services.clock.new_id("vd")
    telling = (await again.made_by(services, known.id, known.approved_round)).telling(None)

    def work(unit: Unit) -> ApprovalWithdrawn:
        for participant in services.participants:
            participant.lock(unit, request.review_id)
        before = reviews.get(unit, request.review_id, lock=True)
        if request.round is not None:
            claims.check_round(before, request.round)
        for participant in services.participants:
            participant.check_withdrawal(unit, before)
        actor = _withdrawer(before, caller, request)
        if (names := _of_one_seat(before, caller, request)) is not None:
            given = verdict_on(before, verdict_id, COMMENT, reason, actor, services.clock.now_us())
            written = _seat_withdrawn(unit, before, names, given, _rows(unit, services, caller, before, given, telling))
            return views.answer(ApprovalWithdrawn, services.waits, unit, written, commits=(), branches=())
        number = _same_round(before, known)
        current = reviews.get_round(unit, before.id, number)
        # The decision that stands from now on, for readers of the discussion.
        given = verdict_on(before, verdict_id, _AGAINST, reason, actor, services.clock.now_us())
        written = writing.change_review(
            unit,
            before,
            _withdrawn(before, given),
            actor=actor,
            kind=EventKind.APPROVAL_WITHDRAWN,
            data={"reason": reason, "round": number, "digest": before.digest, "approved_by": before.verdict_by},
            rows=_rows(unit, services, caller, before, given, telling),
        )
        tell(unit, services, Decision(before, current, _AGAINST, actor, given.created_at))
        return views.answer(
            ApprovalWithdrawn, services.waits, unit, written, commits=landed.commits, branches=landed.branches
        )

    return await transact(services, caller, work)


def _rows(unit: Unit, services: Services, caller: Caller, review: Review, given: Verdict, telling: str | None) -> Rows:
    """The rows of a withdrawal; a person's is a finding, too."""
    if not is_by_person(unit, services, caller, given.reviewer_id):
        return Rows(verdict=given)
    by = reviews.authors(unit, review, reviews.get_round(unit, review.id, review.round))
    return Rows(verdict=given, findings=(findings.requested(unit, services, review, given, by, telling),))


def _of_one_seat(review: Review, caller: Caller, request: WithdrawApproval) -> Names | None:
    """Whose approval is one of several that open nothing yet; None where the review is decided, or it is no one's."""
    # Of a caller and the name that it states the latter alone: each holds one seat.
    names = Names.of(request.withdrawn_by or caller.agent, by_token=caller.access is not None)
    is_open = review.held or review.state in (State.PENDING, State.CHANGES_REQUESTED)
    return names if is_open and seats.holds(review, names) else None


def _seat_withdrawn(unit: Unit, before: Review, names: Names, given: Verdict, rows: Rows) -> Review:
    """The review without one of its approvals, and a comment that says why; the others stay."""
    step(Action.WITHDRAW_SEAT, before)
    actor, reason = given.reviewer_id, given.reason
    after = seats.withdrawn(before, names)._replace(updated_at=given.created_at)
    if before.ends_as is None:
        said = {"verdict": given.verdict, "verdict_reason": reason, "verdict_id": given.id, "verdict_by": actor}
        after = after._replace(**said)
    return writing.change_review(
        unit,
        before,
        after,
        actor=actor,
        kind=EventKind.APPROVAL_WITHDRAWN,
        data={"reason": reason, "round": before.round, "digest": before.digest, "approved_by": actor},
        rows=rows,
    )


def _withdrawer(review: Review, caller: Caller, request: WithdrawApproval) -> str:
    """Who withdraws, if it is approved, by them or for now, and theirs to withdraw."""
    if _of_one_seat(review, caller, request) is not None:
        return request.withdrawn_by or caller.operator
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
    approved_by = {review.verdict_by, *(one.by for one in seats.filled(review))}
    if not decides_for_all(caller) and not any(map(caller.names(request.withdrawn_by).include, approved_by)):
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
    withdrawn = decided_by(before, given)._replace(
        state=found.to or before.state,
        outcome=found.outcome,
        seats=None,
        waived=None,
        owed_until=None,
        attention=None,
        updated_at=given.created_at,
    )
    return with_turn(objected(withdrawn))


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
    """Refuse to revise approved, committed content: the revision would leave the commits without an approval.

    Raises:
        AlreadyLanded: It is committed.
    """
    landing = await find_landing(services, review)
    if not landing.commits and not landing.branches:
        return
    places = [f"on {branch}" for branch in landing.branches] or [f"as {landing.commits[0][:10]}"]
    raise AlreadyLanded(
        f"What {review.id} approves is committed already ({', '.join(places)}), and a revision would end its approval."
        " Propose further changes as a new review: tandem submit -m 'why' (create_review without"
        " review_id).",
        review_id=review.id,
        commits=list(landing.commits),
        branches=list(landing.branches),
    )

"""Waiving what the policy asks for, and reviewing it after the fact."""

from __future__ import annotations

from tandem.contract.caller import Caller
from tandem.core.clock import isoformat
from tandem.errors import Forbidden, InvalidInput, InvalidTransition, OpenFindings, ReasonRequired, RequirementMissing
from tandem.reviews import claim_rules as claims
from tandem.reviews import contents, counter_patches, findings, rounds, seats, views, writing
from tandem.reviews import queries as reviews
from tandem.reviews.answers import ReviewStatus
from tandem.reviews.check_rules import PASSED
from tandem.reviews.context import Decision, Services, is_by_person, is_proved, tell
from tandem.reviews.given import Prepared
from tandem.reviews.grounds import Asked
from tandem.reviews.requests import SettleWaiver, SubmitVerdict, WaiveRequirement
from tandem.reviews.rounds import Waiver, decided_by, record_speaker, verdict_on
from tandem.reviews.rules import Action, Review, step
from tandem.reviews.writing import Rows
from tandem.rulings import policy, proof
from tandem.store.base import Unit
from tandem.store.context import transact
from tandem.store.event import EventKind

_APPROVED = "approved"


async def waive_requirement(services: Services, caller: Caller, request: WaiveRequirement) -> ReviewStatus:
    """Waive a requirement; when nothing else is missing, the review is approved with it.

    Raises:
        NotFound: There is no such review (in that project).
        Forbidden: Nothing proves that a person decides.
        StaleRound: Another round is the current one.
        InvalidInput: The time has been, or is too far away.
        InvalidTransition: It takes no waiver in its state, or of nothing that is missing.
        OpenFindings: Open findings keep the approval back.
    """
    contents.check_text(services, "reason", request.reason)
    stated = (request.need, request.round, request.until, request.waived_by, request.reason)
    proved = await is_proved(services, caller, request.proof, proof.waiver_facts(request.review_id, *stated))
    verdict_id = services.clock.new_id("vd")
    known = await services.store.read(lambda unit: reviews.get(unit, request.review_id, request.project))
    asked = await contents.asked_by_now(services, known.project)

    def work(unit: Unit) -> ReviewStatus:
        for participant in services.participants:
            participant.lock(unit, request.review_id)
        before = reviews.get(unit, request.review_id, request.project, lock=True)
        by = request.waived_by or caller.operator
        if not proved or not is_by_person(unit, services, caller, by):
            raise _only_persons(before, request.need)
        step(Action.WAIVE, before)
        claims.check_round(before, request.round)
        _check_missing(unit, before, request.need, asked)
        now = services.clock.now_us()
        made = Waiver(request.need, by, request.reason, now, rounds.waived_until_us(request.until, now))
        written = _waived(unit, before, made)
        # What somebody at work objected to, no waiver approves.
        if written.approved_round is None and written.ends_as is None and not seats.missing(written):
            written = _approved(unit, services, caller, written, made, verdict_id)
        return _answer(unit, services, written)

    return await transact(services, caller, work)


def _only_persons(review: Review, need: str) -> Forbidden:
    return Forbidden(
        "A waiver lets a change through without all that the policy asks for, which takes the proof that a person"
        f" decides it: run 'tandem waive {review.id} {need} --until 3d --reason WHY' at a terminal, or open the page:"
        f" tandem open {review.id}",
        review_id=review.id,
        needed="person",
    )


def _check_missing(unit: Unit, review: Review, need: str, asked: Asked) -> None:
    """Refuse to waive a need that the policy does not have, neither that of the round nor that of now, or that is met.

    Raises:
        InvalidTransition: It is not missing, or no waiver covers it.
    """
    known = review.requirements
    runs = reviews.list_checks(unit, review.id, review.round)
    lacking = {one.word for one in (*seats.missing(review), *seats.missing_by_now(unit, asked, review))}
    if known is not None and seats.lacks_checks(known, review, runs):
        lacking.add(policy.CHECKS)
    missing = sorted(lacking - {policy.UNREADABLE})
    if need not in missing:
        listed = f"Missing are: {', '.join(missing)}." if missing else "Nothing is missing that could be waived."
        raise InvalidTransition(
            f"The policy does not wait for '{need}' here. {listed}",
            review_id=review.id,
            status=review.state,
            missing=missing,
        )
    if need == policy.CHECKS and review.checks not in (None, PASSED):
        raise InvalidTransition(
            "No waiver covers a required check that has not passed; it keeps the gate closed:"
            f" 'tandem checks list {review.id}' shows why.",
            review_id=review.id,
            status=review.state,
            checks=review.checks,
        )


def _waived(unit: Unit, before: Review, made: Waiver) -> Review:
    """The review with a waiver more, on record."""
    others = (one for one in rounds.waived(before) if one.need != made.need)
    after = rounds.with_waivers(before, (*others, made))
    if before.attention == seats.waits(before):
        after = after._replace(attention=seats.waits(after))
    data = {"need": made.need, "reason": made.reason, "until": isoformat(made.until), "round": before.round}
    return writing.change_review(
        unit,
        before,
        seats.marked(after)._replace(updated_at=made.waived_at),
        actor=made.by,
        kind=EventKind.REQUIREMENT_WAIVED,
        data={**data, "digest": before.digest},
    )


def _approved(
    unit: Unit, services: Services, caller: Caller, before: Review, waiver: Waiver, verdict_id: str
) -> Review:
    """The review approved by its last waiver, as by a person's verdict: a holder's claim ends."""
    by, now = waiver.by, waiver.waived_at
    if before.held:
        services.pool.take_over(unit, before, by, now)
        before = reviews.get(unit, before.id, lock=True)
    found = step(Action.APPROVE_BY_WAIVER, before)
    reason = f"Waived by {by}: {policy.in_words(waiver.need)}, owed until {isoformat(waiver.until)}. {waiver.reason}"
    given = verdict_on(before, verdict_id, _APPROVED, reason, by, now)
    current = reviews.get_round(unit, before.id, before.round)
    asked = SubmitVerdict(review_id=before.id, verdict=_APPROVED, reviewer_id=by)
    try:
        ruling = findings.ruled(unit, services, caller, (before, current), asked, given, Prepared())
    except OpenFindings as error:
        raise _settled_first(error, waiver) from error
    before = counter_patches.supersede(unit, before, actor=by, now_us=now, reason="the waiver")
    ended = decided_by(claims.end_claim(before, found, now), given)._replace(
        reviewer_id=None,
        # Who waived approves nothing: no seat is theirs.
        seats=before.seats or "[]",
        attempts=0,
        not_before=None,
        attention=None,
    )
    data = {"verdict": _APPROVED, "reason": reason, "round": before.round, "digest": before.digest}
    written = writing.change_review(
        unit,
        before,
        record_speaker(ended, "reviewer", ruling.how),
        actor=by,
        kind=EventKind.VERDICT_SUBMITTED,
        data={**data, "verdict_id": given.id, "waived": waiver.need},
        rows=Rows(verdict=given, findings=ruling.findings),
    )
    tell(unit, services, Decision(before, current, _APPROVED, by, now))
    return written


def _settled_first(error: OpenFindings, waiver: Waiver) -> OpenFindings:
    """The refusal of a verdict in a waiver's words: no answers to findings go with it."""
    kept = error.details["findings"]
    named = ", ".join(f"{one['finding_id']} ({one['severity']}, by {one['author']})" for one in kept)
    more = f", and {error.details['count'] - len(kept)} more" if error.details["count"] > len(kept) else ""
    lists = " and ".join(f"list_findings (review_id={name})" for name in sorted({one["review_id"] for one in kept}))
    return OpenFindings(
        f"Open findings keep back the approval that waiving '{waiver.need}' makes: {named}{more}. Settle each first,"
        f" and waive it then; answer_finding settles one; see {lists}.",
        **error.details,
    )


async def settle_waiver(services: Services, caller: Caller, request: SettleWaiver) -> ReviewStatus:
    """Say what a review after the fact of something waived came to.

    Raises:
        NotFound: There is no such review (in that project).
        InvalidInput: It does not say who reviewed it.
        ReasonRequired: It objects without a reason.
        StaleRound: Another round is the current one.
        InvalidTransition: Nothing of that is owed.
        SelfApproval: It is their own content.
        Forbidden: It takes the proof that a person reviewed it.
        RequirementMissing: Theirs is not the approval that was waived, or they approved this content already.
    """
    contents.check_text(services, "reason", request.reason)
    if request.verdict != _APPROVED and request.reason is None:
        raise ReasonRequired("Say why: an objection needs a reason to act on.", field="reason")
    stated = (request.need, request.verdict, request.reviewer_id, request.reason)
    proved = await is_proved(services, caller, request.proof, proof.settling_facts(request.review_id, *stated))
    by = request.reviewer_id or caller.agent
    if by is None:
        raise InvalidInput("Say who reviewed it: send reviewer_id.", field="reviewer_id")

    def work(unit: Unit) -> ReviewStatus:
        before = reviews.get(unit, request.review_id, request.project, lock=True)
        if request.round is not None:
            claims.check_round(before, request.round)
        waiver = _owed(before, request.need)
        seat = seats.seat_of(unit, services, caller, by, is_proved=proved)
        looked_at = _looked_at(unit, caller, before, waiver, seat, request.verdict)
        now = services.clock.now_us()
        is_good = request.verdict == _APPROVED
        objection = None if is_good else rounds.objection_by(by, request.reason)
        settled = {"settled_by": by, "settled_at": now} if is_good else {}
        after = rounds.with_waiver(looked_at if is_good else before, waiver._replace(**settled, objection=objection))
        data = {"need": waiver.need, "reason": request.reason, "waived_by": waiver.by}
        written = writing.change_review(
            unit,
            before,
            after._replace(updated_at=now),
            actor=by,
            kind=EventKind.WAIVER_SETTLED if is_good else EventKind.WAIVER_OBJECTED,
            data={**data, "round": before.round, "digest": before.digest},
        )
        return _answer(unit, services, written)

    return await transact(services, caller, work)


def settled(review: Review, seat: seats.Seat, now_us: int) -> Review:
    """The review whose waived requirements an approval that took this seat meets; objections to them end."""
    known = review.requirements
    for one in rounds.waived(review):
        ended = rounds.with_waiver(review, one._replace(settled_by=seat.by, settled_at=now_us, objection=None))
        is_asked = known is not None and any(need.word == one.need for need in known.needs)
        fits_it = is_asked and one.settled_at is None and seats.fits(review, one.need, seat)
        if fits_it and len(seats.missing(ended)) == len(seats.missing(review)):
            review = ended
    return review


def _owed(review: Review, need: str | None) -> Waiver:
    """The debt that is meant."""
    owed = rounds.owed(review)
    found = [one for one in owed if need in (None, one.need)]
    if len(found) == 1:
        return found[0]
    if found:
        named = ", ".join(one.need for one in found)
        raise InvalidInput(f"Several are owed; say which: {named}.", field="need", allowed=[one.need for one in found])
    raise InvalidTransition(
        f"No review after the fact of '{need}' is owed here." if need else "No review after the fact is owed here.",
        review_id=review.id,
        status=review.state,
        owed=[one.need for one in owed],
    )


def _looked_at(unit: Unit, caller: Caller, review: Review, waiver: Waiver, seat: seats.Seat, verdict: str) -> Review:
    """The review with the seat of who settles a waiver, who may add a person's proof to an approval of theirs."""
    names = caller.names(seat.by)
    seats.others_round(unit, review, names)
    if seats.fits(review, waiver.need, seat):
        taken = seats.taken(seats.left(review, names), seat)
        adds_proof = seat.is_person and not seats.holds(review, names, proved=True)
        is_met = waiver not in rounds.waived(settled(taken, seat, waiver.waived_at))
        if not seats.holds(review, names) or (adds_proof and is_met):
            return taken
        why = "You approved this content already: others have to"
    elif seat.family is None and seats.fits(review, waiver.need, seat._replace(is_person=True)):
        command = f"'tandem review settle {review.id} approved'"
        if verdict != _APPROVED:
            command = f"'tandem review settle {review.id} objects --reason WHY'"
        raise Forbidden(
            f"{policy.in_words(waiver.need).capitalize()} is owed, which takes the proof that a person gives it: run"
            f" {command} at a terminal, or open the page: tandem open {review.id}",
            review_id=review.id,
            needed="person",
        )
    else:
        why = f"Another review than yours is owed: {policy.in_words(waiver.need)}"
    raise RequirementMissing(f"{why}.", review_id=review.id, missing=[{"need": waiver.need}])


def _answer(unit: Unit, services: Services, review: Review) -> ReviewStatus:
    return views.status(unit, services, review, services.waits.cursor(review.event_seq, unit), changed=True)

"""Hand-offs: written, reviewed where the workflow asks for it, and read."""

from __future__ import annotations

from typing import Any

import orjson
from typing_extensions import override

from tandem.contract.answer import shown
from tandem.contract.caller import Caller
from tandem.cycles import history as cycle_history
from tandem.cycles import payloads as schema
from tandem.cycles import queries as cycles
from tandem.cycles import rules
from tandem.cycles import scope as cycle_scope
from tandem.cycles.answers import HandoffWritten
from tandem.cycles.requests import HandoffRead, HandoffWrite
from tandem.cycles.rules import Cycle, Handoff, Transition
from tandem.cycles.running import check_token, refuse_undecided
from tandem.errors import InvalidPhase, InvalidTransition, SchemaInvalid
from tandem.reviews import contents, proposals
from tandem.reviews import queries as reviews
from tandem.reviews.context import Decision, Participant, Services
from tandem.reviews.reading import close_in
from tandem.reviews.requests import CreateReview
from tandem.reviews.rounds import Round
from tandem.reviews.rules import Review, State
from tandem.store import ledger
from tandem.store.base import Unit
from tandem.store.context import transact
from tandem.store.event import EventKind

CATEGORY = "handoff"


async def handoff_write(services: Services, caller: Caller, request: HandoffWrite) -> HandoffWritten:
    """Hand over: the cycle advances, or in approval mode a review begins (or goes on) that will advance it.

    Raises:
        ConfigInvalid: A role of the workflow has no key.
        InvalidSession: The session is none, or has ended.
        NoActiveCycle: No cycle is under way.
        InvalidTarget: The target is no role.
        InvalidPhase: The phase hands nothing to the target, or its hand-off waits for its review.
        LockDenied: It is another role's to write, or the token is not the current one.
        SchemaInvalid: The payload has not its form, or speaks of something else.
        TooLarge: The payload is over the limit of a text.
    """

    def work(unit: Unit) -> HandoffWritten:
        standing, session = cycle_scope.enter(unit, services, caller, request)
        cycle = standing.require_active()
        step = rules.transition(cycle, standing.workflow, request.target)
        review = reviews.find(unit, cycle.review_id, lock=True) if cycle.review_id else None
        refuse_undecided(cycle, review)
        rules.check_producer(cycle, step, session.role)
        check_token(services, cycle, session, request.lock_token)
        text = _checked_text(services, cycle, step, request)
        if cycle.mode == "approval":
            answer = _propose(unit, services, caller, cycle, step, text, review)
        else:
            answer = _advance_at_once(unit, services, cycle, step, text)
        cycle_scope.used(unit, services, session)
        return answer

    return await transact(services, caller, work)


async def handoff_read(services: Services, caller: Caller, request: HandoffRead) -> dict[str, Any]:
    """The newest hand-off to a role that advanced the cycle under way; empty if there is none.

    Raises:
        InvalidTarget: The target is no role.
    """

    def work(unit: Unit) -> dict[str, Any]:
        standing = cycle_scope.look(unit, services, caller, request)
        rules.check_known(standing.workflow, request.target, field="target")
        if standing.active is None:
            return {}
        for handoff in reversed(cycles.list_handoffs(unit, standing.active.id)):
            if handoff.target == request.target and handoff.advanced_at is not None:
                return cycle_history.payload_of(unit, handoff)
        return {}

    return await services.store.read(work)


class HandoffReviews(Participant):
    """Reviews of hand-offs: they are revised by their producers, and advance their cycles."""

    @override
    def lock(self, unit: Unit, review_id: str) -> None:
        cycles.lock_of_review(unit, review_id)

    @override
    def check_revision(self, unit: Unit, review: Review) -> None:
        why = "This review is the hand-off of the cycle {0.cycle_id}; {0.producer} revises it with handoff_write."
        _refuse_of_cycle(unit, review, why)

    @override
    def check_withdrawal(self, unit: Unit, review: Review) -> None:
        why = "The cycle {0.cycle_id} has gone on with this hand-off, so that its approval stays."
        _refuse_of_cycle(unit, review, f"{why} Hand the work back with handoff_write.")

    @override
    def check_counter_patch(self, unit: Unit, review: Review, body: str) -> None:
        gated = _find_gated(unit, review, lock=False)
        if gated is not None:
            cycle, handoff = gated
            schema.parsed(body, cycle, handoff.step)

    @override
    def decided(self, unit: Unit, services: Services, decision: Decision) -> None:
        gated = _find_gated(unit, decision.review) if decision.verdict == "approved" and decision.stands else None
        if gated is not None:
            _advance(unit, services, *gated, decision.current, decision.reviewer)


def _refuse_of_cycle(unit: Unit, review: Review, why: str) -> None:
    handoff = cycles.find_by_review(unit, review.id) if review.category == CATEGORY else None
    if handoff is not None:
        about = {"review_id": review.id, "cycle_id": handoff.cycle_id, "status": review.state}
        raise InvalidTransition(why.format(handoff), **about)


def _find_gated(unit: Unit, review: Review, *, lock: bool = True) -> tuple[Cycle, Handoff] | None:
    """The cycle and the hand-off that a review decides about; None for a review that no cycle opened."""
    if review.category != CATEGORY:
        return None
    handoff = cycles.find_by_review(unit, review.id)
    cycle = cycles.find(unit, handoff.cycle_id, lock=lock) if handoff else None
    return (cycle, handoff) if cycle and handoff else None


def _advance(unit: Unit, services: Services, cycle: Cycle, handoff: Handoff, approved: Round, reviewer: str) -> None:
    """Advance the cycle by exactly the round that was approved, in the verdict's own transaction.

    Raises:
        InvalidPhase: The cycle has gone on without this hand-off.
        SchemaInvalid: The approved text is no payload for it.
    """
    if cycle.review_id != approved.review_id or cycle.phase != handoff.phase:
        raise InvalidPhase(
            f"The cycle has gone on without this hand-off: it is in the phase {cycle.phase}. Nothing would come of an"
            " approval; give another verdict, or have the review closed.",
            phase=cycle.phase,
            cycle_id=cycle.id,
        )
    text = reviews.find_content(unit, approved.description_id) or ""
    schema.parsed(text, cycle, handoff.step)
    now = services.clock.now_us()
    after = rules.advanced(cycle, handoff.step, now)
    taken = written = None
    if handoff.round == approved.round:
        taken = handoff._replace(advanced_at=now)
    else:
        # An accepted counter-patch is a hand-off of its own, so that the history shows both.
        number = cycle.handoffs + 1
        content_id = ledger.keep_content(unit, text) or ""
        written = handoff._replace(
            number=number, content_id=content_id, round=approved.round, written_at=now, advanced_at=now
        )
        after = after._replace(handoffs=number)
    cycles.change(
        unit,
        cycle,
        after,
        actor=reviewer,
        kind=EventKind.CYCLE_ADVANCED,
        data={**handoff.step._asdict(), "review_id": approved.review_id, "round": approved.round},
        written=written,
        advanced=taken,
    )


def _checked_text(services: Services, cycle: Cycle, step: Transition, request: HandoffWrite) -> str:
    # First of all: a complaint about the payload's form might repeat a token that stands in it.
    raw = orjson.dumps(request.payload).decode()
    for name, token in (("lock_token", request.lock_token), ("session_token", request.session_token)):
        if token in raw:
            raise SchemaInvalid(
                f"The payload contains the {name}, which would be kept and shown with it; take it out.",
                field="payload",
                problems=[{"field": "payload", "problem": f"contains the {name}"}],
            )
    text = schema.text_of(schema.checked(request.payload, cycle, step))
    contents.check_text(services, "payload", text)
    return text


def _advance_at_once(unit: Unit, services: Services, cycle: Cycle, step: Transition, text: str) -> HandoffWritten:
    now = services.clock.now_us()
    handoff = _handoff(unit, cycle, step, text, now)._replace(advanced_at=now)
    noted = cycles.change(
        unit,
        cycle,
        cycle._replace(handoffs=handoff.number, updated_at=now),
        actor=step.producer,
        kind=EventKind.HANDOFF_WRITTEN,
        data={**step._asdict(), "number": handoff.number},
        written=handoff,
    )
    written = cycles.change(
        unit,
        noted,
        rules.advanced(noted, step, now),
        actor=step.producer,
        kind=EventKind.CYCLE_ADVANCED,
        data=step._asdict(),
    )
    who = step.target
    then = f"{who} is next: lock_acquire gives it the lock, and handoff_read (target={who}) what you wrote."
    return _written(services, written, then)


def _written(services: Services, cycle: Cycle, next_step: str, review_id: str | None = None) -> HandoffWritten:
    place = services.waits.cursor(cycle.event_seq)
    return shown(HandoffWritten, cycle, ok=True, next_step=next_step, review_id=review_id, cursor=place)


def _propose(
    unit: Unit, services: Services, caller: Caller, cycle: Cycle, step: Transition, text: str, before: Review | None
) -> HandoffWritten:
    """Have a hand-off reviewed: a new round where changes were requested, else a new review."""
    revised = before if before is not None and before.state == State.CHANGES_REQUESTED else None
    earlier = cycles.find_by_review(unit, revised.id) if revised is not None else None
    if revised is not None and (earlier is None or earlier.target != step.target):
        close_in(unit, services, revised, step.producer, f"The hand-off goes to {step.target} instead.")
        revised = None
    proposal = CreateReview(
        intent=f"Hand-off of '{cycle.feature}': {step.producer} ({step.phase}) to {step.target} ({step.next_phase})",
        agent_type=step.producer,
        agent_role="producer",
        description=text,
        phase=cycle.phase,
        category=CATEGORY,
        metadata={"cycle_id": cycle.id, "workflow": cycle.workflow, "feature": cycle.feature, "target": step.target},
        proposer_id=step.producer,
        parent_id=before.id if before is not None and _was_rejected(before) else None,
    )
    # A role says nothing about whose session it is: that caller must not approve its own hand-off.
    author, content = caller.agent, contents.Content("")
    if revised is not None:
        review = proposals.revise_in(unit, services, caller, revised, proposal, content, author)
    else:
        new_id = services.clock.new_id("rv")
        review = proposals.open_in(unit, services, caller, new_id, cycle.project, proposal, content, author)
    now = services.clock.now_us()
    handoff = _handoff(unit, cycle, step, text, now)._replace(review_id=review.id, round=review.round)
    written = cycles.change(
        unit,
        cycle,
        cycle._replace(handoffs=handoff.number, review_id=review.id, updated_at=now),
        actor=step.producer,
        kind=EventKind.HANDOFF_WRITTEN,
        data={**step._asdict(), "number": handoff.number, "review_id": review.id, "round": review.round},
        written=handoff,
    )
    then = (
        f"The review {review.id} decides. Wait with cycle_status (wait=true, role={step.producer}): it answers when"
        f" you have something to do again. {step.target} goes on as soon as it is approved."
    )
    return _written(services, written, then, review.id)


def _was_rejected(review: Review) -> bool:
    return review.state == State.REJECTED or review.outcome == "rejected"


def _handoff(unit: Unit, cycle: Cycle, step: Transition, text: str, now: int) -> Handoff:
    return Handoff(
        cycle_id=cycle.id,
        number=cycle.handoffs + 1,
        **step._asdict(),
        content_id=ledger.keep_content(unit, text) or "",
        written_at=now,
    )

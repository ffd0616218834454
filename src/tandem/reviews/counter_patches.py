"""Counter-patches: offered with a verdict, decided by the proposer, overtaken by events."""

from __future__ import annotations

from dataclasses import replace

from tandem.contract.caller import Caller
from tandem.errors import NoCounterPatch, NotFound
from tandem.reviews import attention, checks, contents, grounds, views, writing
from tandem.reviews import discussion_queries as discussion
from tandem.reviews import queries as reviews
from tandem.reviews.answers import CounterPatchDecided
from tandem.reviews.claim_rules import COUNTER_PATCH, acceptor, check_concerned, end_claim
from tandem.reviews.context import Services
from tandem.reviews.discussion_rules import next_round, record_speaker, with_turn
from tandem.reviews.requests import AcceptCounterPatch, RejectCounterPatch
from tandem.reviews.rounds import CounterPatch, Round
from tandem.reviews.rules import Action, Review, step
from tandem.reviews.writing import CounterPatchEnd, Rows
from tandem.store import ledger
from tandem.store.base import Unit
from tandem.store.context import transact
from tandem.store.event import EventKind

PENDING = "pending"
ACCEPTED = "accepted"
REJECTED = "rejected"
SUPERSEDED = "superseded"


async def accept_counter_patch(services: Services, caller: Caller, request: AcceptCounterPatch) -> CounterPatchDecided:
    """Make a pending counter-patch the next round's content, if it still fits.

    Raises:
        Forbidden: The review is another principal's.
        NoCounterPatch: It is not pending (any more).
        SelfApproval: The caller is its author.
        InvalidDiff: It does not apply to the base any more.
        InvalidTransition: The review takes no decision in its state.
    """
    contents.check_text(services, "reason", request.reason)

    def look(unit: Unit) -> tuple[Review, Round, str]:
        review = reviews.get(unit, request.review_id, request.project)
        patch = _pending(unit, caller, review, request.counter_patch_id, Action.ACCEPT_COUNTER_PATCH)
        acceptor(review, patch, caller.names(), caller.agent)
        body = reviews.find_content(unit, patch.content_id) or ""
        return review, reviews.get_round(unit, review.id, review.round), body

    review, replaced, body = await services.store.read(look)
    # By its name, not by the commit it was then: what moved on since may no longer take the patch.
    facts = await contents.replacement_facts(services, review.project, replaced, body, base=replaced.base)

    def work(unit: Unit) -> CounterPatchDecided:
        before = reviews.get(unit, request.review_id, lock=True)
        patch = _pending(unit, caller, before, request.counter_patch_id, Action.ACCEPT_COUNTER_PATCH)
        found = step(Action.ACCEPT_COUNTER_PATCH, before)
        now = services.clock.now_us()
        actor = caller.agent or before.proposer_id
        before = attention.clear_attention(unit, before, actor, now)
        stays_held = found.to is None
        accepted_by = acceptor(before, patch, caller.names(), caller.agent)
        accepted = (before if stays_held else end_claim(before, found, now))._replace(counter_patch_status=ACCEPTED)
        after = next_round(accepted, digest=facts.digest, validated=facts.validated, now_us=now)
        current = reviews.get_round(unit, before.id, before.round)
        new_round = replace(_accepted_round(unit, current, patch, facts, now), accepted_by=accepted_by)
        written = writing.change_review(
            unit,
            before,
            after,
            actor=actor,
            kind=EventKind.COUNTER_PATCH_ACCEPTED,
            data={"counter_patch_id": patch.id, "author": patch.author, "round": after.round, "digest": after.digest},
            rows=Rows(round=new_round, decision=CounterPatchEnd(patch.id, ACCEPTED, request.reason, now)),
        )
        written = checks.begin(unit, written, facts)
        return _decided(unit, services, written, patch)

    return await transact(services, caller, work)


async def reject_counter_patch(services: Services, caller: Caller, request: RejectCounterPatch) -> CounterPatchDecided:
    """Decline a pending counter-patch; the round's content stays.

    Raises:
        Forbidden: The review is another principal's.
        NoCounterPatch: It is not pending (any more).
        InvalidTransition: The review takes no decision in its state.
    """
    contents.check_text(services, "reason", request.reason)

    def work(unit: Unit) -> CounterPatchDecided:
        before = reviews.get(unit, request.review_id, request.project, lock=True)
        patch = _pending(unit, caller, before, request.counter_patch_id, Action.REJECT_COUNTER_PATCH)
        now = services.clock.now_us()
        decided = before._replace(counter_patch_status=REJECTED, updated_at=now)
        written = writing.change_review(
            unit,
            before,
            record_speaker(decided, "proposer", "decision"),
            actor=caller.agent or before.proposer_id,
            kind=EventKind.COUNTER_PATCH_REJECTED,
            data={"counter_patch_id": patch.id, "reason": request.reason},
            rows=Rows(decision=CounterPatchEnd(patch.id, REJECTED, request.reason, now)),
        )
        return _decided(unit, services, written, patch)

    return await transact(services, caller, work)


def _decided(unit: Unit, services: Services, review: Review, patch: CounterPatch) -> CounterPatchDecided:
    onward = views.onward(unit, services, review, "revision")
    return views.answer(CounterPatchDecided, services.waits, unit, review, counter_patch_id=patch.id, **onward)


def supersede(unit: Unit, review: Review, *, actor: str, now_us: int, reason: str) -> Review:
    """Let the pending counter-patch, if there is one, be overtaken, and say so in the log."""
    if review.counter_patch_status != PENDING or review.counter_patch_id is None:
        return review
    after = with_turn(review._replace(counter_patch_status=SUPERSEDED, updated_at=now_us))
    return writing.change_review(
        unit,
        review,
        after,
        actor=actor,
        kind=EventKind.COUNTER_PATCH_SUPERSEDED,
        data={"counter_patch_id": review.counter_patch_id, "reason": reason},
        rows=Rows(decision=CounterPatchEnd(review.counter_patch_id, SUPERSEDED, reason, now_us)),
    )


def _pending(unit: Unit, caller: Caller, review: Review, counter_patch_id: str, action: Action) -> CounterPatch:
    check_concerned(review, caller)
    step(action, review)
    patch = discussion.find_counter_patch(unit, review.id, counter_patch_id)
    if patch is None:
        raise NotFound(
            f"The review '{review.id}' has no counter-patch '{counter_patch_id}'; get_proposal shows the pending one.",
            review_id=review.id,
            counter_patch_id=counter_patch_id,
        )
    if patch.status != PENDING:
        raise NoCounterPatch(
            f"That counter-patch is {patch.status}; get_proposal shows the pending one, if there is one.",
            review_id=review.id,
            counter_patch_id=counter_patch_id,
            expected=PENDING,
            actual=patch.status,
        )
    return patch


def _accepted_round(unit: Unit, replaced: Round, patch: CounterPatch, facts: contents.Content, now: int) -> Round:
    """The counter-patch as the next round; the intent stays the proposer's."""
    kept = ledger.keep_content(unit, facts.content)
    return replace(
        replaced,
        round=replaced.round + 1,
        origin=COUNTER_PATCH,
        author=patch.author,
        description_id=kept if patch.is_text else replaced.description_id,
        diff_id=replaced.diff_id if patch.is_text else kept,
        base_commit=facts.base_commit,
        digest=facts.digest,
        validated=int(facts.validated),
        affected_files=contents.files_json(facts),
        changes=contents.changes_json(facts),
        notes=contents.notes_json(facts),
        created_at=now,
        ground=grounds.as_json(facts.ground),
    )

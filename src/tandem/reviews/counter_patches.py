"""Counter-patches: drafted from edits, offered with a verdict, decided by the proposer, overtaken by events."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace

from tandem.contract import answer
from tandem.contract.caller import Caller, Names
from tandem.errors import InvalidDiff, InvalidInput, InvalidTransition, NoCounterPatch, NotFound, SchemaInvalid
from tandem.reviews import carried, checks, contents, seats, views, writing
from tandem.reviews import files as round_files
from tandem.reviews import queries as reviews
from tandem.reviews.answers import CounterPatchDecided
from tandem.reviews.claim_rules import (
    COUNTER_PATCH,
    acceptor,
    alone,
    as_objected,
    check_concerned,
    check_round,
    end_claim,
)
from tandem.reviews.claims import clear_failures
from tandem.reviews.context import Services
from tandem.reviews.page_contract import CounterPatchDraft, DraftCounterPatch, FileEdit
from tandem.reviews.queries import RoundContent
from tandem.reviews.requests import AcceptCounterPatch, RejectCounterPatch
from tandem.reviews.rounds import CounterPatch, Round, Verdict, disagreement, next_round, record_speaker, with_turn
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
    facts = await carried.with_returned(services, review, facts, is_text=replaced.diff_id is None)

    def work(unit: Unit) -> CounterPatchDecided:
        before = reviews.get(unit, request.review_id, lock=True)
        patch = _pending(unit, caller, before, request.counter_patch_id, Action.ACCEPT_COUNTER_PATCH)
        # A claim does not outlast the rounds after which a person decides.
        is_stopped = before.attention is None and disagreement(before) is not None
        now = services.clock.now_us()
        found = step(Action.REVISE if is_stopped else Action.ACCEPT_COUNTER_PATCH, as_objected(before, now))
        actor = caller.agent or before.proposer_id
        before = clear_failures(unit, before, actor, now)
        stays_held = found.to is None
        accepted_by = acceptor(before, patch, caller.names(), caller.agent)
        claimed = alone(before) if stays_held else end_claim(as_objected(before, now), found, now)
        accepted = claimed._replace(counter_patch_status=ACCEPTED)
        after = next_round(accepted, digest=facts.digest, validated=facts.validated, now_us=now)
        current = reviews.get_round(unit, before.id, before.round)
        new_round = replace(_accepted_round(unit, current, patch, facts, now), accepted_by=accepted_by)
        after = seats.begun(after, new_round, facts, before)
        stopped, findings = carried.of_round(unit, services, before, after, facts)
        after = after if stays_held else stopped
        written = writing.change_review(
            unit,
            before,
            after,
            actor=actor,
            kind=EventKind.COUNTER_PATCH_ACCEPTED,
            data={"counter_patch_id": patch.id, "author": patch.author, "round": after.round, "digest": after.digest},
            rows=Rows(
                round=new_round,
                decision=CounterPatchEnd(patch.id, ACCEPTED, request.reason, now),
                findings=findings,
            ),
        )
        written = checks.begin(unit, services, written, facts)
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
            # What a reviewer asked meanwhile still waits for its answer.
            with_turn(decided) if before.is_unanswered else record_speaker(decided, "proposer", "decision"),
            actor=caller.agent or before.proposer_id,
            kind=EventKind.COUNTER_PATCH_REJECTED,
            data={"counter_patch_id": patch.id, "reason": request.reason},
            rows=Rows(decision=CounterPatchEnd(patch.id, REJECTED, request.reason, now)),
        )
        return _decided(unit, services, seats.go_on(unit, services, written, now), patch)

    return await transact(services, caller, work)


def _decided(unit: Unit, services: Services, review: Review, patch: CounterPatch) -> CounterPatchDecided:
    onward = views.onward(unit, services, review, "missing", "revision", "followed")
    return views.answer(CounterPatchDecided, services.waits, unit, review, counter_patch_id=patch.id, **onward)


async def facts_of(
    services: Services, review_id: str, project: str | None, body: str, admit: Callable[[Unit, Review], None]
) -> contents.Content:
    """What a counter-patch would be as the current round's content; git runs before any transaction.

    Args:
        services: The services.
        review_id: The review.
        project: The project that it must be of; None for any.
        body: The whole new diff, or text.
        admit: Raises if this is no time for it.

    Raises:
        InvalidDiff: It does not apply.
        InvalidInput: It is no content for the file that the round names.
        SchemaInvalid: It is no payload for the hand-off that the review is about.
        TooLarge: It is over the limit.
    """

    def look(unit: Unit) -> tuple[Review, Round]:
        review = reviews.get(unit, review_id, project)
        admit(unit, review)
        for participant in services.participants:
            participant.check_counter_patch(unit, review, body)
        return review, reviews.get_round(unit, review.id, review.round)

    review, replaced = await services.store.read(look)
    return await contents.replacement_facts(services, review.project, replaced, body, base=replaced.base_commit)


def offer(
    unit: Unit,
    review: Review,
    given: Verdict,
    replaced: Round,
    facts: contents.Content,
    patch_id: str,
    agent: str | None,
) -> Review:
    """Put the counter-patch beside the verdict, pending until the proposer decides."""
    patch = CounterPatch(
        id=patch_id,
        review_id=review.id,
        seq=0,
        round=given.round,
        author=given.reviewer_id,
        content_id=ledger.keep_content(unit, facts.content) or "",
        is_text=int(replaced.diff_id is None),
        digest=facts.digest,
        affected_files=contents.files_json(facts),
        status=PENDING,
        reason=None,
        created_at=given.created_at,
        decided_at=None,
        sent_by=agent,
    )
    offered = review._replace(counter_patch_id=patch_id, counter_patch_status=PENDING)
    # One from beside the main claim is no part of its discussion.
    is_beside = review.held and given.claim_generation != review.claim_generation
    return writing.change_review(
        unit,
        review,
        with_turn(offered) if is_beside else record_speaker(offered, "reviewer", "verdict"),
        actor=given.reviewer_id,
        kind=EventKind.COUNTER_PATCH_PROPOSED,
        data={"counter_patch_id": patch_id, "round": given.round, "digest": facts.digest},
        rows=Rows(counter_patch=patch),
    )


def make_way(unit: Unit, review: Review, author: str, names: Names, now_us: int) -> Review:
    """Let a newer counter-patch overtake the pending one; but not that of another one of several reviewers.

    Raises:
        InvalidTransition: Such a one is pending.
    """
    patch = reviews.find_counter_patch(unit, review.id, review.counter_patch_id or "")
    if review.needs is None or not review.is_undecided or patch is None or names.include(patch.author):
        return supersede(unit, review, actor=author, now_us=now_us, reason="a newer counter-patch")
    raise InvalidTransition(
        f"The counter-patch of {patch.author} waits for the proposer: wait until it is decided, or say yours in"
        " findings with suggestions.",
        review_id=review.id,
        status=review.state,
    )


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
    patch = reviews.find_counter_patch(unit, review.id, counter_patch_id)
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
        created_at=now,
        **contents.columns(facts),
    )


async def draft_counter_patch(services: Services, _caller: Caller, request: DraftCounterPatch) -> CounterPatchDraft:
    """The counter-patch that comes of edits to what a round leaves, or a whole one, and whether a verdict takes it.

    Raises:
        NotFound: There is no such review, or nowhere to read its files from.
        StaleRound: The round is no longer the current one.
        InvalidInput: The edits do not fit the round, or touch a file that is no text.
        TooLarge: Something is over a limit.
    """
    found = await services.store.read(lambda unit: _found(unit, request))
    is_text = found.diff is None
    if (request.text is None) == (request.edits is None) or (is_text and request.text is None):
        told = "a text: send all of it as text" if is_text else "a diff: send edits to its files, or a diff as text"
        raise InvalidInput(f"The round is {told}; not both.", field="text" if is_text else "edits")
    body = request.text if request.text is not None else await _diff(services, found, request.edits or [])
    if is_text:
        contents.check_text(services, "text", body)
    stated = {"review_id": found.review.id, "round": found.round.round, "counter_patch": body}

    def still(_unit: Unit, review: Review) -> None:
        check_round(review, found.round.round)

    facts, changes, problem = contents.Content(""), None, None
    try:
        facts = await facts_of(services, found.review.id, request.project, body, still)
        changes = await round_files.changes_to(services, found, None if is_text else body)
    except (InvalidDiff, InvalidInput, SchemaInvalid) as error:
        problem = error.message
    if not body:
        problem = "With these edits nothing is left of the change; to say so, request changes or reject it."
    return answer.shown(CounterPatchDraft, facts, **stated, interdiff=changes, applies=problem is None, problem=problem)


def _found(unit: Unit, request: DraftCounterPatch) -> RoundContent:
    found = reviews.get_content(unit, request.review_id, request.project)
    check_round(found.review, request.round or found.review.round)
    return found


async def _diff(services: Services, found: RoundContent, asked: Sequence[FileEdit]) -> str:
    edits = {edit.path: edit.content for edit in asked}
    if len(edits) != len(asked):
        raise InvalidInput("A path is edited twice; send each file once, as it should be.", field="edits")
    async with round_files.readable(services, found) as (repository, patch), services.validations:
        return await asyncio.to_thread(repository.diff_with_edits, patch, edits)

"""The discussion of a review: saying something, and reading what was said."""

from __future__ import annotations

import orjson

from tandem.contract.answer import shown
from tandem.contract.caller import Caller
from tandem.core.clock import isoformat
from tandem.errors import NotFound
from tandem.reviews import claim_rules as claims
from tandem.reviews import contents, views, writing
from tandem.reviews import queries as reviews
from tandem.reviews.answers import Discussion, DiscussionEntry, MessageSent
from tandem.reviews.context import Services
from tandem.reviews.finding_rules import Finding
from tandem.reviews.requests import AddMessage, GetDiscussion
from tandem.reviews.rounds import CounterPatch, Message, Verdict, check_turn, record_speaker
from tandem.reviews.rules import Action, Review, step
from tandem.reviews.writing import Rows
from tandem.store import pages
from tandem.store.base import Unit
from tandem.store.context import transact
from tandem.store.event import EventKind

_BEFORE_ALL = (0, -2)


async def add_message(services: Services, caller: Caller, request: AddMessage) -> MessageSent:
    """Add a message; the sides alternate, decided within the transaction.

    Raises:
        TurnViolation: This side spoke last.
        StaleClaim: A reviewer's claim generation is over.
        NotClaimant: A reviewer who does not hold the claim (or gave no verdict here).
        InvalidTransition: Nothing is discussed in this state.
        NotFound: There is no such review, or nothing by the id to be resolved.
    """
    contents.check_text(services, "body", request.body)
    metadata = contents.check_metadata(services, request.metadata)
    message_id = services.clock.new_id("ms")

    def work(unit: Unit) -> MessageSent:
        before = reviews.get(unit, request.review_id, request.project, lock=True)
        sender, entered = _enter(services, before, caller, request)
        check_turn(before, request.sender_role)
        if request.resolves is not None:
            _check_resolvable(unit, before.id, request.resolves)
        now = services.clock.now_us()
        message = Message(
            id=message_id,
            review_id=before.id,
            seq=0,
            round=before.round,
            sender_role=request.sender_role,
            sender_id=sender,
            body=request.body,
            metadata=metadata,
            resolves=request.resolves,
            created_at=now,
        )
        written = writing.change_review(
            unit,
            before,
            record_speaker(entered._replace(updated_at=now), request.sender_role, "message"),
            actor=sender,
            kind=EventKind.MESSAGE_SENT,
            data={"message_id": message_id, "sender_role": request.sender_role, "round": before.round},
            rows=Rows(messages=(message,)),
        )
        if request.resolves is not None:
            written = writing.change_review(
                unit,
                written,
                written,
                actor=sender,
                kind=EventKind.MESSAGE_RESOLVED,
                data={"message_id": request.resolves, "resolved_by": message_id},
                rows=Rows(resolved=(request.resolves, message_id)),
            )
        onward = views.onward(unit, services, written)
        if request.sender_role != "proposer":
            onward["message"] = ""
        return views.answer(MessageSent, services.waits, unit, written, message_id=message_id, **onward)

    return await transact(services, caller, work, works_on=(request.review_id,))


def _enter(services: Services, before: Review, caller: Caller, request: AddMessage) -> tuple[str, Review]:
    """Who speaks, and the review as speaking makes it; a holder's word renews the lease."""
    if request.sender_role == "proposer":
        found = step(Action.PROPOSER_MESSAGE, before)
        return caller.agent or before.proposer_id, before._replace(state=found.to or before.state)
    found, reviewer = claims.reviewer_step(
        Action.REVIEWER_MESSAGE,
        before,
        generation=request.claim_generation,
        reviewer_id=request.reviewer_id,
        access=caller.access,
    )
    entered = before._replace(state=found.to or before.state)
    if before.held:
        entered = claims.renewed(entered, services.clock.now_us(), services.policy)
    return reviewer, entered


def _check_resolvable(unit: Unit, review_id: str, message_id: str) -> None:
    if reviews.find_message(unit, review_id, message_id) is None:
        raise NotFound(
            f"The review '{review_id}' has no message '{message_id}'; get_discussion lists them. A finding is answered"
            " with answer_finding.",
            review_id=review_id,
            message_id=message_id,
        )


async def get_discussion(services: Services, _caller: Caller, request: GetDiscussion) -> Discussion:
    """A page of what was said, oldest first.

    Raises:
        NotFound: There is no such review.
        InvalidInput: The page token is none of ours.
    """
    pages.check_limit(services, request.limit)
    after = pages.decode(services, request.page, int, int) if request.page else _BEFORE_ALL

    def work(unit: Unit) -> Discussion:
        review = reviews.get(unit, request.review_id, request.project)
        return read_page(unit, services, review, limit=request.limit, round_number=request.round, after=after)

    return await services.store.read(work)


def read_page(
    unit: Unit,
    services: Services,
    review: Review,
    *,
    limit: int,
    round_number: int | None = None,
    after: tuple[int, int] = _BEFORE_ALL,
) -> Discussion:
    """A page of what was said about a review, read in the unit; from the beginning unless it goes on after a place."""
    found = reviews.list_entries(unit, review.id, round_number=round_number, after=after, limit=limit + 1)
    read = (_entry(unit, reviews.get_entry(unit, review.id, kind, entry_id)) for kind, entry_id, _, _ in found[:limit])
    entries = views.fitting(read, lambda one: sum(len(text or "") for text in (one.body, one.description, one.diff)))
    *_, seq, position = found[len(entries) - 1] if entries else ("", "", 0, 0)
    return shown(
        Discussion,
        review,
        review_id=review.id,
        entries=tuple(entries),
        next_page=pages.encode(services, seq, position) if len(found) > len(entries) else None,
        cursor=services.waits.cursor(review.event_seq, unit),
    )


def _entry(unit: Unit, said: Message | Verdict | CounterPatch | Finding) -> DiscussionEntry:
    at = isoformat(said.created_at)
    match said:
        case Message():
            facts = orjson.loads(said.metadata)
            return shown(DiscussionEntry, said, kind="message", at=at, author=said.sender_id, metadata=facts)
        case Finding():
            role, status = "reviewer", said.state
            return shown(DiscussionEntry, said, kind="finding", at=at, sender_role=role, body=said.claim, status=status)
        case Verdict():
            stated = {"kind": "verdict", "author": said.reviewer_id}
        case CounterPatch():
            stated = {"kind": "counter_patch", **views.replacement(unit, said)}
    return shown(DiscussionEntry, said, at=at, sender_role="reviewer", body=said.reason, **stated)

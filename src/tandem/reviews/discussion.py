"""The discussion of a review: send messages, and read its entries."""

from __future__ import annotations

import orjson

from tandem.contract.answer import shown
from tandem.contract.caller import Caller
from tandem.core.clock import isoformat
from tandem.errors import NotClaimant, NotFound
from tandem.reviews import claim_rules as claims
from tandem.reviews import contents, seats, views, writing
from tandem.reviews import queries as reviews
from tandem.reviews.answers import Discussion, DiscussionEntry, MessageSent
from tandem.reviews.context import Services, is_by_person
from tandem.reviews.finding_queries import BEFORE_ALL
from tandem.reviews.finding_rules import Finding
from tandem.reviews.requests import AddMessage, GetDiscussion
from tandem.reviews.rounds import CounterPatch, Message, Verdict, check_turn, record_speaker
from tandem.reviews.rules import Action, Review, step
from tandem.reviews.writing import Rows
from tandem.store import pages
from tandem.store.base import Unit
from tandem.store.context import transact
from tandem.store.event import EventKind

_PROPOSERS = "That is what the proposer does next; you have nothing to do for it."


async def add_message(services: Services, caller: Caller, request: AddMessage) -> MessageSent:
    """Add a message; the sides alternate, decided within the transaction.

    A question from the side, by a person who does not review it, and its answer take no turn.

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
        settled = None if request.resolves is None else reviews.find_message(unit, before.id, request.resolves)
        is_question = _is_from_the_side(unit, services, before, caller, request)
        takes_turn = not is_question and not _answers_question(request, settled)
        sender, entered = (_enter if takes_turn else _enter_aside)(services, before, caller, request)
        if takes_turn:
            check_turn(before, request.sender_role)
        if request.resolves is not None and settled is None:
            raise _unknown_message(before.id, request.resolves)
        now = services.clock.now_us()
        message = Message(
            id=message_id,
            review_id=before.id,
            seq=0,
            round=before.round,
            kind="question" if is_question else "message",
            sender_role=request.sender_role,
            sender_id=sender,
            body=request.body,
            metadata=metadata,
            resolves=request.resolves,
            created_at=now,
        )
        asked = message_id if is_question else _still_asked(unit, before, request.resolves)
        said = entered._replace(updated_at=now, question_id=asked)
        if takes_turn:
            said = record_speaker(said, request.sender_role, _how(unit, services, before, caller, sender))
        written = writing.change_review(
            unit,
            before,
            said,
            actor=sender,
            kind=EventKind.MESSAGE_SENT,
            data={"message_id": message_id, "sender_role": request.sender_role, "round": before.round},
            rows=Rows(messages=(message,)),
        )
        written = written if request.resolves is None else _resolve(unit, written, request.resolves, message)
        written = seats.go_on(unit, services, written, now) if request.sender_role == "proposer" else written
        onward = views.onward(unit, services, written)
        onward |= {} if request.sender_role == "proposer" else {"message": _PROPOSERS}
        return views.answer(MessageSent, services.waits, unit, written, message_id=message_id, **onward)

    return await transact(services, caller, work, works_on=(request.review_id,))


def _enter(services: Services, before: Review, caller: Caller, request: AddMessage) -> tuple[str, Review]:
    """Who speaks, and the review as speaking makes it; a holder's word renews the lease."""
    if request.sender_role == "proposer":
        found = step(Action.PROPOSER_MESSAGE, before)
        return caller.agent or before.proposer_id, before._replace(state=found.to or before.state)
    if claims.seen_by(before, request.claim_generation, request.reviewer_id) is not before:
        raise NotClaimant(
            f"{before.reviewer_id}, who claimed this review first, leads its discussion: say it with your verdict, in"
            " findings or as a comment.",
            review_id=before.id,
            expected=before.reviewer_id,
            actual=request.reviewer_id,
        )
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


def _is_from_the_side(unit: Unit, services: Services, before: Review, caller: Caller, request: AddMessage) -> bool:
    """Whether it is the question of a person who neither reviews it nor proposed it.

    Who names a claim speaks as its holder, and is refused when it is over.
    """
    if request.sender_role != "reviewer" or request.reviewer_id is None or request.claim_generation is not None:
        return False
    reviewer = before.reviewer_id if before.held else before.verdict_by
    is_proposer = caller.names(request.reviewer_id).include(before.proposer_id)
    is_aside = request.reviewer_id != reviewer and not is_proposer
    return is_aside and is_by_person(unit, services, caller, request.reviewer_id)


def _how(unit: Unit, services: Services, before: Review, caller: Caller, sender: str) -> str:
    """How a side speaks: a question of the person who holds the review, and its answer, wait for them."""
    if before.speaker_kind == "question":
        return "answer"
    is_asked = before.held and sender == before.reviewer_id and is_by_person(unit, services, caller, sender)
    return "question" if is_asked else "message"


def _answers_question(request: AddMessage, settled: Message | None) -> bool:
    return request.sender_role == "proposer" and settled is not None and settled.kind == "question"


def _enter_aside(_services: Services, before: Review, caller: Caller, request: AddMessage) -> tuple[str, Review]:
    """Who asks from the side or answers that; the review stays as it is, its claim and its turns included."""
    step(Action.ASK, before)
    asker = request.reviewer_id if request.sender_role == "reviewer" else None
    return asker or caller.agent or before.proposer_id, before


def _still_asked(unit: Unit, before: Review, resolves: str | None) -> str | None:
    """The newest question from the side that is open once a message is resolved."""
    if resolves is None or before.question_id != resolves:
        return before.question_id
    return reviews.find_question(unit, before.id, but=resolves)


def _resolve(unit: Unit, review: Review, resolved: str, message: Message) -> Review:
    return writing.change_review(
        unit,
        review,
        review,
        actor=message.sender_id,
        kind=EventKind.MESSAGE_RESOLVED,
        data={"message_id": resolved, "resolved_by": message.id},
        rows=Rows(resolved=(resolved, message.id)),
    )


def _unknown_message(review_id: str, message_id: str) -> NotFound:
    return NotFound(
        f"The review '{review_id}' has no message '{message_id}'; get_discussion lists them. A finding is answered"
        " with answer_finding.",
        review_id=review_id,
        message_id=message_id,
    )


async def get_discussion(services: Services, _caller: Caller, request: GetDiscussion) -> Discussion:
    """A page of the discussion, oldest entries first.

    Raises:
        NotFound: There is no such review.
        InvalidInput: The page token is none of ours.
    """
    pages.check_limit(services, request.limit)
    after = pages.decode(services, request.page, int, int) if request.page else BEFORE_ALL

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
    after: tuple[int, int] = BEFORE_ALL,
) -> Discussion:
    """A page of a review's discussion, read in the unit; from the beginning unless it goes on after a place."""
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
            return shown(DiscussionEntry, said, at=at, author=said.sender_id, metadata=facts)
        case Finding():
            role, status = "reviewer", said.state
            return shown(DiscussionEntry, said, kind="finding", at=at, sender_role=role, body=said.claim, status=status)
        case Verdict():
            stated = {"kind": "verdict", "author": said.reviewer_id}
        case CounterPatch():
            stated = {"kind": "counter_patch", **views.replacement(unit, said)}
    return shown(DiscussionEntry, said, at=at, sender_role="reviewer", body=said.reason, **stated)

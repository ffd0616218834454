"""Reading reviews, waiting for them, and closing them."""

from __future__ import annotations

import asyncio
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from tandem.contract import answer
from tandem.contract.caller import Caller
from tandem.core.clock import MICROSECONDS
from tandem.errors import InvalidInput
from tandem.git.hunks import only_files
from tandem.present.words import PRIORITIES
from tandem.reviews import (
    checks,
    contents,
    counter_patches,
    discussion,
    findings,
    grounds,
    seats,
    verdicts,
    views,
    writing,
)
from tandem.reviews import files as round_files
from tandem.reviews import queries as reviews
from tandem.reviews import report_queries as reports
from tandem.reviews.answers import FullReview, Proposal, ReviewClosed, ReviewPage, ReviewStatus, RoundRow
from tandem.reviews.claim_rules import as_objected, check_concerned, end_claim, seen_by
from tandem.reviews.claims import clear_attention
from tandem.reviews.context import Services, is_by_person
from tandem.reviews.queries import RoundContent
from tandem.reviews.requests import CloseReview, GetProposal, GetReview, GetReviewStatus, ListReviews
from tandem.reviews.rounds import Round, with_turn
from tandem.reviews.rules import ASKED, INIT, Action, Review, Side, State, allowed_actions, step
from tandem.rulings import next_steps
from tandem.rulings.policy import CHECKS, FILE
from tandem.store import events, pages
from tandem.store.base import Unit
from tandem.store.context import look_or_wait, transact
from tandem.store.event import EventKind
from tandem.store.waits import topic

"""The rounds whose results to compare, the earlier one first; None for no comparison."""


async def get_review_status(services: Services, caller: Caller, request: GetReviewStatus) -> ReviewStatus:
    """Where a review stands; with a wait, once there is news: that it is the caller's turn, or any event.

    A wait also ends when no reviewer will come before a person has done something.

    Raises:
        NotFound: There is no such review (in that project).
    """
    side: Side | None = None if request.wake_on == "any" else "reviewer" if caller.role == "reviewer" else "proposer"
    hub = services.waits
    given = hub.read(request.cursor)
    after: int | None = None
    cursor = request.cursor

    was_stuck: bool | None = None

    def find(unit: Unit) -> tuple[Review, ReviewStatus, int | None]:
        review = reviews.get(unit, request.review_id, request.project)
        place = after
        if after is None and given is not None:
            # Most wait for what follows on their own event, so that it is known whose it is.
            place = given.seq if given.seq == review.event_seq else hub.place_among(unit, given, review.id)
        if place is not None and place > review.event_seq:
            hub.check_place(place, events.head(unit)[0])
        status = views.status(unit, services, review, hub.cursor(review.event_seq, unit), changed=False)
        return review, status, place

    async def look() -> tuple[ReviewStatus, bool]:
        nonlocal after, cursor, was_stuck
        review, status, after = await services.store.read(find)
        is_stuck = status.no_reviewer is not None and status.no_reviewer.needs_person and side != "reviewer"
        gets_stuck, was_stuck = is_stuck and was_stuck is False, is_stuck
        is_asked = side == "proposer" and (review.question_id is not None or review.is_undecided)
        is_due = side is None or is_asked or review.turn in (side, None)
        if after is None and side is None:
            # Without a cursor, "any" means any event from now on.
            after, cursor = review.event_seq, status.cursor
            is_new = not request.wait
        else:
            is_new = after is None or review.event_seq > after
        moved = is_new and (is_due or not request.wait)
        # While it is not the waiter's turn the cursor stays, so that a later wait misses nothing.
        stays = request.wait and not moved and after is not None
        moved = moved or (request.wait and gets_stuck)
        return replace(status, cursor=cursor if stays and cursor else status.cursor, changed=moved), moved

    found = await look_or_wait(services, request.review_id, look, request, *_OF_POOLS)
    found = await _by_now(services, found)
    if caller.role == "reviewer":
        # What the proposer does is said to the proposer.
        return replace(found, message="")
    is_in_vain = request.wait and request.timeout_s != 0 and not found.changed
    return await _in_vain(services, found) if is_in_vain and next_steps.alone(asdict(found)) else found


async def _by_now(services: Services, found: ReviewStatus) -> ReviewStatus:
    """The status, with what the policy as it is now asks of an approved review more than that of its round did."""
    if found.status != State.APPROVED or found.missing or found.next_action == "escalate":
        return found
    review = await services.store.read(lambda unit: reviews.get(unit, found.review_id))
    if not _may_have_policy(services, review):
        return found
    asked = await contents.asked_by_now(services, found.project)

    def look(unit: Unit) -> tuple[Review, tuple[str, ...]]:
        review = reviews.get(unit, found.review_id)
        missing = seats.missing_by_now(unit, asked, review)
        # Those that run, or failed, are told as ever.
        return review, tuple(one.words for one in missing if one.word != CHECKS or review.checks is None)

    review, missing = await services.store.read(look)
    if not missing or review.state != State.APPROVED or (await verdicts.find_landing(services, review)).branches:
        return found
    stated = {"missing": missing, "next_action": "revise"}
    return replace(found, **stated, message=next_steps.operations({**asdict(found), **stated}))


def _may_have_policy(services: Services, review: Review) -> bool:
    """Whether git is asked for a policy at each status; the gate also finds a first one that no working tree has."""
    return review.needs is not None or Path(services.projects.root(review.project) or "", FILE).exists()


async def _in_vain(services: Services, found: ReviewStatus) -> ReviewStatus:
    """The answer to a wait in vain where no pool serves the project: it escalates, unless somebody reviews there.

    Somebody does if one of the project's newest reviews was claimed or decided within ten minutes. Those of
    `tandem init`, which approves its own files, do not count.
    """
    since_us = services.clock.now_us() - _REVIEWS_SECONDS * MICROSECONDS
    known = await services.store.read(
        lambda unit: reports.list_latest(unit, limit=_NEWEST, before=None, project=found.project, state=None)
    )
    by_others = (one for one in known if one.proposer_id != INIT)
    if any(max(one.claimed_at or 0, one.first_claimed_at or 0, one.decided_at or 0) > since_us for one in by_others):
        return found
    action = "escalate"
    return replace(found, next_action=action, message=next_steps.operations({**asdict(found), "next_action": action}))


_REVIEWS_SECONDS = 600
_NEWEST = 20
_OF_POOLS = tuple(topic(state=state) for state in ("running", "paused", "terminated"))
"""Events of pools and their reviewers after which it may be that none comes."""


async def get_proposal(services: Services, _caller: Caller, request: GetProposal) -> Proposal:
    """A round's whole content, or the part of it that concerns some files.

    Raises:
        NotFound: There is no such review or round.
        InvalidInput: The earlier round is not earlier.
    """
    content, shown, since = await services.store.read(lambda unit: _content(unit, services, request))
    return await _completed(services, request.files, shown, content, since)


async def get_review(services: Services, caller: Caller, request: GetReview) -> FullReview:
    """A review as a whole, with the marks of a person if one is named, and as they see it if they are at work on it.

    Raises:
        NotFound: There is no such review or round.
        InvalidInput: The earlier round is not earlier.
    """

    def work(unit: Unit) -> tuple[FullReview, findings.Known, RoundContent, Round | None]:
        newest = services.waits.newest(unit)
        content, shown, since = _content(unit, services, request)
        known = content.review
        review = seen_by(known, None, request.person)
        listed = reviews.list_verdicts(unit, review.id)
        verdicts, decisions = dict(listed), dict(one for one in listed if one[1] != "comment")
        full = FullReview(
            status=views.status(unit, services, review, services.waits.cursor(review.event_seq, unit), changed=True),
            proposal=shown,
            rounds=tuple(
                answer.shown(RoundRow, one, verdict=verdicts.get(one.round), decision=decisions.get(one.round))
                for one in reviews.list_rounds(unit, review.id)
            ),
            findings=(),
            discussion=discussion.read_page(unit, services, review, limit=services.policy.page_limit),
            actions=(*allowed_actions(State(review.state)), *_own(unit, services, caller, known, request.person)),
            speaker=None if review.speaker_kind == ASKED else review.speaker,
            viewed=tuple(reviews.list_viewed(unit, review.id, shown.round, request.person)) if request.person else (),
            checks=checks.views(unit, services, reviews.list_checks(unit, review.id, shown.round)),
            holder=services.pool.holder(unit, review),
            cursor=services.waits.cursor(newest),
        )
        return full, findings.of_review(unit, services, known), content, since

    full, known, content, since = await services.store.read(work)
    shown = full.proposal
    return replace(
        full,
        status=await _by_now(services, full.status),
        findings=await findings.shown(services, known, shown.round),
        proposal=await _completed(services, request.files, shown, content, since),
        checks=await checks.as_of_now(services, shown.project, full.checks),
    )


def _own(unit: Unit, services: Services, caller: Caller, review: Review, person: str | None) -> tuple[Action, ...]:
    """The further actions of one person: to claim beside others, and to withdraw their own approval."""
    is_over = review.approved_round is not None or review.state in (State.REJECTED, State.CLOSED)
    if person is None or is_over or (review.seats is None and review.at_work is None):
        return ()
    names, seat = caller.names(person), seats.seat_of(unit, services, caller, person, is_proved=True)
    may = {
        Action.CLAIM_BESIDE: seats.may_join(review, seat, names),
        Action.WITHDRAW_SEAT: seats.holds(review, names),
    }
    return tuple(action for action, is_allowed in may.items() if is_allowed)


def _content(unit: Unit, services: Services, request: GetProposal) -> tuple[RoundContent, Proposal, Round | None]:
    """A round, its content as it is answered, and the round that it is compared with, if any."""
    content = reviews.get_content(unit, request.review_id, request.project, request.round)
    review, current = content.review, content.round
    since = request.since_round
    if since is not None and since >= current.round:
        raise InvalidInput(
            f"since_round must be before round {current.round}.", field="since_round", expected=current.round
        )
    earlier = reviews.get_round(unit, review.id, since) if since is not None else None
    return content, views.proposal(unit, services, content), earlier


async def _completed(
    services: Services, files: list[str] | None, shown: Proposal, content: RoundContent, since: Round | None
) -> Proposal:
    """The content with its ground as of now and its interdiffs; of its diff only the named files, if any are."""
    if shown.ground is not None:
        ground = await grounds.as_of_now(services, shown.project, shown.ground, content.round.ground)
        shown = replace(shown, ground=ground)
    if since is not None:
        shown = replace(shown, interdiff=await round_files.interdiff(services, since, content))
    if (patch := shown.counter_patch) is not None and patch.round == shown.round:
        changes = await round_files.changes_to(services, content, patch.diff)
        shown = replace(shown, counter_patch=replace(patch, interdiff=changes))
    if files is not None and shown.diff is not None:
        moved = [one.old_path for one in shown.affected_files if one.path in files and one.old_path]
        part = await asyncio.to_thread(only_files, shown.diff, [*files, *moved]) if files else ""
        shown = replace(shown, diff=part)
    return shown


async def list_reviews(services: Services, caller: Caller, request: ListReviews) -> ReviewPage:
    """A page of reviews; with a wait, once something on the list may have changed.

    Raises:
        TooLarge: More rows than a page may have.
        InvalidInput: The page token or cursor is none of ours, or the order does not go with a filter.
    """
    limit, status = request.limit, request.status
    pages.check_limit(services, limit)
    hub = services.waits
    after = hub.place(request.cursor)
    project = services.projects.resolve(request.project, caller.project)
    filters: dict[str, Any] = {
        "category": request.category,
        "priority": None if request.priority is None else PRIORITIES.index(request.priority),
        "turn": request.turn,
        "attention": request.attention,
    }
    by_activity = request.order == "activity"
    sort: reports.Sort = "updated" if by_activity else "queue"
    if by_activity and (given := [name for name, value in filters.items() if value is not None]):
        raise InvalidInput(f"order=activity goes with no filter but status: leave out {given[0]}.", field=given[0])
    place = pages.decode(services, request.page, *reports.KEYS[sort]) if request.page else None
    # A wait for open reviews looks at all: one that is closed leaves the list, too.
    state = None if status == reports.OPEN else status

    def rows(unit: Unit) -> list[Review]:
        if by_activity:
            before = place[0] if place else None
            return reports.list_latest(unit, limit=limit + 1, before=before, project=project, state=status)
        return reports.list_queue(unit, limit=limit + 1, after=place, project=project, state=status, **filters)

    def work(unit: Unit) -> tuple[ReviewPage, bool]:
        newest = hub.newest(unit, after)
        found = rows(unit)
        is_news = after is not None and _has_news(unit, project, state, after, newest)
        shown, following = pages.cut(services, found, limit, lambda one: reports.place_of(one, sort))
        page = ReviewPage(tuple(map(views.row, shown)), following, hub.cursor(newest), changed=is_news)
        return page, is_news

    async def look() -> tuple[ReviewPage, bool]:
        nonlocal after
        answer, is_news = await services.store.read(work)
        if after is None:
            # Without a cursor, the reviews that are there are news; an empty list waits for the first.
            after = hub.place(answer.cursor)
            is_news = bool(answer.reviews)
            answer = replace(answer, changed=is_news)
        return answer, is_news

    return await look_or_wait(services, topic(project=project, state=state), look, request)


_LOOK_BACK = 200


def _has_news(unit: Unit, project: str | None, status: str | None, after: int, newest: int) -> bool:
    """Whether an event after a place may have changed a list; in doubt, yes."""
    if newest <= after:
        return False
    recent = events.list_after(unit, after, _LOOK_BACK, until=newest, project=project)
    if len(recent) == _LOOK_BACK:
        return True
    return any(event.is_of_review and (status is None or status in (event.old, event.new)) for event in recent)


async def close_review(services: Services, caller: Caller, request: CloseReview) -> ReviewClosed:
    """End a review; closing it again gives the same answer.

    Raises:
        NotFound: There is no such review (in that project).
        Forbidden: It is another principal's.
    """
    contents.check_text(services, "reason", request.reason)

    def work(unit: Unit) -> ReviewClosed:
        before = reviews.get(unit, request.review_id, request.project, lock=True)
        check_concerned(before, caller)
        actor = caller.agent or before.proposer_id
        # Who proposed it ends no dispute, nor does an agent: what follows waits for a person likewise.
        decides = actor != before.proposer_id and is_by_person(unit, services, caller, actor)
        after = close_in(unit, services, before, actor, request.reason, decides=decides)
        return views.answer(ReviewClosed, services.waits, unit, after)

    return await transact(services, caller, work, works_on=(request.review_id,))


def close_in(
    unit: Unit, services: Services, before: Review, actor: str, reason: str | None, *, decides: bool = False
) -> Review:
    """End a locked review within a unit of work; one that is over stays as it is.

    Unless a person decides so, the event keeps why it waited for one, for the review that follows.
    """
    now = services.clock.now_us()
    found = step(Action.CLOSE, as_objected(before, now))
    if found.to is None:
        return before
    why = None if decides or found.outcome != "withdrawn" else seats.why_stopped(before)
    waited = {"attention": why, "objections": before.objections} if why else {}
    looked_at = clear_attention(unit, before, actor, now)
    current = counter_patches.supersede(unit, looked_at, actor=actor, now_us=now, reason="closed")
    after = with_turn(
        end_claim(as_objected(current, now), found, now)._replace(
            outcome=found.outcome, closed_at=now, state=State.CLOSED.value
        )
    )
    return writing.change_review(
        unit,
        current,
        after,
        actor=actor,
        kind=EventKind.REVIEW_CLOSED,
        data={"outcome": found.outcome, "reason": reason, "claim_generation": after.claim_generation, **waited},
    )
